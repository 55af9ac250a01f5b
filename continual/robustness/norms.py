"""The geometry of a perturbation: how long it is, how it is shortened, and which way is steepest.

For a norm ‖·‖_p each of these has a closed form: the projection onto a ball (clip for l∞, rescale for l2), the unit
step that raises a linear function most (sign g for l∞, g/‖g‖₂ for l2), and the nearest point of a hyperplane inside
a box (Croce and Hein 2020, FAB). The last one is a filling problem: coordinate i moves at rate r_i until it meets the
box at time t_i, and one seeks the time at which Σ r_i min(t, t_i) has reached what the plane asks for; sorting the t_i
solves it exactly.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.streams import SampleStreams


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """Give [B] values the shape [B, 1, ...] that broadcasts against `like` [B, ...]."""
    return values.view(-1, *(1,) * (like.ndim - 1))


def filling_time(rates: Tensor, limits: Tensor, amount: Tensor) -> Tensor:
    """Give the earliest t with Σ_i rates_i min(t, limits_i) = amount, for each sample.

    Args:
        rates: at least 0, [B, D].
        limits: at least 0, [B, D].
        amount: at least 0, [B].

    Returns:
        t, [B]; infinity where the whole sum stays below the amount.
    """
    limits, order = limits.sort(dim=1)
    rates = rates.gather(1, order)
    filled_before = (rates * limits).cumsum(1) - rates * limits
    still_moving = rates.flip(1).cumsum(1).flip(1)
    reached = filled_before + still_moving * limits
    enough = reached >= amount[:, None]
    first = enough.int().argmax(1, keepdim=True)
    missing = amount - filled_before.gather(1, first).squeeze(1)
    speed = still_moving.gather(1, first).squeeze(1)
    time = torch.where(speed > 0, missing / speed.clamp(min=torch.finfo(speed.dtype).tiny), torch.zeros_like(missing))
    return torch.where(enough.any(1), time, torch.full_like(time, torch.inf))


class Norm(ABC):
    """The role: the geometry that attacks ask for. Perturbations are [B, ...]; each sample has its own length."""

    name: str

    @abstractmethod
    def length(self, perturbation: Tensor) -> Tensor:
        """Give ‖δ‖ of each sample, [B]."""

    @abstractmethod
    def shorten(self, perturbation: Tensor, radius: Tensor | float) -> Tensor:
        """Give the nearest perturbation with ‖δ‖ <= radius; the radius is a number or [B, 1, ...]."""

    @abstractmethod
    def steepest(self, gradient: Tensor) -> Tensor:
        """Give the δ with ‖δ‖ = 1 that maximises ⟨g, δ⟩; 0 where the gradient is 0."""

    @abstractmethod
    def draw(self, like: Tensor, radius: float, streams: SampleStreams, key: int) -> Tensor:
        """Draw uniformly from the ball, of the shape of `like`."""

    @abstractmethod
    def dual_length(self, gradient: Tensor) -> Tensor:
        """Give ‖g‖_q with 1/p + 1/q = 1, [B]: how fast a function of this gradient rises per unit of length."""

    @abstractmethod
    def to_plane(self, normal: Tensor, amount: Tensor, room: Tensor) -> Tensor:
        """Give the shortest δ with ⟨normal, δ⟩ = amount that stays in the box.

        Args:
            normal: w, [B, D].
            amount: what ⟨w, δ⟩ has to become, at least 0, [B].
            room: how far each coordinate may move along sign(w), at least 0, [B, D].

        Returns:
            δ, [B, D]; all the way to the box where the plane does not meet it.
        """


@dataclass(frozen=True)
class LInfinity(Norm):
    """The largest change of any pixel."""

    name = "linf"

    def length(self, perturbation: Tensor) -> Tensor:
        """Give max|δ|."""
        return perturbation.flatten(1).abs().amax(1)

    def shorten(self, perturbation: Tensor, radius: Tensor | float) -> Tensor:
        """Clip every coordinate."""
        return torch.minimum(torch.maximum(perturbation, -_tensor(radius, perturbation)), _tensor(radius, perturbation))

    def steepest(self, gradient: Tensor) -> Tensor:
        """Give sign(g)."""
        return gradient.sign()

    def draw(self, like: Tensor, radius: float, streams: SampleStreams, key: int) -> Tensor:
        """Draw every coordinate from U(−radius, radius)."""
        return (2 * streams.uniform(like, key) - 1) * radius

    def dual_length(self, gradient: Tensor) -> Tensor:
        """Give ‖g‖₁."""
        return gradient.flatten(1).abs().sum(1)

    def to_plane(self, normal: Tensor, amount: Tensor, room: Tensor) -> Tensor:
        """Move every coordinate equally far, until the box stops it."""
        time = filling_time(normal.abs(), room, amount)
        return normal.sign() * torch.minimum(time[:, None], room)


@dataclass(frozen=True)
class L2(Norm):
    """The Euclidean length of the change of all pixels together."""

    name = "l2"

    def length(self, perturbation: Tensor) -> Tensor:
        """Give √Σδ²."""
        return torch.linalg.vector_norm(perturbation.flatten(1), dim=1)

    def shorten(self, perturbation: Tensor, radius: Tensor | float) -> Tensor:
        """Scale what is too long."""
        length = per_sample(self.length(perturbation), perturbation)
        scale = _tensor(radius, perturbation) / length.clamp(min=torch.finfo(perturbation.dtype).tiny)
        return perturbation * scale.clamp(max=1)

    def steepest(self, gradient: Tensor) -> Tensor:
        """Give g/‖g‖₂; scaled by the largest entry first, so that the square of a tiny one does not vanish."""
        tiny = torch.finfo(gradient.dtype).tiny
        scaled = gradient / per_sample(gradient.flatten(1).abs().amax(1), gradient).clamp(min=tiny)
        return scaled / per_sample(self.length(scaled), scaled).clamp(min=tiny)

    def draw(self, like: Tensor, radius: float, streams: SampleStreams, key: int) -> Tensor:
        """Draw a Gaussian direction, and the length as radius · U^(1/D)."""
        direction = self.steepest(streams.normal(like, key))
        share = streams.uniform(like[:, :1].flatten(1)[:, :1], key, 1) ** (1 / max(1, like[0].numel()))
        return direction * per_sample(share.squeeze(1), like) * radius

    def dual_length(self, gradient: Tensor) -> Tensor:
        """Give ‖g‖₂."""
        return self.length(gradient)

    def to_plane(self, normal: Tensor, amount: Tensor, room: Tensor) -> Tensor:
        """Move along the normal, until the box stops a coordinate."""
        speed = normal.abs()
        limits = torch.where(speed > 0, room / speed.clamp(min=torch.finfo(speed.dtype).tiny), torch.zeros_like(room))
        time = filling_time(speed.square(), limits, amount)
        return normal.sign() * torch.minimum(speed * torch.minimum(time[:, None], limits), room)


def _tensor(radius: Tensor | float, like: Tensor) -> Tensor:
    return radius if isinstance(radius, Tensor) else torch.as_tensor(radius, dtype=like.dtype, device=like.device)
