"""Synapses: torch's layers whose weight gradient can be protected on the presynaptic side.

The forward pass is torch's. With a `projector` set, the weight gradient is δᵀ(x − P x) instead of δᵀx: the same as
projecting the finished gradient, at whichever side has fewer rows. Outputs and input gradients do not change.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from neuro.lateral.projection import Projector, projected_weight_gradient


class _ProtectedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, projector: Projector) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.projector = projector
        return F.linear(inputs, weight)

    @staticmethod
    @once_differentiable  # the recursion is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None]:
        inputs, weight = ctx.saved_tensors
        errors, rows = (tensor.to(weight.dtype) for tensor in (grad_outputs[0], inputs))  # autocast leaves them mixed
        grad_input = errors @ weight if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            flat_errors, flat_rows = (tensor.reshape(-1, tensor.shape[-1]) for tensor in (errors, rows))
            grad_weight = projected_weight_gradient(flat_errors, flat_rows, ctx.projector)
        return grad_input, grad_weight, None


class Linear(nn.Linear):
    """Fully connected synapses, by default without bias; weights start Kaiming-uniform(√5) as torch's do.

    Args:
        in_features: presynaptic neurons.
        out_features: postsynaptic neurons.
        bias: whether to add a learned constant current.
        device: where the weights live.
        dtype: of the weights.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.projector: Projector | None = None
        self._projected_rows = 0

    def take_projected_rows(self) -> int:
        """Give how many rows were projected since the last call: inputs or gradient rows, whichever were fewer."""
        taken, self._projected_rows = self._projected_rows, 0
        return taken

    def forward(self, input: Tensor) -> Tensor:
        """Map [..., in_features] to [..., out_features]."""
        if self.projector is None:
            return F.linear(input, self.weight, self.bias)
        if torch.is_grad_enabled():
            self._projected_rows += min(input.numel() // self.in_features, self.out_features)
        currents: Tensor = _ProtectedLinear.apply(input, self.weight, self.projector)  # pyright: ignore[reportAssignmentType]
        return currents if self.bias is None else currents + self.bias
