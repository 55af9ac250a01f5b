"""Random noise of full length: no attack, but what every attack has to beat.

Each draw goes the whole radius in a random direction: ±ε in every pixel for l∞, a random point of the sphere for l2.
"""

from dataclasses import dataclass

from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Best
from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.losses import Margin
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class RandomNoise(Attack):
    """The worst of some draws of noise.

    Args:
        draws: for every sample.

    Raises:
        ValueError: if draws is below 1.
    """

    draws: int = 100
    uses_gradients = False

    def __post_init__(self) -> None:
        require_at_least_one(draws=self.draws)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        best = Best(images)
        for draw in range(self.draws):
            direction = threat.norm.steepest(streams.normal(images, draw))
            tried = threat.project(images + threat.epsilon * direction, images)
            seen = oracle.score(tried, lambda logits: Margin()(logits, labels))
            best.offer(tried, seen.values, seen.values > 0)
        return best.images
