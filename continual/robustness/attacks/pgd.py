"""Projected gradient ascent (Madry et al. 2018).

    x_0 uniform in the ball,   x_{t+1} = P(x_t + a d(∇L(x_t)))

d is the steepest unit step of the norm, P projects onto ball and box. Deliberate: every iterate counts, each sample
keeps its first misclassified one, else the one of highest loss; the step is a share of ε, so that the first steps of
a longer run are a shorter run, and more steps or restarts can only find more.
"""

from dataclasses import dataclass

from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Best
from continual.robustness.attacks.settings import require_at_least_one, require_positive
from continual.robustness.losses import CROSS_ENTROPY, Loss
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent with random restarts.

    Args:
        steps: T, gradients of one start.
        relative_step: a / ε; 0.25 is 2/255 at ε = 8/255.
        restarts: random starts.
        loss: what is raised; any function of logits and labels that gives a value per sample.

    Raises:
        ValueError: if a number is not above 0.
    """

    steps: int = 20
    relative_step: float = 0.25
    restarts: int = 5
    loss: Loss = CROSS_ENTROPY

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, restarts=self.restarts)
        require_positive(relative_step=self.relative_step)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        best, step = Best(images), self.relative_step * threat.epsilon
        for restart in range(self.restarts):
            current = threat.start(images, streams, restart)
            for _ in range(self.steps):
                seen = oracle.gradient(current, lambda logits: self.loss(logits, labels))
                best.offer(current, seen.values, seen.logits.argmax(1) != labels)
                current = threat.project(current + step * threat.norm.steepest(seen.gradient), images)
            seen = oracle.score(current, lambda logits: self.loss(logits, labels))
            best.offer(current, seen.values, seen.logits.argmax(1) != labels)
        return best.images
