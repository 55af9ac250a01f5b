"""Error paths: errors go back through B exactly, and nothing else about a synapse changes."""

import copy
import math
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from neuro_oracles import orthonormal
from torch import nn

from neuro import (
    DSRLIF,
    LIF,
    ConstantCurrent,
    Conv2d,
    Exact,
    FeedbackAlignment,
    Linear,
    MeanOverTime,
    SignSymmetric,
    SpikingSequential,
    WeightedRate,
)
from neuro.error_paths import ErrorPath
from neuro.lateral import Projector
from neuro.lateral.projection import LateralSpikes, SpikingProjector
from neuro.learning import BPTT, DSR, OTTT, SLTT, EProp
from neuro.models import Normalise, SpikingClassifier, resnet18, spiking_mlp

CONVOLUTIONS = [
    {"kernel_size": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 2},
    {"kernel_size": 1, "stride": 3},
]
KINDS = [pytest.param("linear", id="linear")] + [
    pytest.param(options, id=",".join(f"{name}={value}" for name, value in options.items())) for options in CONVOLUTIONS
]
PATHS = [FeedbackAlignment(), SignSymmetric()]
NAMED = [pytest.param(path, id=path.name) for path in PATHS]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def synapse(kind):
    torch.manual_seed(0)
    if kind == "linear":
        return Linear(7, 5, bias=True).double(), drawn(9, 7)
    return Conv2d(4, 6, bias=True, **kind).double(), drawn(3, 4, 8, 9)


def torchs(layer, weight):
    """Torch's own layer of the same shape with another weight."""
    if isinstance(layer, Linear):
        other = nn.Linear(layer.in_features, layer.out_features).double()
    else:
        geometry = layer.stride, layer.padding, layer.dilation, layer.groups
        other = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, *geometry).double()
    with torch.no_grad():
        other.weight.copy_(weight)
        other.bias.copy_(layer.bias)
    return other


def backward(layer, inputs, seed=1):
    """Outputs, and the gradients of input, weight and bias under the same errors from above."""
    inputs = inputs.clone().requires_grad_()
    layer.zero_grad()
    outputs = layer(inputs)
    (outputs * drawn(*outputs.shape, seed=seed)).sum().backward()
    return outputs.detach(), inputs.grad, layer.weight.grad.clone(), layer.bias.grad.clone()


# One synapse


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", NAMED)
def test_the_error_goes_back_through_b_and_all_else_is_exact(path, kind):
    layer, inputs = synapse(kind)
    layer.error_path = path.for_weight(layer.weight.detach(), generator())
    feedback = layer.error_path(layer.weight.detach())
    assert feedback.shape == layer.weight.shape
    outputs, grad_input, grad_weight, grad_bias = backward(layer, inputs)
    plain_outputs, plain_input, plain_weight, plain_bias = backward(torchs(layer, layer.weight), inputs)
    _, through_feedback, _, _ = backward(torchs(layer, feedback), inputs)
    torch.testing.assert_close(outputs, plain_outputs, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(grad_input, through_feedback, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(grad_weight, plain_weight, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(grad_bias, plain_bias, rtol=1e-12, atol=1e-13)
    assert (grad_input - plain_input).norm() > 0.1 * plain_input.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_path_leaves_torchs_own_layer(kind):
    layer, inputs = synapse(kind)
    assert Exact().for_weight(layer.weight, generator()) is None
    assert not layer.has_own_backward
    for ours, theirs in zip(backward(layer, inputs), backward(torchs(layer, layer.weight), inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_random_feedback_is_a_fresh_weight_of_its_own_uniform_up_to_one_over_root_fan_in(kind):
    layer, _ = synapse(kind)
    weight = torch.zeros(400, *layer.weight.shape[1:], dtype=torch.float64)
    feedback = FeedbackAlignment().for_weight(weight, generator(3))(weight)
    bound = 1 / math.sqrt(weight[0].numel())
    fresh = torch.empty_like(weight)
    nn.init.kaiming_uniform_(fresh, a=math.sqrt(5))
    assert float(feedback.abs().max()) <= bound
    assert float(fresh.abs().max()) <= bound
    for measured in (feedback, fresh):
        assert float(measured.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert abs(float(feedback.mean())) < 5 * bound / math.sqrt(3 * weight.numel())


@pytest.mark.parametrize(("shape", "scale"), [((5, 7), 1 / math.sqrt(7)), ((6, 4, 3, 2), math.sqrt(2 / (3 * 2 * 6)))])
def test_sign_symmetric_feedback_is_the_sign_at_its_scale_and_follows_it(shape, scale):
    weight = drawn(*shape)
    path = SignSymmetric().for_weight(weight, generator())
    torch.testing.assert_close(path(weight), weight / weight.abs() * scale, rtol=1e-14, atol=0)
    assert torch.equal(path(-weight), -path(weight))
    assert torch.equal(path(torch.zeros_like(weight)), torch.zeros_like(weight))
    grouped = Conv2d(4, 6, 3, groups=2)
    own = SignSymmetric().for_weight(grouped.weight.detach(), generator())
    assert float(own(grouped.weight.detach()).abs().max()) == pytest.approx(math.sqrt(2 / (9 * 6)))


@pytest.mark.parametrize("kind", KINDS)
def test_sign_symmetric_errors_turn_round_with_the_weights_and_random_ones_do_not(kind):
    layer, inputs = synapse(kind)
    for path, turn in ((SignSymmetric(), -1), (FeedbackAlignment(), 1)):
        layer.error_path = path.for_weight(layer.weight.detach(), generator())
        _, before, _, _ = backward(layer, inputs)
        with torch.no_grad():
            layer.weight.neg_()
        _, after, _, _ = backward(layer, inputs)
        torch.testing.assert_close(after, turn * before, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", [*NAMED, pytest.param(Exact(), id="exact")])
def test_invariant_19_a_projected_weight_gradient_leaves_the_subspace_along_every_path(path, kind):
    layer, inputs = synapse(kind)
    layer.error_path = path.for_weight(layer.weight.detach(), generator())
    _, free_input, free_weight, free_bias = backward(layer, inputs)
    groups = 1 if kind == "linear" else layer.groups
    width = layer.weight[0].numel()
    bases = [orthonormal(max(1, width // 2) - group, width, seed=group) for group in range(groups)]
    layer.projectors = [Projector(basis) for basis in bases]
    _, grad_input, grad_weight, grad_bias = backward(layer, inputs)
    torch.testing.assert_close(grad_input, free_input, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(grad_bias, free_bias, rtol=1e-12, atol=1e-13)
    for gradient, whole, basis in zip(grad_weight.chunk(groups), free_weight.chunk(groups), bases, strict=True):
        gradient, whole = gradient.flatten(1), whole.flatten(1)
        assert (whole @ basis.mT).norm() > 0.05 * whole.norm()
        assert (gradient @ basis.mT).norm() < 1e-12 * whole.norm()
        torch.testing.assert_close(gradient, whole - whole @ basis.mT @ basis, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", NAMED)
def test_with_spiking_lateral_neurons_the_rows_are_projected_along_every_path(path, kind):
    """Fine steps: the projection by rows tends to the linear one."""
    layer, inputs = synapse(kind)
    layer.error_path = path.for_weight(layer.weight.detach(), generator())
    groups = 1 if kind == "linear" else layer.groups
    bases = [orthonormal(1, layer.weight[0].numel(), seed=group) for group in range(groups)]
    found = []
    for make in (Projector, lambda basis: SpikingProjector(basis, LateralSpikes(100.0, 10**7))):
        layer.projectors = [make(basis) for basis in bases]
        found.append(backward(layer, inputs))
    for linear, spiking in zip(*found, strict=True):
        torch.testing.assert_close(spiking, linear, rtol=1e-3, atol=1e-2)
    assert not torch.equal(found[0][2], found[1][2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", [*NAMED, pytest.param(Exact(), id="exact")])
def test_a_stand_in_for_the_input_is_in_the_weight_gradient_and_nowhere_else(path, kind):
    layer, inputs = synapse(kind)
    trace = drawn(*inputs.shape, seed=7)
    layer.error_path = path.for_weight(layer.weight.detach(), generator())
    plain = backward(layer, inputs)
    layer.presynaptic = lambda seen: trace
    outputs, grad_input, grad_weight, grad_bias = backward(layer, inputs)
    _, _, from_trace, _ = backward(torchs(layer, layer.weight), trace)
    torch.testing.assert_close(grad_weight, from_trace, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(outputs, plain[0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(grad_input, plain[1], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(grad_bias, plain[3], rtol=1e-12, atol=1e-13)
    basis = orthonormal(1, layer.weight[0].numel())
    layer.projectors = [Projector(basis)] * (1 if kind == "linear" else layer.groups)
    projected = backward(layer, inputs)[2].flatten(1)
    whole = from_trace.flatten(1)
    torch.testing.assert_close(projected, whole - whole @ basis.mT @ basis, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stand_in_sees_the_detached_input_once_a_pass_and_not_in_an_evaluation(kind):
    layer, inputs = synapse(kind)
    seen = []
    layer.presynaptic = lambda value: seen.append(value) or value
    backward(layer, inputs)
    with torch.no_grad():
        layer(inputs)
    assert len(seen) == 1
    assert torch.equal(seen[0], inputs)
    assert not seen[0].requires_grad


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_weight_or_a_leaf_input_asks_for_no_gradient(kind):
    layer, inputs = synapse(kind)
    layer.error_path = FeedbackAlignment().for_weight(layer.weight.detach(), generator())
    layer(inputs).sum().backward()
    assert layer.weight.grad is not None
    layer.zero_grad()
    layer.weight.requires_grad_(False)
    inputs.requires_grad_()
    layer(inputs).sum().backward()
    assert layer.weight.grad is None
    assert inputs.grad.abs().sum() > 0


def test_a_second_derivative_is_refused_and_not_wrong():
    layer, inputs = synapse("linear")
    layer.error_path = SignSymmetric().for_weight(layer.weight.detach(), generator())
    inputs.requires_grad_()
    (slope,) = torch.autograd.grad(layer(inputs).square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


# A network under a rule


class Batch(NamedTuple):
    inputs: torch.Tensor
    targets: torch.Tensor


class CrossEntropy:
    def prepare(self, forward, batch):
        return batch

    def loss(self, outputs, prepared):
        return F.cross_entropy(outputs, prepared.targets)


def nothing(outputs, prepared):
    return None


def mlp(neuron=None, decoder=None):
    torch.manual_seed(1)
    neuron = neuron if neuron is not None else LIF(threshold=0.3)
    return spiking_mlp((6,), 3, hidden=(12, 10), neuron=neuron, time_steps=4, decoder=decoder).double()


def small_cnn():
    torch.manual_seed(1)
    network = SpikingSequential(
        conv1=Conv2d(1, 4, 3, padding=1),
        cells1=LIF(tau=2.0, threshold=0.3),
        pool=nn.AvgPool2d(2),
        conv2=Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        cells2=LIF(tau=2.0, threshold=0.2),
        flat=nn.Flatten(),
        head=Linear(24, 3),
    )
    return SpikingClassifier(Normalise(), ConstantCurrent(), network, MeanOverTime(), 4).double()


def batch_of(*shape):
    return Batch(torch.rand((7, *shape), generator=generator(), dtype=torch.float64), torch.arange(7) % 3)


def gradients(rule, model, batch):
    rule.check(model)
    rule.attach(model)
    model.zero_grad()
    for _ in rule.updates(model, batch, CrossEntropy(), nothing):
        pass
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def synapses(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, Linear | Conv2d)}


def apply(layer, inputs, weight):
    if isinstance(layer, Conv2d):
        return F.conv2d(inputs, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    return F.linear(inputs, weight)


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, distance):
        ctx.save_for_backward(distance)
        return (distance >= 0).to(distance.dtype)

    @staticmethod
    def backward(ctx, upstream):
        (distance,) = ctx.saved_tensors
        logistic = 1 / (1 + (-4 * distance).exp())
        return upstream * 4 * logistic * (1 - logistic)


def detoured(model, batch, through_time, traced):
    """The rules' equations with autograd alone: each drive's value from W, its slope in the input from B."""
    weights = {name: layer.weight.detach().clone().requires_grad_() for name, layer in synapses(model).items()}
    membranes, traces, outputs = {}, {}, []
    for _ in range(model.time_steps):
        activity = stands_for = batch.inputs
        for name, layer in model.network.named_children():
            key = f"network.{name}"
            if key in weights:
                feedback = layer.error_path(layer.weight.detach())
                backward_path = apply(layer, activity, feedback)
                learning = apply(layer, stands_for.detach(), weights[key])
                value = apply(layer, activity.detach(), layer.weight.detach())
                activity = learning + backward_path + (value - learning - backward_path).detach()
            elif isinstance(layer, LIF):
                held = membranes.get(name, torch.zeros_like(activity))
                charged = 0.5 * (held if through_time else held.detach()) + activity
                spikes = Smooth.apply(charged - layer.threshold)
                membranes[name] = charged - layer.threshold * spikes.detach()
                traces[name] = 0.5 * traces.get(name, torch.zeros_like(spikes)) + spikes.detach()
                activity, stands_for = spikes, traces[name] if traced else spikes
            else:
                activity, stands_for = layer(activity), layer(stands_for)
        outputs.append(activity)
    ticks = [F.cross_entropy(output, batch.targets) for output in outputs]
    whole = F.cross_entropy(torch.stack(outputs).mean(0), batch.targets)
    loss = whole if through_time else sum(ticks) / len(ticks)
    found = torch.autograd.grad(loss, list(weights.values()))
    return {f"{name}.weight": gradient for name, gradient in zip(weights, found, strict=True)}


@pytest.mark.parametrize(
    ("rule", "through_time", "traced"), [(BPTT, True, False), (SLTT, False, False), (OTTT, False, True)]
)
@pytest.mark.parametrize(("build", "shape"), [(mlp, (6,)), (small_cnn, (1, 8, 8))], ids=["mlp", "cnn"])
@pytest.mark.parametrize("path", NAMED)
def test_a_rule_along_another_path_is_its_equations_with_b_for_w_on_the_way_back(
    path, build, shape, rule, through_time, traced
):
    model, batch = build(), batch_of(*shape)
    found = gradients(rule(error_path=path), model, batch)
    wanted = detoured(model, batch, through_time, traced)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert gradient.abs().sum() > 0
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-13)


RULES = [
    pytest.param(BPTT, LIF(threshold=0.3), None, id="bptt"),
    pytest.param(OTTT, LIF(threshold=0.3), None, id="ottt"),
    pytest.param(SLTT, LIF(threshold=0.3), None, id="sltt"),
    pytest.param(EProp, LIF(threshold=0.3), None, id="eprop"),
    pytest.param(DSR, DSRLIF(threshold=0.02), WeightedRate(20.0), id="dsr"),
]


class Symmetric:
    """A user's path: B = W, as a module of its own."""

    name = "symmetric"

    def for_weight(self, weight, generator):
        return nn.Identity()


@pytest.mark.parametrize(("rule", "neuron", "decoder"), RULES)
def test_under_every_rule_the_head_learns_the_same_along_every_path_and_hidden_layers_do_not(rule, neuron, decoder):
    model, batch = mlp(neuron, decoder), batch_of(6)
    exact = gradients(rule(), model, batch)
    symmetric = gradients(rule(error_path=Symmetric()), model, batch)
    for name, gradient in exact.items():
        assert gradient.norm() > 0 or name.endswith("threshold")
        torch.testing.assert_close(symmetric[name], gradient, rtol=1e-10, atol=1e-14)
    for path in PATHS:
        other = gradients(rule(error_path=path), model, batch)
        torch.testing.assert_close(other["network.head.weight"], exact["network.head.weight"], rtol=1e-11, atol=1e-14)
        for name in ("network.fc1.weight", "network.fc2.weight"):
            assert other[name].norm() > 0
            assert (other[name] - exact[name]).norm() > 0.05 * exact[name].norm()


@pytest.mark.parametrize(("rule", "neuron", "decoder"), RULES)
@pytest.mark.parametrize("path", NAMED)
def test_invariant_19_under_every_rule(path, rule, neuron, decoder):
    model, batch = mlp(neuron, decoder), batch_of(6)
    free = gradients(rule(error_path=path), model, batch)
    bases = {name: orthonormal(3, layer.in_features, seed=len(name)) for name, layer in synapses(model).items()}
    for name, layer in synapses(model).items():
        layer.projectors = [Projector(bases[name])]
    kept = gradients(rule(error_path=path), model, batch)
    for name, basis in bases.items():
        gradient, whole = kept[f"{name}.weight"], free[f"{name}.weight"]
        assert (whole @ basis.mT).norm() > 1e-3 * whole.norm()
        assert (gradient @ basis.mT).norm() < 1e-12 * whole.norm()
        torch.testing.assert_close(gradient, whole - whole @ basis.mT @ basis, rtol=1e-9, atol=1e-13)


def test_random_feedback_stays_while_weights_learn_and_sign_feedback_follows():
    model, batch = mlp(), batch_of(6)
    rule = BPTT(error_path=FeedbackAlignment(), seed=4)
    rule.attach(model)
    before = {name: layer.error_path(layer.weight).clone() for name, layer in synapses(model).items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    for _ in range(3):
        optimizer.zero_grad()
        list(rule.updates(model, batch, CrossEntropy(), nothing))
        optimizer.step()
    fresh = mlp()
    for name, layer in synapses(model).items():
        assert torch.equal(layer.error_path(layer.weight), before[name])
        assert not torch.equal(layer.weight, synapses(fresh)[name].weight)
    BPTT(error_path=SignSymmetric()).attach(model)
    turned = 0
    for name, layer in synapses(model).items():
        assert torch.equal(layer.error_path(layer.weight.detach()).sign(), layer.weight.detach().sign())
        turned += int((layer.weight.sign() != synapses(fresh)[name].weight.sign()).sum())
    assert turned > 0


def test_random_feedback_comes_back_from_its_seed_and_differs_between_seeds_and_layers():
    drawn_by = {}
    for seed in (0, 0, 1):
        model = mlp()
        BPTT(error_path=FeedbackAlignment(), seed=seed).attach(model)
        drawn_by.setdefault(seed, []).append([layer.error_path(layer.weight) for layer in synapses(model).values()])
    for first, again, other in zip(*drawn_by[0], *drawn_by[1], strict=True):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
    square = SpikingSequential(a=Linear(6, 6), b=LIF(), c=Linear(6, 6))
    BPTT(error_path=FeedbackAlignment()).attach(square)
    assert not torch.equal(square.a.error_path(square.a.weight), square.c.error_path(square.c.weight))


def test_attaching_draws_nothing_from_the_global_stream_and_leaves_the_weights_alone():
    model = mlp()
    before, weights = torch.random.get_rng_state(), [parameter.clone() for parameter in model.parameters()]
    BPTT(error_path=FeedbackAlignment()).attach(model)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), weights, strict=True))


@pytest.mark.parametrize("path", NAMED)
def test_a_path_adds_nothing_to_what_is_learned_or_saved(path):
    model = mlp()
    parameters, saved = [name for name, _ in model.named_parameters()], list(model.state_dict())
    BPTT(error_path=path).attach(model)
    assert [name for name, _ in model.named_parameters()] == parameters
    assert list(model.state_dict()) == saved
    mlp().load_state_dict(model.state_dict())
    model.load_state_dict(mlp().state_dict())


def test_random_feedback_is_copied_and_converted_with_its_network(device):
    model = mlp()
    BPTT(error_path=FeedbackAlignment(), seed=2).attach(model)
    moved = copy.deepcopy(model).to(device, torch.float32)
    held = moved.network.fc1.error_path(moved.network.fc1.weight)
    assert (held.dtype, held.device.type) == (torch.float32, device.type)
    torch.testing.assert_close(held.cpu().double(), model.network.fc1.error_path(None), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("path", NAMED)
def test_the_exact_path_takes_another_away_again(path):
    model, batch = mlp(), batch_of(6)
    exact = gradients(BPTT(), model, batch)
    gradients(BPTT(error_path=path), model, batch)
    again = gradients(BPTT(), model, batch)
    assert all(torch.equal(again[name], gradient) for name, gradient in exact.items())
    assert not any(layer.has_own_backward for layer in synapses(model).values())


def test_every_convolution_of_a_resnet_has_a_path_of_its_own():
    torch.manual_seed(0)
    model = resnet18((8, 8), 3, width=2, neuron=LIF(threshold=0.3), time_steps=2)
    BPTT(error_path=FeedbackAlignment()).attach(model)
    assert len(synapses(model)) == 21
    assert all(layer.error_path is not None for layer in synapses(model).values())
    list(
        BPTT(error_path=FeedbackAlignment()).updates(
            model, Batch(torch.rand(4, 8, 8), torch.arange(4) % 3), CrossEntropy(), nothing
        )
    )
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_the_paths_have_names_and_the_role_is_open():
    assert [path.name for path in (Exact(), *PATHS)] == ["exact", "feedback_alignment", "sign_symmetric"]
    assert all(isinstance(path, ErrorPath) for path in (Exact(), *PATHS, Symmetric()))
