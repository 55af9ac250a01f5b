"""SpikingSequential: both traversals agree, a static input is computed once, and a plain torch loop gives the same."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from neuro import IF, LIF, HardReset, LeakyReadout, Linear, Sigmoid, SoftReset, SpikingSequential, Static
from neuro.models import SpikingClassifier, spiking_mlp
from neuro.types import unroll


def build(seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    return SpikingSequential(
        fc1=Linear(6, 9, dtype=dtype),
        lif=LIF(tau=2.0, threshold=0.4),
        fc2=Linear(9, 7, bias=True, dtype=dtype),
        int_fire=IF(threshold=0.5, reset=HardReset()),
        head=Linear(7, 3, dtype=dtype),
        readout=LeakyReadout(tau=3.0),
    )


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * 2


def test_simulate_is_step_tick_by_tick():
    network, inputs = build(), drawn(8, 4, 6)
    outputs, state = network.simulate(inputs)
    ticked, held = [], None
    for tick in inputs:
        output, held = network.step(tick, held)
        ticked.append(output)
    torch.testing.assert_close(outputs, torch.stack(ticked), rtol=1e-12, atol=1e-14)
    assert len(state) == len(held) == 6
    assert [entry is None for entry in state] == [True, False, True, False, True, False]
    for ours, theirs in zip(state, held, strict=True):
        if ours is not None:
            torch.testing.assert_close(ours[0], theirs[0], rtol=1e-12, atol=1e-14)


def test_simulate_and_step_have_the_same_weight_gradients():
    inputs, gradients = drawn(6, 4, 6), []
    for tick_by_tick in (False, True):
        network, held, ticked = build(), None, []
        if tick_by_tick:
            for tick in inputs:
                output, held = network.step(tick, held)
                ticked.append(output)
            outputs = torch.stack(ticked)
        else:
            outputs = network(inputs)
        outputs.square().mean().backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.abs().sum() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


@given(cut=st.integers(1, 6), seed=st.integers(0, 1000))
def test_the_whole_state_carries_a_network_over_a_cut(cut, seed):
    network, inputs = build(), drawn(7, 3, 6, seed=seed)
    whole, _ = network.simulate(inputs)
    early, state = network.simulate(inputs[:cut])
    late, _ = network.simulate(inputs[cut:], state)
    torch.testing.assert_close(torch.cat([early, late]), whole, rtol=1e-12, atol=1e-14)


@given(order=st.permutations(range(4)), seed=st.integers(0, 1000))
def test_permuting_the_batch_permutes_the_outputs(order, seed):
    network, inputs = build(), drawn(5, 4, 6, seed=seed)
    torch.testing.assert_close(network(inputs[:, list(order)]), network(inputs)[:, list(order)], rtol=1e-9, atol=1e-12)


def test_calling_twice_gives_the_same():
    network, inputs = build(), drawn(5, 4, 6)
    assert torch.equal(network(inputs), network(inputs))


def test_a_static_input_is_the_unrolled_one_and_its_first_layer_runs_once():
    network, value, rows = build(), drawn(4, 6), []
    network.fc1.register_forward_hook(lambda _module, inputs, _output: rows.append(inputs[0].shape[0]))
    once, _ = network.simulate(Static(value, 5))
    repeated, _ = network.simulate(unroll(Static(value, 5)))
    torch.testing.assert_close(once, repeated, rtol=1e-12, atol=1e-14)
    assert rows == [4, 20]


def test_a_static_input_has_the_gradient_of_the_unrolled_one():
    gradients = []
    for static in (True, False):
        network, value = build(), drawn(4, 6).requires_grad_()
        network(Static(value, 5) if static else unroll(Static(value, 5))).square().sum().backward()
        gradients.append([value.grad, *(parameter.grad for parameter in network.parameters())])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_a_static_input_stays_static_through_layers_without_state_and_comes_out_unrolled():
    calls = []
    network = SpikingSequential(flat=nn.Flatten(), fc=Linear(6, 3, dtype=torch.float64))
    network.fc.register_forward_hook(lambda *_: calls.append(1))
    outputs, state = network.simulate(Static(drawn(4, 2, 3), 5))
    assert outputs.shape == (5, 4, 3)
    assert torch.equal(outputs[0], outputs[4])
    assert calls == [1]
    assert state == (None, None)


def test_layers_without_state_see_time_folded_into_the_batch():
    network = SpikingSequential(conv=nn.Conv2d(2, 3, 3, padding=1), spikes=LIF(), flat=nn.Flatten(), fc=Linear(48, 5))
    assert network(torch.rand(6, 2, 2, 4, 4)).shape == (6, 2, 5)


def test_a_state_that_does_not_fit_names_the_layer():
    network = build()
    _, state = network.simulate(drawn(3, 4, 6))
    with pytest.raises(ValueError, match=r"Layer 'lif': LIF: the state is \[4, 9\].*\[2, 9\]"):
        network.simulate(drawn(3, 2, 6), state)


def test_a_failure_of_torch_inside_a_layer_names_the_layer_beside_the_reason():
    inner = SpikingSequential(spikes=LIF(), second=Linear(5, 2))
    network = SpikingSequential(first=Linear(6, 4), inner=inner).to(torch.float64)
    for run, inputs in ((network, drawn(3, 4, 6)), (network.step, drawn(4, 6))):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as failure:
            run(inputs)
        assert failure.value.__notes__ == ["Raised in layer 'second'.", "Raised in layer 'inner'."]


def test_a_state_of_another_network_is_refused():
    with pytest.raises(ValueError, match=r"has 6 layers, the state 2; pass it back whole"):
        build().simulate(drawn(3, 4, 6), (None, None))


def test_a_neuron_layer_may_stand_in_two_places_because_it_holds_no_state():
    torch.manual_seed(0)
    neuron, first, second = LIF(threshold=0.4), Linear(6, 6, dtype=torch.float64), Linear(6, 6, dtype=torch.float64)
    shared = SpikingSequential(a=first, b=neuron, c=second, d=neuron)
    separate = SpikingSequential(a=first, b=LIF(threshold=0.4), c=second, d=LIF(threshold=0.4))
    inputs = drawn(5, 4, 6)
    assert torch.equal(shared(inputs), separate(inputs))
    assert len(shared.simulate(inputs)[1]) == 4


def test_a_part_of_a_network_is_a_network():
    network, inputs = build(), drawn(5, 4, 6)
    early, late = network[:2], network[2:]
    torch.testing.assert_close(late(early(inputs)), network(inputs), rtol=1e-12, atol=1e-14)


def test_no_layer_is_refused():
    with pytest.raises(ValueError, match="at least one layer"):
        SpikingSequential()


def test_no_time_step_is_refused_with_and_without_neurons():
    with pytest.raises(ValueError, match=r"'lif'.*T = 0|At least one time step.*T = 0"):
        build().simulate(drawn(0, 4, 6))
    with pytest.raises(ValueError, match=r"T = 0"):
        SpikingSequential(fc=Linear(6, 2, dtype=torch.float64)).simulate(drawn(0, 4, 6))
    with pytest.raises(ValueError, match=r"T = 0"):
        SpikingSequential(fc=Linear(6, 2, dtype=torch.float64)).simulate(Static(drawn(4, 6), 0))


class StraightThrough(torch.autograd.Function):
    """A spike written for this test alone: Θ forward, 4σ(1 − σ) of 4u backward."""

    @staticmethod
    def forward(ctx, distance):
        ctx.save_for_backward(distance)
        return torch.heaviside(distance, torch.ones((), dtype=distance.dtype))

    @staticmethod
    def backward(ctx, upstream):
        (distance,) = ctx.saved_tensors
        logistic = 1 / (1 + (-4 * distance).exp())
        return upstream * 4 * logistic * (1 - logistic)


def plain_loop(image, weights, time_steps, decay, threshold):
    """A spiking MLP as a page of torch: constant current in, mean logit out, soft reset, reset path cut."""
    membranes = [torch.zeros(len(image), len(weight), dtype=image.dtype) for weight in weights[:-1]]
    logits = []
    for _ in range(time_steps):
        activity = image.flatten(1)
        for index, weight in enumerate(weights[:-1]):
            charged = decay * membranes[index] + activity @ weight.T
            activity = StraightThrough.apply(charged - threshold)
            membranes[index] = charged - threshold * activity.detach()
        logits.append(activity @ weights[-1].T)
    return sum(logits) / time_steps


def test_a_spiking_mlp_is_a_plain_torch_loop_in_value_and_gradient():
    torch.manual_seed(3)
    neuron = LIF(tau=2.0, threshold=0.3, surrogate=Sigmoid(4.0), reset=SoftReset())
    model = spiking_mlp([2, 4], 3, hidden=[16, 12], neuron=neuron, time_steps=5).double()
    weights = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    images, targets = drawn(7, 2, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    ours, theirs = model(images), plain_loop(images, weights, 5, 0.5, 0.3)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    for logits in (ours, theirs):
        nn.functional.cross_entropy(logits, targets).backward()
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        assert weight.grad.abs().sum() > 0
        torch.testing.assert_close(parameter.grad, weight.grad, rtol=1e-10, atol=1e-14)


def test_the_spiking_mlp_has_one_neuron_layer_of_its_own_a_hidden_layer_and_no_bias():
    model = spiking_mlp([28, 28], 10, hidden=[5, 4], neuron=IF(0.5))
    assert [tuple(parameter.shape) for parameter in model.parameters()] == [(5, 784), (4, 5), (10, 4)]
    layers = model.network
    assert layers.neuron1 is not layers.neuron2
    assert isinstance(layers.neuron2, IF)
    assert model(torch.rand(2, 28, 28)).shape == (2, 10)


def test_the_activity_of_a_classifier_decodes_to_its_logits():
    model, images = spiking_mlp([6], 3, hidden=[8], time_steps=4).double(), drawn(5, 6)
    activity = model.activity(images)
    assert activity.shape == (4, 5, 3)
    assert not activity.requires_grad
    torch.testing.assert_close(activity.mean(0), model(images).detach())


def test_time_steps_can_be_changed_between_calls():
    model, images = spiking_mlp([6], 3, hidden=[8], time_steps=2).double(), drawn(5, 6)
    model.time_steps = 7
    assert model.activity(images).shape[0] == 7


@pytest.mark.parametrize(("input_shape", "num_classes"), [([0], 3), ([4], 0)])
def test_an_empty_layer_is_refused(input_shape, num_classes):
    with pytest.raises(ValueError, match="at least 1 neuron"):
        spiking_mlp(input_shape, num_classes)


def test_a_classifier_without_a_time_step_is_refused():
    parts = [nn.Identity(), nn.Identity(), build(), nn.Identity()]
    with pytest.raises(ValueError, match="time_steps must be at least 1, got 0"):
        SpikingClassifier(*parts, time_steps=0)


def test_the_linear_synapse_starts_as_torchs_does():
    torch.manual_seed(0)
    ours = Linear(50, 40)
    torch.manual_seed(0)
    theirs = nn.Linear(50, 40, bias=False)
    assert torch.equal(ours.weight, theirs.weight)
    assert ours.bias is None
    assert ours.weight.abs().max() <= 1 / math.sqrt(50)
