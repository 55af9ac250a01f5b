"""Of which outputs of a sample the gradients are directions worth keeping: one logit, every one, or their mean."""

from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from continual.batches import TrainingData
from continual.importance import ScorePass


@runtime_checkable
class Outputs(Protocol):
    """The role: of which outputs of a sample the gradients are kept."""

    def __call__(self, data: TrainingData) -> ScorePass:
        """Give the outputs, from logits and competing rows; `data.active` is [N, classes]."""
        ...

    def per_sample(self, num_competing: int) -> int:
        """Give how many directions a sample can add."""
        ...


class TrueLogit:
    """The logit of the true label."""

    def __call__(self, data: TrainingData) -> ScorePass:
        """Give z_y."""
        return ScorePass(lambda logits, active, label: logits.gather(0, label[None])[0], (data.targets,))

    def per_sample(self, num_competing: int) -> int:
        """Give 1."""
        return 1


class EveryLogit:
    """The logit of every row that competes: what keeps whole outputs, for as many directions."""

    def __call__(self, data: TrainingData) -> ScorePass:
        """Give z_c for every c."""
        rows = data.active.any(0).nonzero().flatten()
        return ScorePass(partial(competing_logits, rows), num_scores=len(rows))

    def per_sample(self, num_competing: int) -> int:
        """Give one per row."""
        return num_competing


class MeanLogit:
    """The mean logit of the rows that compete."""

    def __call__(self, data: TrainingData) -> ScorePass:
        """Give Σ_c z_c over how many there are."""
        return ScorePass(lambda logits, active: (logits * active).sum() / active.sum())

    def per_sample(self, num_competing: int) -> int:
        """Give 1."""
        return 1


def competing_logits(rows: Tensor, logits: Tensor, active: Tensor) -> Tensor:
    """Give the logits of rows [K], 0 where one does not compete."""
    return torch.where(active[rows], logits[rows], 0.0)
