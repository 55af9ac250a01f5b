"""Say in one sentence what is wrong with somebody's arrays, and how to repair it.

Wrong data trains without complaint and only shows as a poor number hours later, so everything that can be seen on the
arrays themselves is refused at the door. Each check names the part, what was required, what came (how many, and where
the first one is) and the call that mends it. Nothing is repaired silently: to shift a label or to rescale a pixel is
the user's decision.
"""

from __future__ import annotations

import numpy as np


def check_inputs(inputs: np.ndarray, part: str) -> None:
    """Raise unless `inputs` is a non-empty [N, ...] array of uint8, or of finite float32 in [0, 1].

    Args:
        inputs: What to check.
        part: "train", "validation" or "test", for the message.

    Raises:
        TypeError: Not an array, or another dtype.
        ValueError: Empty, not finite (says how many and where), or out of range.
    """
    if not isinstance(inputs, np.ndarray) or inputs.dtype not in (np.uint8, np.float32):
        came = f"dtype {inputs.dtype}" if isinstance(inputs, np.ndarray) else type(inputs).__name__
        raise TypeError(
            f"{part} inputs must be a numpy array of uint8 (0..255) or float32 ([0, 1]), but {came} came; "
            f"use .astype(numpy.uint8) for pixel bytes or .astype(numpy.float32) for fractions."
        )
    if inputs.ndim < 2 or inputs.size == 0:
        raise ValueError(
            f"{part} inputs must be a non-empty array [N, ...] of samples, but their shape is {inputs.shape}."
        )
    if inputs.dtype == np.uint8:
        return
    broken = ~np.isfinite(inputs)
    if broken.any():
        where = tuple(int(axis) for axis in np.argwhere(broken)[0])
        raise ValueError(
            f"{part} inputs must be finite, but {int(broken.sum())} values are NaN or infinite, the first at index "
            f"{where}; clean or drop those samples."
        )
    low, high = float(inputs.min()), float(inputs.max())
    if low < 0.0 or high > 1.0:
        raise ValueError(
            f"{part} inputs of a float dtype must lie in [0, 1], but they run from {low:g} to {high:g}; divide by 255 "
            f"if they are pixel values, or rescale by (x - min) / (max - min)."
        )


def check_targets(targets: np.ndarray, part: str) -> None:
    """Raise unless `targets` is a non-empty [N] array of int64 labels, 0 or more.

    Args:
        targets: What to check.
        part: "train", "validation" or "test", for the message.

    Raises:
        TypeError: Not an array, or another dtype.
        ValueError: Empty, not one-dimensional, or a negative label.
    """
    if not isinstance(targets, np.ndarray) or targets.dtype != np.int64:
        came = f"dtype {targets.dtype}" if isinstance(targets, np.ndarray) else type(targets).__name__
        raise TypeError(
            f"{part} targets must be a numpy array of int64, but {came} came; use .astype(numpy.int64) "
            f"on integer labels, or let continual.data.from_arrays convert them."
        )
    if targets.ndim != 1 or targets.size == 0:
        raise ValueError(f"{part} targets must be a non-empty array [N] of labels, but their shape is {targets.shape}.")
    if targets.min() < 0:
        first = int(np.argmax(targets < 0))
        raise ValueError(
            f"{part} targets must be 0 or more, but {int((targets < 0).sum())} are negative, the first is "
            f"{int(targets[first])} at index {first}; drop those samples or renumber the labels from 0."
        )


def check_below(targets: np.ndarray, num_classes: int, part: str) -> None:
    """Raise unless every label is below `num_classes`.

    Args:
        targets: [N] labels.
        num_classes: Number of classes.
        part: "train", "validation" or "test", for the message.

    Raises:
        ValueError: A label is too large; tells labels that start at 1 from others.
    """
    if targets.max() < num_classes:
        return
    first = int(np.argmax(targets >= num_classes))
    repair = (
        "subtract 1, since the labels start at 1"
        if targets.min() == 1 and targets.max() == num_classes
        else "renumber them with numpy.unique(targets, return_inverse=True)[1] or raise num_classes"
    )
    raise ValueError(
        f"{part} targets must be below num_classes={num_classes}, but label {int(targets[first])} stands at index "
        f"{first}; {repair}."
    )


def check_no_gaps(targets: np.ndarray, num_classes: int) -> None:
    """Raise unless every label from 0 to `num_classes` - 1 occurs among the train targets.

    Args:
        targets: [N] train labels.
        num_classes: Number of classes read off the labels.

    Raises:
        ValueError: Labels are absent; tells labels that start at 1 from gaps.
    """
    absent = np.setdiff1d(np.arange(num_classes), targets)
    if absent.size == 0:
        return
    shown = ", ".join(str(label) for label in absent[:5]) + (", ..." if absent.size > 5 else "")
    repair = (
        "subtract 1 from all targets, since the labels start at 1"
        if absent.tolist() == [0]
        else "renumber them with numpy.unique(targets, return_inverse=True)[1], or pass num_classes to allow gaps"
    )
    raise ValueError(
        f"train targets must hold every label from 0 to {num_classes - 1} when num_classes is not given, but "
        f"{absent.size} of them ({shown}) never occur; {repair}."
    )
