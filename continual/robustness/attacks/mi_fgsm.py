"""Momentum iterative fast gradient method (Dong et al. 2018), made for transfer.

    m_{t+1} = μ m_t + g_t / ‖g_t‖₁,    x_{t+1} = P(x_t + (ε/T) d(m_{t+1})),   x_0 = x

The gradient is scaled by each sample's own l1 norm. Deliberate: a gradient that is exactly 0, common in spiking
networks, adds nothing to the momentum instead of dividing 0 by 0, so the search goes on.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Best
from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.losses import CROSS_ENTROPY, Loss
from continual.robustness.norms import per_sample
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class MIFGSM(Attack):
    """Gradient ascent with momentum, steps of ε/T.

    Args:
        steps: T.
        momentum: μ, dimensionless.
        loss: what is raised; any function of logits and labels that gives a value per sample.

    Raises:
        ValueError: if steps is below 1.
    """

    steps: int = 10
    momentum: float = 1.0
    loss: Loss = CROSS_ENTROPY

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        best, current, momentum = Best(images), images, torch.zeros_like(images)
        for _ in range(self.steps):
            seen = oracle.gradient(current, lambda logits: self.loss(logits, labels))
            best.offer(current, seen.values, seen.logits.argmax(1) != labels)
            momentum = self.momentum * momentum + unit_l1(seen.gradient)
            current = threat.project(current + threat.epsilon / self.steps * threat.norm.steepest(momentum), images)
        seen = oracle.score(current, lambda logits: self.loss(logits, labels))
        best.offer(current, seen.values, seen.logits.argmax(1) != labels)
        return best.images


def unit_l1(gradient: Tensor) -> Tensor:
    """Scale each sample [B, ...] to an l1 norm of 1; zeros stay zeros, however small the entries are."""
    tiny = torch.finfo(gradient.dtype).tiny
    scaled = gradient / per_sample(gradient.flatten(1).abs().amax(1), gradient).clamp(min=tiny)
    return scaled / per_sample(scaled.flatten(1).abs().sum(1), scaled).clamp(min=tiny)
