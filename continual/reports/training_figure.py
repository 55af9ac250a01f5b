"""Training loss and training accuracy, epoch by epoch, with the boundaries between tasks.

Both are what the optimiser saw (training data of the task at hand, averaged over the epoch while the weights moved), so
they say whether each task was learnt, and nothing about the tasks before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .style import FONT, SMALL, Theme, dress, new_figure, set_percent_limits

_MOST_NUMBERED_TASKS = 25


def training_curves(epochs: Sequence[Mapping[str, Any]], theme: Theme) -> Figure | None:
    """Draw loss and accuracy of every epoch.

    Args:
        epochs: Records with ``task``, ``epoch``, ``loss`` and ``accuracy``, in order.
        theme: Colours.

    Returns:
        A figure of 11.2 x 4.2 inches; None without any epoch.
    """
    if not epochs:
        return None
    figure = new_figure(11.2, 4.2, theme)
    loss_axes, accuracy_axes = figure.subplots(1, 2)
    dress(loss_axes, theme, "Training loss", "epoch, counted over all tasks", "loss", pad=20)
    dress(accuracy_axes, theme, "Training accuracy", "epoch, counted over all tasks", "accuracy (%)", pad=20)
    tasks = np.array([int(record["task"]) for record in epochs])
    for axes, key, scale in ((loss_axes, "loss", 1.0), (accuracy_axes, "accuracy", 100.0)):
        values = np.array([_number(record.get(key)) for record in epochs]) * scale
        _draw_curve(axes, tasks, values, theme)
    set_percent_limits(accuracy_axes)
    low, high = loss_axes.get_ylim()
    if low >= 0:
        loss_axes.set_ylim(0.0, 1.04 * high)
    return figure


def _draw_curve(axes: Axes, tasks: np.ndarray, values: np.ndarray, theme: Theme) -> None:
    """Draw one curve per task over bands that alternate from task to task."""
    numbers = np.arange(1, len(tasks) + 1)
    distinct = list(dict.fromkeys(tasks.tolist()))
    for position, (task, colour) in enumerate(zip(distinct, theme.ordered(len(distinct)), strict=True)):
        own = tasks == task
        left, right = numbers[own].min() - 0.5, numbers[own].max() + 0.5
        if position % 2 == 0:
            axes.axvspan(left, right, color=theme.grid, alpha=0.45, linewidth=0, zorder=0)
        axes.plot(
            numbers[own],
            values[own],
            color=colour,
            linewidth=2.0,
            marker="o",
            markersize=4.5 if own.sum() <= 12 and len(tasks) <= 60 else 0,
        )
        if len(distinct) <= _MOST_NUMBERED_TASKS:
            name = f"task {task + 1}" if len(distinct) <= 6 else f"{task + 1}"
            axes.text(
                (left + right) / 2,
                1.01,
                name,
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="bottom",
                fontsize=SMALL,
                color=theme.muted,
                family=FONT,
            )
    axes.set_xlim(0.5, len(tasks) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
