"""Boundary attack (Brendel, Rauber and Bethge 2018): walks along the decision boundary, with decisions alone.

It starts at noise that is misclassified. Each step takes a random direction orthogonal to the one towards the
unattacked image, scaled to δ times the distance and put back on the sphere, and then moves towards the image by ε_s of
the distance. A step that is still misclassified is kept. Every sample adapts δ and ε_s: they grow while more than half
of the last steps worked, and shrink otherwise. It minimises l2 whatever the threat's norm is; what it finds outside
the ball is projected onto it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Closest
from continual.robustness.attacks.settings import require_at_least_one, require_positive
from continual.robustness.norms import L2, per_sample
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel

_MEMORY, _GROWTH = 10, 1.3
"""Steps between two adaptations, and what a step is multiplied or divided by."""


@dataclass(frozen=True)
class Boundary(Attack):
    """Smallest l2 perturbation from decisions alone.

    Args:
        steps: of the walk, two decisions each.
        starts: draws of noise that may be tried to find a misclassified image.
        orthogonal_step: δ at the start, a share of the distance.
        forward_step: ε_s at the start, a share of the distance.

    Raises:
        ValueError: if a count is below 1 or a step not above 0.
    """

    steps: int = 1000
    starts: int = 25
    orthogonal_step: float = 0.1
    forward_step: float = 0.1
    uses_gradients = False

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, starts=self.starts)
        require_positive(orthogonal_step=self.orthogonal_step, forward_step=self.forward_step)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        closest = self._start(oracle, images, labels, threat, streams)
        sideways = torch.full_like(closest.lengths, self.orthogonal_step)
        forwards = torch.full_like(closest.lengths, self.forward_step)
        around, ahead = torch.zeros_like(sideways), torch.zeros_like(sideways)
        for step in range(self.steps):
            current, distance = closest.images, per_sample(closest.lengths, images).nan_to_num(0, 0, 0)
            turned = threat.clip(turn(current, images, per_sample(sideways, images), distance, streams, step))
            on_sphere = self._wrong(oracle, turned, labels)
            nearer = threat.clip(turned + per_sample(forwards, images) * (images - turned))
            inside = self._wrong(oracle, nearer, labels)
            closest.offer(nearer, L2().length(nearer - images), inside)
            around, ahead = around + on_sphere, ahead + (inside & on_sphere)
            if step % _MEMORY == _MEMORY - 1:
                sideways = adapted(sideways, around / _MEMORY)
                forwards = adapted(forwards, ahead / around.clamp(min=1)).clamp(max=0.5)
                around, ahead = torch.zeros_like(around), torch.zeros_like(ahead)
        return threat.nearest_allowed(closest.images, images)

    def _start(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Closest:
        """Look for misclassified noise, and go towards the image by bisection."""
        closest = Closest(images)
        for number in range(self.starts):
            noise = threat.lower + threat.width * streams.uniform(images, number, 0)
            lengths = L2().length(noise - images)
            closest.offer(noise, lengths, self._wrong(oracle, noise, labels) & ~closest.found)
        inside, outside = images, closest.images
        for _ in range(10):
            middle = (inside + outside) / 2
            wrong = self._wrong(oracle, middle, labels)
            closest.offer(middle, L2().length(middle - images), wrong)
            there = per_sample(wrong, images)
            inside, outside = torch.where(there, inside, middle), torch.where(there, middle, outside)
        return closest

    def _wrong(self, oracle: Oracle, images: Tensor, labels: Tensor) -> Tensor:
        return oracle.logits(images).argmax(1) != labels


def turn(current: Tensor, origin: Tensor, share: Tensor, distance: Tensor, streams: SampleStreams, key: int) -> Tensor:
    """Move on the sphere around `origin` by a random orthogonal step of `share` times the distance."""
    towards = L2().steepest(origin - current)
    noise = streams.normal(current, key, 1)
    noise = noise - per_sample((noise * towards).flatten(1).sum(1), noise) * towards
    moved = current + share * distance * L2().steepest(noise)
    return origin + distance * L2().steepest(moved - origin)


def adapted(step: Tensor, worked: Tensor) -> Tensor:
    """Grow a step that works more than half of the time, shrink the others."""
    return torch.where(worked > 0.5, step * _GROWTH, step / _GROWTH)
