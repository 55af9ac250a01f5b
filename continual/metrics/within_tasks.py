"""What evaluations inside tasks add to the matrix: how low old tasks fall while a new one is learned.

A network may forget within a task what it has again at its end (the stability gap; De Lange, van de Ven and Tuytelaars
2023). Every number here depends on how often one evaluates, so the interval belongs to it.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .transfer import min_acc

Vector = NDArray[np.float64]


class Within(NamedTuple):
    """An evaluation inside a task.

    Attributes:
        task: the one being learned, from 0.
        accuracies: [T], NaN where not measured.
    """

    task: int
    accuracies: ArrayLike


def min_acc_within(R: ArrayLike, evaluations: Sequence[Within]) -> Vector:
    """Take each task's lowest accuracy after its own end, at later ends and within later tasks.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.
        evaluations: inside tasks.

    Returns:
        ``[T]`` values in [0, 1]; the last is ``R[T, T]``; NaN where an entry is missing.
    """
    lowest = min_acc(R)
    for evaluation in evaluations:
        old = slice(0, evaluation.task)
        lowest[old] = np.minimum(lowest[old], np.asarray(evaluation.accuracies, dtype=np.float64)[old])
    return lowest


def wc_acc_within(R: ArrayLike, evaluations: Sequence[Within]) -> float:
    """Weigh the newest task against the worst moments of the old: ``R[T, T]/T + (1 - 1/T) mean_{j<T} min_acc_j``.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.
        evaluations: inside tasks.

    Returns:
        Accuracy in [0, 1], or NaN where an entry is missing.
    """
    return float(min_acc_within(R, evaluations).mean())


def stability_gap(R: ArrayLike, evaluations: Sequence[Within]) -> float:
    """Average how far old tasks fall inside a later one below what they were before it.

    ``mean over i > 1 and j < i of R[i-1, j] - min over evaluations inside task i of the accuracy on j``. Negative where
    old tasks only get better.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.
        evaluations: inside tasks.

    Returns:
        Value in [-1, 1]; NaN for one task, or where a later task was never evaluated inside.
    """
    matrix = np.asarray(R, dtype=np.float64)
    falls = []
    for i in range(1, len(matrix)):
        inside = [np.asarray(found.accuracies, dtype=np.float64)[:i] for found in evaluations if found.task == i]
        lowest = np.min(inside, axis=0) if inside else np.full(i, np.nan)
        falls.extend(matrix[i - 1, :i] - lowest)
    return float(np.mean(falls)) if falls else float("nan")


def summarise_within(R: ArrayLike, evaluations: Sequence[Within]) -> dict[str, Any]:
    """Give the numbers of this file, flat, None where undefined.

    Args:
        R: ``[T, T]`` accuracies.
        evaluations: inside tasks.

    Returns:
        ``{"min_acc": [T values], "wc_acc": ..., "stability_gap": ..., "undefined": {name: reason}}``.
    """
    gap, worst = stability_gap(R, evaluations), wc_acc_within(R, evaluations)
    lowest = [None if math.isnan(value) else value for value in min_acc_within(R, evaluations).tolist()]
    undefined = {}
    if math.isnan(gap):
        undefined["stability_gap"] = "needs evaluations inside every later task (evaluate_every)"
    if math.isnan(worst):
        undefined["wc_acc"] = "an accuracy it needs was not measured (lower triangle)"
    found = {"min_acc": lowest, "wc_acc": worst, "stability_gap": gap}
    return {name: None if name in undefined else value for name, value in found.items()} | {"undefined": undefined}
