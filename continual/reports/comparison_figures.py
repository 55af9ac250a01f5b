"""Several strategies in one picture: the mean accuracy over tasks seen, and the mean matrices side by side.

A band is the 95 % t-interval over seeds; a strategy with one seed has none. A strategy measured only at the end (joint
training) is a point with a line of reference through it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from continual.metrics import mean_and_interval, mean_over_seen

from .accuracy_figures import draw_heatmap
from .style import EndLabel, Look, Theme, dress, label_ends, look_of, new_figure, plain_text, set_percent_limits

_COLUMNS = 3
_MOST_BOLD_NAMES = 12
_WIDTH = 11.2


def mean_accuracy_overlay(matrices: Mapping[str, Sequence[NDArray[np.float64]]], theme: Theme) -> Figure:
    """Draw the mean accuracy over tasks seen, one curve per strategy.

    Args:
        matrices: Name of the strategy to its ``[T, T]`` matrices, one per seed.
        theme: Colours.

    Returns:
        A figure 11.2 inches wide and at least 5.2 high, higher where more names need the room.
    """
    inches = max(5.2, 1.0 + 0.25 * len(matrices))
    figure = new_figure(_WIDTH, inches, theme)
    axes = figure.add_subplot()
    dress(axes, theme, "Mean accuracy over the tasks seen so far", "after training on task", "accuracy (%)")
    ends: list[EndLabel] = []
    num_tasks = 1
    for position, (name, runs) in enumerate(matrices.items()):
        look = look_of(position, theme)
        curves = 100 * np.array([mean_over_seen(R) for R in runs])
        num_tasks = curves.shape[1]
        height = draw_curves(axes, curves, look)
        ends.append(EndLabel(height, plain_text(name, 34), look.colour, len(matrices) <= _MOST_BOLD_NAMES, look))
    axes.set_xlim(0.7 if num_tasks > 1 else 0.5, num_tasks + 0.3)
    axes.set_xticks(list(range(1, num_tasks + 1, max(1, int(np.ceil(num_tasks / 15))))))
    set_percent_limits(axes)
    label_ends(axes, ends, theme, gap=0.28 / inches if len(matrices) <= _MOST_BOLD_NAMES else 0.22 / inches)
    return figure


def draw_curves(axes: Axes, curves: NDArray[np.float64], look: Look) -> float:
    """Draw the mean of curves with its interval.

    Args:
        axes: To draw into.
        curves: ``[runs, T]`` values in the unit of the axis.
        look: Of the strategy.

    Returns:
        The height of the right end.
    """
    num_tasks = curves.shape[1]
    steps = np.arange(1, num_tasks + 1)
    intervals = [mean_and_interval(curves[:, step]) for step in range(num_tasks)]
    mean = np.array([interval.mean for interval in intervals])
    half = np.array([interval.half_width for interval in intervals])
    colour, marker, line_style = look
    axes.plot(steps, mean, color=colour, linewidth=2.4, marker=marker, markersize=6.5, linestyle=line_style, zorder=3)
    if np.isfinite(half).any():
        axes.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.16, linewidth=0)
    if np.isfinite(mean).sum() == 1 and num_tasks > 1:
        axes.axhline(mean[np.isfinite(mean)][0], color=colour, linewidth=1.2, linestyle=(0, (2, 3)), zorder=1)
        if np.isfinite(half).sum() == 1:
            axes.errorbar(steps, mean, yerr=half, color=colour, linestyle="none", capsize=4, linewidth=1.4)
    return float(mean[-1])


def heatmaps_side_by_side(
    matrices: Mapping[str, Sequence[NDArray[np.float64]]], task_names: Sequence[str], theme: Theme
) -> Figure:
    """Draw the mean accuracy matrix of every strategy.

    Args:
        matrices: Name of the strategy to its ``[T, T]`` matrices, one per seed.
        task_names: T names.
        theme: Colours.

    Returns:
        A figure 11.2 inches wide; its height follows from the number of matrices.
    """
    columns = len(matrices) if len(matrices) <= 3 or (len(matrices) == 4 and len(task_names) <= 6) else _COLUMNS
    columns = 2 if len(matrices) == 4 and columns == _COLUMNS else columns
    rows = int(np.ceil(len(matrices) / columns))
    side = min(_WIDTH / columns, 4.6)
    figure = new_figure(_WIDTH, (side + 0.25) * rows, theme)
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    cell = 72.0 * (side - 0.9) / len(task_names)
    for axes, (name, runs) in zip(all_axes, matrices.items(), strict=False):
        mean = np.mean(np.array(runs), axis=0)
        draw_heatmap(axes, mean, None, theme, None, plain_text(name, int(9 * side)), cell)
    for axes in all_axes[len(matrices) :]:
        axes.remove()
    return figure
