"""Pseudo-derivatives: what a spike's derivative is taken to be on the way back.

A spike s = Θ(u), u = membrane − threshold, has derivative zero almost everywhere. A surrogate gradient (Neftci,
Mostafa, Zenke 2019) replaces it by the derivative of a smooth `primitive`. Each surrogate here is a small frozen
object: called on u it gives ds/du; `primitive` is the function that it is the derivative of, for gradient checks. u =
0 is a spike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from neuro.reference_mode import reference_wanted


@runtime_checkable
class Surrogate(Protocol):
    """The role: a callable from membrane − threshold to the pseudo-derivative, of the same shape."""

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du at u = distance."""
        ...


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}.")


@dataclass(frozen=True)
class Sigmoid:
    """Derivative of the logistic function: a σ(au)(1 − σ(au)).

    Args:
        slope: a, dimensionless; 4 is the value of HLOP's and SpikingJelly's experiments.
    """

    slope: float = 4.0

    def __post_init__(self) -> None:
        _require_positive("slope", self.slope)

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        tail = torch.sigmoid(
            distance.abs() * -self.slope
        )  # the derivative is even, and the small tail keeps its digits
        return (tail - tail.square()).mul_(self.slope)

    def primitive(self, distance: Tensor) -> Tensor:
        """Give σ(au)."""
        return torch.sigmoid(self.slope * distance)


@dataclass(frozen=True)
class ATan:
    """Derivative of a scaled arc tangent: (a/2) / (1 + (π a u / 2)²), Fang et al. 2021.

    Args:
        slope: a, dimensionless.
    """

    slope: float = 2.0

    def __post_init__(self) -> None:
        _require_positive("slope", self.slope)

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        scaled = distance * (math.pi * self.slope / 2)
        return (self.slope / 2) / scaled.square_().add_(1)

    def primitive(self, distance: Tensor) -> Tensor:
        """Give arctan(π a u / 2) / π + 1/2."""
        return torch.atan(math.pi * self.slope / 2 * distance) / math.pi + 0.5


@dataclass(frozen=True)
class FastSigmoid:
    """Derivative of the fast sigmoid u / (1 + k|u|): 1 / (1 + k|u|)², Zenke and Ganguli 2018.

    Args:
        slope: k, dimensionless.
    """

    slope: float = 25.0

    def __post_init__(self) -> None:
        _require_positive("slope", self.slope)

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        return (distance.abs() * self.slope).add_(1).square_().reciprocal_()

    def primitive(self, distance: Tensor) -> Tensor:
        """Give u / (1 + k|u|)."""
        return distance / (1 + self.slope * distance.abs())


@dataclass(frozen=True)
class Triangle:
    """A triangle of area 1 around the threshold: (1/w) max(0, 1 − |u|/w), Bellec et al. 2018.

    Args:
        width: w, half the base, in units of the membrane.
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        _require_positive("width", self.width)

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        return (1 - distance.abs() / self.width).clamp_(min=0) / self.width

    def primitive(self, distance: Tensor) -> Tensor:
        """Give the integral, which rises from 0 to 1 over (−w, w)."""
        inside = (distance / self.width).clamp(-1, 1)
        return 0.5 + inside - 0.5 * inside * inside.abs()


@dataclass(frozen=True)
class Rectangle:
    """A box of area 1 around the threshold: (1/w) 1[|u| < w/2], Wu et al. 2018.

    Args:
        width: w, the whole base, in units of the membrane.
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        _require_positive("width", self.width)

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        return (distance.abs() < self.width / 2).to(distance.dtype) / self.width

    def primitive(self, distance: Tensor) -> Tensor:
        """Give the integral, a ramp from 0 to 1 over (−w/2, w/2)."""
        return (distance / self.width + 0.5).clamp(0, 1)


@dataclass(frozen=True)
class Custom:
    """A user's own pseudo-derivative.

    Args:
        derivative: elementwise function of membrane − threshold.
    """

    derivative: Callable[[Tensor], Tensor]

    def __post_init__(self) -> None:
        if not callable(self.derivative):
            raise TypeError(f"derivative must be a function of a tensor, got {self.derivative!r}.")

    def __call__(self, distance: Tensor) -> Tensor:
        """Give ds/du."""
        return self.derivative(distance)


class _Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, distance: Tensor, surrogate: Surrogate) -> Tensor:
        ctx.save_for_backward(distance)
        ctx.surrogate = surrogate
        return (distance >= 0).to(distance.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (distance,) = ctx.saved_tensors
        return grad_outputs[0] * ctx.surrogate(distance), None


class _TransformableSpike(torch.autograd.Function):
    """The same function in the form that torch.func's transforms read; torch binds its signature anew at every call."""

    generate_vmap_rule = True

    @staticmethod
    def forward(distance: Tensor, surrogate: Surrogate) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return (distance >= 0).to(distance.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Surrogate], output: Tensor) -> None:
        distance, ctx.surrogate = inputs
        ctx.save_for_backward(distance)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return _Spike.backward(ctx, *grad_outputs)


def spike(distance: Float[Tensor, "*shape"], surrogate: Surrogate) -> Float[Tensor, "*shape"]:
    """Fire where membrane − threshold is at or above zero, with a surrogate gradient.

    Args:
        distance: membrane − threshold, any shape.
        surrogate: gives ds/du on the way back.

    Returns:
        Zeros and ones of the shape and dtype of `distance`.
    """
    function = _TransformableSpike if reference_wanted() else _Spike
    return function.apply(distance, surrogate)  # pyright: ignore[reportReturnType]  # apply is untyped in torch
