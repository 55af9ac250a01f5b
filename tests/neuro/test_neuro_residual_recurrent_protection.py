"""Residual and recurrent networks under protection: every weight has its rows, and what cannot be projected stands."""

import copy

import pytest
import torch
from torch import nn

from neuro import DSRLIF, LIF, Conv2d, Linear, ParametricLIF, Recurrent, record
from neuro.decoding import WeightedRate
from neuro.lateral import Eigen, EnergyShare, ListedSizes, modules_of, protect, tapped
from neuro.models import resnet18, spiking_mlp

SIDES = [
    pytest.param("after_backward", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}, False, id="gradient"),
    pytest.param("after_backward", torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}, True, id="trace side"),
    pytest.param("after_step", torch.optim.Adam, {"lr": 0.01}, False, id="step"),
]


def learn(model, protection, inputs, call="after_backward", kind=torch.optim.SGD, options=None, steps=3, toggle=False):
    """Train in a plain loop; give the gradients that the last step used."""
    optimizer = kind([p for p in model.parameters() if p.requires_grad], **(options or {"lr": 0.05}))
    targets = torch.arange(len(inputs)) % 3
    for step in range(steps):
        model.train(not toggle or step % 2 == 0)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        if call == "after_backward":
            protection.after_backward()
        optimizer.step()
        if call == "after_step":
            protection.after_step()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def weights(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def images(seed, num=6):
    return torch.rand(num, 6, 6, generator=torch.Generator().manual_seed(seed))


def tiny_resnet(neuron=None, decoder=None):
    torch.manual_seed(0)
    neuron = neuron if neuron is not None else LIF(threshold=0.3)
    model = resnet18((6, 6), 3, width=3, neuron=neuron, time_steps=2, decoder=decoder)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.5  # a few steps are enough for statistics that keep every layer alive
    return model


# Residual


@pytest.mark.parametrize(("call", "kind", "options", "trace_side"), SIDES)
def test_every_convolution_of_a_resnet_has_a_subspace_that_its_later_updates_avoid(call, kind, options, trace_side):
    model = tiny_resnet()
    protection = protect(model, Eigen(), EnergyShare(0.6), trace_side=trace_side, max_rows=200)
    convolutions = [name for name, module in model.named_modules() if isinstance(module, Conv2d)]
    shortcuts = [name for name in convolutions if name.endswith("shortcut")]
    assert shortcuts == [f"network.block{number}.shortcut" for number in (3, 5, 7)]
    assert list(protection.subspaces) == [*convolutions, "network.head"]
    assert len(convolutions) == 20
    learn(model, protection, images(0), call, kind, options)
    protection.end_task(images(0))
    assert min(protection.ranks.values()) > 0
    before = weights(model)
    gradients = learn(model, protection, images(1), call, kind, options)
    for site in protection.sites:
        basis, name = protection.subspaces[site.name].basis, f"{site.layer}.weight"
        change = (site.weight.detach() - before[name]).flatten(1)
        assert float((change @ basis.mT).norm()) < 1e-5 * float(change.norm())
        assert float(change.norm()) > 0
        if call == "after_backward":
            gradient = gradients[name].flatten(1)
            assert float((gradient @ basis.mT).norm()) < 1e-5 * float(gradient.norm())


def test_a_shortcut_reads_the_spikes_of_the_neurons_before_the_block():
    model, seen = tiny_resnet().eval(), {}
    layers = {name: module for name, module in model.named_modules() if name.endswith("block3.shortcut")}
    with record(model) as probe, tapped(layers, seen.__setitem__):
        model(images(0))
    spikes = probe.spikes["network.block3.before.neuron"]
    assert 0 < float(spikes.mean()) < 1
    assert torch.equal(seen["network.block3.shortcut"], spikes.flatten(0, 1))


LEARNED_CONSTANTS = {
    "plif": (ParametricLIF(threshold=0.3), None, "leak_logit"),
    "plif per channel": (ParametricLIF(threshold=0.3, per_neuron=True), None, "leak_logit"),
    "dsr": (DSRLIF(threshold=0.03), WeightedRate(), "threshold"),
}


def is_projected(name, protection):
    return name in {f"{site.layer}.weight" for site in protection.sites}


@pytest.mark.parametrize("name", LEARNED_CONSTANTS)
def test_invariant_16_norms_and_learned_constants_are_bit_identical_from_task_two_on(name):
    """Through train() and eval() between steps and after them; in task 1 they do move."""
    neuron, decoder, constant = LEARNED_CONSTANTS[name]
    model = tiny_resnet(neuron, decoder)
    protection = protect(model, Eigen(), EnergyShare(0.5), max_rows=100)
    fresh = weights(model)
    learn(model, protection, images(0), steps=2)
    moved = {key for key, value in weights(model).items() if not torch.equal(value, fresh[key])}
    assert len([key for key in moved if key.endswith(constant)]) >= 10
    assert len([key for key in moved if key.endswith("running_var")]) == 17
    assert len([key for key in moved if key.endswith("norm.weight")]) >= 10
    protection.end_task(images(0))
    kept = weights(model)
    for task in (1, 2):
        learn(model, protection, images(task), toggle=True)
        model.train().eval().train()
        model(images(task))
        protection.end_task(images(task))
    moved = {key for key, value in weights(model).items() if not torch.equal(value, kept[key])}
    assert moved
    assert all(is_projected(key, protection) for key in moved), moved
    standing = set(kept) - {f"{site.layer}.weight" for site in protection.sites}
    assert {key.rpartition(".")[2] for key in standing} == {
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
        constant,
    }


@pytest.mark.parametrize(("call", "kind", "options", "trace_side"), SIDES)
def test_invariant_16_shared_biases_of_our_layers_stand_still_from_task_two_on(call, kind, options, trace_side):
    torch.manual_seed(0)
    layers = [
        Conv2d(1, 3, 3, bias=True),
        nn.Tanh(),
        nn.Flatten(),
        Linear(48, 5, bias=True),
        nn.Tanh(),
        Linear(5, 3, bias=True),
    ]
    model = nn.Sequential(nn.Unflatten(1, (1, 6)), *layers)
    protection, fresh = protect(model, Eigen(), EnergyShare(0.5), trace_side=trace_side), weights(model)
    learn(model, protection, images(0), call, kind, options)
    protection.end_task(images(0))
    kept = weights(model)
    assert all(not torch.equal(kept[key], fresh[key]) for key in kept), "all of them learn in task 1"
    learn(model, protection, images(1), call, kind, options, toggle=True)
    for key, value in weights(model).items():
        assert torch.equal(value, kept[key]) == key.endswith("bias"), key


# Full convolutions


@pytest.mark.parametrize(("call", "kind", "options", "trace_side"), SIDES)
@pytest.mark.parametrize("layer", [Conv2d, nn.Conv2d])
def test_invariant_14_a_full_convolution_does_not_change_at_all(layer, call, kind, options, trace_side):
    torch.manual_seed(0)
    model = nn.Sequential(layer(2, 4, 2, bias=False), nn.Tanh(), layer(4, 4, 2, groups=2, bias=False), nn.Flatten())
    model.add_module("head", Linear(4 * 16, 3))
    inputs = [torch.randn(40, 2, 6, 6) for _ in range(2)]
    protection = protect(model, Eigen(), ListedSizes([[8, 3, 8, 4]]), trace_side=trace_side)
    protection.end_task(inputs[0])
    assert protection.ranks == {"0": 8, "2[0]": 3, "2[1]": 8, "head": 4}
    before = weights(model)
    learn(model, protection, inputs[1], call, kind, options, steps=10)
    assert torch.equal(model[0].weight, before["0.weight"])
    assert torch.equal(model[2].weight[2:], before["2.weight"][2:]), "the full one of two groups"
    assert not torch.equal(model[2].weight[:2], before["2.weight"][:2])
    assert not torch.equal(model.head.weight, before["head.weight"])


# Recurrent


def recurrent(width=40, time_steps=4):
    torch.manual_seed(0)
    neuron = Recurrent(LIF(threshold=0.3))
    return spiking_mlp([8], 3, hidden=[width], neuron=neuron, time_steps=time_steps).double()


def currents(seed, num=5):
    return 2 * torch.rand(num, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_recurrent_layer_is_two_weights_each_with_its_own_presynaptic_rows():
    model, inputs, seen = recurrent().eval(), currents(0), {}
    protection = protect(model)
    assert [site.name for site in protection.sites] == ["network.fc1", "network.neuron1.synapse", "network.head"]
    with record(model) as probe, tapped(modules_of(protection.sites), lambda n, x: seen.setdefault(n, []).append(x)):
        model(inputs)
    spikes = probe.spikes["network.neuron1"]
    assert 0.05 < float(spikes.mean()) < 0.95
    rows = {site.name: site.rows(torch.cat(seen[site.layer])) for site in protection.sites}
    silent_first = torch.stack([torch.zeros_like(spikes[0]), *spikes[:-1]])
    assert torch.equal(rows["network.neuron1.synapse"], silent_first.flatten(0, 1))
    assert torch.equal(rows["network.head"], spikes.flatten(0, 1))
    assert torch.equal(rows["network.fc1"], inputs)


def test_the_recurrent_subspace_is_that_of_the_spikes_of_the_tick_before():
    model, inputs = recurrent(), currents(0)
    protection = protect(model, Eigen(), ListedSizes([[8, 3, 3]]))
    protection.end_task(inputs)
    with record(model) as probe:
        model(inputs)
    before = probe.spikes["network.neuron1"][:-1].flatten(0, 1)
    leading = torch.linalg.eigh(before.mT @ before)[1].flip(1)[:, :3].mT
    basis = protection.subspaces["network.neuron1.synapse"].basis
    torch.testing.assert_close(basis.mT @ basis, leading.mT @ leading, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("call", "kind", "options", "trace_side"), SIDES)
@pytest.mark.parametrize("sizes", [[8, 40, 40], [8, 0, 40], [0, 40, 40]], ids=["both", "no recurrent", "no forward"])
def test_old_inputs_are_not_forgotten_where_both_subspaces_hold_everything(sizes, call, kind, options, trace_side):
    """With one of the two subspaces left empty they are: the negative control."""
    model, old, new = recurrent(), currents(0), currents(1, num=12)
    protection = protect(model, Eigen(), ListedSizes([sizes]), trace_side=trace_side)
    learn(model, protection, old, call, kind, options, steps=5)
    protection.end_task(old)
    ranks = protection.ranks
    assert all(ranks[site.name] < site.width for site in protection.sites), "there is room to learn"
    with record(model) as probe:
        before = model(old).detach()
    spikes, free = probe.spikes["network.neuron1"], weights(model)
    learn(model, protection, new, call, kind, options, steps=30)
    with record(model) as probe:
        drift = float((model(old).detach() - before).abs().max())
    if min(sizes) > 0:
        assert torch.equal(probe.spikes["network.neuron1"], spikes)
        assert drift < 1e-10
    else:
        assert not torch.equal(probe.spikes["network.neuron1"], spikes)
        assert drift > 0.02
    for site in protection.sites:
        assert float((site.weight.detach() - free[f"{site.layer}.weight"]).abs().max()) > 1e-3


def test_a_protected_recurrent_network_can_be_copied_saved_and_continued():
    model, inputs = recurrent(), currents(0)
    protection = protect(model, Eigen(), ListedSizes([[4, 6, 6], [1, 1, 1]]))
    protection.end_task(inputs)
    twin = recurrent()
    twin.load_state_dict(copy.deepcopy(model.state_dict()))
    continued = protect(twin, Eigen(), ListedSizes([[4, 6, 6], [1, 1, 1]]))
    continued.load_state_dict(copy.deepcopy(protection.state_dict()))
    for network, guard in ((model, protection), (twin, continued)):
        learn(network, guard, currents(1))
        guard.end_task(currents(1))
    assert continued.ranks == protection.ranks == {"network.fc1": 5, "network.neuron1.synapse": 7, "network.head": 7}
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), twin.parameters(), strict=True))
