"""Synapses: torch's layers with a backward pass of parts.

The forward pass is torch's. The backward pass asks three questions that torch answers in one way only: through which
matrix the error goes back (`error_path`, by default W), what stands on the presynaptic side of the weight gradient δᵀx
(`presynaptic`, by default the input itself; OTTT puts a trace there), and what is kept out of it (`projector`, by
default nothing; HLOP puts δᵀ(x − P x) there). With none of them set, torch's own layer runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import grad

from neuro.lateral.projection import AnyProjector, projected_weight_gradient
from neuro.lateral.rows import convolution_rows

Presynaptic = Callable[[Tensor], Tensor]
"""From a synapse's input in one pass to what stands in for it in the weight gradient, of the same shape."""


class Synapse(nn.Module):
    """What our synapses share: the parts of the backward pass.

    Attributes:
        error_path: module from W to B, or None for W.
        presynaptic: stand-in for the input in the weight gradient, or None.
        projectors: one per group of the weight, or None.
    """

    error_path: nn.Module | None

    def __init__(self) -> None:
        super().__init__()
        self.register_module("error_path", None)
        self.presynaptic: Presynaptic | None = None
        self.projectors: Sequence[AnyProjector | None] | None = None
        self._projected_rows = 0

    @property
    def has_own_backward(self) -> bool:
        """Whether any part is set."""
        return self.error_path is not None or self.presynaptic is not None or self.projectors is not None

    def take_projected_rows(self) -> int:
        """Give how many rows were projected since the last call: inputs or gradient rows, whichever were fewer."""
        taken, self._projected_rows = self._projected_rows, 0
        return taken

    def _parts(self, inputs: Tensor, weight: Tensor) -> "_Parts":
        feedback = self.error_path(weight.detach()) if self.error_path is not None else None
        learns = torch.is_grad_enabled()  # an evaluation between two ticks moves no trace
        seen = self.presynaptic(inputs.detach()) if self.presynaptic is not None and learns else None
        return _Parts(feedback, seen, self.projectors)


class _Parts(NamedTuple):
    feedback: Tensor | None
    presynaptic: Tensor | None
    projectors: Sequence[AnyProjector | None] | None


class _LinearBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, parts: _Parts) -> Tensor:
        ctx.save_for_backward(
            inputs if parts.presynaptic is None else parts.presynaptic,
            weight if parts.feedback is None else parts.feedback,
        )
        ctx.projector = parts.projectors[0] if parts.projectors else None
        return F.linear(inputs, weight)

    @staticmethod
    @once_differentiable  # the recursion is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None]:
        rows, feedback = ctx.saved_tensors
        errors, rows = (tensor.to(feedback.dtype) for tensor in (grad_outputs[0], rows))  # autocast leaves them mixed
        grad_input = errors @ feedback if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            flat_errors, flat_rows = (tensor.reshape(-1, tensor.shape[-1]) for tensor in (errors, rows))
            grad_weight = projected_weight_gradient(flat_errors, flat_rows, ctx.projector)
        return grad_input, grad_weight, None


class Linear(nn.Linear, Synapse):
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

    def forward(self, input: Tensor) -> Tensor:
        """Map [..., in_features] to [..., out_features]."""
        if not self.has_own_backward:
            return F.linear(input, self.weight, self.bias)
        if torch.is_grad_enabled() and self.projectors and self.weight.requires_grad:
            self._projected_rows += min(input.numel() // self.in_features, self.out_features)
        currents: Tensor = _LinearBackward.apply(input, self.weight, self._parts(input, self.weight))  # pyright: ignore[reportAssignmentType]
        return currents if self.bias is None else currents + self.bias


class _ConvBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, parts: _Parts, geometry: tuple[Any, ...]) -> Tensor:
        ctx.save_for_backward(
            inputs if parts.presynaptic is None else parts.presynaptic,
            weight if parts.feedback is None else parts.feedback,
        )
        ctx.projectors, ctx.geometry, ctx.input_shape = parts.projectors, geometry, inputs.shape
        return F.conv2d(inputs, weight, None, *geometry)

    @staticmethod
    @once_differentiable  # the recursion is written by hand: a second derivative through it would be wrong
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides the parameter's name
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        seen, feedback = ctx.saved_tensors
        errors, seen = (tensor.to(feedback.dtype) for tensor in (grad_outputs[0], seen))  # autocast leaves them mixed
        grad_input = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_input = grad.conv2d_input(ctx.input_shape, feedback, errors, *ctx.geometry)
        if ctx.needs_input_grad[1]:
            grad_weight = _conv_weight_gradient(seen, feedback.shape, errors, ctx.projectors, ctx.geometry)
        return grad_input, grad_weight, None, None


def _conv_weight_gradient(
    inputs: Tensor,
    shape: torch.Size,
    errors: Tensor,
    projectors: Sequence[AnyProjector | None] | None,
    geometry: tuple[Any, ...],
) -> Tensor:
    """Give the weight gradient, kept away from each group's subspace.

    A linear projector acts on the finished gradient: there are always fewer output channels than patches. Spiking
    lateral neurons need the patches themselves.
    """
    stride, padding, dilation, groups = geometry
    if not projectors or not any(projector is not None and projector.rows_only for projector in projectors):
        gradient = grad.conv2d_weight(inputs, shape, errors, *geometry)
        for projector, part in zip(projectors or (), gradient.chunk(groups), strict=False):
            if projector is not None:
                part.copy_(projector(part.flatten(1)).view_as(part))
        return gradient
    gradients = []
    for projector, own, part in zip(projectors, inputs.chunk(groups, 1), errors.chunk(groups, 1), strict=True):
        rows = convolution_rows(own, shape[2:], stride, padding, dilation)
        flat = part.flatten(2).transpose(1, 2).flatten(0, 1)
        gradients.append(projected_weight_gradient(flat, rows, projector).view(-1, *shape[1:]))
    return torch.cat(gradients)


class Conv2d(nn.Conv2d, Synapse):
    """Convolutional synapses with zero padding, by default without bias; strides, dilations and groups as torch's.

    Args:
        in_channels: presynaptic channels.
        out_channels: postsynaptic channels.
        kernel_size: of the receptive field.
        stride: step of the field.
        padding: zeros around the image; an int or a pair.
        dilation: spacing inside the field.
        groups: groups of channels that are connected among themselves only.
        bias: whether to add a learned constant current per channel.

    Raises:
        ValueError: if padding is given by name.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        if isinstance(padding, str):
            raise ValueError(f"padding must be a number or a pair of them, got {padding!r}.")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Map [B, C_in, H, W] to [B, C_out, H', W']."""
        if not self.has_own_backward:
            return super().forward(input)
        geometry = (self.stride, self.padding, self.dilation, self.groups)
        if torch.is_grad_enabled() and self.projectors and self.weight.requires_grad:
            self._projected_rows += self.out_channels
        currents: Tensor = _ConvBackward.apply(input, self.weight, self._parts(input, self.weight), geometry)  # pyright: ignore[reportAssignmentType]
        return currents if self.bias is None else currents + self.bias[:, None, None]
