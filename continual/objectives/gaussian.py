"""Gaussian augmentation (Cohen, Rosenfeld, Kolter 2019): cross-entropy on noisy images.

    L = (1/k) Σ_j CE(f(x + σ ε_j), y),      ε_j ~ N(0, I), fresh at every step

It trains the base classifier of a smoothed one, and is what every other way of doing so is compared with.
"""

from collections.abc import Callable

from torch import Tensor

from continual.batches import Batch
from continual.objectives.copies import noisy, require_copies, require_sigma
from continual.objectives.cross_entropy import CrossEntropy
from continual.objectives.objective import Objective


class Gaussian(Objective):
    """Learn from noisy copies.

    Args:
        sigma: standard deviation of the noise, raw pixel units.
        copies: k, noisy copies of each sample a step.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "gaussian"

    def __init__(self, sigma: float, copies: int = 1) -> None:
        super().__init__()
        self.sigma, self.copies = require_sigma(sigma), require_copies(copies)
        self._cross_entropy = CrossEntropy()

    @property
    def rows(self) -> int:
        """Give k."""
        return self.copies

    @property
    def passes(self) -> int:
        """Give k."""
        return self.copies

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give noisy copies, [k · B, ...]."""
        return noisy(batch, self.sigma, self.copies, self.generator)

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [k · B, classes]: the mean over copies and samples."""
        return self._cross_entropy.loss(outputs, prepared)
