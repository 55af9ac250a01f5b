"""Neurons for differentiation on spike representation (DSR, Meng et al. 2022).

Forward they are integrate-and-fire neurons that fire early, at α V, and send spikes of amplitude V/Δt (LIF) or V (IF):

    LIF  m ← β m + (1 − β) I_t,  β = exp(−Δt/τ)        IF  m ← m + I_t
         s = 1 where m >= α V,  m ← m − V s,  o_t = s V/Δt  (IF: s V)

Backward no time is unrolled. A spike train stands for its representation r(o), the weighted rate Σ w_t o_t / Σ w_t with
w_t = exp(−(T − t) Δt/τ) (IF: the mean), and the layer for the clipped linear map that it tends to,

    LIF  r(o) ≈ clip(r(I)/τ, 0, V/Δt)                   IF  r(o) ≈ clip(r(I), 0, V)

With G = T r(∂L/∂o) and u = r(I) every tick gets the same ∂L/∂I_t = (1/T) (G/τ) 1[0 < u < τV/Δt]. V is learned, one a
layer, never below a bound. Its gradient Δt Σ G 1[u > τV/Δt] is the released code's, which is Δt² times the true slope.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from neuro.decoding import weighted_rate
from neuro.neurons.leaky import LeakyState, require_threshold
from neuro.neurons.neuron import Neuron
from neuro.types import Activity, State, Static, num_time_steps, state_like, unroll


class _Represent(torch.autograd.Function):
    """Give ready-made spikes forward, and the gradient of the clipped linear map backward."""

    @staticmethod
    def forward(
        ctx: Any,
        current: Tensor,
        threshold: Tensor,
        represented: Tensor,
        spikes: Tensor,
        neuron: "RepresentationNeuron",
    ) -> Tensor:
        ctx.save_for_backward(represented, threshold)
        ctx.neuron = neuron
        return spikes

    @staticmethod
    @once_differentiable  # the map is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None]:
        represented, threshold = ctx.saved_tensors
        neuron, time_steps = ctx.neuron, grad_outputs[0].shape[0]
        gradient = time_steps * neuron.represent(grad_outputs[0])
        slope, ceiling, threshold_slope = neuron.map_constants(threshold)
        inside = neuron.is_inside(represented, ceiling)
        grad_current = (gradient * inside).mul_(slope / time_steps).expand(time_steps, *gradient.shape)
        grad_threshold = (gradient * (represented > ceiling)).sum() * threshold_slope
        return grad_current, grad_threshold.to(threshold.dtype), None, None, None


class RepresentationNeuron(Neuron):
    """What the two DSR neurons share: early firing, a learned threshold, the gradient of a rate map.

    Only the DSR rule trains them: a single tick has no gradient.
    """

    def __init__(self, threshold: float, firing_share: float, smallest_threshold: float) -> None:
        super().__init__()
        require_threshold(threshold)
        if not 0 < firing_share <= 1:
            raise ValueError(f"firing_share must be in (0, 1], got {firing_share}.")
        require_threshold(smallest_threshold)
        self.threshold = nn.Parameter(torch.tensor(float(threshold)))
        self.firing_share, self.smallest_threshold = float(firing_share), float(smallest_threshold)

    def bounded_threshold(self, like: Tensor) -> Tensor:
        """Give V in the dtype of the activity, put back on its bound where a step has taken it below."""
        self.threshold.data.clamp_(min=self.smallest_threshold)  # itself, not a copy: so that it can rise again
        return self.threshold.to(like.dtype)

    def initial_state(self, current: Tensor) -> LeakyState:
        """Give a membrane at 0."""
        return LeakyState(state_like(current))

    @torch.no_grad()
    def step(self, current: Tensor, state: State) -> tuple[Tensor, LeakyState]:
        """Advance one tick, without gradient; see `Neuron.step`."""
        threshold = self.bounded_threshold(current)
        charged = self.charge(current, state[0])
        spikes = (charged >= self.firing_share * threshold).to(current.dtype)
        return spikes * self.amplitude(threshold), LeakyState(charged - threshold * spikes)

    def simulate(self, current: Activity, state: State | None = None) -> tuple[Tensor, State]:
        """Run all ticks; the gradient is that of the rate map, right for a fresh state. See `Neuron.simulate`."""
        num_time_steps(current)
        with torch.no_grad():
            spikes, state = super().simulate(current, state)
            represented = current.value if isinstance(current, Static) else self.represent(current)
        unrolled = unroll(current)
        threshold = self.bounded_threshold(unrolled)
        outputs: Tensor = _Represent.apply(unrolled, threshold, represented, spikes, self)  # pyright: ignore[reportAssignmentType]
        return outputs, state

    def charge(self, current: Tensor, membrane: Tensor) -> Tensor:
        """Give the membrane before the spike."""
        raise NotImplementedError

    def amplitude(self, threshold: Tensor) -> Tensor:
        """Give the size of a spike."""
        raise NotImplementedError

    def represent(self, activity: Tensor) -> Tensor:
        """Give r of [T, B, ...], [B, ...]."""
        raise NotImplementedError

    def is_inside(self, represented: Tensor, ceiling: Tensor) -> Tensor:
        """Tell where the rate map has its slope; elsewhere it is flat."""
        raise NotImplementedError

    def map_constants(self, threshold: Tensor) -> tuple[float, Tensor, float]:
        """Give the rate map's slope, the input at which it saturates, and the scale of the threshold's gradient."""
        raise NotImplementedError


class DSRLIF(RepresentationNeuron):
    """Leaky integrate-and-fire neurons under DSR.

    Example:
        >>> import torch
        >>> outputs, _ = DSRLIF(threshold=0.3).simulate(torch.full((20, 1, 1), 2.0))
        >>> sorted(set(round(value, 4) for value in outputs.flatten().tolist()))
        [0.0, 6.0]

    Args:
        tau: membrane time constant, in the unit of `tick`.
        tick: Δt, duration of a tick.
        threshold: V at the start, above 0.
        firing_share: α in (0, 1], the share of V at which a neuron fires.
        smallest_threshold: bound that V is kept above.

    Raises:
        ValueError: if a constant is outside its range.
    """

    def __init__(
        self,
        tau: float = 1.0,
        tick: float = 0.05,
        threshold: float = 0.3,
        firing_share: float = 0.3,
        smallest_threshold: float = 0.0005,
    ) -> None:
        super().__init__(threshold, firing_share, smallest_threshold)
        if not (tau > 0 and tick > 0):
            raise ValueError(f"tau and tick must be above 0, got {tau} and {tick}.")
        self.tau, self.tick_duration = float(tau), float(tick)

    def charge(self, current: Tensor, membrane: Tensor) -> Tensor:
        """Give β m + (1 − β) I."""
        kept = math.exp(-self.tick_duration / self.tau)
        return kept * membrane + (1 - kept) * current

    def amplitude(self, threshold: Tensor) -> Tensor:
        """Give V/Δt."""
        return threshold / self.tick_duration

    def represent(self, activity: Tensor) -> Tensor:
        """Give the weighted rate."""
        return weighted_rate(activity, self.tau / self.tick_duration)

    def is_inside(self, represented: Tensor, ceiling: Tensor) -> Tensor:
        """Give 0 < u < τV/Δt: without input there is no slope."""
        return (represented > 0) & (represented < ceiling)

    def map_constants(self, threshold: Tensor) -> tuple[float, Tensor, float]:
        """Give 1/τ, τV/Δt and Δt."""
        return 1 / self.tau, self.tau * threshold / self.tick_duration, self.tick_duration

    def extra_repr(self) -> str:
        """Show the constants."""
        constants = f"tau={self.tau}, tick={self.tick_duration}, firing_share={self.firing_share}"
        return f"{constants}, threshold={float(self.threshold.detach()):.4g}"


class DSRIF(RepresentationNeuron):
    """Integrate-and-fire neurons under DSR.

    Example:
        >>> import torch
        >>> outputs, _ = DSRIF(threshold=6.0).simulate(torch.full((4, 1, 1), 3.0))
        >>> outputs.flatten().tolist()
        [6.0, 0.0, 6.0, 0.0]

    Args:
        threshold: V at the start, above 0, which is also the amplitude of a spike.
        firing_share: α in (0, 1], the share of V at which a neuron fires.
        smallest_threshold: bound that V is kept above.

    Raises:
        ValueError: if a constant is outside its range.
    """

    def __init__(self, threshold: float = 6.0, firing_share: float = 0.5, smallest_threshold: float = 0.01) -> None:
        super().__init__(threshold, firing_share, smallest_threshold)

    def charge(self, current: Tensor, membrane: Tensor) -> Tensor:
        """Give m + I."""
        return membrane + current

    def amplitude(self, threshold: Tensor) -> Tensor:
        """Give V."""
        return threshold

    def represent(self, activity: Tensor) -> Tensor:
        """Give the mean."""
        return activity.mean(0)

    def is_inside(self, represented: Tensor, ceiling: Tensor) -> Tensor:
        """Give 0 ≤ u ≤ V, both ends with their slope."""
        return (represented >= 0) & (represented <= ceiling)

    def map_constants(self, threshold: Tensor) -> tuple[float, Tensor, float]:
        """Give 1, V and 1."""
        return 1.0, threshold, 1.0

    def extra_repr(self) -> str:
        """Show the constants."""
        return f"threshold={float(self.threshold.detach()):.4g}, firing_share={self.firing_share}"
