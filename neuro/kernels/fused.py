"""The same loop as one autograd function.

Autograd's graph of the reference holds some ten nodes and as many tensors per tick. Here the whole loop is one node
that keeps only the charged membrane h_t, and whose backward runs the recursion by hand:

    ∂L/∂h_t = (∂L/∂s_t + [∂L/∂v_t ∂v/∂s]) σ'(h_t − θ) + ∂L/∂v_t ∂v/∂h,     ∂L/∂v_{t−1} = d ∂L/∂h_t,    ∂L/∂I_t = ∂L/∂h_t

(the bracket is dropped when the reset is detached). A static current is read T times and its gradient summed in place,
so no [T, B, ...] copy of it or of its gradient is ever made.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from neuro.kernels.dynamics import LeakyDynamics
from neuro.types import Activity, Static

BLOCK = 1 << 16
"""Neurons that are taken through all ticks before the next ones begin, on the CPU: what a core's cache holds.

A layer of a convolutional network is far larger than any cache; tick by tick over the whole layer every operation would
read it from memory again. Blocks change no bit, because neurons do not meet inside a layer.
"""


class _SimulateLeaky(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, current: Tensor, membrane: Tensor, dynamics: LeakyDynamics, time_steps: int | None
    ) -> tuple[Tensor, Tensor]:
        shape = current.shape if time_steps is None else (time_steps, *current.shape)
        charged = torch.empty(shape, dtype=current.dtype, device=current.device)
        spikes, last = torch.empty_like(charged), torch.empty_like(charged[0])
        flat = current.reshape(shape[0], -1) if time_steps is None else current.reshape(1, -1).expand(shape[0], -1)
        parts = (flat, membrane.reshape(-1), charged.view(shape[0], -1), spikes.view(shape[0], -1), last.view(-1))
        for current_part, start, charged_part, spikes_part, last_part in blocks(*parts):
            last_part.copy_(_scan(current_part, start, charged_part, spikes_part, dynamics))
        ctx.save_for_backward(charged)
        ctx.dynamics, ctx.static = dynamics, time_steps is not None
        return spikes, last

    @staticmethod
    @once_differentiable  # the recursion is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        grad_spikes, grad_membrane = grad_outputs
        (charged,) = ctx.saved_tensors
        time_steps = charged.shape[0]
        grad_current = torch.zeros_like(charged[0]) if ctx.static else torch.empty_like(charged)
        grad_start = torch.empty_like(charged[0])
        rows = grad_current.view(1 if ctx.static else time_steps, -1)
        flat = (charged.view(time_steps, -1), grad_spikes.reshape(time_steps, -1), grad_membrane.reshape(-1))
        for charged_part, spikes_part, membrane_part, current_part, start_part in blocks(
            *flat, rows, grad_start.view(-1)
        ):
            start_part.copy_(_scan_back(charged_part, spikes_part, membrane_part, current_part, ctx.dynamics))
        return grad_current, grad_start, None, None


def blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cut tensors along their last axis, the neurons, into the same blocks; on a device other than the CPU into one."""
    size = BLOCK if tensors[0].device.type == "cpu" else max(1, tensors[0].shape[-1])
    return zip(*(tensor.split(size, -1) for tensor in tensors), strict=True)


def _scan(current: Tensor, membrane: Tensor, charged: Tensor, spikes: Tensor, dynamics: LeakyDynamics) -> Tensor:
    """Fill charged membranes and spikes [T, n] forward in time; give the last membrane."""
    decay, threshold, _, reset = dynamics
    for t in range(charged.shape[0]):
        torch.add(current[t], membrane, alpha=decay, out=charged[t])
        torch.ge(charged[t], threshold, out=spikes[t])
        membrane = reset(charged[t], spikes[t], threshold)
    return membrane


def _scan_back(
    charged: Tensor, grad_spikes: Tensor, grad_membrane: Tensor, grad_current: Tensor, dynamics: LeakyDynamics
) -> Tensor:
    """Fill the gradient of the current, [T, n] or summed over the ticks [1, n]; give that of the first membrane."""
    decay, threshold, surrogate, reset = dynamics
    is_static = grad_current.shape[0] == 1 and charged.shape[0] > 1
    for t in range(charged.shape[0] - 1, -1, -1):
        distance = charged[t] - threshold
        through_spike = grad_spikes[t]
        if not reset.detached:
            through_spike = through_spike + grad_membrane * reset.slope_spikes(charged[t], threshold)
        grad_membrane = grad_membrane * reset.slope_membrane((distance >= 0).to(distance.dtype))
        grad_membrane = grad_membrane.addcmul(through_spike, surrogate(distance))
        if is_static:
            grad_current[0] += grad_membrane
        else:
            grad_current[t] = grad_membrane
        grad_membrane = grad_membrane * decay
    return grad_membrane


def simulate_leaky(
    current: Activity, membrane: Float[Tensor, "B *n"], dynamics: LeakyDynamics
) -> tuple[Float[Tensor, "T B *n"], Float[Tensor, "B *n"]]:
    """Run T ticks in one autograd function; arguments and results as `reference.simulate_leaky`."""
    if isinstance(current, Static):
        return _SimulateLeaky.apply(current.value, membrane, dynamics, current.time_steps)  # pyright: ignore[reportReturnType]
    return _SimulateLeaky.apply(current, membrane, dynamics, None)  # pyright: ignore[reportReturnType]
