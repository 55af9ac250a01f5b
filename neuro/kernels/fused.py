"""The same loop as one autograd function.

Autograd's graph of the reference holds some ten nodes and as many tensors per tick. Here the whole loop is one node
that keeps only the charged membrane h_t, and whose backward runs the recursion by hand:

    ∂L/∂h_t = (∂L/∂s_t + [∂L/∂v_t ∂v/∂s]) σ'(h_t − θ) + ∂L/∂v_t ∂v/∂h,     ∂L/∂v_{t−1} = d ∂L/∂h_t,    ∂L/∂I_t = ∂L/∂h_t

(the bracket is dropped when the reset is detached). A static current is read T times and its gradient summed in place,
so no [T, B, ...] copy of it or of its gradient is ever made.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from neuro.kernels.dynamics import LeakyDynamics
from neuro.types import Activity, Static


class _SimulateLeaky(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, current: Tensor, membrane: Tensor, dynamics: LeakyDynamics, time_steps: int | None
    ) -> tuple[Tensor, Tensor]:
        decay, threshold, _, reset = dynamics
        shape = current.shape if time_steps is None else (time_steps, *current.shape)
        charged = torch.empty(shape, dtype=current.dtype, device=current.device)
        spikes = torch.empty_like(charged)
        for t in range(shape[0]):
            torch.add(current if time_steps else current[t], membrane, alpha=decay, out=charged[t])
            torch.ge(charged[t], threshold, out=spikes[t])
            membrane = reset(charged[t], spikes[t], threshold)
        ctx.save_for_backward(charged)
        ctx.dynamics, ctx.static = dynamics, time_steps is not None
        return spikes, membrane

    @staticmethod
    @once_differentiable  # the recursion is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        grad_spikes, grad_membrane = grad_outputs
        (charged,) = ctx.saved_tensors
        decay, threshold, surrogate, reset = ctx.dynamics
        grad_current = torch.zeros_like(charged[0]) if ctx.static else torch.empty_like(charged)
        for t in range(charged.shape[0] - 1, -1, -1):
            distance = charged[t] - threshold
            through_spike = grad_spikes[t]
            if not reset.detached:
                through_spike = through_spike + grad_membrane * reset.slope_spikes(charged[t], threshold)
            grad_membrane = grad_membrane * reset.slope_membrane((distance >= 0).to(distance.dtype))
            grad_membrane = grad_membrane.addcmul(through_spike, surrogate(distance))
            if ctx.static:
                grad_current += grad_membrane
            else:
                grad_current[t] = grad_membrane
            grad_membrane = grad_membrane * decay
        return grad_current, grad_membrane, None, None


def simulate_leaky(
    current: Activity, membrane: Float[Tensor, "B *n"], dynamics: LeakyDynamics
) -> tuple[Float[Tensor, "T B *n"], Float[Tensor, "B *n"]]:
    """Run T ticks in one autograd function; arguments and results as `reference.simulate_leaky`."""
    if isinstance(current, Static):
        return _SimulateLeaky.apply(current.value, membrane, dynamics, current.time_steps)  # pyright: ignore[reportReturnType]
    return _SimulateLeaky.apply(current, membrane, dynamics, None)  # pyright: ignore[reportReturnType]
