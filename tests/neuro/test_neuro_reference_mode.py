"""Reference mode: fused kernels stand aside, so that torch.func sees through spiking layers; the numbers stay."""

import threading

import pytest
import torch

import neuro.kernels.fused
from neuro import IF, LIF, AdaptiveLIF, ATan, Custom, HardReset, ParametricLIF, Sigmoid, Static, Synaptic, spike
from neuro.kernels import reference_kernels
from neuro.reference_mode import reference_wanted

NEURONS = [LIF(threshold=0.6), LIF(threshold=0.6, reset=HardReset(detached=False)), IF(threshold=0.6)]


def currents(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def run(neuron, current):
    current = current.clone().requires_grad_()
    spikes, state = neuron.simulate(current)
    weights = torch.linspace(-1, 2, spikes.numel(), dtype=spikes.dtype).reshape(spikes.shape)
    ((spikes * weights).sum() + state[0].sum()).backward()
    return spikes.detach(), state[0].detach(), current.grad


@pytest.mark.parametrize("neuron", NEURONS, ids=repr)
def test_the_same_spikes_and_gradients_come_from_the_loop(neuron, monkeypatch):
    current = currents(7, 3, 4)
    fast = run(neuron, current)
    with reference_kernels():
        monkeypatch.setattr(neuro.kernels.fused, "simulate_leaky", None)
        slow = run(neuron, current)
    assert 0 < fast[0].mean() < 1
    assert torch.equal(fast[0], slow[0])
    assert torch.equal(fast[1], slow[1])
    torch.testing.assert_close(fast[2], slow[2], rtol=1e-12, atol=1e-14)


def test_outside_the_context_the_fused_kernel_runs(monkeypatch):
    called = []
    original = neuro.kernels.fused.simulate_leaky
    monkeypatch.setattr(neuro.kernels.fused, "simulate_leaky", lambda *args: called.append(1) or original(*args))
    LIF().simulate(currents(2, 1, 3))
    assert called == [1]
    with reference_kernels():
        LIF().simulate(currents(2, 1, 3))
    assert called == [1]


def test_the_switch_nests_and_comes_back_after_an_error():
    def fail():
        with reference_kernels():
            with reference_kernels():
                assert reference_wanted()
            assert reference_wanted()
            raise KeyError

    assert not reference_wanted()
    with pytest.raises(KeyError):
        fail()
    assert not reference_wanted()


def test_another_thread_does_not_see_it():
    seen = []
    with reference_kernels():
        thread = threading.Thread(target=lambda: seen.append(reference_wanted()))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize("surrogate", [Sigmoid(), ATan(), Custom(torch.cos)], ids=["sigmoid", "atan", "custom"])
def test_the_transformable_spike_is_the_spike_to_its_second_derivative(surrogate):
    def derivatives():
        distance = (currents(50) - 0.5).requires_grad_()
        fired = spike(distance, surrogate)
        (first,) = torch.autograd.grad((fired * currents(50, seed=1)).sum(), distance, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), distance)
        return fired.detach(), first.detach(), second

    plain = derivatives()
    with reference_kernels():
        transformable = derivatives()
    assert all(torch.equal(*pair) for pair in zip(plain, transformable, strict=True))
    assert plain[2].abs().sum() > 0


@pytest.mark.parametrize(
    "neuron",
    [*NEURONS, AdaptiveLIF(threshold=0.5), Synaptic(threshold=0.6), ParametricLIF(threshold=0.6).double()],
    ids=lambda neuron: type(neuron).__name__,
)
@pytest.mark.parametrize("static", [False, True], ids=["unrolled", "static"])
def test_a_mapped_gradient_is_that_of_each_sample_alone(neuron, static):
    inputs = currents(*((6, 5, 3) if static else (6, 4, 5, 3)))

    def loss(current):
        return neuron.simulate(Static(current, 4) if static else current)[0].sin().sum()

    with reference_kernels():
        mapped = torch.func.vmap(torch.func.grad(loss))(inputs)
    alone = [torch.autograd.grad(loss(one), one)[0] for one in inputs.clone().requires_grad_().unbind(0)]
    torch.testing.assert_close(mapped, torch.stack(alone), rtol=1e-12, atol=1e-14)
    assert mapped.abs().sum() > 0


def test_without_the_context_torch_func_is_refused():
    """The negative control: the fused kernel and the plain spike cannot be seen through."""
    for function in (lambda current: LIF().simulate(current)[0].sum(), lambda current: spike(current, ATan()).sum()):
        with pytest.raises(RuntimeError, match="setup_context"):
            torch.func.vmap(torch.func.grad(function))(currents(2, 3, 1, 4))
