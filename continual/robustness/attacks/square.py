"""Square attack (Andriushchenko, Croce, Flammarion and Hein 2020): random search by squares, without any gradient.

l∞: starts with vertical stripes of ±ε; each query sets one square of side √(p H W) to ±ε per channel. l2: starts with
a grid of bumps; each query takes the budget of one window, adds what is left of ε, and gives it to a bump in another
one. A change stays if the margin max_{i≠y} z_i − z_y rises. The share p falls from its start by halves at fixed
fractions of the query budget. Images without two axes are taken as one row of pixels.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.settings import require_at_least_one, require_share
from continual.robustness.losses import Margin
from continual.robustness.norms import L2, LInfinity, per_sample
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel

_HALVED_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Queries, of a budget of 10,000, at which p is halved."""


def square_share(start: float, query: int, budget: int) -> float:
    """Give p at a query: `start`, halved at fixed fractions of the budget."""
    scaled = query / budget * 10_000
    return start / 2 ** sum(scaled > at for at in _HALVED_AT)


def as_planes(images: Tensor) -> Tensor:
    """View images as [B, C, H, W]; what has no two axes becomes one row."""
    if images.ndim == 2:
        return images[:, None, None]
    return images[:, None] if images.ndim == 3 else images.flatten(1, -3) if images.ndim > 4 else images


def window(planes: Tensor, side: int, streams: SampleStreams, *key: int) -> Tensor:
    """Mark one randomly placed square for each sample, [B, 1, H, W] bool."""
    height, width = planes.shape[2:]
    tall, wide = min(side, height), min(side, width)
    top, left = streams.integers((height - tall + 1, width - wide + 1), *key)[:, :, None, None, None].unbind(1)
    rows = torch.arange(height, device=planes.device)[None, None, :, None]
    columns = torch.arange(width, device=planes.device)[None, None, None, :]
    return (rows >= top) & (rows < top + tall) & (columns >= left) & (columns < left + wide)


class Proposal(ABC):
    """How squares are drawn in one norm; everything is [B, C, H, W]."""

    @abstractmethod
    def first(self, planes: Tensor, threat: ThreatModel, streams: SampleStreams) -> Tensor:
        """Give the first perturbation."""

    @abstractmethod
    def change(self, current: Tensor, side: int, threat: ThreatModel, streams: SampleStreams, query: int) -> Tensor:
        """Give another perturbation."""


class Stripes(Proposal):
    """Values of ±ε."""

    def first(self, planes: Tensor, threat: ThreatModel, streams: SampleStreams) -> Tensor:
        """Draw one sign for each channel and column."""
        return (threat.epsilon * streams.signs(planes[:, :, :1], 0)).expand_as(planes)

    def change(self, current: Tensor, side: int, threat: ThreatModel, streams: SampleStreams, query: int) -> Tensor:
        """Set one square to ±ε, a sign for each channel."""
        values = threat.epsilon * streams.signs(current[:, :, :1, :1], query, 2)
        return torch.where(window(current, side, streams, query), values, current)


class Bumps(Proposal):
    """Bumps that share a length of ε."""

    def first(self, planes: Tensor, threat: ThreatModel, streams: SampleStreams) -> Tensor:
        """Tile the image with bumps of a fifth of its side, of random sign."""
        height, width = planes.shape[2:]
        side = max(1, min(height, width) // 5)
        rows, columns = (torch.arange(length, device=planes.device) // side for length in (height, width))
        signs = streams.signs(planes, 0)[:, :, rows][:, :, :, columns]
        tile = bump(side, planes)
        tiled = tile.repeat(math.ceil(height / side), math.ceil(width / side))[:height, :width]
        return threat.epsilon * threat.norm.steepest(signs * tiled)

    def change(self, current: Tensor, side: int, threat: ThreatModel, streams: SampleStreams, query: int) -> Tensor:
        """Move the budget of one window, and what is left, to a bump in another."""
        chosen, emptied = (window(current, side, streams, query, number) for number in (0, 1))
        shape = placed_bump(chosen, current)
        budget = threat.epsilon**2 - (current * ~(chosen | emptied)).square().flatten(1).sum(1)
        shape = shape * streams.signs(current[:, :, :1, :1], query, 2)
        mixed = shape + threat.norm.steepest(current * chosen)
        mixed = threat.norm.steepest(mixed * chosen) * per_sample(budget.clamp(min=0).sqrt(), current)
        return torch.where(chosen | emptied, mixed, current)


def bump(side: int, like: Tensor) -> Tensor:
    """Give a bump of length 1 that falls from the middle of a square to its edge, [side, side]."""
    axis = torch.arange(side, device=like.device, dtype=like.dtype)
    distance = torch.maximum((axis - (side - 1) / 2).abs()[:, None], (axis - (side - 1) / 2).abs()[None])
    rings = (1 / (distance.floor() + 1) ** 2).to(like.dtype)
    return rings / rings.norm()


def placed_bump(chosen: Tensor, like: Tensor) -> Tensor:
    """Put a bump into each sample's window [B, 1, H, W]; of length 1 over a square window."""
    tall, wide = (int(chosen[0, 0].any(axis).sum()) for axis in (1, 0))
    height, width = chosen.shape[2:]
    top, left = chosen.any(3).int().argmax(2), chosen.any(2).int().argmax(2)
    rows = torch.arange(height, device=like.device)[None, None] - top[..., None]
    columns = torch.arange(width, device=like.device)[None, None] - left[..., None]
    values = bump(max(tall, wide), like)
    picked = values[rows.clamp(0, tall - 1)[..., None], columns.clamp(0, wide - 1)[:, :, None]]
    return (picked * chosen).expand_as(like)


@dataclass(frozen=True)
class Square(Attack):
    """Random search by squares; needs no gradient.

    Args:
        queries: images that are tried for every sample.
        initial_share: p at the start, of the image's area.

    Raises:
        ValueError: if queries is below 1, the share outside [0, 1], or the threat has another norm than l∞ or l2.
    """

    queries: int = 5000
    initial_share: float = 0.8
    uses_gradients = False

    def __post_init__(self) -> None:
        require_at_least_one(queries=self.queries)
        require_share(initial_share=self.initial_share)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        planes, proposal = as_planes(images), proposal_for(threat)
        area = planes.shape[2] * planes.shape[3]
        best = self._clipped(planes + proposal.first(planes, threat, streams), planes, threat)
        values = self._margin(oracle, best, images, labels)
        for query in range(1, self.queries):
            share = square_share(self.initial_share, query, self.queries)
            side = max(1, round(math.sqrt(share * area))) if min(planes.shape[2:]) > 1 else max(1, round(share * area))
            changed = proposal.change(best - planes, side, threat, streams, query)
            tried = self._clipped(planes + changed, planes, threat)
            found = self._margin(oracle, tried, images, labels)
            better = (found - values > rounding(values)) & (values <= 0)
            best = torch.where(per_sample(better, planes), tried, best)
            values = torch.where(better, found, values)
        return best.view_as(images)

    def _clipped(self, tried: Tensor, planes: Tensor, threat: ThreatModel) -> Tensor:
        return threat.project(tried, planes)

    def _margin(self, oracle: Oracle, tried: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        return Margin()(oracle.logits(tried.reshape(images.shape)), labels)


def rounding(values: Tensor) -> Tensor:
    """Give what a value may be off by; without it a tie between two images would be decided by their batch."""
    return 16 * torch.finfo(values.dtype).eps * values.abs().clamp(min=1)


def proposal_for(threat: ThreatModel) -> Proposal:
    """Give how squares are drawn in a threat's norm.

    Raises:
        ValueError: if there is no way for this norm.
    """
    known = {LInfinity: Stripes, L2: Bumps}
    if type(threat.norm) not in known:
        raise ValueError(f"Square knows l∞ and l2, got {threat.norm.name}.")
    return known[type(threat.norm)]()
