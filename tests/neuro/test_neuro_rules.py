"""Learning rules: the inherited contract, slow references, memory, exactness of e-prop, and what each refuses."""

import weakref
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from contracts.rule import RuleContract
from hypothesis import given
from hypothesis import strategies as st
from neuro_oracles import orthonormal
from torch import nn

from neuro import (
    DSRIF,
    DSRLIF,
    IF,
    LIF,
    AdaptiveLIF,
    ConstantCurrent,
    Conv2d,
    FeedbackAlignment,
    Frames,
    HardReset,
    LastTick,
    LeakyReadout,
    Linear,
    MeanOverTime,
    ParametricLIF,
    Poisson,
    Recurrent,
    Residual,
    SoftReset,
    SpikingSequential,
    StepNeuron,
    Synaptic,
    WeightedRate,
)
from neuro.lateral import Projector
from neuro.lateral.projection import LateralSpikes, SpikingProjector
from neuro.learning import BPTT, DSR, OTTT, SLTT, EProp
from neuro.learning.ottt import filtered, trace_decays
from neuro.models import Normalise, SpikingClassifier, cnn, spiking_mlp


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


def drawn(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def batch_of(*shape, rows=7, seed=0):
    return Batch(drawn(rows, *shape, seed=seed), torch.arange(rows) % 3)


def gradients(rule, model, batch):
    """What a batch's updates fill in, summed, by parameter's name."""
    rule.check(model)
    rule.attach(model)
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for _ in rule.updates(model, batch, CrossEntropy(), nothing):
        for name, parameter in model.named_parameters():
            total[name] += parameter.grad
            parameter.grad = None
    return total


def assert_same(ours, theirs, rtol=1e-9, atol=1e-13):
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        assert gradient.abs().sum() > 0, name
        torch.testing.assert_close(
            ours[name], gradient, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


def differ(ours, theirs):
    """The names of the parameters whose gradients are not the same."""
    return {name for name in theirs if (ours[name] - theirs[name]).norm() > 1e-3 * theirs[name].norm()}


def mlp(neuron=None, time_steps=5, hidden=(12, 10), **parts):
    torch.manual_seed(1)
    neuron = neuron if neuron is not None else LIF(threshold=0.3)
    return spiking_mlp((6,), 3, hidden=hidden, neuron=neuron, time_steps=time_steps, **parts).double()


def model_of(time_steps=5, encoder=None, decoder=None, **layers):
    network = SpikingSequential(**layers)
    parts = encoder or ConstantCurrent(), network, decoder or MeanOverTime()
    return SpikingClassifier(Normalise(), *parts, time_steps).double()


def mixed_mlp(**parts):
    torch.manual_seed(2)
    return model_of(
        fc1=Linear(6, 12, bias=True),
        cells1=LIF(tau=2.0, threshold=0.3),
        fc2=Linear(12, 10),
        cells2=IF(threshold=0.4),
        fc3=Linear(10, 9),
        cells3=LIF(tau=4.0, threshold=0.3),
        head=Linear(9, 3, bias=True),
        **parts,
    )


def pooled_cnn(**parts):
    torch.manual_seed(3)
    return model_of(
        conv1=Conv2d(2, 4, 3, padding=1, bias=True),
        cells1=LIF(tau=2.0, threshold=0.3),
        pool=nn.AvgPool2d(2),
        conv2=Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        cells2=LIF(tau=4.0, threshold=0.2),
        flat=nn.Flatten(),
        head=Linear(24, 3),
        **parts,
    )


# The contract


class TestTruncatedBPTT(RuleContract):
    def make(self):
        return BPTT(truncation=2)


class TestOTTT(RuleContract):
    def make(self):
        return OTTT()


class TestOTTTAtEveryTick(RuleContract):
    neuron, other = IF, LIF

    def make(self):
        return OTTT(every_tick=True)


class TestSLTT(RuleContract):
    def make(self):
        return SLTT()


class TestSLTTAtEveryTick(RuleContract):
    def make(self):
        return SLTT(every_tick=True)


class TestEProp(RuleContract):
    def make(self):
        return EProp()


class TestEPropWithAdaptingThresholds(RuleContract):
    neuron = AdaptiveLIF

    def make(self):
        return EProp()


class TestDSR(RuleContract):
    """Thresholds learn from saturated neurons only, so they are low and weights large."""

    neuron, other, threshold = DSRLIF, DSRIF, 0.01

    def make(self):
        return DSR()

    def decoder(self):
        return WeightedRate(20.0)

    def network(self, neuron=None, seed=0):
        model = super().network(neuron, seed)
        with torch.no_grad():
            for layer in (model.network.fc1, model.network.fc2, model.network.head):
                layer.weight *= 2
        return model


class TestDSRWithoutLeak(TestDSR):
    neuron, other, threshold = DSRIF, DSRLIF, 0.2

    def decoder(self):
        return MeanOverTime()


# One tick: every rule is backpropagation


@pytest.mark.parametrize("rule", [OTTT(), OTTT(every_tick=True), SLTT(), SLTT(True), EProp(), BPTT(truncation=1)])
@pytest.mark.parametrize("neuron", [LIF(threshold=0.3), IF(threshold=0.3)], ids=["lif", "if"])
def test_invariant_17_with_one_tick_every_rule_is_bptt(rule, neuron):
    model, batch = mlp(neuron, time_steps=1), batch_of(6)
    assert_same(gradients(rule, model, batch), gradients(BPTT(), model, batch), rtol=1e-6)


@pytest.mark.parametrize("rule", [OTTT(), SLTT()])
def test_with_one_tick_that_holds_for_convolutions_and_pooling_too(rule):
    model, batch = pooled_cnn(time_steps=1), batch_of(2, 8, 8)
    assert_same(gradients(rule, model, batch), gradients(BPTT(), model, batch), rtol=1e-6)


@pytest.mark.parametrize("rule", [OTTT(), SLTT(), EProp(), BPTT(truncation=1)])
def test_with_more_ticks_they_are_not(rule):
    model, batch = mlp(time_steps=5), batch_of(6)
    assert differ(gradients(rule, model, batch), gradients(BPTT(), model, batch)) >= {"network.fc1.weight"}


# Truncated backpropagation through time


def slow_truncated(model, batch, ticks):
    """Tick by tick with the graph, states cut after every so many ticks, one loss on the mean of all outputs."""
    current, state, outputs = batch.inputs, None, []
    for tick in range(model.time_steps):
        if tick % ticks == 0 and state is not None:
            state = tuple(None if part is None else type(part)(*(held.detach() for held in part)) for part in state)
        output, state = model.network.step(current, state)
        outputs.append(output)
    loss = F.cross_entropy(torch.stack(outputs).mean(0), batch.targets)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("ticks", [1, 2, 3, 4])
@pytest.mark.parametrize("neuron", [LIF(threshold=0.3), AdaptiveLIF(threshold=0.3), Synaptic(threshold=0.5)])
def test_truncated_bptt_is_a_loop_whose_states_are_cut(neuron, ticks):
    model, batch = mlp(neuron), batch_of(6)
    found = gradients(BPTT(truncation=ticks), model, batch)
    assert_same(found, slow_truncated(model, batch, ticks))
    assert differ(found, gradients(BPTT(), model, batch))


@pytest.mark.parametrize("ticks", [5, 6, 100])
def test_a_truncation_of_all_ticks_or_more_is_none(ticks):
    for encoder, batch in ((ConstantCurrent(), batch_of(6)), (Frames(), batch_of(5, 6))):
        model = mixed_mlp(encoder=encoder)
        whole = gradients(BPTT(), model, batch)
        assert_same(gradients(BPTT(truncation=ticks), model, batch), whole, rtol=0, atol=0)


def test_truncation_cuts_moving_inputs_blocks_and_recurrent_states_too():
    torch.manual_seed(4)
    block = Residual(SpikingSequential(cells=LIF(threshold=0.2)), Linear(8, 8))
    model = model_of(
        fc=Linear(6, 8), block=block, loop=Recurrent(LIF(threshold=0.2), 8), head=Linear(8, 3), encoder=Frames()
    )
    batch = batch_of(5, 6)
    whole, cut = gradients(BPTT(), model, batch), gradients(BPTT(truncation=2), model, batch)
    assert_same(gradients(BPTT(truncation=5), model, batch), whole, rtol=0, atol=0)
    assert differ(cut, whole) >= {"network.loop.synapse.weight", "network.fc.weight"}
    assert "network.head.weight" not in differ(cut, whole)


# OTTT and SLTT against explicit loops


class StraightThrough(torch.autograd.Function):
    """A spike written for this file alone: Θ forward, 4σ(1 − σ) of 4u backward."""

    @staticmethod
    def forward(ctx, distance):
        ctx.save_for_backward(distance)
        return (distance >= 0).to(distance.dtype)

    @staticmethod
    def backward(ctx, upstream):
        (distance,) = ctx.saved_tensors
        logistic = 1 / (1 + (-4 * distance).exp())
        return upstream * 4 * logistic * (1 - logistic)


def apply(layer, seen, weight):
    if isinstance(layer, Conv2d):
        return F.conv2d(seen, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    return F.linear(seen, weight)


def slow_online(model, batch, traced):
    """Give a tick's gradients, tick by tick, by the equations.

    Membranes are numbers. Errors δ go back through this tick's layers; each meets what stands on its synapse's
    presynaptic side: the spikes, or where there is a neuron before it their trace, pooled as the spikes are.
    """
    membranes, traces = {}, {}
    for _ in range(model.time_steps):
        activity = stands_for = batch.inputs
        met = {}
        for name, layer in model.network.named_children():
            if isinstance(layer, Linear | Conv2d):
                drive = apply(layer, activity, layer.weight.detach())
                if layer.bias is not None:
                    drive = drive + layer.bias.detach().view(-1, *(1,) * (drive.ndim - 2))
                error = torch.zeros_like(drive, requires_grad=True)
                met[name] = (layer, stands_for, error)
                activity = drive + error
            elif isinstance(layer, LIF | IF):
                leak = 1 - 1 / layer.tau if isinstance(layer, LIF) else 1.0
                charged = leak * membranes.get(name, torch.zeros_like(activity)) + activity
                spikes = StraightThrough.apply(charged - layer.threshold)
                membranes[name] = (charged - layer.threshold * spikes).detach()
                traces[name] = leak * traces.get(name, torch.zeros_like(spikes)) + spikes.detach()
                activity, stands_for = spikes, traces[name] if traced else spikes.detach()
            else:
                activity, stands_for = layer(activity), layer(stands_for)
        (F.cross_entropy(activity, batch.targets) / model.time_steps).backward()
        found = {}
        for name, (layer, seen, error) in met.items():
            weight = layer.weight.detach().requires_grad_()
            (found[f"network.{name}.weight"],) = torch.autograd.grad(apply(layer, seen, weight), weight, error.grad)
            if layer.bias is not None:
                found[f"network.{name}.bias"] = error.grad.transpose(0, 1).flatten(1).sum(1)
        yield found


def summed(ticks):
    total = {}
    for found in ticks:
        for name, gradient in found.items():
            total[name] = total.get(name, 0) + gradient
    return total


NETWORKS = [pytest.param(mixed_mlp, (6,), id="mlp"), pytest.param(pooled_cnn, (2, 8, 8), id="cnn")]


@pytest.mark.parametrize(("rule", "traced"), [(OTTT, True), (SLTT, False)])
@pytest.mark.parametrize(("build", "shape"), NETWORKS)
def test_online_rules_are_their_equations(build, shape, rule, traced):
    model, batch = build(), batch_of(*shape)
    wanted = summed(slow_online(model, batch, traced))
    assert_same(gradients(rule(), model, batch), wanted)
    assert_same(gradients(rule(every_tick=True), model, batch), wanted)
    assert differ(wanted, summed(slow_online(model, batch, not traced))), "the two are told apart here"


@pytest.mark.parametrize(("rule", "traced"), [(OTTT, True), (SLTT, False)])
@pytest.mark.parametrize(("build", "shape"), NETWORKS)
def test_at_every_tick_the_optimiser_may_step_and_the_next_tick_sees_the_new_weights(build, shape, rule, traced):
    model, plain, batch = build(), build(), batch_of(*shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    updates = rule(every_tick=True).updates(model, batch, CrossEntropy(), nothing)
    for _, found in zip(updates, slow_online(plain, batch, traced), strict=True):
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for name, gradient in found.items():
                plain.get_parameter(name).sub_(0.5 * gradient)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert differ(dict(model.named_parameters()), dict(build().named_parameters())), "it has learned"


@pytest.mark.parametrize("rule", [OTTT, SLTT])
def test_the_losses_of_the_ticks_are_shares_of_the_whole(rule):
    model, batch = mlp(), batch_of(6)
    outputs = model.activity(batch.inputs)
    wanted = sum(float(F.cross_entropy(tick, batch.targets)) for tick in outputs) / 5
    for every_tick, number in ((False, 1), (True, 5)):
        updates = list(rule(every_tick).updates(model, batch, CrossEntropy(), nothing))
        assert len(updates) == number
        assert sum(float(update.loss) for update in updates) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("rule", [OTTT(), SLTT()])
def test_a_moving_input_that_stands_still_is_a_static_one(rule):
    batch = batch_of(6)
    moving = Batch(batch.inputs[:, None].repeat(1, 5, 1), batch.targets)
    assert_same(gradients(rule, mixed_mlp(encoder=Frames()), moving), gradients(rule, mixed_mlp(), batch))


@given(steps=st.integers(1, 12), decay=st.floats(0, 1), seed=st.integers(0, 1000))
def test_invariant_17_the_trace_is_its_closed_form(steps, decay, seed):
    spikes = (drawn(steps, 2, 3, seed=seed) < 0.4).double()
    traces = filtered(spikes, decay)
    for last in range(steps):
        weights = torch.tensor([decay ** (last - tick) for tick in range(last + 1)], dtype=torch.float64)
        closed = torch.einsum("t,tbn->bn", weights, spikes[: last + 1])
        torch.testing.assert_close(traces[last], closed, rtol=1e-6, atol=1e-9)


def test_what_a_protection_is_shown_is_what_the_update_uses():
    model, batch, rule = mixed_mlp(), batch_of(6), OTTT(every_tick=True)
    seen, used = {"fc2": [], "fc3": [], "head": []}, {"fc2": [], "fc3": [], "head": []}
    for name, held in seen.items():
        model.network.get_submodule(name).register_forward_pre_hook(lambda _, args, held=held: held.append(args[0]))
    for _ in rule.updates(model, batch, CrossEntropy(), nothing):
        for name, held in used.items():
            held.append(model.network.get_submodule(name).presynaptic.value)
    shown = rule.presynaptic(model)
    for name, spikes in seen.items():
        traces = shown(f"network.{name}", torch.stack(spikes).detach())
        assert traces.max() > 1.2, "a trace is not its spikes"
        torch.testing.assert_close(traces, torch.stack(used[name]), rtol=1e-12, atol=1e-14)
    raw = drawn(5, 7, 6)
    assert shown("network.fc1", raw) is raw
    assert model.network.fc2.presynaptic is None


def test_each_trace_leaks_as_the_neurons_that_its_synapse_reads():
    wanted = {"network.fc2": 0.5, "network.fc3": 1.0, "network.head": 0.75}
    assert trace_decays(mixed_mlp()) == wanted


def test_a_shortcut_reads_what_the_body_reads_and_not_the_bodys_neurons():
    body = SpikingSequential(conv1=Conv2d(2, 3, 1), cells=LIF(tau=4.0), conv2=Conv2d(3, 3, 1))
    block = Residual(SpikingSequential(cells=LIF(tau=2.0)), body, Conv2d(2, 3, 1))
    model = model_of(stem=Conv2d(1, 2, 1), block=block, cells=IF(), flat=nn.Flatten(), head=Linear(12, 3))
    assert trace_decays(model) == {
        "network.block.body.conv1": 0.5,
        "network.block.body.conv2": 0.75,
        "network.block.shortcut": 0.5,
        "network.head": 1.0,
    }


def test_neurons_that_stand_in_two_places_are_read_in_both():
    shared = LIF(tau=2.0)
    model = model_of(a=Linear(6, 6), b=shared, c=Linear(6, 6), d=LIF(tau=4.0), e=Linear(6, 6), f=shared, g=Linear(6, 3))
    assert trace_decays(model) == {"network.c": 0.5, "network.e": 0.75, "network.g": 0.5}


@pytest.mark.parametrize("rule", [OTTT, SLTT])
def test_an_evaluation_between_two_ticks_changes_nothing(rule):
    model, batch = mlp(), batch_of(6)
    wanted, found = gradients(rule(), model, batch), {}
    for _ in rule(every_tick=True).updates(model, batch, CrossEntropy(), nothing):
        with torch.no_grad():
            model(drawn(3, 6, seed=5))
    for name, parameter in model.named_parameters():
        found[name] = parameter.grad
    assert_same(found, wanted)


@pytest.mark.parametrize("rule", [OTTT, SLTT])
def test_another_batchs_updates_between_two_ticks_change_nothing(rule):
    model, batch = mlp(), batch_of(6)
    wanted, total = gradients(rule(), model, batch), {}
    for _ in rule(every_tick=True).updates(model, batch, CrossEntropy(), nothing):
        for name, parameter in model.named_parameters():
            total[name] = total.get(name, 0) + parameter.grad
            parameter.grad = None
        for _ in rule().updates(model, batch_of(6, rows=4, seed=5), CrossEntropy(), nothing):
            model.zero_grad()
    assert_same(total, wanted)


# Memory


class LiveBytes:
    """Counts the bytes that autograd holds for a backward pass, and the most at any one time."""

    def __init__(self):
        self.now = self.most = 0

    def hold(self, tensor):
        held = [tensor]
        box = _Box(held)
        self.now += tensor.nbytes
        self.most = max(self.most, self.now)
        weakref.finalize(box, self.release, tensor.nbytes)
        return box

    def release(self, amount):
        self.now -= amount


class _Box:
    def __init__(self, held):
        self.held = held


def most_bytes(rule, build, time_steps, shape, **parts):
    model, batch, live = build(time_steps=time_steps, **parts), batch_of(*shape), LiveBytes()
    with torch.autograd.graph.saved_tensors_hooks(live.hold, lambda box: box.held[0]):
        for _ in rule.updates(model, batch, CrossEntropy(), nothing):
            model.zero_grad()
    assert live.now == 0
    return live.most


def small_cnn(**parts):
    torch.manual_seed(0)
    return cnn((6, 6), 3, channels=(4, 5), neuron=LIF(threshold=0.3), **parts).double()


@pytest.mark.parametrize("encoder", [ConstantCurrent, Poisson])
@pytest.mark.parametrize("rule", [OTTT(), OTTT(every_tick=True), SLTT(), SLTT(every_tick=True)])
@pytest.mark.parametrize(("build", "shape"), [(mlp, (6,)), (small_cnn, (6, 6))], ids=["mlp", "cnn"])
def test_invariant_17_memory_does_not_grow_with_the_number_of_ticks(build, shape, rule, encoder):
    few, many = (most_bytes(rule, build, steps, shape, encoder=encoder()) for steps in (2, 20))
    assert 0 < many == few


@pytest.mark.parametrize("neuron", [LIF(threshold=0.3), AdaptiveLIF(threshold=0.3), Recurrent(LIF(threshold=0.3))])
def test_nor_does_that_of_eprop(neuron):
    few, many = (most_bytes(EProp(), mlp, steps, (6,), neuron=neuron) for steps in (2, 20))
    assert 0 < many == few


@pytest.mark.parametrize("rule", [BPTT(), BPTT(truncation=1)])
@pytest.mark.parametrize(("build", "shape"), [(mlp, (6,)), (small_cnn, (6, 6))], ids=["mlp", "cnn"])
def test_that_of_backpropagation_through_time_does(build, shape, rule):
    """The negative control; truncation cuts errors and not memory, as its doc-string says."""
    few, many = (most_bytes(rule, build, steps, shape) for steps in (2, 20))
    assert many > 5 * few


# e-prop


def per_tick_bptt(model, batch):
    """Backpropagation through all of time of the loss that e-prop scores: the mean over the ticks' own losses."""
    outputs = model.network(model.encode(batch.inputs))
    loss = sum(F.cross_entropy(tick, batch.targets) for tick in outputs) / len(outputs)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def one_hidden(neuron, readout=None, bias=True, **layers):
    torch.manual_seed(1)
    layers = {"fc": Linear(6, 12, bias=bias), "cells": neuron, **layers, "head": Linear(12, 3, bias=bias)}
    return model_of(time_steps=6, **layers, **({"readout": LeakyReadout(readout)} if readout else {}))


HIDDEN = [
    pytest.param(LIF(threshold=0.3), id="lif"),
    pytest.param(LIF(tau=5.0, threshold=0.5), id="slow lif"),
    pytest.param(IF(threshold=0.6), id="if"),
    pytest.param(AdaptiveLIF(threshold=0.3, strength=0.3, tau_adaptation=4.0), id="adaptive"),
    pytest.param(AdaptiveLIF(tau=4.0, threshold=0.4, strength=1.5, tau_adaptation=2.0), id="strongly adaptive"),
]


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("readout", [None, 3.0], ids=["no readout", "leaky readout"])
@pytest.mark.parametrize("neuron", HIDDEN)
def test_with_one_hidden_layer_eprop_is_bptt(neuron, readout, bias):
    model, batch = one_hidden(neuron, readout, bias), batch_of(6)
    assert_same(gradients(EProp(), model, batch), per_tick_bptt(model, batch))


@pytest.mark.parametrize("readout", [None, 3.0], ids=["no readout", "leaky readout"])
def test_a_moving_input_is_bptt_too(readout):
    model, batch = one_hidden(AdaptiveLIF(threshold=0.3, strength=0.5), readout), batch_of(6, 6)
    model.encoder = Frames()
    assert_same(gradients(EProp(), model, batch), per_tick_bptt(model, batch))


class Reordered(nn.Module):
    """Between the neurons and the head something without parameters may stand."""

    def forward(self, inputs):
        return 0.5 * inputs.flip(1)


@pytest.mark.parametrize("readout", [None, 3.0], ids=["no readout", "leaky readout"])
def test_what_stands_between_neurons_and_head_is_seen_by_the_heads_gradient(readout):
    model, batch = one_hidden(LIF(threshold=0.3), readout, between=Reordered()), batch_of(6)
    assert_same(gradients(EProp(), model, batch), per_tick_bptt(model, batch))


@pytest.mark.parametrize("inner", HIDDEN)
def test_recurrent_neurons_with_silent_synapses_are_bptt_and_their_synapses_learn(inner):
    model, batch = one_hidden(Recurrent(inner, 12)), batch_of(6)
    nn.init.zeros_(model.network.cells.synapse.weight)
    assert_same(gradients(EProp(), model, batch), per_tick_bptt(model, batch))


def test_a_recurrent_readout_keeps_its_own_leak():
    model, batch = one_hidden(Recurrent(LeakyReadout(tau=3.0), 12)), batch_of(6)
    nn.init.zeros_(model.network.cells.synapse.weight)
    assert_same(gradients(EProp(), model, batch), per_tick_bptt(model, batch))


def test_with_recurrent_synapses_at_work_it_is_an_approximation():
    """The negative control: errors do not go back through s_{t−1}; the readout's gradient stays exact."""
    model, batch = one_hidden(Recurrent(LIF(threshold=0.3), 12)), batch_of(6)
    found, exact = gradients(EProp(), model, batch), per_tick_bptt(model, batch)
    assert differ(found, exact) == {"network.fc.weight", "network.fc.bias", "network.cells.synapse.weight"}
    cosine = F.cosine_similarity(found["network.fc.weight"].flatten(), exact["network.fc.weight"].flatten(), 0)
    assert 0.3 < cosine < 0.9999


def test_with_a_second_hidden_layer_the_first_is_an_approximation_and_the_rest_exact():
    model, batch = mlp(), batch_of(6)
    assert differ(gradients(EProp(), model, batch), per_tick_bptt(model, batch)) == {"network.fc1.weight"}


@pytest.mark.parametrize("readout", [None, 3.0], ids=["no readout", "leaky readout"])
def test_random_eprop_is_bptt_whose_head_sends_errors_through_a_random_matrix(readout):
    model, batch = one_hidden(LIF(threshold=0.3), readout), batch_of(6)
    symmetric = gradients(EProp(), model, batch)
    random = gradients(EProp(FeedbackAlignment(), seed=3), model, batch)
    assert_same(random, per_tick_bptt(model, batch))
    assert differ(random, symmetric) == {"network.fc.weight", "network.fc.bias"}


@pytest.mark.parametrize("readout", [None, 3.0], ids=["no readout", "leaky readout"])
def test_eprop_keeps_every_gradient_out_of_its_synapses_subspace(readout):
    model, batch = one_hidden(Recurrent(AdaptiveLIF(threshold=0.3), 12), readout), batch_of(6)
    free = gradients(EProp(), model, batch)
    bases = {"fc": orthonormal(2, 6), "cells.synapse": orthonormal(5, 12, seed=1), "head": orthonormal(9, 12, seed=2)}
    for name, basis in bases.items():
        model.network.get_submodule(name).projectors = [Projector(basis)]
    kept = gradients(EProp(), model, batch)
    for name, basis in bases.items():
        gradient, whole = kept[f"network.{name}.weight"], free[f"network.{name}.weight"]
        assert (whole @ basis.mT).norm() > 0.01 * whole.norm()
        assert (gradient @ basis.mT).norm() < 1e-12 * whole.norm()
        torch.testing.assert_close(gradient, whole - whole @ basis.mT @ basis, rtol=1e-10, atol=1e-13)
    for name in ("network.fc.bias", "network.head.bias"):
        torch.testing.assert_close(kept[name], free[name])


def test_eprop_refuses_lateral_neurons_that_project_rows():
    model, batch = one_hidden(LIF(threshold=0.3)), batch_of(6)
    model.network.fc.projectors = [SpikingProjector(orthonormal(2, 6), LateralSpikes(20.0, 40))]
    with pytest.raises(ValueError, match="eprop forms gradients, not rows"):
        gradients(EProp(), model, batch)


# DSR's presynaptic side


def test_dsr_takes_the_neurons_own_rate_for_presynaptic():
    activity = drawn(8, 4, 6)
    weights = torch.exp(-torch.arange(7, -1, -1, dtype=torch.float64) / 20)
    weighted = torch.einsum("t,tbn->bn", weights / weights.sum(), activity)
    leaky = DSR().presynaptic(mlp(DSRLIF(), decoder=WeightedRate(20.0)))("network.fc2", activity)
    plain = DSR().presynaptic(mlp(DSRIF()))("network.fc2", activity)
    none = DSR().presynaptic(nn.Sequential(Linear(6, 3)))("0", activity)
    torch.testing.assert_close(leaky, weighted[None])
    assert torch.equal(plain, activity.mean(0)[None])
    assert torch.equal(none, activity.mean(0)[None])


@pytest.mark.parametrize("rule", [BPTT(), SLTT(), EProp()])
def test_the_others_take_the_input_itself(rule):
    assert rule.presynaptic(mlp()) is None


# What each refuses


def perfect(current, state):
    return current, state


OTHERS = [
    (BPTT(), DSRLIF(), "Neuron except RepresentationNeuron"),
    (BPTT(), DSRIF(), "Neuron except RepresentationNeuron"),
    (BPTT(truncation=2), DSRLIF(), "Neuron except RepresentationNeuron"),
    *(
        (rule, neuron, "LIF, IF")
        for rule in (OTTT(), SLTT())
        for neuron in (ParametricLIF(), AdaptiveLIF(), Synaptic())
    ),
    *((rule, neuron, "LIF, IF") for rule in (OTTT(), SLTT()) for neuron in (DSRLIF(), Recurrent(LIF()))),
    (OTTT(), StepNeuron(perfect), "LIF, IF"),
    *((EProp(), neuron, "LIF, IF, AdaptiveLIF, Recurrent, LeakyReadout") for neuron in (Synaptic(), ParametricLIF())),
    *(
        (DSR(), neuron, "DSRLIF, DSRIF")
        for neuron in (LIF(), IF(), AdaptiveLIF(), Recurrent(LIF()), StepNeuron(perfect))
    ),
]


@pytest.mark.parametrize(
    ("rule", "neuron", "accepted"), OTHERS, ids=[f"{rule.name}-{type(neuron).__name__}" for rule, neuron, _ in OTHERS]
)
def test_a_rule_names_the_layer_that_it_cannot_train_and_what_it_accepts(rule, neuron, accepted):
    kind = type(neuron).__name__
    with pytest.raises(
        ValueError, match=rf"{rule.name} cannot train layer 'network\.neuron1' \({kind}\); it accepts {accepted}\."
    ):
        rule.check(mlp(neuron))


@pytest.mark.parametrize(("rule", "inner"), [(BPTT(), DSRLIF()), (EProp(), Synaptic())], ids=["bptt", "eprop"])
def test_a_neuron_inside_a_recurrent_one_is_looked_at(rule, inner):
    with pytest.raises(ValueError, match=rf"'network\.neuron1\.neuron' \({type(inner).__name__}\)"):
        rule.check(mlp(Recurrent(inner)))


ACCEPTED = [
    (BPTT(), [LIF(), IF(), ParametricLIF(), AdaptiveLIF(), Synaptic(), Recurrent(LIF()), StepNeuron(perfect)]),
    (OTTT(), [LIF(), IF()]),
    (SLTT(), [LIF(), IF()]),
    (EProp(), [LIF(), IF(), AdaptiveLIF(), Recurrent(AdaptiveLIF())]),
]


@pytest.mark.parametrize(("rule", "neurons"), ACCEPTED, ids=[rule.name for rule, _ in ACCEPTED])
def test_a_rule_trains_what_it_accepts(rule, neurons):
    for neuron in neurons:
        rule.check(mlp(neuron))


@pytest.mark.parametrize(
    "rule", [OTTT(), SLTT(), EProp(), BPTT(error_path=FeedbackAlignment()), DSR(FeedbackAlignment())]
)
def test_a_rule_that_needs_our_synapses_names_the_layer_with_torchs(rule):
    neuron, decoder = (DSRLIF(), WeightedRate(20.0)) if isinstance(rule, DSR) else (LIF(), None)
    model = model_of(fc=Linear(6, 8), cells=neuron, head=nn.Linear(8, 3), decoder=decoder)
    with pytest.raises(ValueError, match=r"'network\.head' is torch\.nn\.modules\.linear\.Linear, use neuro\.Linear"):
        rule.check(model)


@pytest.mark.parametrize("rule", [OTTT(), SLTT()])
def test_that_holds_for_convolutions(rule):
    model = model_of(conv=nn.Conv2d(1, 2, 3), cells=LIF(), flat=nn.Flatten(), head=Linear(32, 3))
    with pytest.raises(ValueError, match=r"'network\.conv' is torch.*Conv2d, use neuro\.Conv2d"):
        rule.check(model)


@pytest.mark.parametrize("rule", [BPTT(), BPTT(truncation=2), DSR()])
def test_rules_that_follow_autograd_take_torchs_layers(rule):
    neuron, decoder = (DSRLIF(), WeightedRate(20.0)) if isinstance(rule, DSR) else (LIF(), None)
    rule.check(model_of(fc=nn.Linear(6, 8), cells=neuron, head=nn.Linear(8, 3), decoder=decoder))


@pytest.mark.parametrize("rule", [OTTT(), SLTT(), EProp()])
@pytest.mark.parametrize("decoder", [LastTick(), WeightedRate(20.0)])
def test_a_rule_that_scores_every_tick_refuses_another_decoder(rule, decoder):
    with pytest.raises(ValueError, match=rf"{rule.name} scores .*every tick, so it needs .* decoder MeanOverTime"):
        rule.check(mlp(decoder=decoder))


@pytest.mark.parametrize("rule", [OTTT(), SLTT(), EProp(), BPTT(truncation=2)])
def test_a_rule_that_runs_time_itself_needs_the_classifier_around_the_network(rule):
    with pytest.raises(ValueError, match="needs a SpikingClassifier"):
        rule.check(SpikingSequential(fc=Linear(6, 8), cells=LIF(), head=Linear(8, 3)))


@pytest.mark.parametrize("decoder", [MeanOverTime(), LastTick(), WeightedRate(10.0)])
def test_dsr_names_the_decoder_that_reads_its_leaky_neurons(decoder):
    with pytest.raises(ValueError, match=rf"WeightedRate\(tau=20\.0\), got {type(decoder).__name__}"):
        DSR().check(mlp(DSRLIF(tau=2.0, tick=0.1), decoder=decoder))
    DSR().check(mlp(DSRLIF(tau=2.0, tick=0.1), decoder=WeightedRate(20.0)))


@pytest.mark.parametrize("decoder", [WeightedRate(20.0), LastTick()])
def test_dsr_names_the_decoder_that_reads_its_neurons_without_leak(decoder):
    with pytest.raises(ValueError, match=rf"decoder is MeanOverTime, got {type(decoder).__name__}"):
        DSR().check(mlp(DSRIF(), decoder=decoder))
    DSR().check(mlp(DSRIF()))


def test_dsr_names_the_model_where_there_is_no_decoder():
    with pytest.raises(ValueError, match=r"WeightedRate\(tau=20\.0\), got SpikingSequential"):
        DSR().check(SpikingSequential(fc=Linear(6, 8), cells=DSRLIF(), head=Linear(8, 3)))


@pytest.mark.parametrize("second", [DSRIF(), DSRLIF(tau=2.0)])
def test_dsr_refuses_neurons_that_no_single_rate_reads(second):
    layers = {"fc": Linear(6, 8), "one": DSRLIF(), "fc2": Linear(8, 8), "two": second, "head": Linear(8, 3)}
    for decoder in (WeightedRate(20.0), MeanOverTime()):
        with pytest.raises(ValueError, match="by one rate; give all its neurons one kind, tau and tick"):
            DSR().check(model_of(**layers, decoder=decoder))


@pytest.mark.parametrize("reset", [HardReset(), SoftReset(detached=False)])
def test_eprop_names_the_layer_with_another_reset(reset):
    for neuron, name in (
        (LIF(reset=reset), r"network\.neuron1"),
        (Recurrent(LIF(reset=reset)), r"network\.neuron1\.neuron"),
    ):
        with pytest.raises(
            ValueError, match=rf"needs SoftReset\(detached=True\), layer '{name}' has {type(reset).__name__}"
        ):
            EProp().check(mlp(neuron))


UNFIT = [
    ({"fc": Linear(6, 8), "fc2": Linear(8, 8), "cells": LIF(), "head": Linear(8, 3)}, "fc2"),
    ({"fc": Linear(6, 8), "norm": nn.BatchNorm1d(8), "cells": LIF(), "head": Linear(8, 3)}, "norm"),
    ({"cells": LIF(), "head": Linear(6, 3)}, "cells"),
    ({"fc": Linear(6, 8), "between": LeakyReadout(), "cells": LIF(), "head": Linear(8, 3)}, "between"),
    ({"fc": Linear(6, 8), "cells": LIF(), "head": Linear(8, 3), "one": LeakyReadout(), "two": LeakyReadout()}, "one"),
    ({"fc": Linear(6, 8), "cells": LIF(), "head": Linear(8, 3), "after": nn.ReLU()}, "after"),
    ({"conv": Conv2d(1, 2, 3), "cells": LIF(), "flat": nn.Flatten(), "head": Linear(32, 3)}, "conv"),
    ({"fc": Linear(6, 8), "a": LIF(), "part": SpikingSequential(b=LIF()), "head": Linear(8, 3)}, "part"),
]


@pytest.mark.parametrize(("layers", "name"), UNFIT, ids=[name for _, name in UNFIT])
def test_eprop_names_the_first_layer_that_it_cannot_place(layers, name):
    with pytest.raises(ValueError, match=rf"layer '{name}' \({type(layers[name]).__name__}\) does not fit there"):
        EProp().check(model_of(**layers))


@pytest.mark.parametrize(
    "layers", [{"fc": Linear(6, 3), "cells": LIF()}, {"fc": Linear(6, 3), "readout": LeakyReadout()}]
)
def test_eprop_needs_a_hidden_layer_and_a_head(layers):
    with pytest.raises(ValueError, match="at least one layer of neurons and a linear head after it"):
        EProp().check(model_of(**layers))


@pytest.mark.parametrize("bad", [0, -1])
def test_a_truncation_below_one_tick_is_refused(bad):
    with pytest.raises(ValueError, match=f"truncation must be at least 1 tick, got {bad}"):
        BPTT(truncation=bad)
