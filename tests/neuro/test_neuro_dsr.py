"""Invariant 18: DSR's neurons forward and backward against the clipped rate map that they stand for."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro import DSRIF, DSRLIF, Static
from neuro.decoding import WeightedRate, weighted_rate
from neuro.learning import DSR
from neuro.models import spiking_mlp


def drawn(*shape, seed=0, low=-1.0, high=4.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low


def slow_rate(activity, tau):
    """Σ w_t x_t / Σ w_t with w_t = exp(−(T − t)/τ), t = 1 … T, τ in ticks, by a loop."""
    weights = [math.exp(-(len(activity) - tick) / tau) for tick in range(1, len(activity) + 1)]
    return sum(weight * tick for weight, tick in zip(weights, activity, strict=True)) / sum(weights)


def rate_of(neuron, activity):
    return (
        slow_rate(activity, neuron.tau / neuron.tick_duration)
        if isinstance(neuron, DSRLIF)
        else sum(activity) / len(activity)
    )


def ideal(neuron, rate):
    """clip(u/τ, 0, V/Δt), or clip(u, 0, V)."""
    threshold = float(neuron.threshold.detach())
    if isinstance(neuron, DSRLIF):
        return (rate / neuron.tau).clamp(0, threshold / neuron.tick_duration)
    return rate.clamp(0, threshold)


def ceiling_of(neuron):
    """The input rate at which the map saturates."""
    threshold = float(neuron.threshold.detach())
    return neuron.tau * threshold / neuron.tick_duration if isinstance(neuron, DSRLIF) else threshold


def driven(neuron, steps, seed=0):
    """Currents [T, 4, 6] that move, with means from below 0 to beyond the ceiling."""
    ceiling = ceiling_of(neuron)
    centres = drawn(4, 6, seed=seed + 100, low=-0.5 * ceiling, high=1.6 * ceiling)
    return centres + drawn(steps, 4, 6, seed=seed, low=-1.0, high=1.0)


NEURONS = [
    pytest.param(lambda: DSRLIF().double(), id="lif"),
    pytest.param(
        lambda: DSRLIF(tau=0.7, tick=0.1, threshold=0.25, firing_share=0.5).double(), id="lif, other constants"
    ),
    pytest.param(lambda: DSRIF(threshold=2.0).double(), id="if"),
]


# The constants of the released experiments


def test_the_default_leaky_neuron_has_the_papers_constants():
    neuron = DSRLIF()
    still = torch.zeros(1, 1)
    kept = math.exp(-0.05)
    assert kept == pytest.approx(0.951, abs=5e-4)
    # the membrane keeps β a tick, and takes (1 − β) of the current
    _, state = neuron.step(still, (torch.full((1, 1), 0.05),))
    assert float(state[0]) == pytest.approx(0.05 * kept, rel=1e-6)
    _, state = neuron.step(torch.ones(1, 1), (still,))
    assert float(state[0]) == pytest.approx(1 - kept, rel=1e-5)
    # it fires at 0.3 · 0.3 = 0.09, loses 0.3 and sends 0.3 / 0.05 = 6
    below, above = 0.0899 / (1 - kept), 0.0901 / (1 - kept)
    silent, _ = neuron.step(torch.full((1, 1), below), (still,))
    fired, state = neuron.step(torch.full((1, 1), above), (still,))
    assert float(silent) == 0
    assert float(fired) == pytest.approx(6.0, rel=1e-6)
    assert float(state[0]) == pytest.approx(0.0901 - 0.3, rel=1e-4)


def test_the_default_neuron_without_leak_has_the_papers_constants():
    neuron, still = DSRIF(), torch.zeros(1, 1)
    assert float(neuron.step(torch.full((1, 1), 2.99), (still,))[0]) == 0
    fired, state = neuron.step(torch.full((1, 1), 3.0), (still,))
    assert float(fired) == 6.0
    assert float(state[0]) == -3.0


@given(steps=st.integers(1, 30), tau=st.floats(0.5, 50), seed=st.integers(0, 1000))
def test_the_weighted_rate_is_its_slow_sum_and_keeps_constants(steps, tau, seed):
    activity = drawn(steps, 2, 3, seed=seed)
    torch.testing.assert_close(weighted_rate(activity, tau), slow_rate(activity, tau), rtol=1e-11, atol=1e-12)
    steady = torch.full((steps, 1), 0.7, dtype=torch.float64)
    torch.testing.assert_close(weighted_rate(steady, tau), steady[0], rtol=1e-12, atol=0)
    assert torch.equal(WeightedRate(tau)(activity), weighted_rate(activity, tau))


# Forward: spike trains tend to the map


@pytest.mark.parametrize("make", NEURONS)
@given(seed=st.integers(0, 1000), steps=st.integers(1, 40))
def test_the_rate_that_comes_out_differs_from_the_linear_map_by_the_membrane_left_over(make, seed, steps):
    """Summing the dynamics: what came in, less the membrane that is left, has been sent. Exact for any input."""
    neuron, current = make(), drawn(steps, 2, 3, seed=seed)
    outputs, (membrane,) = neuron.simulate(current)
    if isinstance(neuron, DSRLIF):
        ticks = neuron.tau / neuron.tick_duration
        taken = 1 - math.exp(-1 / ticks)
        total = sum(math.exp(-age / ticks) for age in range(steps)) * neuron.tick_duration
        expected = taken / neuron.tick_duration * rate_of(neuron, current) - membrane / total
    else:
        expected = rate_of(neuron, current) - membrane / steps
    torch.testing.assert_close(rate_of(neuron, outputs), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["lif", "if"])
def test_with_more_ticks_the_rate_tends_to_the_clipped_map_as_one_over_their_number(kind):
    """A leaky neuron's ticks fill the same time and send the same amplitude; one without leak just has more ticks."""
    inputs = torch.linspace(-1, 8, 37, dtype=torch.float64)[None]
    worst = {}
    for steps in (20, 80, 320, 1280):
        neuron = DSRLIF(tick=1 / steps, threshold=6 / steps) if kind == "lif" else DSRIF(threshold=6.0)
        neuron = neuron.double()
        outputs, _ = neuron.simulate(Static(inputs, steps))
        worst[steps] = float((rate_of(neuron, outputs.detach()) - ideal(neuron, inputs)).abs().max())
    assert worst[20] > 0.1, "the bound is not met by chance"
    bound = worst[20] * 20 * 1.5
    assert all(error * steps <= bound for steps, error in worst.items()), worst
    assert worst[1280] < 0.02


def test_at_a_fixed_tick_more_time_does_not_help_a_leaky_neuron():
    """The negative control: it reads its last τ/Δt ticks only."""
    inputs = torch.linspace(0.1, 5.9, 30, dtype=torch.float64)[None]
    neuron = DSRLIF().double()
    trains = [neuron.simulate(Static(inputs, steps))[0].detach() for steps in (100, 1600)]
    errors = [float((rate_of(neuron, train) - inputs).abs().max()) for train in trains]
    assert errors[1] > 0.8 * errors[0] > 0.05


# Backward: the gradient of the map


@pytest.mark.parametrize("make", NEURONS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_neurons_backward_is_the_finite_difference_of_the_clipped_map(make, seed):
    """Each neuron's sum over the ticks is the slope of c · map(r(I)) in a constant added to its current."""
    neuron = make()
    current = driven(neuron, 20, seed).requires_grad_()
    weights = drawn(4, 6, seed=seed + 10)
    outputs, _ = neuron.simulate(current)
    (outputs.mean(0) * weights).sum().backward()  # every tick sends back its share, as the layers above do
    rate = rate_of(neuron, current.detach())
    step = 1e-6
    difference = weights * (ideal(neuron, rate + step) - ideal(neuron, rate - step)) / (2 * step)
    assert (rate < 0).any()
    assert (rate > ceiling_of(neuron)).any()
    assert (difference != 0).any()
    torch.testing.assert_close(current.grad.sum(0), difference, rtol=0, atol=1e-4)


@pytest.mark.parametrize("make", NEURONS)
def test_every_tick_gets_the_same_gradient_of_the_formula_whatever_comes_from_above(make):
    """∂L/∂I_t = (1/T) · T r(∂L/∂o) · slope · inside, not only for an even gradient from above."""
    neuron, above = make(), drawn(15, 4, 6, seed=1)
    current = driven(neuron, 15).requires_grad_()
    outputs, _ = neuron.simulate(current)
    (outputs * above).sum().backward()
    rate, gathered = rate_of(neuron, current.detach()), rate_of(neuron, above)
    slope = 1 / neuron.tau if isinstance(neuron, DSRLIF) else 1.0
    expected = torch.where((rate > 0) & (rate < ceiling_of(neuron)), gathered * slope, torch.zeros_like(gathered))
    assert torch.equal(current.grad, current.grad[:1].expand_as(current.grad))
    torch.testing.assert_close(current.grad[0], expected, rtol=1e-12, atol=1e-14)
    assert 0 < int((expected != 0).sum()) < expected.numel()


def test_at_the_ends_of_its_range_a_leaky_neuron_has_no_slope_and_one_without_leak_has():
    leaky, plain = DSRLIF(tau=1.0, tick=0.25, threshold=0.5).double(), DSRIF(threshold=2.0).double()
    for neuron, slopes in ((leaky, [0, 0.25, 0]), (plain, [0.25, 0.25, 0.25])):
        current = torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.float64).repeat(4, 1, 1).requires_grad_()
        neuron.simulate(current)[0].mean(0).sum().backward()
        assert current.grad[0].flatten().tolist() == pytest.approx(slopes)


@pytest.mark.parametrize("make", NEURONS)
def test_a_static_input_is_the_unrolled_one_in_value_and_in_every_gradient(make):
    values, weights, found = drawn(3, 4, high=8.0), drawn(9, 3, 4, seed=1), []
    for static in (True, False):
        neuron, value = make(), values.clone().requires_grad_()
        outputs, state = neuron.simulate(Static(value, 9) if static else value.repeat(9, 1, 1))
        (outputs * weights).sum().backward()
        found.append((outputs.detach(), state[0], value.grad, neuron.threshold.grad))
    assert found[0][2].abs().sum() > 0
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


# The threshold


@pytest.mark.parametrize("make", NEURONS)
def test_the_thresholds_gradient_is_gathered_above_the_ceiling(make):
    """Δt Σ G 1[u > τV/Δt] for a leaky neuron (the released code's scale), Σ G 1[u > V] for one without leak."""
    neuron, above = make(), drawn(15, 4, 6, seed=1)
    current = driven(neuron, 15)
    (neuron.simulate(current)[0] * above).sum().backward()
    rate, gathered = rate_of(neuron, current), 15 * rate_of(neuron, above)
    saturated = rate > ceiling_of(neuron)
    scale = neuron.tick_duration if isinstance(neuron, DSRLIF) else 1.0
    assert 0 < int(saturated.sum()) < saturated.numel()
    assert float(neuron.threshold.grad) == pytest.approx(scale * float(gathered[saturated].sum()), rel=1e-10)


@pytest.mark.parametrize(("make", "scale"), [(NEURONS[0].values[0], 0.05**2), (NEURONS[2].values[0], 1.0)])
def test_that_is_the_documented_multiple_of_the_maps_true_slope_in_the_threshold(make, scale):
    neuron, weights = make(), drawn(4, 6, seed=1)
    current = driven(neuron, 20)
    (neuron.simulate(current)[0].mean(0) * weights).sum().backward()

    def mapped(shift):
        moved = make()
        with torch.no_grad():
            moved.threshold += shift
        return float((ideal(moved, rate_of(moved, current)) * weights).sum())

    slope = (mapped(1e-6) - mapped(-1e-6)) / 2e-6
    assert abs(slope) > 0.1
    assert float(neuron.threshold.grad) == pytest.approx(scale * slope, rel=1e-6)


@pytest.mark.parametrize("neuron", [DSRLIF(smallest_threshold=0.02), DSRIF(smallest_threshold=0.02)])
def test_a_threshold_that_a_step_took_below_its_bound_is_put_back_and_can_rise_again(neuron):
    amplitude = 0.02 / 0.05 if isinstance(neuron, DSRLIF) else 0.02
    with torch.no_grad():
        neuron.threshold.fill_(-3.0)
    outputs, _ = neuron.simulate(torch.full((10, 1, 1), 5.0))
    assert outputs.unique().tolist() == [pytest.approx(amplitude, rel=1e-6)]
    assert float(neuron.threshold.detach()) == pytest.approx(0.02, rel=1e-6)
    outputs.sum().neg().backward()
    assert float(neuron.threshold.grad) < 0, "more output would be had with a higher threshold"
    torch.optim.SGD([neuron.threshold], lr=0.01).step()
    assert float(neuron.threshold.detach()) > 0.02


@pytest.mark.parametrize("neuron", [DSRLIF(), DSRIF()])
def test_a_threshold_above_its_bound_is_left_alone(neuron):
    before = neuron.threshold.detach().clone()
    neuron.simulate(torch.rand(5, 2, 3))
    neuron.step(torch.rand(2, 3), neuron.initial_state(torch.rand(2, 3)))
    assert torch.equal(neuron.threshold, before)
    assert list(neuron.state_dict()) == ["threshold"]


# A network of them


def test_a_weights_gradient_is_the_error_through_the_maps_and_the_mean_spikes():
    """One hidden layer, the chain rule by hand: the logits' error goes back through their rate and the clipped map."""
    torch.manual_seed(0)
    steps, ticks = 12, 20.0
    model = spiking_mlp(
        (6,), 3, hidden=(9,), neuron=DSRLIF(threshold=0.02), time_steps=steps, decoder=WeightedRate(ticks)
    ).double()
    inputs, upstream = drawn(5, 6, low=0.0, high=1.0), drawn(5, 3, seed=1)
    DSR().check(model)
    (model(inputs) * upstream).sum().backward()
    first, head = model.network.fc1.weight, model.network.head.weight
    drive = inputs @ first.detach().T
    with torch.no_grad():
        spikes, _ = model.network.neuron1.simulate(Static(drive, steps))
    torch.testing.assert_close(head.grad, upstream.T @ slow_rate(spikes, ticks), rtol=1e-10, atol=1e-13)
    weights = torch.tensor([math.exp(-age / ticks) for age in range(steps - 1, -1, -1)], dtype=torch.float64)
    reading = steps * float(weights.square().sum() / weights.sum().square())  # T r of the readout's own weights
    inside = (drive > 0) & (drive < 0.02 / 0.05)
    error = (upstream @ head.detach()) * reading * inside
    assert inside.any()
    assert not inside.all()
    torch.testing.assert_close(first.grad, error.T @ inputs, rtol=1e-10, atol=1e-13)
