"""The l2 attack of Carlini and Wagner (2017), untargeted.

    minimise over w   ‖x'(w) − x‖₂² + c max(z_y − max_{i≠y} z_i, −κ),     x'(w) = lower + (upper − lower)(tanh w + 1)/2

by Adam, with a binary search over c that each sample does for itself: c shrinks where the sample was fooled, grows
where not. The tangent keeps x' inside the box. Each sample keeps its nearest misclassified image. It minimises l2
whatever the threat's norm is; what it finds outside the ball is projected onto it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Closest
from continual.robustness.attacks.settings import require_at_least_one, require_positive
from continual.robustness.losses import Margin
from continual.robustness.norms import L2, per_sample
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel

_FIRST, _SECOND, _STABLE = 0.9, 0.999, 1e-8
"""Adam's constants."""


@dataclass(frozen=True)
class CarliniWagner(Attack):
    """Smallest l2 perturbation by Adam and a search for c.

    Args:
        steps: of Adam for every c.
        searches: values of c that are tried.
        initial_constant: first c, in squared pixels per logit.
        learning_rate: of Adam, in units of w.
        confidence: κ, the margin in logits beyond which nothing more is asked.

    Raises:
        ValueError: if a number is not above 0, or confidence is below 0.
    """

    steps: int = 1000
    searches: int = 9
    initial_constant: float = 1e-2
    learning_rate: float = 1e-2
    confidence: float = 0.0

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, searches=self.searches)
        require_positive(initial_constant=self.initial_constant, learning_rate=self.learning_rate)
        if self.confidence < 0:
            raise ValueError(f"confidence must be at least 0, got {self.confidence}.")

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        closest = Closest(images)
        low = torch.zeros(len(images), dtype=images.dtype, device=images.device)
        high, constant = torch.full_like(low, torch.inf), torch.full_like(low, self.initial_constant)
        for _ in range(self.searches):
            fooled = self._descend(oracle, images, labels, threat, constant, closest)
            low, high = torch.where(fooled, low, constant), torch.where(fooled, constant, high)
            constant = torch.where(high.isinf(), constant * 10, (low + high) / 2)
        return threat.nearest_allowed(closest.images, images)

    def _descend(
        self,
        oracle: Oracle,
        images: Tensor,
        labels: Tensor,
        threat: ThreatModel,
        constant: Tensor,
        closest: Closest,
    ) -> Tensor:
        """Run Adam for one c a sample; tell which samples were fooled, [B]."""
        edge = 1 - 1e-6
        w = torch.atanh(((images - threat.lower) / threat.width * 2 - 1).clamp(-edge, edge))
        first, second = torch.zeros_like(w), torch.zeros_like(w)
        ever = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for step in range(1, self.steps + 1):
            bent = torch.tanh(w)
            current = threat.clip(threat.lower + threat.width * (bent + 1) / 2)
            seen = oracle.gradient(current, lambda logits: Margin()(logits, labels).clamp(max=self.confidence))
            fooled = Margin()(seen.logits, labels) > 0 if self.confidence == 0 else seen.values >= self.confidence
            closest.offer(current, L2().length(current - images), fooled)
            ever = ever | fooled
            pull = 2 * (current - images) - per_sample(constant, images) * seen.gradient
            slope = pull * threat.width / 2 * (1 - bent.square())
            first = _FIRST * first + (1 - _FIRST) * slope
            second = _SECOND * second + (1 - _SECOND) * slope.square()
            rate = self.learning_rate / (1 - _FIRST**step)
            w = w - rate * first / ((second / (1 - _SECOND**step)).sqrt() + _STABLE)
        return ever
