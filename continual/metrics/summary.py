"""All metrics of a run as one flat dictionary, ready for ``metrics.json``.

A name without suffix is read from the matrix of the scenario's own mode: the task-aware one when the task is known at
test time (``task``), the task-agnostic one otherwise (``domain``, ``class``). The same metrics of the other matrix
carry its name as a suffix. A metric that is undefined is None, with the reason under ``undefined``, so that no reader
mistakes "not measured" for zero.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from . import transfer
from .accuracy_matrix import AccuracyMatrices

Mode = Literal["task", "domain", "class"]

_NEEDS_TWO_TASKS = frozenset({"bwt", "fwt", "forgetting"})
_WHAT_IS_READ = {
    "acc_final": "last row",
    "acc_final_weighted": "last row",
    "acc_learning": "diagonal",
    "acc_inc_avg_taskmean": "lower triangle",
    "acc_inc_avg_weighted": "lower triangle",
    "acc_a": "lower triangle",
    "bwt": "last row and diagonal",
    "fwt": "first upper diagonal and the untrained network",
    "forgetting": "lower triangle",
    "wc_acc": "lower triangle",
}


def own_matrix(mode: str) -> Literal["task_aware", "task_agnostic"]:
    """Return the name of the matrix that a scenario of this mode is judged by.

    Args:
        mode: ``task``, ``domain`` or ``class``.

    Returns:
        ``task_aware`` for ``task``, ``task_agnostic`` for the other two.

    Raises:
        ValueError: When the mode is another word.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, but it is {mode!r}.")
    return "task_aware" if mode == "task" else "task_agnostic"


def summarise(matrices: AccuracyMatrices, mode: Mode, untrained_rows: bool | None = None) -> dict[str, Any]:
    """Compute every metric of :mod:`continual.metrics.transfer` that needs no reference run.

    Args:
        matrices: The accuracies of the run.
        mode: Of the scenario; it decides which matrix the names without suffix come from.
        untrained_rows: True when a task's rows of the head are untrained before the task, as with classes of its own
            per task; forward transfer then has no meaning and is undefined. None means: unless the mode is ``domain``.

    Returns:
        ``{"mode": ..., "acc_final": ..., "acc_final_task_aware": ..., ..., "undefined": {name: reason}}``; every metric
        a float or None.

    Raises:
        ValueError: When the mode is unknown.
    """
    own = own_matrix(mode)
    other = "task_agnostic" if own == "task_aware" else "task_aware"
    untrained = mode != "domain" if untrained_rows is None else untrained_rows
    result: dict[str, Any] = {"mode": mode, "num_tasks": matrices.num_tasks}
    undefined: dict[str, str] = {}
    for matrix_name, suffix in ((own, ""), (other, f"_{other}")):
        values = _values(getattr(matrices, matrix_name), matrices.counts, getattr(matrices, f"baseline_{matrix_name}"))
        for name, value in values.items():
            reason = _reason(name, value, matrices.num_tasks, untrained)
            result[name + suffix] = None if reason else value
            if reason:
                undefined[name + suffix] = reason
    result["undefined"] = undefined
    return result


def _values(R: NDArray[np.float64], counts: NDArray[np.int64], baseline: NDArray[np.float64]) -> dict[str, float]:
    arguments: dict[str, tuple[Any, ...]] = {
        "acc_final_weighted": (R, counts),
        "acc_inc_avg_weighted": (R, counts),
        "fwt": (R, baseline),
    }
    functions: dict[str, Callable[..., float]] = {name: getattr(transfer, name) for name in _WHAT_IS_READ}
    return {name: function(*arguments.get(name, (R,))) for name, function in functions.items()}


def _reason(name: str, value: float, num_tasks: int, untrained: bool) -> str | None:
    """Say why a metric is undefined, or None when it is not."""
    if num_tasks == 1 and name in _NEEDS_TWO_TASKS:
        return "needs at least two tasks"
    if name == "fwt" and untrained:
        return "the rows of the head for a task are untrained before the task"
    if math.isnan(value):
        return f"an accuracy it needs was not measured ({_WHAT_IS_READ[name]})"
    return None
