"""How a network answers images, asked as attacks ask it: evaluation mode, left as found, randomness put to a vote."""

import torch
from torch import Tensor

from continual.robustness.adversarial import Adversarial
from continual.robustness.oracle import opened
from continual.robustness.target import Model, Target, as_target


def predict(model: Model | Target, images: Tensor, batch_size: int = 128, seed: int = 0) -> Tensor:
    """Give predicted classes.

    Args:
        model: any callable from images to logits, or a `Target`.
        images: raw pixels, [N, ...].
        batch_size: images at a time.
        seed: of the streams that a network may draw from meanwhile.

    Returns:
        Classes in the numbering of the head, [N].

    Raises:
        ValueError: if logits have the wrong shape or are not finite.
    """
    target = as_target(model)
    with target.left_as_found(seed), torch.no_grad():
        parts = images.split(batch_size)
        return torch.cat([target.head_labels(opened(target, part).decide(part)) for part in parts])


def rescore(model: Model | Target, found: Adversarial, batch_size: int = 128, seed: int = 0) -> float:
    """Give a network's accuracy on stored adversarial images, those of another network or its own.

    Args:
        model: any callable from images to logits, or a `Target`.
        found: as an attack or `Adversarial.load` gave them.
        batch_size: images at a time.
        seed: of the streams that a network may draw from meanwhile.
    """
    return float((predict(model, found.images, batch_size, seed) == found.labels).double().mean())
