"""Error paths: through which matrix a synapse sends the error back.

A synapse's input gradient is δ B. Exact backpropagation takes B = W; a brain cannot read W backwards, so two rivals
take something else, and the weight gradient δᵀx stays as it is:

- `FeedbackAlignment` (Lillicrap et al. 2016): B random like an untrained W, fixed for ever. - `SignSymmetric` (Liao,
Leibo, Poggio 2016; Xiao et al. 2018): B = c · sign(W), with c = 1/√n for a linear map of n inputs and c = √(2 / (k_h
k_w C_out)) for a convolution.

An error path here is a description; `for_weight` gives what one synapse uses. Both work for linear and convolutional
synapses (HLOP's released code has feedback alignment for linear layers only).
"""

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

FeedbackWeight = Tensor
"""B, of the shape of W."""


@runtime_checkable
class ErrorPath(Protocol):
    """The role: a description of B."""

    @property
    def name(self) -> str:
        """Label for tables."""
        ...

    def for_weight(self, weight: Tensor, generator: torch.Generator) -> "nn.Module | None":
        """Give a module from W to B for one synapse; None for B = W."""
        ...


class Exact:
    """B = W: backpropagation."""

    name = "exact"

    def for_weight(self, weight: Tensor, generator: torch.Generator) -> None:
        """Give nothing: autograd's own path is exact."""
        return


class FeedbackAlignment:
    """B random and fixed, Kaiming-uniform(√5) like a fresh W: uniform in ±1/√(fan in)."""

    name = "feedback_alignment"

    def for_weight(self, weight: Tensor, generator: torch.Generator) -> nn.Module:
        """Draw B."""
        bound = 1 / math.sqrt(weight[0].numel())
        drawn = torch.rand(weight.shape, generator=generator, dtype=torch.float64).mul_(2 * bound).sub_(bound)
        return _FixedFeedback(drawn.to(weight.device, weight.dtype))


class SignSymmetric:
    """B = c · sign(W), read anew at every pass."""

    name = "sign_symmetric"

    def for_weight(self, weight: Tensor, generator: torch.Generator) -> nn.Module:
        """Give c · sign."""
        fan_out = weight.shape[0] * weight[0, 0].numel()
        return _SignFeedback(1 / math.sqrt(weight.shape[1]) if weight.ndim == 2 else math.sqrt(2 / fan_out))


class _FixedFeedback(nn.Module):
    """B, kept beside the weights but not saved with them: its seed gives it back."""

    feedback: Tensor

    def __init__(self, feedback: Tensor) -> None:
        super().__init__()
        self.register_buffer("feedback", feedback, persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        return self.feedback


class _SignFeedback(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        return weight.sign() * self.scale
