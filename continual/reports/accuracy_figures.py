"""The accuracy matrix as a picture, and each task's accuracy as a curve over the sequence.

In the heat map, row i is the network after task i and column j the test set of task j, so that one reads down a column
how a task fades; the diagonal (outlined) is each task when it had just been learnt. What was not measured is hatched.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from continual.metrics import mean_over_seen

from .style import FONT, SMALL, EndLabel, Theme, dress, label_ends, new_figure, plain_text, readable_on

_SMALLEST_NUMBER = 4.0  # points; smaller ones cannot be read, so the shade alone speaks
_MOST_CURVES_WITH_NAMES = 12


def accuracy_heatmap(
    R: NDArray[np.float64],
    task_names: Sequence[str],
    theme: Theme,
    baseline: NDArray[np.float64] | None = None,
    title: str = "Accuracy matrix",
) -> Figure:
    """Draw the accuracy matrix with its numbers.

    Args:
        R: ``[T, T]`` accuracies in [0, 1], NaN where not measured.
        task_names: T names.
        theme: Colours.
        baseline: ``[T]`` accuracies of the untrained network, drawn as a row of its own above; None leaves it out.
        title: Above the picture.

    Returns:
        A figure of 6.4 x 5.4 inches.
    """
    figure = new_figure(6.4, 5.4, theme)
    axes = figure.add_subplot()
    draw_heatmap(axes, R, task_names, theme, baseline, title, cell=300.0 / (len(R) + 1.25))
    _draw_scale(figure, axes, theme)
    return figure


def _draw_scale(figure: Figure, axes: Axes, theme: Theme) -> None:
    """Put the scale of the shades beside the matrix."""
    shades = ScalarMappable(Normalize(0.0, 100.0), theme.shading)
    bar = figure.colorbar(shades, ax=axes, shrink=0.55, aspect=26, pad=0.03, ticks=[0, 25, 50, 75, 100])
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(colors=theme.muted, labelsize=SMALL, length=0, labelfontfamily=FONT)
    bar.set_label("accuracy (%)", color=theme.muted, fontsize=SMALL, family=FONT)


def draw_heatmap(
    axes: Axes,
    R: NDArray[np.float64],
    task_names: Sequence[str] | None,
    theme: Theme,
    baseline: NDArray[np.float64] | None,
    title: str,
    cell: float,
) -> None:
    """Draw the accuracy matrix into given axes.

    Args:
        axes: To draw into.
        R: ``[T, T]`` accuracies.
        task_names: T names, or None to write numbers alone.
        theme: Colours.
        baseline: ``[T]`` accuracies of the untrained network or None.
        title: Above the axes.
        cell: Height of a cell in points, which decides the size of the numbers.
    """
    num_tasks = len(R)
    dress(axes, theme, title, "accuracy on task", "after training on task", grid="none")
    for spine in axes.spines.values():
        spine.set_visible(False)
    gap = 0.25  # sets the untrained network apart, for it is not "after" a task
    top = 0.0
    if baseline is not None and np.isfinite(baseline).any():
        _draw_row(axes, baseline, -1.0 - gap, theme, cell, diagonal=None)
        top = -1.0 - gap
    for i, row in enumerate(R):
        _draw_row(axes, row, float(i), theme, cell, diagonal=i)
    axes.set_xlim(-0.04, num_tasks + 0.04)
    axes.set_ylim(num_tasks + 0.04, top - 0.04)
    axes.set_aspect("equal")
    axes.tick_params(length=0)
    step = max(1, num_tasks // 12)
    axes.set_xticks(np.arange(0, num_tasks, step) + 0.5, [str(j + 1) for j in range(0, num_tasks, step)])
    rows = [(i + 0.5, _row_name(i, task_names)) for i in range(0, num_tasks, step)]
    if top < 0:
        rows.insert(0, (top + 0.5, "none (untrained)"))
    axes.set_yticks([position for position, _ in rows], [name for _, name in rows])


def _row_name(i: int, task_names: Sequence[str] | None) -> str:
    return str(i + 1) if task_names is None else f"{i + 1}  {plain_text(task_names[i], 18)}"


def _draw_row(
    axes: Axes,
    row: NDArray[np.float64],
    top: float,
    theme: Theme,
    cell: float,
    diagonal: int | None,
) -> None:
    """Draw one row of cells; the cell on the diagonal is outlined."""
    text_size = min(11.0, 0.3 * cell)
    for j, value in enumerate(row):
        missing = np.isnan(value)
        colour = theme.shading(float(value)) if not missing else theme.paper
        axes.add_patch(
            Rectangle(
                (j + 0.03, top + 0.03),
                0.94,
                0.94,
                facecolor=colour,
                edgecolor=theme.grid,
                hatch="////" if missing else None,
                linewidth=0.0 if not missing else 0.6,
            )
        )
        if diagonal == j and not missing:
            outline = Rectangle((j + 0.03, top + 0.03), 0.94, 0.94, fill=False, edgecolor=theme.accent, linewidth=2.2)
            outline.set_zorder(3)
            axes.add_patch(outline)
        if not missing and text_size >= _SMALLEST_NUMBER:
            digits = 1 if text_size > 7.5 else 0
            axes.text(
                j + 0.5,
                top + 0.5,
                f"{100 * value:.{digits}f}",
                ha="center",
                va="center",
                fontsize=text_size,
                family=FONT,
                color=readable_on(theme.shading(float(value))),
                fontweight="bold" if diagonal == j else "normal",
            )


def accuracy_over_time(R: NDArray[np.float64], task_names: Sequence[str], theme: Theme) -> Figure:
    """Draw each task's accuracy after every task from its own on, and the mean over the tasks seen.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not drawn.
        task_names: T names.
        theme: Colours.

    Returns:
        A figure of 6.4 x 5.4 inches.
    """
    figure = new_figure(6.4, 5.4, theme)
    axes = figure.add_subplot()
    num_tasks = len(R)
    dress(axes, theme, "Accuracy of every task", "after training on task", "accuracy (%)")
    steps = np.arange(1, num_tasks + 1)
    ends: list[EndLabel] = []
    for j, colour in enumerate(theme.ordered(num_tasks)):
        curve = 100 * R[j:, j]
        axes.plot(steps[j:], curve, color=colour, linewidth=1.6, marker="o", markersize=4.5, alpha=0.95)
        if num_tasks <= _MOST_CURVES_WITH_NAMES:
            ends.append(EndLabel(float(curve[-1]), f"{j + 1}  {plain_text(task_names[j], 14)}", colour))
    mean = 100 * mean_over_seen(R)
    axes.plot(steps, mean, color=theme.ink, linewidth=3.4, marker="o", markersize=7, zorder=4)
    ends.append(EndLabel(float(mean[-1]), "mean of seen", theme.ink, bold=True))
    if num_tasks > _MOST_CURVES_WITH_NAMES:
        axes.set_title("first task dark, last bright", loc="right", color=theme.muted, fontsize=SMALL, family=FONT)
    axes.set_ylim(*_percent_limits(R))
    axes.set_xlim(0.7 if num_tasks > 1 else 0.5, num_tasks + 0.3)
    axes.set_xticks(_whole_ticks(num_tasks))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    label_ends(axes, ends, theme)
    return figure


def _percent_limits(R: NDArray[np.float64]) -> tuple[float, float]:
    """Start the axis at zero unless everything happens above one half."""
    seen = R[np.tril_indices(len(R))]
    lowest = float(np.nanmin(seen)) if np.isfinite(seen).any() else 0.0
    floor = max(0.0, np.floor(10 * (lowest - 0.03)) * 10) if lowest > 0.5 else 0.0
    return floor - 0.02 * (100 - floor), 101.5


def _whole_ticks(num_tasks: int) -> list[int]:
    step = max(1, int(np.ceil(num_tasks / 12)))
    return list(range(1, num_tasks + 1, step))
