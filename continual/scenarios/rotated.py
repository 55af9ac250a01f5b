"""Rotated images: each task shows the same images turned by another angle.

Task k of T turns by k * max_degrees / (T - 1) degrees counter-clockwise about the centre, so task 0 is upright and
the last task is turned by `max_degrees`. Neighbouring tasks resemble each other, which leaves room for transfer. At
180 degrees a 6 is a 9, so in mode "domain" part of what looks like forgetting is a contradiction in the labels.

Source: Lopez-Paz and Ranzato (2017), rotated MNIST. Differs: they draw the angles at random from [0, 180]; here they
are evenly spaced, so no seed is needed.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from continual.data.arrays import Dataset
from continual.scenarios.task import Mode, TaskSequence, TrainLogits, check_num_tasks
from continual.scenarios.transformed import Transform, transformed_sequence


def rotated(
    dataset: Dataset,
    num_tasks: int = 5,
    max_degrees: float = 180.0,
    mode: Mode = "domain",
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make a sequence of rotated copies of an image dataset.

    Args:
        dataset: Images [N, H, W] or [N, C, H, W]; C classes.
        num_tasks: T, at least 1. Each task holds a copy of the data, uint8 where the data is.
        max_degrees: Angle of the last task, 0 < angle < 360.
        mode: "domain" (one set of C rows for all tasks), "task" or "class" (C rows a task, T C in all).
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Returns:
        The sequence.

    Raises:
        ValueError: Fewer than one task, an angle out of range, inputs that are no images, or an unknown mode or
            `train_logits`.
    """
    check_num_tasks(num_tasks)
    if not 0.0 < max_degrees < 360.0:
        raise ValueError(
            f"max_degrees must lie between 0 and 360 (both excluded, so that no two tasks are the same), "
            f"but it is {max_degrees}."
        )
    if len(dataset.input_shape) < 2:
        raise ValueError(
            f"rotated needs images [N, H, W] or [N, C, H, W], but a sample of {dataset.name} has the shape "
            f"{dataset.input_shape}; reshape it or use the permuted scenario."
        )
    angles = np.arange(num_tasks) * (max_degrees / max(num_tasks - 1, 1))
    transforms = [(f"{angle:g} degrees", _rotator(float(angle))) for angle in angles]
    return transformed_sequence(dataset, f"rotated {dataset.name}", transforms, mode, train_logits)


def rotate_images(inputs: np.ndarray, degrees: float) -> np.ndarray:
    """Turn images counter-clockwise about their centre, bilinear, with zeros where nothing was.

    Args:
        inputs: [N, ..., H, W] uint8 or float32 in [0, 1].
        degrees: The angle.

    Returns:
        A new array of the same shape and dtype; uint8 is rounded to the nearest value.
    """
    turned = ndimage.rotate(inputs, degrees, axes=(-2, -1), reshape=False, order=1)
    return turned if turned.dtype == np.uint8 else turned.clip(0.0, 1.0)  # interpolation may exceed 1 by rounding


def _rotator(degrees: float) -> Transform:
    return lambda inputs: rotate_images(inputs, degrees)
