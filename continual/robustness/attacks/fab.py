"""Fast adaptive boundary attack (Croce and Hein 2020), targeted version: the nearest point of a decision boundary.

Around x_k the boundary between the label y and a target t is the hyperplane z_t − z_y + ⟨w, x − x_k⟩ = 0 with
w = ∇(z_t − z_y). With d_1 the shortest step from x_k to it inside the box and d_2 that from the unattacked x_0,

    a = min(‖d_1‖ / (‖d_1‖ + ‖d_2‖), α_max)
    x_{k+1} = P_box((1 − a)(x_k + η d_1) + a (x_0 + η d_2))

η > 1 steps a little past it. A misclassified x_{k+1} is kept if it is the nearest so far, and pulled back:
x_{k+1} ← x_0 + β (x_{k+1} − x_0). At the end a bisection on the segment to x_0 shortens what was kept.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.apgd import likely_targets
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Closest
from continual.robustness.attacks.settings import require_at_least_one, require_positive, require_share
from continual.robustness.losses import TargetedMargin
from continual.robustness.norms import per_sample
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel

_BISECTIONS = 3


def step_to_plane(threat: ThreatModel, images: Tensor, normal: Tensor, offset: Tensor) -> Tensor:
    """Give the shortest step from images to {x : offset + ⟨normal, x − images⟩ = 0} inside the box.

    Args:
        threat: gives norm and box.
        images: [B, ...].
        normal: w, [B, ...].
        offset: value of the linear function at the images, [B]; either sign.

    Returns:
        [B, ...]; as far as the box lets it where it does not meet the plane.
    """
    uphill = normal * per_sample(torch.where(offset > 0, -1.0, 1.0).to(normal.dtype), normal)
    room = torch.where(uphill > 0, threat.upper - images, images - threat.lower)
    return threat.norm.to_plane(uphill.flatten(1), offset.abs(), room.flatten(1)).view_as(images)


@dataclass(frozen=True)
class FAB(Attack):
    """Smallest perturbation in the threat's norm, towards one class after the other.

    Args:
        steps: for each class.
        num_targets: classes that are tried, those with the highest logits first.
        largest_pull: α_max, the most that a step may be drawn towards the unattacked image.
        overshoot: η, at least 1.
        backward_share: β, what is left of a found perturbation before the next step.

    Raises:
        ValueError: if a count is below 1, a share outside [0, 1] or overshoot not above 0.
    """

    steps: int = 100
    num_targets: int = 9
    largest_pull: float = 0.1
    overshoot: float = 1.05
    backward_share: float = 0.9

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, num_targets=self.num_targets)
        require_share(largest_pull=self.largest_pull, backward_share=self.backward_share)
        require_positive(overshoot=self.overshoot)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        closest = Closest(images)
        for targets in likely_targets(oracle, images, labels, self.num_targets).unbind(1):
            self._towards(oracle, images, labels, targets, threat, closest)
        self._shorten(oracle, images, labels, threat, closest)
        return threat.nearest_allowed(closest.images, images)

    def _towards(
        self, oracle: Oracle, images: Tensor, labels: Tensor, targets: Tensor, threat: ThreatModel, closest: Closest
    ) -> None:
        current = images
        for step in range(self.steps + 1):
            seen = oracle.gradient(current, lambda z: TargetedMargin()(z, labels, targets))
            fooled = seen.logits.argmax(1) != labels
            closest.offer(current, threat.norm.length(current - images), fooled)
            if step == self.steps:
                return
            back = images + self.backward_share * (current - images)
            offset_back = seen.values + (seen.gradient * (back - current)).flatten(1).sum(1)
            pulled = per_sample(fooled, images)
            offset = torch.where(fooled, offset_back, seen.values)
            current = self._next(torch.where(pulled, back, current), images, seen.gradient, offset, threat)

    def _next(self, current: Tensor, images: Tensor, normal: Tensor, offset: Tensor, threat: ThreatModel) -> Tensor:
        offset_origin = offset + (normal * (images - current)).flatten(1).sum(1)
        near = step_to_plane(threat, current, normal, offset)
        far = step_to_plane(threat, images, normal, offset_origin)
        lengths = [threat.norm.length(step) for step in (near, far)]
        tiny = torch.finfo(images.dtype).tiny
        pull = per_sample((lengths[0] / (lengths[0] + lengths[1]).clamp(min=tiny)).clamp(max=self.largest_pull), images)
        return threat.clip((1 - pull) * (current + self.overshoot * near) + pull * (images + self.overshoot * far))

    def _shorten(self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, closest: Closest) -> None:
        inside, outside = images, closest.images
        for _ in range(_BISECTIONS):
            middle = (inside + outside) / 2
            fooled = oracle.logits(middle).argmax(1) != labels
            closest.offer(middle, threat.norm.length(middle - images), fooled)
            there = per_sample(fooled, images)
            inside, outside = torch.where(there, inside, middle), torch.where(there, middle, outside)
