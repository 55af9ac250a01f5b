"""Cross-entropy over the rows of the head that are active: what plain classification minimises."""

import torch
import torch.nn.functional as F
from torch import Tensor

from continual.batches import Batch
from continual.objectives.objective import Objective


class CrossEntropy(Objective):
    """Mean cross-entropy, or Σ w_i CE_i for a batch with weights; inactive rows get exactly zero gradient.

    Args:
        label_smoothing: share of the target spread over the active rows, in [0, 1).

    Raises:
        ValueError: if label_smoothing is outside its range.
    """

    name = "cross_entropy"

    def __init__(self, label_smoothing: float = 0.0) -> None:
        super().__init__()
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), got {label_smoothing}.")
        self.label_smoothing = float(label_smoothing)

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [B, classes], a scalar."""
        log_probabilities = masked_logits(outputs, prepared.active).log_softmax(1)
        weights = prepared.weights
        if weights is None:
            chosen = F.nll_loss(log_probabilities, prepared.targets)
        else:
            chosen = (weights * F.nll_loss(log_probabilities, prepared.targets, reduction="none")).sum()
        if self.label_smoothing == 0:
            return chosen
        active = torch.ones_like(outputs, dtype=torch.bool) if prepared.active is None else prepared.active
        spread = log_probabilities.masked_fill(~active, 0).sum(1) / active.expand(outputs.shape).sum(1)
        spread = spread.mean() if weights is None else (weights * spread).sum()
        return (1 - self.label_smoothing) * chosen - self.label_smoothing * spread


def masked_logits(logits: Tensor, active: Tensor | None) -> Tensor:
    """Take inactive rows out of the competition.

    Args:
        logits: [B, classes].
        active: [classes] or [B, classes] of booleans; None for all.
    """
    if active is None or logits.shape[1] == 0:
        return logits
    return logits.masked_fill(~active, float("-inf"))
