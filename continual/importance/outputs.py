"""The sensitivity of the outputs (Aljundi et al. 2018): mean over samples of |∂‖z(x)‖² / ∂θ|, z the rows that compete.

It needs no label. Absolute values are taken per sample; widely used code takes that of a batch's mean gradient.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from continual.batches import TrainingData
from continual.importance.estimator import Importance, ScorePass
from continual.importance.scores import squared_length


class OutputSensitivity(Importance):
    """How fast the squared length of the outputs changes with each parameter: MAS."""

    name, measures = "outputs", "output_sensitivity"

    def magnitude(self, gradients: Tensor) -> Tensor:
        """Give their sizes."""
        return gradients.abs()

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give ‖z‖² over the rows that compete."""
        yield ScorePass(squared_length)
