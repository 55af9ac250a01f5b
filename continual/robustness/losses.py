"""What an attack raises: a number per sample that is large where the network is wrong.

With z the logits, y the label, z_(1) >= z_(2) >= … the sorted logits and t a target class:

    cross-entropy       −log softmax(z)_y
    margin              max_{i≠y} z_i − z_y                        above 0 exactly where the network is wrong
    DLR                 (max_{i≠y} z_i − z_y) / (z_(1) − z_(3))    Croce and Hein (2020)
    targeted margin     z_t − z_y
    targeted DLR        (z_t − z_y) / (z_(1) − (z_(3) + z_(4)) / 2)

The DLR (difference of logits ratio) losses do not change when all logits are shifted or scaled, so a network that
blows its logits up cannot starve them of gradient as it can cross-entropy; they need at least 3 and 4 classes. All
exclude y by −∞, not by a product with zero, which is wrong where every logit is negative.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]
"""From logits [B, C] and labels [B] to a value per sample [B]; attacks raise it."""

TargetedLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From logits [B, C], labels [B] and target classes [B] to a value per sample [B]."""


def best_other(logits: Tensor, labels: Tensor) -> Tensor:
    """Give max_{i≠y} z_i, [B]."""
    return logits.scatter(1, labels[:, None], -torch.inf).amax(1)


def picked(logits: Tensor, classes: Tensor) -> Tensor:
    """Give each sample's logit of its class, [B]."""
    return logits.gather(1, classes[:, None]).squeeze(1)


@dataclass(frozen=True)
class CrossEntropyLoss:
    """−log softmax(z)_y, for any number of classes."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Give the loss of every sample."""
        return F.cross_entropy(logits, labels, reduction="none")


@dataclass(frozen=True)
class Margin:
    """max_{i≠y} z_i − z_y, for any number of classes."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Give the loss of every sample."""
        return best_other(logits, labels) - picked(logits, labels)


@dataclass(frozen=True)
class DLR:
    """The margin over z_(1) − z_(3); at least 3 classes."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Give the loss of every sample.

        Raises:
            ValueError: if there are fewer than 3 classes.
        """
        _require_classes(logits, 3, "DLR", "Margin()")
        ranked = logits.topk(3, dim=1).values
        return Margin()(logits, labels) / _positive(ranked[:, 0] - ranked[:, 2])


@dataclass(frozen=True)
class TargetedMargin:
    """z_t − z_y, for any number of classes."""

    def __call__(self, logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        """Give the loss of every sample."""
        return picked(logits, targets) - picked(logits, labels)


@dataclass(frozen=True)
class TargetedDLR:
    """z_t − z_y over z_(1) − (z_(3) + z_(4))/2; at least 4 classes."""

    def __call__(self, logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        """Give the loss of every sample.

        Raises:
            ValueError: if there are fewer than 4 classes.
        """
        _require_classes(logits, 4, "TargetedDLR", "TargetedMargin()")
        ranked = logits.topk(4, dim=1).values
        spread = ranked[:, 0] - (ranked[:, 2] + ranked[:, 3]) / 2
        return TargetedMargin()(logits, labels, targets) / _positive(spread)


def _positive(spread: Tensor) -> Tensor:
    """Keep a spread of equal logits from dividing by zero."""
    return spread.clamp(min=torch.finfo(spread.dtype).tiny ** 0.5)


def _require_classes(logits: Tensor, least: int, name: str, instead: str) -> None:
    if logits.shape[1] < least:
        raise ValueError(f"{name} needs at least {least} classes, this head has {logits.shape[1]}; use loss={instead}.")


CROSS_ENTROPY = CrossEntropyLoss()
TARGETED_DLR = TargetedDLR()
"""What attacks raise unless told otherwise."""
