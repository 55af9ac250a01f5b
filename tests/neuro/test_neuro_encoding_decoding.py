"""Encoders and decoders: from pixels to spikes and from activity to logits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro import ConstantCurrent, LastTick, MaxOverTime, MeanOverTime, Poisson, Static
from neuro.models import Normalise
from neuro.types import first_tick, num_time_steps, unroll


def test_a_constant_current_is_the_input_itself_held_once():
    image = torch.rand(3, 4)
    encoded = ConstantCurrent()(image, 7)
    assert isinstance(encoded, Static)
    assert encoded.value is image
    assert encoded.time_steps == 7


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("probability", [0.02, 0.3, 0.5, 0.97])
def test_poisson_rates_are_the_inputs_within_five_binomial_deviations(probability, seed):
    ticks, batch, width = 200, 20, 20
    spikes = Poisson(seed)(torch.full((batch, width), probability), ticks)
    draws = ticks * batch * width
    assert abs(float(spikes.mean()) - probability) < 5 * math.sqrt(probability * (1 - probability) / draws)
    per_neuron = spikes.mean(0)
    expected_spread = math.sqrt(probability * (1 - probability) / ticks)
    assert float(per_neuron.std()) == pytest.approx(expected_spread, rel=0.25)


def test_poisson_ticks_are_independent():
    spikes = Poisson(0)(torch.full((50, 50), 0.4), 21)
    now, later = spikes[:-1] - 0.4, spikes[1:] - 0.4
    correlation = float((now * later).mean()) / 0.24
    assert abs(correlation) < 5 / math.sqrt(now.numel())


def test_poisson_spikes_are_zeros_and_ones_and_the_extremes_are_certain():
    spikes = Poisson(0)(torch.tensor([[-0.5, 0.0, 0.5, 1.0, 3.0]]), 300)
    assert spikes.shape == (300, 1, 5)
    assert set(spikes.unique().tolist()) == {0.0, 1.0}
    assert spikes[:, 0, :2].sum() == 0
    assert spikes[:, 0, 3:].min() == 1
    assert spikes.dtype == torch.float32


def test_poisson_is_reproducible_from_its_seed_and_by_reseed():
    image = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    encoder = Poisson(7)
    first, second = encoder(image, 10), encoder(image, 10)
    assert not torch.equal(first, second)
    assert torch.equal(Poisson(7)(image, 10), first)
    encoder.reseed(7)
    assert torch.equal(encoder(image, 10), first)
    encoder.reseed(8)
    assert not torch.equal(encoder(image, 10), first)


def test_poisson_leaves_the_global_stream_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    Poisson(3)(torch.rand(2, 2, generator=torch.Generator().manual_seed(1)), 5)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_poisson_draws_where_its_input_lives(device):
    encoder, image = Poisson(5), torch.full((3, 4), 0.5, device=device)
    first, second = encoder(image, 6), encoder(image, 6)
    assert first.device.type == device.type
    assert not torch.equal(first, second)
    encoder.reseed(5)
    assert torch.equal(encoder(image, 6), first)


@given(steps=st.integers(1, 6), seed=st.integers(0, 1000))
def test_decoders_are_the_mean_the_last_and_the_largest(steps, seed):
    outputs = torch.randn(steps, 3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    torch.testing.assert_close(MeanOverTime()(outputs), sum(outputs.unbind(0)) / steps)
    assert torch.equal(LastTick()(outputs), outputs[steps - 1])
    rows = outputs.tolist()
    largest = [[max(rows[t][b][c] for t in range(steps)) for c in range(4)] for b in range(3)]
    assert MaxOverTime()(outputs).tolist() == largest


def test_normalise_shifts_and_scales_and_refuses_a_flat_scale():
    assert Normalise(0.5, 0.25)(torch.tensor([0.0, 0.5, 1.0])).tolist() == [-2, 0, 2]
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="std must be above 0"):
            Normalise(0.0, bad)


def test_static_and_unrolled_activity_have_the_same_reading():
    value = torch.rand(2, 3)
    static, moving = Static(value, 4), value.repeat(4, 1, 1)
    assert torch.equal(unroll(static), moving)
    assert unroll(static).data_ptr() == value.data_ptr()
    assert torch.equal(first_tick(static), first_tick(moving))
    assert num_time_steps(static) == num_time_steps(moving) == 4
