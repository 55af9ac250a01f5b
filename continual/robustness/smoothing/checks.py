"""What must hold before noisy copies of images are worth counting; every mistake is named with its repair."""

from collections.abc import Sequence

import torch
from torch import Tensor

from continual.robustness.checks import require_images, require_labels
from continual.robustness.oracle import require_steadiness
from continual.robustness.target import Target
from continual.robustness.threat import l2


def require_data(images: Tensor, labels: Tensor | None) -> Tensor:
    """Refuse images that are not raw pixels in [0, 1], and labels that are not one class number an image.

    Returns:
        The images, detached; a pixel that rounding carried over the edge of the box is put back on it.

    Raises:
        TypeError: for the wrong type.
        ValueError: for pixels outside [0, 1] or not finite, or the wrong number of labels.
    """
    images = require_images(images, l2(1.0))
    if labels is not None:
        require_labels(labels, images)
    return images


def require_indices(indices: Sequence[int] | None, number: int) -> list[int]:
    """Give the numbers that name images, 0, 1, … where none are given.

    Raises:
        ValueError: if they are not one for each image, repeat, or are negative.
    """
    if indices is None:
        return list(range(number))
    names = [int(index) for index in indices]
    if len(names) != number or len(set(names)) != number or min(names) < 0:
        raise ValueError(
            f"indices must be {number} different whole numbers >= 0, one for each image, got {len(names)}, of which "
            f"{len(set(names))} differ; equal indices would give different images the same noise."
        )
    return names


@torch.no_grad()
def number_of_classes(target: Target, images: Tensor) -> int:
    """Ask a network for the first time, and refuse answers that cannot be counted.

    Raises:
        TypeError: if it gives no floating-point tensor.
        ValueError: if the shape is not [B, C] with C >= 2, or answers change from call to call undeclared.
    """
    first = target.ask(images[:2])
    if not isinstance(first, Tensor) or not first.is_floating_point():
        came = first.dtype if isinstance(first, Tensor) else type(first).__name__
        raise TypeError(f"The network must give a floating-point tensor of logits [B, C], got {came}.")
    number = len(images[:2])
    if first.ndim != 2 or len(first) != number or first.shape[1] < 2:
        raise ValueError(
            f"The network must give logits [{number}, C] with at least 2 classes for {number} images, got "
            f"{list(first.shape)}."
        )
    if bool(first.isfinite().all()):  # otherwise counting refuses it, with the image's index
        require_steadiness(target, images)
    return first.shape[1]
