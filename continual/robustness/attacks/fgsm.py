"""One step: the fast gradient method (Goodfellow, Shlens and Szegedy 2015).

    x' = P(x + ε d(∇L)),   d the steepest unit step of the norm, sign(g) for l∞ and g/‖g‖₂ for l2

P projects onto ball and box. On linear logits and away from the box it reaches the exact worst case of the ball.
"""

from dataclasses import dataclass

from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.losses import CROSS_ENTROPY, Loss
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class FGSM(Attack):
    """One full step along the gradient.

    Args:
        loss: what is raised; any function of logits and labels that gives a value per sample.
    """

    loss: Loss = CROSS_ENTROPY

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        gradient = oracle.gradient(images, lambda logits: self.loss(logits, labels)).gradient
        return threat.project(images + threat.epsilon * threat.norm.steepest(gradient), images)
