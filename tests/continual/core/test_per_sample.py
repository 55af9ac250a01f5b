"""Per-sample gradients equal a loop of backward passes over one sample each."""

import pytest
import torch
from snntorch import Leaky
from tiny_runs import foreign_network
from torch import nn

from continual.per_sample import affordable_gradients, per_sample_gradients, require_per_sample
from neuro import DSRIF, DSRLIF, LIF, AdaptiveLIF, HardReset, Linear, ParametricLIF, Recurrent, SpikingSequential
from neuro.error_paths import SignSymmetric
from neuro.lateral import Projector, evaluating
from neuro.models import cnn, spiking_mlp

SHAPE, CLASSES, NUM = (6, 6), 3, 7


def spiking(neuron):
    return spiking_mlp(SHAPE, CLASSES, hidden=(9, 8), neuron=neuron, time_steps=4)


NETWORKS = {
    "relu_mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 9), nn.ReLU(inplace=True), nn.Linear(9, CLASSES)),
    "relu_cnn": lambda: cnn(SHAPE, CLASSES, channels=(4, 5), neuron=nn.ReLU(), time_steps=1),
    "spiking_mlp": lambda: spiking(LIF(threshold=0.3)),
    "spiking_cnn": lambda: cnn(SHAPE, CLASSES, channels=(4, 5), neuron=LIF(threshold=0.3), time_steps=3),
    "hard_reset": lambda: spiking(LIF(threshold=0.3, reset=HardReset(detached=False))),
    "adaptive": lambda: spiking(AdaptiveLIF(threshold=0.3)),
    "parametric": lambda: spiking(ParametricLIF(threshold=0.3, per_neuron=True)),
    "recurrent": lambda: spiking(Recurrent(LIF(threshold=0.3))),
}


def network(kind):
    """In double precision, with norm statistics of its own, left in training mode."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = NETWORKS[kind]().double().train()
        model(torch.rand(20, *SHAPE, dtype=torch.float64))
    return model


def samples(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(NUM, *SHAPE, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, CLASSES, (NUM,), generator=generator)


def cross_entropy(logits, target):
    return -logits.log_softmax(0).gather(0, target[None])[0]


def one_by_one(model, names, score, inputs, *extras):
    """The slow obvious reference."""
    found = []
    with evaluating(model), torch.enable_grad():
        for number, one in enumerate(inputs):
            value = score(model(one[None])[0], *(extra[number] for extra in extras))
            found.append(torch.autograd.grad(value, [model.get_parameter(name) for name in names]))
    return {name: torch.stack(gradients) for name, gradients in zip(names, zip(*found, strict=True), strict=True)}


def gathered(*args, **keywords):
    chunks = list(per_sample_gradients(*args, **keywords))
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}


def names_of(model):
    return [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("kind", NETWORKS)
def test_equals_one_backward_pass_per_sample_at_every_chunk_size(kind):
    model, (inputs, targets) = network(kind), samples()
    names = names_of(model)
    require_per_sample(model, names, inputs)
    truth = one_by_one(model, names, cross_entropy, inputs, targets)
    assert all(gradient.abs().sum() > 0 for gradient in truth.values())
    whole = gathered(model, names, cross_entropy, inputs, targets)
    for name in names:
        torch.testing.assert_close(whole[name], truth[name], rtol=0, atol=1e-10)
    for size in (1, 3, NUM, 100):
        part = gathered(model, names, cross_entropy, inputs, targets, chunk_size=size)
        for name in names:
            torch.testing.assert_close(part[name], whole[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["relu_mlp", "spiking_cnn"])
def test_a_vector_of_scores_gives_the_gradient_of_each(kind):
    model, (inputs, _) = network(kind), samples()
    names = names_of(model)
    found = gathered(model, names, lambda logits: logits.sin(), inputs, num_scores=CLASSES, chunk_size=2)
    for label in range(CLASSES):
        truth = one_by_one(model, names, lambda logits, label=label: logits.sin()[label], inputs)
        for name in names:
            torch.testing.assert_close(found[name][:, label], truth[name], rtol=0, atol=1e-10)


def test_some_parameters_alone_and_one_without_influence():
    model, (inputs, targets) = network("relu_mlp"), samples()
    model.register_parameter("unused", nn.Parameter(torch.ones(2, dtype=torch.float64)))
    found = gathered(model, ["3.weight", "unused"], cross_entropy, inputs, targets)
    assert list(found) == ["3.weight", "unused"]
    assert torch.equal(found["unused"], torch.zeros(NUM, 2, dtype=torch.float64))
    truth = one_by_one(model, ["3.weight"], cross_entropy, inputs, targets)
    torch.testing.assert_close(found["3.weight"], truth["3.weight"], rtol=0, atol=1e-10)


def test_the_model_is_left_as_it_was():
    model = foreign_network(dropout=0.5).double()
    model[1].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes, streams = [module.training for module in model.modules()], torch.get_rng_state()
    inputs = torch.rand(NUM, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for _ in per_sample_gradients(model, names_of(model), lambda logits: logits.sum(), inputs, chunk_size=3):
        assert [module.training for module in model.modules()] == modes, "between two chunks too"
        assert torch.is_grad_enabled()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), streams)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_parts_of_the_backward_pass_stand_aside_and_come_back():
    model, (inputs, targets) = network("spiking_mlp"), samples()
    names = names_of(model)
    plain = gathered(model, names, cross_entropy, inputs, targets)
    layer = model.network.fc2
    layer.projectors = [Projector(torch.eye(9, dtype=torch.float64)[:4])]
    layer.presynaptic = presynaptic = torch.zeros_like
    layer.error_path = path = SignSymmetric().for_weight(layer.weight, torch.Generator())
    projectors = layer.projectors
    with_parts = gathered(model, names, cross_entropy, inputs, targets)
    assert all(torch.equal(with_parts[name], plain[name]) for name in names)
    assert layer.projectors is projectors
    assert layer.presynaptic is presynaptic
    assert layer.error_path is path
    altered = one_by_one(model, names, cross_entropy, inputs, targets)
    assert not torch.allclose(altered["network.fc2.weight"], plain["network.fc2.weight"]), "the control of this test"


@pytest.mark.parametrize("neuron", [DSRLIF(), DSRIF()], ids=["dsr_lif", "dsr_if"])
def test_dsr_is_refused_by_the_name_of_its_layer(neuron):
    model = spiking(neuron)
    with pytest.raises(ValueError, match=rf"'network\.neuron1' \({type(neuron).__name__}\).*written by hand.*si"):
        require_per_sample(model, names_of(model), samples()[0].float())


class Foreign(nn.Module):
    """A spiking layer of another library, two levels down."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"fc": nn.Linear(36, CLASSES), "leaky": Leaky(beta=0.5)})

    def forward(self, inputs):
        spikes, membrane = self.body["leaky"](self.body["fc"](inputs.flatten(1)), torch.zeros(len(inputs), CLASSES))
        return spikes + membrane


class ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        return inputs.clone()

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0]


class InItself(nn.Linear):
    def forward(self, input):
        return ByHand.apply(super().forward(input.flatten(1)))


class Reads(nn.Linear):
    """What it computes depends on a value that no transform can read."""

    def forward(self, input):
        return super().forward(input) if float(input.sum().detach()) > 0 else super().forward(-input)


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (Foreign(), r"layer 'body\.leaky' \(Leaky\)"),
        (InItself(36, CLASSES), "the network itself"),
        (nn.Sequential(nn.Flatten(), Reads(36, CLASSES)), r"layer '1' \(Reads\)"),
    ],
    ids=["snntorch", "itself", "reads"],
)
def test_a_layer_that_cannot_be_seen_through_is_refused_by_name(model, place):
    names = names_of(model)
    with pytest.raises(ValueError, match=place):
        require_per_sample(model, names, samples()[0].float())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def test_a_frozen_network_of_our_own_with_a_tied_weight_works():
    first, second = Linear(36, 36), Linear(36, 36)
    second.weight = first.weight
    model = SpikingSequential(first=first, lif=LIF(threshold=0.3), second=second, more=LIF(threshold=0.2))
    flat = nn.Sequential(nn.Flatten(), OverTime(model.double()))
    names = names_of(flat)
    assert len(names) == 1
    truth = one_by_one(flat, names, lambda logits: logits.square().sum(), samples()[0])
    flat.requires_grad_(False)
    found = gathered(flat, names, lambda logits: logits.square().sum(), samples()[0])
    torch.testing.assert_close(found[names[0]], truth[names[0]], rtol=0, atol=1e-10)
    assert truth[names[0]].abs().sum() > 0


class OverTime(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, inputs):
        return self.network(inputs.expand(3, *inputs.shape)).mean(0)


def test_memory_is_bounded_by_the_chunk():
    wide = nn.Linear(4096, 2048)
    assert affordable_gradients(wide, ["weight"]) == 2
    inputs = torch.rand(5, 4096)
    sizes = [len(chunk["weight"]) for chunk in per_sample_gradients(wide, ["weight"], lambda z: z.sum(), inputs)]
    assert sizes == [2, 2, 1]
    assert affordable_gradients(nn.Linear(8192, 8192), ["weight"]) == 1


def test_a_chunk_without_samples_is_refused():
    with pytest.raises(ValueError, match="chunk_size must be at least 1"):
        gathered(nn.Linear(3, 2), ["weight"], lambda z: z.sum(), torch.rand(2, 3), chunk_size=0)


def test_on_every_device(device):
    model, (inputs, targets) = network("spiking_mlp").float(), samples()
    names = names_of(model)
    there = gathered(model, names, cross_entropy, inputs.float(), targets)
    model.to(device)
    found = gathered(model, names, cross_entropy, inputs.float().to(device), targets.to(device))
    for name in names:
        assert found[name].device.type == device.type
        torch.testing.assert_close(found[name].cpu(), there[name], rtol=1e-4, atol=1e-5)
