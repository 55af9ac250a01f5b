"""The threat model, its norms, and random numbers that belong to samples."""

import math

import pytest
import torch
from contracts.attack import generator
from hypothesis import given
from hypothesis import strategies as st

from continual.robustness import L2, LInfinity, SampleStreams, ThreatModel, l2, linf
from continual.robustness.threat import threat_named

CPU = torch.device("cpu")
DTYPES = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64])
THREATS = st.builds(
    ThreatModel,
    st.sampled_from([LInfinity(), L2()]),
    st.sampled_from([0.0, 1e-4, 8 / 255, 0.5, 3.0]),
    st.sampled_from([0.0, -1.0]),
    st.sampled_from([1.0, 2.5]),
)


@given(THREATS, DTYPES, st.integers(0, 2**31))
def test_what_is_projected_is_allowed_and_projecting_again_changes_nothing(threat, dtype, seed):
    own = generator(seed)
    origin = (
        (threat.lower + threat.width * torch.rand(5, 3, 4, generator=own)).to(dtype).clamp(threat.lower, threat.upper)
    )
    images = (origin + 2 * torch.randn(5, 3, 4, generator=own).to(dtype)).to(dtype)
    projected = threat.project(images, origin)
    assert bool(threat.allows(projected, origin).all())
    threat.require(projected, origin, "nobody")
    again = threat.project(projected, origin)
    torch.testing.assert_close(again, projected, rtol=1e-6, atol=4 * torch.finfo(dtype).eps)
    if threat.epsilon == 0:
        assert torch.equal(projected, origin)


@given(THREATS, st.integers(0, 2**31))
def test_starts_lie_inside_and_fill_the_ball(threat, seed):
    origin = torch.full((400, 3), (threat.lower + threat.upper) / 2, dtype=torch.float64)
    small = threat.with_epsilon(0.2)
    starts = small.start(origin, SampleStreams.drawn(generator(seed), 400, CPU), 0)
    assert bool(small.allows(starts, origin).all())
    share = small.length(starts, origin) / 0.2
    assert float(share.max()) > 0.97
    assert abs(float((share**3).mean()) - 0.5) < 0.1  # the share's cube is uniform in three dimensions
    assert float((starts - origin).mean().abs()) < 0.03


@given(st.sampled_from([LInfinity(), L2()]), st.integers(0, 2**31), st.floats(-30, 30))
def test_the_steepest_step_has_length_one_and_gains_the_dual_length(norm, seed, magnitude):
    gradient = torch.randn(6, 3, 2, generator=generator(seed), dtype=torch.float64) * 10**magnitude
    gradient[0] = 0
    step = norm.steepest(gradient)
    torch.testing.assert_close(norm.length(step)[1:], torch.ones(5, dtype=torch.float64))
    assert float(step[0].abs().max()) == 0
    gained = (gradient * step).flatten(1).sum(1)
    torch.testing.assert_close(gained, norm.dual_length(gradient))


def test_tiny_single_precision_gradients_keep_their_direction():
    gradient = torch.tensor([[3e-30, 4e-30]])
    torch.testing.assert_close(L2().steepest(gradient), torch.tensor([[0.6, 0.8]]))


def test_cheating_is_named():
    threat, origin = linf(0.1), torch.full((3, 2), 0.5)
    bad = origin.clone()
    bad[1, 0] = 0.75
    with pytest.raises(RuntimeError, match=r"Bold left its threat model at sample 1: .* = 0\.25 .* linf <= 0\.1"):
        threat.require(bad, origin, "Bold")
    bad[1, 0] = math.nan
    with pytest.raises(RuntimeError, match="at sample 1"):
        threat.require(bad, origin, "Bold")
    edge = torch.ones(1, 2)
    with pytest.raises(RuntimeError, match=r"pixels in \[1\.0625, 1\.0625\] where \[0, 1\]"):
        threat.require(edge + 0.0625, edge, "Bold")


def test_rounding_of_a_sum_is_not_cheating():
    """x + 8/255 in single precision is off by half a unit in the last place."""
    origin = torch.linspace(0, 1, 1001)[:, None]
    threat = linf(8 / 255)
    assert bool(threat.allows((origin + 8 / 255).clamp(0, 1), origin).all())
    assert not bool(threat.allows((origin + 8.001 / 255).clamp(0, 1), origin)[:900].any())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: linf(-0.1), ValueError, "epsilon must be at least 0 and finite, in raw pixel units, got -0.1"),
        (lambda: linf(math.nan), ValueError, "at least 0 and finite"),
        (lambda: linf(None), TypeError, "epsilon must be a number in raw pixel units, got None; write 8/255"),
        (lambda: linf(), TypeError, "epsilon"),
        (lambda: l2(0.5, 1.0, 1.0), ValueError, r"lower < upper, got \[1.0, 1.0\]"),
        (lambda: ThreatModel("linf", 0.1), TypeError, r"LInfinity\(\) or L2\(\), got 'linf'; linf\(8/255\)"),
        (lambda: threat_named("l1", 0.1), ValueError, "no norm 'l1'; choose from l2, linf"),
    ],
)
def test_a_threat_that_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_threat_goes_through_plain_data():
    threat = l2(0.5, -1.0, 2.0)
    assert threat_named(**threat.describe()) == threat


def test_streams_of_batches_in_turn_are_those_of_one_batch():
    whole = SampleStreams.drawn(generator(3), 7, CPU)
    own = generator(3)
    parts = [SampleStreams.drawn(own, number, CPU) for number in (1, 4, 2)]
    assert torch.equal(whole.seeds, torch.cat([part.seeds for part in parts]))
    like = torch.zeros(7, 3, 2)
    assert torch.equal(whole[torch.tensor([5, 1])].normal(like[:2], 9, 4), whole.normal(like, 9, 4)[[5, 1]])


def test_drawn_numbers_have_the_moments_of_their_distributions():
    streams = SampleStreams.drawn(generator(), 100, CPU)
    like = torch.zeros(100, 1000, dtype=torch.float64)
    uniform, normal, signs = streams.uniform(like, 1), streams.normal(like, 2), streams.signs(like, 3)
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    assert abs(float(uniform.mean()) - 0.5) < 0.005
    assert abs(float(uniform.var()) - 1 / 12) < 0.002
    assert abs(float(normal.mean())) < 0.02
    assert abs(float(normal.var()) - 1) < 0.02
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 0.02
    integers = torch.cat([streams.integers((5, 1), key) for key in range(200)])
    assert bool((integers[:, 1] == 0).all())
    assert torch.bincount(integers[:, 0], minlength=5).tolist() == pytest.approx([4000] * 5, rel=0.1)
    assert float(torch.corrcoef(torch.stack([uniform[0], uniform[1]]))[0, 1].abs()) < 0.1
    assert float(torch.corrcoef(torch.stack([uniform[0], streams.uniform(like, 4)[0]]))[0, 1].abs()) < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_uniform_numbers_stay_below_one_in_every_precision(dtype):
    numbers = SampleStreams.drawn(generator(), 4, CPU).uniform(torch.zeros(4, 5000, dtype=dtype), 0)
    assert numbers.dtype == dtype
    assert float(numbers.max()) < 1
