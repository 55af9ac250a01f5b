"""Neurons: the inherited contract, closed forms by hand, and parity with snnTorch where the definitions match."""

import math

import pytest
import snntorch
import snntorch.surrogate
import torch
from contracts.neuron import NeuronContract
from hypothesis import given
from hypothesis import strategies as st

from neuro import IF, LIF, ATan, FastSigmoid, HardReset, LeakyReadout, Neuron, Sigmoid, SoftReset, Static


class TestLIF(NeuronContract):
    def make(self):
        return LIF(tau=2.0, threshold=0.8)


class TestLIFWithHardReset(NeuronContract):
    def make(self):
        return LIF(tau=3.0, threshold=0.9, surrogate=ATan(), reset=HardReset(detached=False))


class TestIF(NeuronContract):
    def make(self):
        return IF(threshold=1.2, reset=SoftReset(detached=False))


class TestLeakyReadout(NeuronContract):
    def make(self):
        return LeakyReadout(tau=3.0)


class TwoCompartments(Neuron):
    """A user's neuron that has only a step: a dendrite that feeds a soma."""

    def initial_state(self, current):
        return (torch.zeros_like(current), torch.zeros_like(current))

    def step(self, current, state):
        dendrite = 0.5 * state[0] + current
        soma = 0.75 * state[1] + 0.5 * dendrite
        smooth = Sigmoid().primitive(soma - 1)
        fired = (soma >= 1).to(soma.dtype) + (smooth - smooth.detach())
        return fired, (dendrite, soma - fired.detach())

    def extra_repr(self):
        return "tau=fixed"


class TestUserDefinedNeuron(NeuronContract):
    def make(self):
        return TwoCompartments()


@given(sixty_fourths=st.integers(-64, 192), steps=st.integers(1, 50))
def test_the_rate_of_an_integrate_and_fire_neuron_is_its_clipped_input(sixty_fourths, steps):
    """Soft reset keeps v_T = T I − θ N, so N = floor(T I / θ), at most one a tick. 64ths are exact in binary."""
    current = sixty_fourths / 64
    spikes, _ = IF(threshold=1.0).simulate(torch.full((steps, 1, 1), current, dtype=torch.float64))
    expected = min(steps, max(0, math.floor(steps * current)))
    assert int(spikes.sum()) == expected
    assert abs(float(spikes.mean()) - min(1.0, max(0.0, current))) <= 1 / steps


@given(tau=st.floats(1, 20), share=st.floats(0.05, 0.95), steps=st.integers(1, 40))
def test_the_membrane_below_threshold_is_its_geometric_sum(tau, share, steps):
    current = share / tau  # the limit I τ stays below θ = 1
    spikes, state = LIF(tau).simulate(torch.full((steps, 1, 1), current, dtype=torch.float64))
    assert spikes.sum() == 0
    expected = current * tau * (1 - (1 - 1 / tau) ** steps)
    assert float(state[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("current", [0.11, 0.13, 0.2, 0.35, 0.6, 1.5])
def test_with_a_hard_reset_the_interval_between_spikes_is_the_closed_form(current):
    tau = 10.0
    interval = max(1, math.ceil(math.log(1 - 1 / (current * tau)) / math.log(1 - 1 / tau)))
    spikes, _ = LIF(tau, reset=HardReset()).simulate(torch.full((100, 1, 1), current, dtype=torch.float64))
    times = (spikes.flatten().nonzero().flatten() + 1).tolist()
    assert times == list(range(interval, 101, interval))


def test_a_hand_table_of_a_leaky_neuron_with_both_resets():
    current = torch.tensor([0.75, 0.75, 0.0, 1.5, 0.0], dtype=torch.float64).reshape(5, 1, 1)
    # h = v/2 + I:    soft  0.75, 1.125*, 0.0625, 1.53125*, 0.265625       hard  0.75, 1.125*, 0, 1.5*, 0
    soft, soft_state = LIF(2.0).simulate(current)
    hard, hard_state = LIF(2.0, reset=HardReset()).simulate(current)
    assert soft.flatten().tolist() == hard.flatten().tolist() == [0, 1, 0, 1, 0]
    assert float(soft_state[0]) == 0.265625
    assert float(hard_state[0]) == 0


def test_a_time_constant_of_one_forgets_everything():
    current = torch.tensor([0.9, 0.9, 1.0, 0.9], dtype=torch.float64).reshape(4, 1, 1)
    spikes, _ = LIF(tau=1.0).simulate(current)
    assert spikes.flatten().tolist() == [0, 0, 1, 0]


def test_the_readout_is_a_leaky_sum_of_its_inputs():
    current = torch.randn(12, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    membranes, _ = LeakyReadout(tau=4.0).simulate(current)
    for last in range(12):
        weights = 0.75 ** torch.arange(last, -1, -1, dtype=torch.float64)
        torch.testing.assert_close(membranes[last], torch.einsum("t,tbn->bn", weights, current[: last + 1]))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_threshold_that_is_not_above_zero_is_refused(bad):
    for neuron in (LIF, IF):
        with pytest.raises(ValueError, match=rf"threshold must be above 0.*got {bad}"):
            neuron(threshold=bad)


@pytest.mark.parametrize("bad", [0.99, 0.0, -3.0, math.nan])
def test_a_time_constant_below_one_tick_is_refused(bad):
    for neuron in (LIF, LeakyReadout):
        with pytest.raises(ValueError, match=rf"tau.*must be at least 1, got {bad}"):
            neuron(tau=bad)


def test_a_state_with_too_many_or_too_few_parts_is_refused_by_name():
    for neuron in (LIF(), LeakyReadout()):
        for state in ((), (torch.zeros(3, 2), torch.zeros(3, 2))):
            with pytest.raises(ValueError, match=type(neuron).__name__):
                neuron.simulate(torch.zeros(2, 3, 2), state)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ATan(2.0), snntorch.surrogate.atan(alpha=2.0)),
        (Sigmoid(4.0), snntorch.surrogate.sigmoid(slope=4)),
        (FastSigmoid(25.0), snntorch.surrogate.fast_sigmoid(slope=25)),
    ],
    ids=["atan", "sigmoid", "fast_sigmoid"],
)
@pytest.mark.parametrize("tau", [1.0, 2.0, 10.0])
@pytest.mark.parametrize(("reset", "mechanism"), [(SoftReset, "subtract"), (HardReset, "zero")])
def test_a_leaky_neuron_is_snntorchs_leaky_without_reset_delay(reset, mechanism, tau, ours, theirs):
    """Theirs fires above the threshold only and takes a spike back where a reset leaves the membrane above it; currents
    below θ never leave it there, and random ones never sit on it. Their reset is not detached."""
    drawn = torch.rand(25, 3, 6, generator=torch.Generator().manual_seed(0)) * 0.99
    leaky = snntorch.Leaky(beta=1 - 1 / tau, reset_mechanism=mechanism, reset_delay=False, spike_grad=theirs)
    our_current, their_current = drawn.clone().requires_grad_(), drawn.clone().requires_grad_()
    spikes, state = LIF(tau, surrogate=ours, reset=reset(detached=False)).simulate(our_current)
    membrane, fired = torch.zeros(3, 6), []
    for tick in their_current:
        out, membrane = leaky(tick, membrane)
        fired.append(out)
    assert torch.equal(spikes, torch.stack(fired))
    assert spikes.sum() > 0 or tau == 1.0
    torch.testing.assert_close(state[0], membrane)
    weights = torch.linspace(-1, 1, 25)[:, None, None]
    ((spikes * weights).sum() + state[0].sum()).backward()
    ((torch.stack(fired) * weights).sum() + membrane.sum()).backward()
    torch.testing.assert_close(our_current.grad, their_current.grad, rtol=1e-4, atol=1e-5)


def test_at_equality_we_fire_and_snntorch_does_not():
    leaky = snntorch.Leaky(beta=0.5, reset_delay=False)
    assert leaky(torch.ones(1, 1), torch.zeros(1, 1))[0] == 0
    assert LIF(2.0).simulate(torch.ones(1, 1, 1))[0] == 1


def test_a_static_input_of_one_tick_is_a_step():
    neuron, value = LIF(2.0), torch.tensor([[0.5, 1.5]])
    assert torch.equal(neuron.simulate(Static(value, 1))[0][0], neuron.step(value, neuron.initial_state(value))[0])
