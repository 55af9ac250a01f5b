"""Which class, and which task, the network answers with after the last task.

Rows are what was true, columns what the network said. The file keeps raw counts; only the shade is a share of the row,
and the number in a cell is the count itself. In the right panel an answer counts for the task that its class belongs
to: a full last column is a network that answers with the newest task whatever it sees.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .run_folder import Confusion
from .style import FONT, LABEL, SMALL, Theme, dress, new_figure, plain_text, readable_on

_SMALLEST_NUMBER = 4.0  # points; smaller ones cannot be read, so the shade alone speaks
_PANEL = 4.6
_MOST_TICKS = 20


def confusion_figure(confusion: Confusion, task_names: Sequence[str], theme: Theme) -> Figure:
    """Draw the confusion of classes and, where tasks have classes of their own, of tasks, after the last task.

    Args:
        confusion: Raw counts.
        task_names: T names.
        theme: Colours.

    Returns:
        A figure 11.2 inches wide for two panels and 6.4 for one, 5.4 high.
    """
    panels = [("Classes", confusion.classes[-1], [str(c) for c in range(confusion.classes.shape[-1])], "class")]
    if confusion.tasks is not None:
        names = [f"{j + 1}  {plain_text(name, 14)}" for j, name in enumerate(task_names)]
        panels.append(("Tasks", confusion.tasks[-1], names, "task"))
    figure = new_figure(11.2 if len(panels) > 1 else 6.4, 5.4, theme)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, counts, names, what) in zip(all_axes, panels, strict=True):
        _draw_counts(axes, counts, names, theme)
        dress(axes, theme, title, f"answered with the {what}", f"true {what}", grid="none")
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0.0, 100.0), theme.shading), ax=all_axes.tolist(), shrink=0.55, aspect=26, pad=0.02
    )
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(colors=theme.muted, labelsize=SMALL, length=0, labelfontfamily=FONT)
    bar.set_label("share of the row (%)", color=theme.muted, fontsize=SMALL, family=FONT)
    return figure


def shares_of_rows(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide counts by the sum of their row.

    Args:
        counts: ``[N, N]``.

    Returns:
        ``[N, N]`` shares in [0, 1]; NaN in a row without any count.
    """
    totals = counts.sum(axis=1, keepdims=True).astype(np.float64)
    return np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)


def _draw_counts(axes: Axes, counts: NDArray[np.int64], names: Sequence[str], theme: Theme) -> None:
    shares = shares_of_rows(counts)
    size = len(counts)
    shading = theme.shading.with_extremes(bad=theme.paper)
    axes.imshow(np.ma.masked_invalid(shares), cmap=shading, vmin=0.0, vmax=1.0, interpolation="nearest")
    step = -(-size // _MOST_TICKS)
    axes.set_xticks(range(0, size, step), [name.partition("  ")[0] for name in names[::step]])
    axes.set_yticks(range(0, size, step), names[::step])
    axes.set_xticks(np.arange(0.5, size - 1), minor=True)
    axes.set_yticks(np.arange(0.5, size - 1), minor=True)
    axes.tick_params(which="minor", length=0)
    if size <= _MOST_TICKS:
        axes.grid(visible=True, which="minor", color=theme.paper, linewidth=1.2)
    text_size = min(LABEL, 0.3 * 72 * 0.8 * _PANEL / size)
    if text_size < _SMALLEST_NUMBER:
        return
    for (i, j), number in np.ndenumerate(counts):
        if number:
            ink = readable_on(theme.shading(float(shares[i, j])))
            axes.text(j, i, str(number), ha="center", va="center", color=ink, fontsize=text_size, family=FONT)
