"""Accuracy of every task while later tasks are trained: what the ends of tasks do not show.

A band is the time in which one task is trained; evaluations within a task stand at equal distances in its band, those
of the accuracy matrix on the right edge. A curve that dips after an edge and comes back is the stability gap (De Lange
et al., 2023). How deep it looks depends on how often one evaluates.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .style import FONT, SMALL, EndLabel, Theme, dress, label_ends, new_figure, plain_text, set_percent_limits

_MOST_NAMED_TASKS = 12
_MOST_NUMBERED_TASKS = 25


def accuracy_within_tasks(
    R: NDArray[np.float64],
    within: Sequence[Mapping[str, Any]],
    key: str,
    task_names: Sequence[str],
    theme: Theme,
) -> Figure | None:
    """Draw each task's accuracy from its first evaluation while it is trained on.

    Args:
        R: ``[T, T]`` accuracies at the ends of tasks.
        within: Records with ``task`` and, under ``key``, T accuracies, in order.
        key: ``task_aware`` or ``task_agnostic``.
        task_names: T names.
        theme: Colours.

    Returns:
        A figure of 11.2 x 5.0 inches; None without any record.
    """
    if not within:
        return None
    figure = new_figure(11.2, 5.0, theme)
    axes = figure.add_subplot()
    dress(axes, theme, "Accuracy of every task within the tasks", "while training on task", "accuracy (%)", pad=10)
    times, accuracies = timeline(R, within, key)
    num_tasks = len(R)
    for i in range(0, num_tasks, 2):
        axes.axvspan(i, i + 1, color=theme.grid, alpha=0.45, linewidth=0, zorder=0)
    ends = []
    for j, colour in enumerate(theme.ordered(num_tasks)):
        own = times > j
        at_end = own & (times == np.floor(times))
        axes.plot(times[own], 100 * accuracies[own, j], color=colour, linewidth=1.5)
        axes.plot(times[at_end], 100 * accuracies[at_end, j], color=colour, linestyle="none", marker="o", markersize=5)
        if num_tasks <= _MOST_NAMED_TASKS:
            ends.append(EndLabel(100 * float(R[-1, j]), f"{j + 1}  {plain_text(task_names[j], 18)}", colour))
    if num_tasks > _MOST_NAMED_TASKS:
        axes.set_title(
            "first task dark, last bright", loc="right", color=theme.muted, fontsize=SMALL, family=FONT, pad=10
        )
    axes.set_xlim(0.0, num_tasks + 0.05)
    step = 1 if num_tasks <= _MOST_NUMBERED_TASKS else 5
    axes.set_xticks(np.arange(0, num_tasks, step) + 0.5, [str(i + 1) for i in range(0, num_tasks, step)])
    axes.tick_params(axis="x", length=0)
    set_percent_limits(axes)
    label_ends(axes, ends, theme)
    return figure


def timeline(
    R: NDArray[np.float64], within: Sequence[Mapping[str, Any]], key: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Put evaluations within tasks and at their ends in one order.

    Args:
        R: ``[T, T]`` accuracies at the ends of tasks; row i is at time i + 1.
        within: Records with ``task`` and T accuracies under ``key``; the k-th of n of task i is at i + k / (n + 1).
        key: Of the accuracies.

    Returns:
        ``[n]`` times in tasks and ``[n, T]`` accuracies, NaN where not measured.
    """
    times, rows = [], []
    for i, end in enumerate(R):
        own = [record[key] for record in within if int(record["task"]) == i]
        times += [i + (k + 1) / (len(own) + 1) for k in range(len(own))] + [i + 1.0]
        rows += [[np.nan if value is None else float(value) for value in row] for row in own] + [end.tolist()]
    return np.array(times), np.array(rows)
