"""Surrogates: each is the derivative of the primitive that it names."""

import math

import pytest
import snntorch.surrogate
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro import ATan, Custom, FastSigmoid, Rectangle, Sigmoid, Triangle, spike
from neuro.surrogate import Surrogate

FAMILIES = [Sigmoid, ATan, FastSigmoid, Triangle, Rectangle]
KINKS = {Triangle: lambda width: [-width, 0.0, width], Rectangle: lambda width: [-width / 2, width / 2]}


def grid(slope, family):
    """Points at some distance from where the primitive has a corner."""
    points = torch.linspace(-3, 3, 601, dtype=torch.float64) + 1e-3
    for corner in KINKS.get(family, lambda _: [])(slope):
        points = points[(points - corner).abs() > 1e-6]
    return points


@pytest.mark.parametrize("slope", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_derivative_is_autograds_derivative_of_the_primitive(family, slope):
    surrogate, points = family(slope), grid(slope, family).requires_grad_()
    (expected,) = torch.autograd.grad(surrogate.primitive(points).sum(), points)
    torch.testing.assert_close(surrogate(points.detach()), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("slope", [0.5, 2.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_derivative_is_the_finite_difference_of_the_primitive(family, slope):
    surrogate, points, h = family(slope), grid(slope, family), 1e-7
    difference = (surrogate.primitive(points + h) - surrogate.primitive(points - h)) / (2 * h)
    torch.testing.assert_close(surrogate(points), difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@given(
    distance=st.floats(-50, 50, allow_nan=False),
    slope=st.floats(0.1, 30, allow_nan=False),
)
def test_it_is_never_negative_and_even(family, distance, slope):
    surrogate = family(slope)
    there, mirrored = surrogate(torch.tensor([distance, -distance], dtype=torch.float64))
    assert there >= 0
    assert there == pytest.approx(float(mirrored), rel=1e-9, abs=1e-14)
    assert surrogate(torch.zeros(1)) >= there.float() * (1 - 1e-6)


@pytest.mark.parametrize(("family", "edge"), [(Triangle, 0.5), (Rectangle, 0.25)])
def test_it_is_exactly_zero_outside_its_support(family, edge):
    surrogate = family(0.5)
    outside = torch.tensor([-9.0, -edge - 1e-6, edge, edge + 1e-6, 9.0])
    assert torch.equal(surrogate(outside), torch.zeros(5))
    assert surrogate(torch.tensor([edge - 1e-3])) > 0


@pytest.mark.parametrize("family", [Sigmoid, ATan, FastSigmoid])
def test_it_is_positive_everywhere_when_it_has_tails(family):
    assert (family(2.0)(torch.linspace(-5, 5, 101)) > 0).all()


@pytest.mark.parametrize(
    ("family", "peak"), [(Sigmoid, 0.75), (ATan, 1.5), (FastSigmoid, 1.0), (Triangle, 1 / 3), (Rectangle, 1 / 3)]
)
def test_its_value_at_the_threshold_is_the_one_by_hand(family, peak):
    assert float(family(3.0)(torch.zeros(1, dtype=torch.float64))) == pytest.approx(peak, rel=1e-12)


@pytest.mark.parametrize("family", [Sigmoid, ATan, Triangle, Rectangle])
def test_its_area_is_one(family):
    points = torch.linspace(-2000, 2000, 4_000_001, dtype=torch.float64)
    assert float(torch.trapezoid(family(2.0)(points), points)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("slope", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_slope_that_is_not_above_zero_is_refused_by_name(family, slope):
    name = "width" if family in (Triangle, Rectangle) else "slope"
    with pytest.raises(ValueError, match=rf"{name} must be above 0, got {slope}"):
        family(slope)


def test_custom_passes_the_users_function_through_and_refuses_anything_else():
    surrogate = Custom(lambda distance: distance.cos())
    points = torch.linspace(-1, 1, 11)
    assert torch.equal(surrogate(points), points.cos())
    with pytest.raises(TypeError, match="derivative"):
        Custom(3)


def test_all_are_surrogates_by_role():
    assert all(isinstance(family(), Surrogate) for family in FAMILIES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equality_is_a_spike(dtype):
    distance = torch.tensor([-1.0, -1e-6, 0.0, -0.0, 1e-6, 1.0], dtype=dtype)
    fired = spike(distance, Sigmoid())
    assert fired.tolist() == [0, 0, 1, 1, 1, 1]
    assert fired.dtype == dtype


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_of_a_spike_is_upstream_times_surrogate(family):
    surrogate, upstream = family(), torch.randn(601, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    distance = (torch.linspace(-2, 2, 601, dtype=torch.float64) + 1e-3).requires_grad_()
    (gradient,) = torch.autograd.grad(spike(distance, surrogate), distance, upstream)
    assert torch.equal(gradient, upstream * surrogate(distance.detach()))


@pytest.mark.parametrize("family", [Sigmoid, ATan, FastSigmoid, Triangle])
def test_a_second_derivative_is_that_of_the_primitive(family):
    surrogate, points = family(1.5), grid(1.5, family)
    seconds = []
    for function in (lambda u: spike(u, surrogate), surrogate.primitive):
        u = points.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(u).sum(), u, create_graph=True)
        seconds.append(torch.autograd.grad(first.sum(), u)[0])
    torch.testing.assert_close(seconds[0], seconds[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Sigmoid(25.0), snntorch.surrogate.sigmoid(slope=25)),
        (ATan(2.0), snntorch.surrogate.atan(alpha=2.0)),
        (FastSigmoid(25.0), snntorch.surrogate.fast_sigmoid(slope=25)),
    ],
)
def test_gradients_agree_with_snntorchs(ours, theirs):
    points = torch.linspace(-1, 1, 401) + 1e-4
    gradients = []
    for function in (lambda u: spike(u, ours), theirs):
        u = points.clone().requires_grad_()
        function(u).sum().backward()
        gradients.append(u.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)
