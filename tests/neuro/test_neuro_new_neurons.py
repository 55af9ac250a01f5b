"""Parametric, adaptive, synaptic, recurrent, DSR's and users' neurons: contract, closed forms, parity, mistakes."""

import math

import pytest
import snntorch
import snntorch.surrogate
import torch
from contracts.neuron import NeuronContract
from hypothesis import given
from hypothesis import strategies as st

from neuro import (
    DSRIF,
    DSRLIF,
    IF,
    LIF,
    AdaptiveLIF,
    ATan,
    HardReset,
    LeakyReadout,
    Linear,
    ParametricLIF,
    Recurrent,
    Sigmoid,
    SoftReset,
    SpikingSequential,
    Static,
    StepNeuron,
    Synaptic,
    record,
    spike,
)
from neuro.learning import BPTT
from neuro.models import cnn, spiking_mlp
from neuro.probes import replay_membrane


def resonator(current, state):
    """A user's neuron with two variables: it rings."""
    membrane, velocity = state
    velocity = 0.9 * velocity - 0.3 * membrane + current
    membrane = membrane + velocity
    spikes = spike(membrane - 1.0, Sigmoid())
    return spikes, (membrane * (1 - spikes.detach()), velocity)


def drawn(*shape, seed=0, scale=1.0, dtype=torch.float64):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) * scale


def constant(value, steps):
    return torch.full((steps, 1, 1), value, dtype=torch.float64)


# The contract


class TestParametricLIF(NeuronContract):
    def make(self):
        return ParametricLIF(tau=2.5, threshold=0.8)


class TestParametricLIFPerNeuron(NeuronContract):
    def make(self):
        return ParametricLIF(tau=3.0, threshold=0.7, surrogate=ATan(), reset=HardReset(), per_neuron=True)

    def make_for(self, shape, dtype=torch.float64):
        neuron = self.make().for_layer(shape)
        with torch.no_grad():
            neuron.leak_logit += torch.linspace(-2, 2, neuron.leak_logit.numel()).view_as(neuron.leak_logit)
        return neuron


class TestAdaptiveLIF(NeuronContract):
    def make(self):
        return AdaptiveLIF(tau=2.0, threshold=0.8, tau_adaptation=5.0, strength=0.1)


class TestAdaptiveLIFWithHardReset(NeuronContract):
    def make(self):
        return AdaptiveLIF(tau=3.0, threshold=0.6, tau_adaptation=2.0, reset=HardReset(detached=False))


class TestSynaptic(NeuronContract):
    def make(self):
        return Synaptic(tau=2.0, tau_synapse=3.0, threshold=1.5)


class TestRecurrent(NeuronContract):
    """Its synapses join the neurons of a flat layer, so it has no images and its weights have the input's dtype."""

    def make(self):
        return Recurrent(LIF(tau=2.0, threshold=0.8))

    def make_for(self, shape, dtype=torch.float64):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.make().for_layer(shape).to(dtype)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    @pytest.mark.parametrize("shape", [(1, 2, 3), (7, 2, 5)])
    def test_simulate_is_the_step_loop(self, dtype, shape):
        super().test_simulate_is_the_step_loop(dtype, shape)


class TestRecurrentAdaptive(TestRecurrent):
    def make(self):
        return Recurrent(AdaptiveLIF(threshold=0.8, strength=0.4))


class TestStepNeuron(NeuronContract):
    constants = ("resonator",)

    def make(self):
        return StepNeuron(resonator, num_variables=2)


class TestDSRLIF(NeuronContract):
    """Spikes have an amplitude, and the gradient is the rate map's, which no single tick has."""

    def make(self):
        return DSRLIF(threshold=0.1)

    def test_simulate_and_the_step_loop_have_the_same_gradient(self):
        neuron = self.make()
        current = self.currents(7, 2, 5).requires_grad_()
        outputs, state = self.loop(neuron, current)
        assert not outputs.requires_grad
        assert not state[0].requires_grad
        neuron.simulate(current)[0].sum().backward()
        assert current.grad.abs().sum() > 0
        assert torch.equal(current.grad, current.grad[:1].expand(7, -1, -1))

    def test_spikes_are_zeros_and_ones(self):
        neuron = self.make()
        outputs, _ = neuron.simulate(self.currents(30, 4, 5) * 2 - 1)
        amplitude = float(neuron.amplitude(neuron.threshold.detach().double()))
        assert neuron.is_spiking
        assert outputs.unique().tolist() == [0, pytest.approx(amplitude, rel=1e-12)]


class TestDSRIF(TestDSRLIF):
    constants = ("threshold=",)

    def make(self):
        return DSRIF(threshold=1.5)


# Parametric LIF


@pytest.mark.parametrize("reset", [SoftReset(), HardReset(detached=False)], ids=["soft", "hard"])
@pytest.mark.parametrize("tau", [1.25, 2.0, 7.0])
def test_with_its_first_time_constant_a_parametric_neuron_is_a_lif_in_value_and_gradient(tau, reset):
    gradients, outputs = [], []
    for neuron in (ParametricLIF(tau, 0.6, reset=reset).double(), LIF(tau, 0.6, reset=reset)):
        current = drawn(12, 3, 4).requires_grad_()
        spikes, state = neuron.simulate(current)
        ((spikes * torch.linspace(-1, 1, 12)[:, None, None]).sum() + state[0].sum()).backward()
        outputs.append((spikes.detach(), state[0].detach()))
        gradients.append(current.grad)
    assert torch.equal(outputs[0][0], outputs[1][0])
    assert outputs[0][0].sum() > 0
    torch.testing.assert_close(outputs[0][1], outputs[1][1], rtol=1e-6, atol=1e-7)  # τ was stored in single precision
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-7)


def test_below_threshold_the_slope_in_the_leak_is_the_closed_form_and_the_finite_difference():
    """v_T = Σ d^{T−k} I_k with d = σ(−a), so dv_T/da = −d(1 − d) Σ (T − k) d^{T−k−1} I_k."""
    current = drawn(9, 2, 3, scale=0.1)
    neuron = ParametricLIF(tau=3.0, threshold=10.0).double()
    neuron.simulate(current)[1][0].sum().backward()
    kept = float(torch.sigmoid(-neuron.leak_logit.detach()))
    slope = sum(
        age * kept ** (age - 1) * float(tick.sum()) for age, tick in enumerate(current.flip(0).unbind(0)) if age
    )
    assert float(neuron.leak_logit.grad) == pytest.approx(-kept * (1 - kept) * slope, rel=1e-10)

    def readout(shift):
        moved = ParametricLIF(tau=3.0, threshold=10.0).double()
        with torch.no_grad():
            moved.leak_logit += shift
            return float(moved.simulate(current)[1][0].sum())

    difference = (readout(1e-5) - readout(-1e-5)) / 2e-5
    assert float(neuron.leak_logit.grad) == pytest.approx(difference, rel=1e-8)


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


@pytest.mark.parametrize("per_neuron", [False, True])
def test_with_spikes_its_gradient_is_that_of_a_plain_lif_loop_in_the_decay(per_neuron):
    current, weights = drawn(15, 4, 5), drawn(15, 4, 5, seed=1) - 0.5
    neuron = ParametricLIF(tau=2.0, threshold=0.6, per_neuron=per_neuron).for_layer((5,)).double()
    spikes, state = neuron.simulate(current)
    ((spikes * weights).sum() + state[0].square().sum()).backward()
    decay = (1 - 1 / neuron.tau.detach()).requires_grad_()
    membrane, total = torch.zeros(4, 5, dtype=torch.float64), 0
    for tick, weight in zip(current, weights, strict=True):
        charged = decay * membrane + tick
        fired = StraightThrough.apply(charged - 0.6)
        membrane, total = charged - 0.6 * fired.detach(), total + (fired * weight).sum()
    (total + membrane.square().sum()).backward()
    assert spikes.sum() > 10
    assert (decay.grad != 0).all()
    expected = -decay.grad * decay.detach() * (1 - decay.detach())  # a = logit of 1/τ, and d = 1 − σ(a)
    torch.testing.assert_close(neuron.leak_logit.grad, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("per_neuron", [False, True])
def test_it_finds_the_time_constant_that_made_a_membrane(per_neuron):
    current, taus = drawn(15, 4, 3, scale=0.1), (2.0, 4.0, 8.0) if per_neuron else (4.0,) * 3
    columns = [replay_membrane(LIF(tau, 50.0), current[..., i : i + 1])[-1] for i, tau in enumerate(taus)]
    wanted = torch.cat(columns, 1)
    neuron = ParametricLIF(tau=3.0, threshold=50.0, per_neuron=per_neuron).for_layer((3,)).double()
    optimizer = torch.optim.LBFGS(neuron.parameters(), max_iter=40, line_search_fn="strong_wolfe")

    def missed():
        optimizer.zero_grad()
        error = (neuron.simulate(current)[1][0] - wanted).square().sum()
        error.backward()
        return error

    optimizer.step(missed)
    torch.testing.assert_close(
        neuron.tau.detach().expand(3), torch.tensor(taus, dtype=torch.float64), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("logit", [-80.0, -3.0, 0.0, 3.0, 80.0])
def test_whatever_an_optimiser_does_the_leak_stays_between_none_and_all(logit):
    neuron = ParametricLIF()
    with torch.no_grad():
        neuron.leak_logit.fill_(logit)
    assert float(neuron.tau.detach()) >= 1
    membrane = neuron.simulate(constant(0.1, 5))[1][0].detach()
    assert 0.1 - 1e-9 <= float(membrane) <= 0.5 + 1e-9


@pytest.mark.parametrize(("shape", "own"), [((7,), (7,)), ((4, 5, 6), (4, 1, 1))])
def test_per_neuron_means_per_channel_in_an_image(shape, own):
    assert ParametricLIF(per_neuron=True).for_layer(shape).leak_logit.shape == own
    assert ParametricLIF().for_layer(shape).leak_logit.shape == ()
    built = cnn((1, 8, 8), 3, channels=(4,), neuron=ParametricLIF(per_neuron=True), time_steps=2)
    assert built.network.neuron1.leak_logit.shape == (4, 1, 1)


# Adaptive LIF


@pytest.mark.parametrize("reset", [SoftReset(), HardReset(detached=False)], ids=["soft", "hard"])
def test_without_strength_an_adaptive_neuron_is_a_lif(reset):
    outputs, gradients = [], []
    for neuron in (AdaptiveLIF(3.0, 0.7, strength=0.0, reset=reset), LIF(3.0, 0.7, reset=reset)):
        current = drawn(12, 3, 4).requires_grad_()
        spikes, state = neuron.simulate(current)
        (spikes * torch.linspace(-1, 1, 12)[:, None, None]).sum().backward()
        outputs.append((spikes.detach(), state[0].detach()))
        gradients.append(current.grad)
    assert torch.equal(outputs[0][0], outputs[1][0])
    assert outputs[0][0].sum() > 0
    torch.testing.assert_close(outputs[0][1], outputs[1][1], rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-14)


def test_a_hand_table_of_an_adaptive_neuron():
    # τ = 2, θ = 1, ρ = 1/2, β = 1/2, current 1; the threshold that counts is 1 + a/2 of the tick before.
    # h  1*    1      1.5*   1.25   1.625*
    # θ  1     1.5    1.25   1.625  1.3125
    # a  1     0.5    1.25   0.625  1.3125
    # v  0     1      0.5    1.25   0.625
    neuron = AdaptiveLIF(tau=2.0, threshold=1.0, tau_adaptation=2.0, strength=0.5)
    spikes, state = neuron.simulate(constant(1.0, 5))
    assert spikes.flatten().tolist() == [1, 0, 1, 0, 1]
    assert (float(state.membrane), float(state.adaptation)) == (0.625, 1.3125)
    assert replay_membrane(neuron, constant(1.0, 5)).flatten().tolist() == [0, 1, 0.5, 1.25, 0.625]


@given(tau=st.floats(1, 30), seed=st.integers(0, 1000))
def test_the_adaptation_is_the_leaky_count_of_its_spikes(tau, seed):
    spikes, state = AdaptiveLIF(threshold=0.5, tau_adaptation=tau).simulate(drawn(10, 2, 3, seed=seed))
    weights = torch.tensor([(1 - 1 / tau) ** age for age in range(9, -1, -1)], dtype=torch.float64)
    torch.testing.assert_close(state.adaptation, torch.einsum("t,tbn->bn", weights, spikes), rtol=1e-10, atol=1e-12)


@given(seed=st.integers(0, 1000), strength=st.floats(0.01, 3))
def test_adaptation_never_makes_a_memoryless_neuron_fire_more(seed, strength):
    current = drawn(20, 2, 3, seed=seed, scale=2.0)
    adapting = AdaptiveLIF(tau=1.0, strength=strength).simulate(current)[0]
    assert (adapting <= LIF(tau=1.0).simulate(current)[0]).all()


def test_the_gradient_flows_through_the_adaptation():
    """s_2 depends on I_1 through a_1 alone when τ = 1: ds_2/dI_1 = −β ψ_2 ψ_1."""
    current = torch.tensor([[[0.9]], [[0.8]]], dtype=torch.float64, requires_grad=True)
    neuron = AdaptiveLIF(tau=1.0, strength=0.5)
    spikes, _ = neuron.simulate(current)
    spikes[1].backward()
    slopes = [float(Sigmoid()(torch.tensor(u, dtype=torch.float64))) for u in (0.9 - 1, 0.8 - 1)]
    assert float(current.grad[0]) == pytest.approx(-0.5 * slopes[1] * slopes[0], rel=1e-12)
    assert float(current.grad[1]) == pytest.approx(slopes[1], rel=1e-12)


# Synaptic


@given(tau=st.floats(1, 9), tau_synapse=st.floats(10, 20), steps=st.integers(1, 25))
def test_below_threshold_a_synaptic_neuron_is_its_double_geometric_sum(tau, tau_synapse, steps):
    kept, flowing = 1 - 1 / tau, 1 - 1 / tau_synapse
    current, state = Synaptic(tau, tau_synapse, threshold=1e6).simulate(constant(0.3, steps))
    assert current.sum() == 0
    assert float(state.current) == pytest.approx(0.3 * (1 - flowing**steps) / (1 - flowing), rel=1e-9)
    mixed = flowing * (kept**steps - flowing**steps) / (kept - flowing)
    expected = 0.3 / (1 - flowing) * ((1 - kept**steps) / (1 - kept) - mixed)
    assert float(state.membrane) == pytest.approx(expected, rel=1e-9)


def test_one_spike_makes_the_difference_of_two_exponentials():
    pulse = constant(0.0, 12)
    pulse[0] = 1.0
    membranes = replay_membrane(Synaptic(tau=4.0, tau_synapse=2.0, threshold=9.0), pulse).flatten()
    expected = [(0.75**tick - 0.5**tick) / (0.75 - 0.5) for tick in range(1, 13)]
    torch.testing.assert_close(membranes, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_a_hand_table_of_a_synaptic_neuron_with_both_resets():
    # τ = τ_s = 2, θ = 1, current 0.5 thrice, then none
    # i          0.5   0.75    0.875      0.4375        0.21875
    # h (soft)   0.5   1*      0.875      0.875         0.65625
    # h (hard)   0.5   1*      0.875      0.875         0.65625       (1 − 1 = 0, whichever the reset)
    current = torch.tensor([0.5, 0.5, 0.5, 0.0, 0.0], dtype=torch.float64).reshape(5, 1, 1)
    for reset in (SoftReset(), HardReset()):
        spikes, state = Synaptic(2.0, 2.0, reset=reset).simulate(current)
        assert spikes.flatten().tolist() == [0, 1, 0, 0, 0]
        assert (float(state.membrane), float(state.current)) == (0.65625, 0.21875)
    # with 1.5 for the first: i 1.5, h 1.5* → 0.5 or 0; i 1.25, h 1.5* → 0.5 or h 1.25* → 0
    current[0] = 1.5
    soft, hard = (Synaptic(2.0, 2.0, reset=reset).simulate(current[:2]) for reset in (SoftReset(), HardReset()))
    assert soft[0].flatten().tolist() == hard[0].flatten().tolist() == [1, 1]
    assert (float(soft[1][0]), float(hard[1][0])) == (0.5, 0)


def test_a_synapse_without_memory_leaves_a_lif():
    current = drawn(15, 3, 4)
    spikes, state = Synaptic(tau=3.0, tau_synapse=1.0, threshold=0.7).simulate(current)
    plain, plain_state = LIF(tau=3.0, threshold=0.7).simulate(current)
    assert torch.equal(spikes, plain)
    torch.testing.assert_close(state[0], plain_state[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("reset", "mechanism"), [(SoftReset, "subtract"), (HardReset, "zero")])
@pytest.mark.parametrize(("tau", "tau_synapse"), [(2.0, 1.5), (5.0, 3.0), (1.0, 2.0)])
def test_a_synaptic_neuron_is_snntorchs_synaptic_without_reset_delay(tau, tau_synapse, reset, mechanism):
    """Small currents: theirs fires above the threshold only, and takes a spike back where a reset leaves it above."""
    current = drawn(30, 3, 6, scale=0.99 / tau_synapse, dtype=torch.float32)
    theirs = snntorch.Synaptic(
        alpha=1 - 1 / tau_synapse,
        beta=1 - 1 / tau,
        reset_mechanism=mechanism,
        reset_delay=False,
        spike_grad=snntorch.surrogate.atan(alpha=2.0),
    )
    ours = Synaptic(tau, tau_synapse, surrogate=ATan(2.0), reset=reset(detached=False))
    our_current, their_current = current.clone().requires_grad_(), current.clone().requires_grad_()
    spikes, state = ours.simulate(our_current)
    flowing, membrane, fired = torch.zeros(3, 6), torch.zeros(3, 6), []
    for tick in their_current:
        out, flowing, membrane = theirs(tick, flowing, membrane)
        assert (membrane <= 1).all(), "where the definitions match"
        fired.append(out)
    assert torch.equal(spikes, torch.stack(fired))
    assert spikes.sum() > 0 or tau == 1
    torch.testing.assert_close(state.membrane, membrane)
    torch.testing.assert_close(state.current, flowing)
    weights = torch.linspace(-1, 1, 30)[:, None, None]
    ((spikes * weights).sum() + state.membrane.sum()).backward()
    ((torch.stack(fired) * weights).sum() + membrane.sum()).backward()
    torch.testing.assert_close(our_current.grad, their_current.grad, rtol=1e-4, atol=1e-5)


# Recurrent


def test_a_hand_table_of_two_neurons_that_hear_each_other():
    # Neuron 1 is driven at tick 1 only and excites neuron 2 one tick later, which inhibits neuron 1 one tick later.
    layer = Recurrent(IF(1.0), features=2).double()
    with torch.no_grad():
        layer.synapse.weight.copy_(torch.tensor([[0.0, -0.5], [1.0, 0.0]]))
    current = torch.zeros(4, 1, 2, dtype=torch.float64)
    current[0, 0, 0] = 1.25
    spikes, state = layer.simulate(current)
    assert spikes[:, 0].tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert replay_membrane(layer, current)[:, 0].tolist() == [[0.25, 0], [0.25, 0], [-0.25, 0], [-0.25, 0]]
    assert state[-1].tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "inner", [LIF(3.0, 0.6), AdaptiveLIF(threshold=0.6), Synaptic(threshold=0.9), LeakyReadout(3.0)]
)
def test_with_silent_synapses_a_recurrent_layer_is_the_neuron_alone(inner):
    layer, current = Recurrent(inner, features=4).double(), drawn(10, 3, 4)
    torch.nn.init.zeros_(layer.synapse.weight)
    outputs, state = layer.simulate(current)
    alone, alone_state = inner.simulate(current)
    torch.testing.assert_close(outputs, alone, rtol=1e-13, atol=1e-15)
    assert outputs.abs().sum() > 0
    assert layer.is_spiking is inner.is_spiking
    for ours, theirs in zip(state, (*alone_state, alone[-1]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-15)


def test_a_recurrent_lif_is_a_plain_loop_in_value_and_in_both_gradients():
    layer, current = Recurrent(LIF(2.0, 0.6), features=5).double(), drawn(9, 3, 5)
    weight = layer.synapse.weight.detach().clone().requires_grad_()
    ours_in, theirs_in = current.clone().requires_grad_(), current.clone().requires_grad_()
    spikes, _ = layer.simulate(ours_in)
    fired, membrane, outputs = torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.float64), []
    for tick in theirs_in:
        charged = 0.5 * membrane + tick + fired @ weight.T
        fired = StraightThrough.apply(charged - 0.6)
        membrane = charged - 0.6 * fired.detach()
        outputs.append(fired)
    weights = drawn(9, 3, 5, seed=1) - 0.5
    assert torch.equal(spikes, torch.stack(outputs))
    (spikes * weights).sum().backward()
    (torch.stack(outputs) * weights).sum().backward()
    assert weight.grad.abs().sum() > 0
    torch.testing.assert_close(layer.synapse.weight.grad, weight.grad, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(ours_in.grad, theirs_in.grad, rtol=1e-11, atol=1e-13)


def test_a_recurrent_lif_is_snntorchs_rleaky_without_reset_delay():
    """Small drives, as for their Leaky; their recurrent bias is 0 here, ours has none."""
    torch.manual_seed(0)
    theirs = snntorch.RLeaky(
        beta=0.5, linear_features=6, reset_delay=False, spike_grad=snntorch.surrogate.sigmoid(slope=4)
    )
    ours = Recurrent(LIF(2.0, surrogate=Sigmoid(4.0), reset=SoftReset(detached=False)), features=6)
    with torch.no_grad():
        theirs.recurrent.bias.zero_()
        theirs.recurrent.weight.mul_(0.2)
        ours.synapse.weight.copy_(theirs.recurrent.weight)
    current = drawn(25, 3, 6, scale=0.9, dtype=torch.float32)
    fired, membrane, outputs = torch.zeros(3, 6), torch.zeros(3, 6), []
    for tick in current:
        fired, membrane = theirs(tick, fired, membrane)
        assert (membrane <= 1).all(), "where the definitions match"
        outputs.append(fired)
    spikes, state = ours.simulate(current)
    assert spikes.sum() > 10
    assert torch.equal(spikes, torch.stack(outputs))
    torch.testing.assert_close(state[0], membrane)
    (spikes * current).sum().backward()
    (torch.stack(outputs) * current).sum().backward()
    torch.testing.assert_close(ours.synapse.weight.grad, theirs.recurrent.weight.grad, rtol=1e-4, atol=1e-5)


def test_the_template_is_copied_and_sized_for_each_layer():
    template = Recurrent(ParametricLIF(per_neuron=True))
    model = spiking_mlp([6], 3, hidden=[8, 7], neuron=template, time_steps=4)
    first, second = model.network.neuron1, model.network.neuron2
    assert first.synapse.weight.shape == (8, 8)
    assert second.neuron.leak_logit.shape == (7,)
    assert template.synapse is None
    assert first.neuron is not template.neuron
    model(torch.rand(2, 6)).sum().backward()
    assert first.synapse.weight.grad is not None


# A user's own neuron


def user_lif(current, state):
    """The LIF in a user's words."""
    charged = 0.5 * state[0] + current
    spikes = spike(charged - 0.3, Sigmoid(4.0))
    return spikes, (charged - 0.3 * spikes.detach(),)


class Scored:
    """An objective and its batch in one: the sum of squared logits."""

    def __init__(self, inputs):
        self.inputs = inputs

    def prepare(self, forward, batch):
        return batch

    def loss(self, outputs, prepared):
        return outputs.square().sum()


def test_a_lif_of_a_users_own_is_the_built_in_one_in_a_model_under_bptt():
    outputs, gradients = [], []
    for neuron in (StepNeuron(user_lif), LIF(tau=2.0, threshold=0.3)):
        torch.manual_seed(0)
        model = spiking_mlp([6], 3, hidden=[12, 10], neuron=neuron, time_steps=5).double()
        BPTT().check(model)
        batch = Scored(drawn(4, 6))
        (update,) = BPTT().updates(model, batch, batch, lambda logits, seen: None)
        outputs.append(update.outputs)
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*outputs, rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.abs().sum() > 0
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


def test_a_users_neuron_works_in_both_traversals_and_under_a_probe():
    torch.manual_seed(0)
    network = SpikingSequential(
        fc=Linear(6, 8), cells=StepNeuron(resonator, num_variables=2), head=Linear(8, 3)
    ).double()
    inputs = drawn(7, 4, 6)
    with record(network, membranes=True) as probe:
        outputs, state = network.simulate(inputs)
    held, ticked, membranes = None, [], []
    for tick in inputs:
        output, held = network.step(tick, held)
        ticked.append(output)
        membranes.append(held[1][0])
    torch.testing.assert_close(outputs, torch.stack(ticked), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(probe.membranes["cells"], torch.stack(membranes), rtol=1e-12, atol=1e-14)
    assert probe.spikes["cells"].sum() > 0
    assert len(state[1]) == len(held[1]) == 2


def test_a_users_readout_need_not_spike():
    leaky = StepNeuron(lambda current, state: (0.5 * state[0] + current, (0.5 * state[0] + current,)), is_spiking=False)
    current = drawn(6, 2, 3)
    torch.testing.assert_close(leaky.simulate(current)[0], LeakyReadout(2.0).simulate(current)[0])
    assert not leaky.is_spiking


def test_a_static_input_reaches_a_users_neuron_every_tick():
    value = drawn(3, 4)
    assert torch.equal(
        StepNeuron(user_lif).simulate(Static(value, 6))[0], StepNeuron(user_lif).simulate(value.repeat(6, 1, 1))[0]
    )


# Mistakes


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("neuron", [ParametricLIF, AdaptiveLIF, Synaptic, DSRLIF, DSRIF])
def test_a_threshold_that_is_not_above_zero_is_refused(neuron, bad):
    with pytest.raises(ValueError, match=rf"threshold must be above 0.*got {bad}"):
        neuron(threshold=bad)


@pytest.mark.parametrize("bad", [0.99, 0.0, -2.0, math.nan])
@pytest.mark.parametrize(
    ("neuron", "name"),
    [(AdaptiveLIF, "tau"), (AdaptiveLIF, "tau_adaptation"), (Synaptic, "tau"), (Synaptic, "tau_synapse")],
)
def test_a_time_constant_below_one_tick_is_refused_by_name(neuron, name, bad):
    with pytest.raises(ValueError, match=rf"^{name}, a time constant.* at least 1, got {bad}"):
        neuron(**{name: bad})


@pytest.mark.parametrize("bad", [1.0, 0.5, -1.0, math.nan])
def test_a_learned_time_constant_starts_above_one_tick(bad):
    with pytest.raises(ValueError, match=f"tau.*must be above 1, got {bad}"):
        ParametricLIF(tau=bad)


@pytest.mark.parametrize("bad", [-0.1, math.nan])
def test_a_negative_strength_is_refused(bad):
    with pytest.raises(ValueError, match=f"strength must be at least 0, got {bad}"):
        AdaptiveLIF(strength=bad)


@pytest.mark.parametrize("parts", [{"firing_share": 0.0}, {"firing_share": 1.1}, {"smallest_threshold": 0.0}])
def test_a_dsr_constant_outside_its_range_is_refused(parts):
    for neuron in (DSRLIF, DSRIF):
        with pytest.raises(ValueError, match=r"must be (in \(0, 1\]|above 0)"):
            neuron(**parts)
    with pytest.raises(ValueError, match=r"tau and tick must be above 0, got 0\.0 and 0\.05"):
        DSRLIF(tau=0.0)
    with pytest.raises(ValueError, match=r"tau and tick must be above 0, got 1\.0 and -1"):
        DSRLIF(tick=-1)


def test_a_per_neuron_template_without_its_shape_is_refused_by_the_layers_name():
    network = SpikingSequential(fc=Linear(3, 4), cells=ParametricLIF(per_neuron=True))
    for run in (lambda: network(torch.rand(5, 2, 3)), lambda: network.step(torch.rand(2, 3))):
        with pytest.raises(ValueError, match=r"Layer 'cells': A per-neuron ParametricLIF.*for_layer\(\(features,\)\)"):
            run()


def test_a_recurrent_template_without_its_width_is_refused_by_the_layers_name():
    network = SpikingSequential(fc=Linear(3, 4), cells=Recurrent(LIF()))
    for run in (lambda: network(torch.rand(5, 2, 3)), lambda: network.step(torch.rand(2, 3))):
        with pytest.raises(ValueError, match=r"Layer 'cells': A Recurrent template needs its width: give features="):
            run()
    with pytest.raises(ValueError, match="features must be at least 1, got 0"):
        Recurrent(LIF(), features=0)


def test_recurrent_neurons_in_a_convolutional_layer_are_refused_when_the_model_is_built():
    with pytest.raises(ValueError, match=r"Recurrent neurons need a flat layer.*\(4, 8, 8\); flatten before them"):
        cnn((1, 8, 8), 3, channels=(4,), neuron=Recurrent(LIF()))


@pytest.mark.parametrize("shape", [(5, 2, 3, 4, 4), (5, 2, 3)], ids=["image", "another width"])
def test_recurrent_neurons_that_meet_another_layer_than_theirs_are_refused(shape):
    """A linear map would run along an image's last axis without a word."""
    network = SpikingSequential(cells=Recurrent(LIF(), features=4))
    for run in (lambda: network(torch.rand(shape)), lambda: network.step(torch.rand(shape[1:]))):
        with pytest.raises(ValueError, match=r"Layer 'cells': .*\[B, 4\].*got \[2, 3"):
            run()


def test_a_state_of_an_image_is_refused_by_a_parametric_neuron_of_another_width():
    network = SpikingSequential(cells=ParametricLIF(per_neuron=True).for_layer((4,)))
    _, state = network.simulate(torch.rand(5, 2, 4))
    with pytest.raises(ValueError, match=r"Layer 'cells': ParametricLIF: the state is \[2, 4\].*\[3, 4\]"):
        network.simulate(torch.rand(5, 3, 4), state)


@pytest.mark.parametrize("given", [0, 1, 3])
def test_a_step_that_loses_or_makes_state_variables_is_refused_by_the_layers_name(given):
    network = SpikingSequential(cells=StepNeuron(lambda current, state: (current, (current,) * given), num_variables=2))
    with pytest.raises(ValueError, match=rf"Layer 'cells': .*give back 2 state variables, it gave {given}"):
        network(torch.rand(5, 2, 3))


def test_a_neuron_without_state_is_refused():
    with pytest.raises(ValueError, match="num_variables must be at least 1, got 0"):
        StepNeuron(user_lif, num_variables=0)


@pytest.mark.parametrize(
    ("neuron", "parts"),
    [
        (ParametricLIF(), 1),
        (AdaptiveLIF(), 2),
        (Synaptic(), 2),
        (Recurrent(LIF(), 2), 2),
        (Recurrent(AdaptiveLIF(), 2), 3),
        (StepNeuron(resonator, 2), 2),
        (DSRLIF(), 1),
    ],
)
def test_a_state_with_too_many_or_too_few_parts_is_refused_by_name(neuron, parts):
    zeros = torch.zeros(3, 2)
    neuron.simulate(torch.zeros(2, 3, 2), (zeros,) * parts)
    for wrong in (parts - 1, parts + 1):
        with pytest.raises(ValueError, match=rf"{type(neuron).__name__}: a state has {parts} parts, got {wrong}"):
            neuron.simulate(torch.zeros(2, 3, 2), (zeros,) * wrong)
