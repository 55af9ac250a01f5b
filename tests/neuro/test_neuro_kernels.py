"""Kernels: the fused loop gives the reference's bits forward, and its gradients backward."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro import ATan, Custom, FastSigmoid, HardReset, Rectangle, Sigmoid, SoftReset, Static, Triangle
from neuro.kernels import LeakyDynamics, fused, reference
from neuro.types import unroll

RESETS = [SoftReset(), SoftReset(detached=False), HardReset(), HardReset(detached=False)]
SHAPES = [(1, 3), (1, 2, 5), (6, 3, 7), (5, 2, 3, 4, 4)]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2}


def draw(*shape, seed=0, dtype=torch.float64, device="cpu"):
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 1.6 - 0.2
    return drawn.to(device, dtype)


def gradients_of(kernel, current, membrane, dynamics, time_steps):
    """Spikes, last membrane, and the gradients of a weighted sum of both."""
    current, membrane = current.clone().requires_grad_(), membrane.clone().requires_grad_()
    activity = Static(current, time_steps) if time_steps else current
    spikes, last = kernel(activity, membrane, dynamics)
    weights = torch.linspace(-1, 2, spikes.numel(), dtype=torch.float64).reshape(spikes.shape).to(spikes)
    ((spikes * weights).sum() + (last * weights[0]).sum()).backward()
    return spikes.detach(), last.detach(), current.grad, membrane.grad


def check_fused_against_reference(dtype, reset, static, device):
    for shape in SHAPES:
        for decay, threshold in ((0.5, 0.7), (1.0, 1.0), (0.9, 0.3)):
            dynamics = LeakyDynamics(decay, threshold, Sigmoid(), reset)
            current = draw(*(shape[1:] if static else shape), dtype=dtype, device=device)
            membrane = draw(*shape[1:], seed=1, dtype=dtype, device=device)
            steps = shape[0] if static else None
            fast = gradients_of(fused.simulate_leaky, current, membrane, dynamics, steps)
            slow = gradients_of(reference.simulate_leaky, current, membrane, dynamics, steps)
            assert torch.equal(fast[0], slow[0])
            assert torch.equal(fast[1], slow[1])
            for ours, truth in zip(fast[2:], slow[2:], strict=True):
                assert ours.shape == truth.shape
                torch.testing.assert_close(ours, truth, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("static", [False, True], ids=["unrolled", "static"])
@pytest.mark.parametrize("reset", RESETS, ids=str)
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
def test_fused_equals_reference(dtype, reset, static):
    check_fused_against_reference(dtype, reset, static, "cpu")


def test_fused_equals_reference_on_every_device(device):
    for dtype in TOLERANCES:
        if device.type == "mps" and dtype == torch.float64:
            continue  # that device has no double precision
        for reset in RESETS:
            for static in (False, True):
                check_fused_against_reference(dtype, reset, static, device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("threshold", [0.3, 0.7, 1.0, 1.1])
def test_fused_and_reference_agree_next_to_the_threshold(dtype, threshold):
    at = torch.tensor(threshold, dtype=dtype)
    current = torch.stack([torch.nextafter(at, at * 0), at, torch.nextafter(at, at * 2)])[None]
    dynamics = LeakyDynamics(0.5, threshold, Sigmoid(), SoftReset())
    fast, _ = fused.simulate_leaky(current, torch.zeros(3, dtype=dtype), dynamics)
    slow, _ = reference.simulate_leaky(current, torch.zeros(3, dtype=dtype), dynamics)
    assert torch.equal(fast, slow)
    assert fast[0].tolist() == [0, 1, 1]


def test_a_current_that_is_not_contiguous_gives_the_same_bits():
    current, membrane = draw(6, 15, 17, dtype=torch.float32).mT, draw(17, 15, seed=1, dtype=torch.float32)
    dynamics = LeakyDynamics(2 / 3, 0.7, Sigmoid(), HardReset())
    fast, slow = (kernel.simulate_leaky(current, membrane, dynamics) for kernel in (fused, reference))
    assert torch.equal(fast[0], slow[0])
    assert torch.equal(fast[1], slow[1])


def straight_through(current, membrane, decay, threshold, primitive, reset, detached):
    """The slow obvious truth, with nothing of neuro: s = Θ(u) whose derivative autograd takes from the primitive."""
    spikes = []
    for tick in current:
        charged = decay * membrane + tick
        smooth = primitive(charged - threshold)
        fired = (charged >= threshold).to(charged.dtype) + smooth - smooth.detach()
        back = fired.detach() if detached else fired
        membrane = charged - threshold * back if reset == "soft" else charged * (1 - back)
        spikes.append(fired)
    return torch.stack(spikes), membrane


@pytest.mark.parametrize("surrogate", [Sigmoid(), ATan(), FastSigmoid(3.0), Triangle(), Rectangle()], ids=str)
@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize("reset", ["soft", "hard"])
def test_the_hand_written_recursion_is_autograd_through_a_straight_through_spike(reset, detached, surrogate):
    dynamics = LeakyDynamics(0.8, 0.6, surrogate, (SoftReset if reset == "soft" else HardReset)(detached))

    def obvious(current, membrane, _):
        return straight_through(current, membrane, 0.8, 0.6, surrogate.primitive, reset, detached)

    current, membrane = draw(9, 3, 4), draw(3, 4, seed=1)
    fast = gradients_of(fused.simulate_leaky, current, membrane, dynamics, None)
    slow = gradients_of(obvious, current, membrane, dynamics, None)
    assert 0.1 < fast[0].mean() < 0.9
    torch.testing.assert_close(fast[0], slow[0], rtol=0, atol=1e-12)
    for ours, truth in zip(fast[1:], slow[1:], strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-12)


def test_detaching_the_reset_changes_the_gradient():
    current, membrane = draw(9, 3, 4), draw(3, 4, seed=1)
    for kind in (SoftReset, HardReset):
        ours = [
            gradients_of(fused.simulate_leaky, current, membrane, LeakyDynamics(0.8, 0.6, ATan(), kind(cut)), None)[2]
            for cut in (True, False)
        ]
        assert not torch.allclose(ours[0], ours[1])


@pytest.mark.parametrize("reset", RESETS, ids=str)
@pytest.mark.parametrize("static", [False, True], ids=["unrolled", "static"])
def test_finite_differences_of_the_membrane_between_spikes(reset, static):
    """With a surrogate of zero the last membrane is smooth wherever no neuron sits at its threshold: gradcheck it."""
    dynamics = LeakyDynamics(0.75, 0.6, Custom(torch.zeros_like), reset)
    current, membrane = draw(*(() if static else (5,)), 2, 3, seed=3), draw(2, 3, seed=4)

    def last_membrane(current, membrane):
        return fused.simulate_leaky(Static(current, 5) if static else current, membrane, dynamics)[1]

    spikes, _ = fused.simulate_leaky(Static(current, 5) if static else current, membrane, dynamics)
    assert 0 < spikes.mean() < 1
    assert torch.autograd.gradcheck(last_membrane, (current.requires_grad_(), membrane.requires_grad_()))


@given(seed=st.integers(0, 10_000), decay=st.floats(0, 1), threshold=st.floats(0.05, 2), steps=st.integers(1, 6))
def test_static_is_the_unrolled_input_with_its_gradient_summed(seed, decay, threshold, steps):
    dynamics = LeakyDynamics(decay, threshold, Sigmoid(), SoftReset())
    value, membrane = draw(2, 3, seed=seed), draw(2, 3, seed=seed + 1)
    unrolled = unroll(Static(value, steps)).clone()
    static = gradients_of(fused.simulate_leaky, value, membrane, dynamics, steps)
    repeated = gradients_of(fused.simulate_leaky, unrolled, membrane, dynamics, None)
    assert torch.equal(static[0], repeated[0])
    torch.testing.assert_close(static[2], repeated[2].sum(0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(static[3], repeated[3], rtol=1e-12, atol=1e-14)


def test_a_second_derivative_is_right_or_refused_but_never_silently_wrong():
    dynamics = LeakyDynamics(0.5, 0.7, Sigmoid(), SoftReset(detached=False))

    def curvature(kernel):
        current = draw(4, 5).requires_grad_()
        upstream = torch.ones((), dtype=torch.float64, requires_grad=True)
        spikes, _ = kernel(current, torch.zeros(5, dtype=torch.float64), dynamics)
        (gradient,) = torch.autograd.grad(upstream * spikes.sum(), current, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), current)[0]

    truth, ours, refusal = curvature(reference.simulate_leaky), None, ""
    assert truth.abs().sum() > 0
    try:
        ours = curvature(fused.simulate_leaky)
    except RuntimeError as problem:
        refusal = str(problem)
    assert "differentia" in refusal or torch.allclose(ours, truth)
