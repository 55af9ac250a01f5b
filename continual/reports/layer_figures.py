"""How busy each layer is, and how much of it the protected subspaces take, task by task.

The left panel has one curve per neuron layer: spikes per neuron and time step. The right panel has one row per
protected weight: the number in a cell is the rank of its subspace after that task, the shade is the rank as a share of
the width of the layer's input. A full row leaves no direction in which the weight can still learn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import FONT, SMALL, EndLabel, Theme, dress, label_ends, new_figure, readable_on, short_names

_MOST_NAMED_LAYERS = 12
_SMALLEST_NUMBER = 4.0  # points; smaller ones cannot be read, so the shade alone speaks


def layer_activity(task_ends: Sequence[Mapping[str, Any]], theme: Theme) -> Figure | None:
    """Draw firing rates and subspace ranks after every task.

    Args:
        task_ends: Records of task ends with ``layers`` and ``subspaces``.
        theme: Colours.

    Returns:
        A figure of 11.2 x 4.6 inches with the panels there is something to show in; None where there is nothing.
    """
    rates = by_layer(task_ends, "layers", "rate")
    ranks = by_layer(task_ends, "subspaces", "rank")
    drawers = []
    if rates:
        drawers.append(lambda axes: _draw_rates(axes, task_ends, rates, theme))
    if ranks:
        widths = by_layer(task_ends, "subspaces", "width")
        drawers.append(lambda axes: _draw_ranks(axes, task_ends, ranks, widths, theme))
    if not drawers:
        return None
    figure = new_figure(11.2, 4.6, theme)
    all_axes = figure.subplots(1, len(drawers), squeeze=False)[0]
    for axes, draw in zip(all_axes, drawers, strict=True):
        draw(axes)
    return figure


def by_layer(task_ends: Sequence[Mapping[str, Any]], group: str, key: str) -> dict[str, list[float]]:
    """Collect one number per layer and task.

    Args:
        task_ends: Records of task ends.
        group: ``layers`` or ``subspaces``.
        key: Of the number.

    Returns:
        Layer name to one value per record, NaN where a record lacks it; layers without any value are left out.
    """
    table: dict[str, list[float]] = {}
    for position, record in enumerate(task_ends):
        for entry in record.get(group) or ():
            value = entry.get(key)
            if value is not None:
                row = table.setdefault(str(entry["name"]), [float("nan")] * len(task_ends))
                row[position] = float(value)
    return table


def _draw_rates(
    axes: Axes, task_ends: Sequence[Mapping[str, Any]], rates: Mapping[str, list[float]], theme: Theme
) -> None:
    dress(axes, theme, "Firing rate", "after training on task", "spikes per neuron and time step (%)")
    steps = [int(record["task"]) + 1 for record in task_ends]
    colours = theme.ordered(len(rates))
    for (_, row), colour in zip(rates.items(), colours, strict=True):
        axes.plot(steps, 100 * np.array(row), color=colour, linewidth=2.0, marker="o", markersize=5)
    high = max(1.0, 100 * float(np.nanmax(list(rates.values()))))
    axes.set_ylim(0.0, 1.12 * high)
    axes.set_xlim(steps[0] - 0.3, steps[-1] + 0.3)
    axes.set_xticks(steps[:: max(1, len(steps) // 12)])
    if len(rates) > _MOST_NAMED_LAYERS:
        axes.set_title("first layer dark, last bright", loc="right", color=theme.muted, fontsize=SMALL, family=FONT)
        return
    ends = [
        EndLabel(100 * float(row[-1]), name, colour)
        for name, row, colour in zip(short_names(list(rates)), rates.values(), colours, strict=True)
    ]
    label_ends(axes, ends, theme, gap=0.06)


def _draw_ranks(
    axes: Axes,
    task_ends: Sequence[Mapping[str, Any]],
    ranks: Mapping[str, list[float]],
    widths: Mapping[str, list[float]],
    theme: Theme,
) -> None:
    dress(axes, theme, "Rank of the protected subspace", "after training on task", grid="none")
    for spine in axes.spines.values():
        spine.set_visible(False)
    num_columns = len(task_ends)
    text_size = min(10.5, 78.0 / num_columns, 80.0 / len(ranks))
    for i, (name, row) in enumerate(ranks.items()):
        width = widths.get(name, [float("nan")] * num_columns)
        for j, rank in enumerate(row):
            share = rank / width[j] if np.isfinite(width[j]) and width[j] > 0 else float("nan")
            _draw_cell(axes, j, i, rank, share, text_size, theme)
        last = width[-1]
        if np.isfinite(last):
            axes.text(
                num_columns + 0.12,
                i + 0.5,
                f"of {last:.0f}",
                va="center",
                color=theme.muted,
                fontsize=SMALL,
                family=FONT,
            )
    axes.set_xlim(0, num_columns)
    axes.set_ylim(len(ranks), 0)
    axes.tick_params(length=0)
    step = max(1, num_columns // 12)
    axes.set_xticks(
        np.arange(0, num_columns, step) + 0.5, [str(int(record["task"]) + 1) for record in task_ends[::step]]
    )
    axes.set_yticks(np.arange(len(ranks)) + 0.5, short_names(list(ranks)))


def _draw_cell(axes: Axes, j: int, i: int, rank: float, share: float, text_size: float, theme: Theme) -> None:
    """Fill a cell by the share of the width and write the rank into it."""
    filled = np.isfinite(share)
    colour = theme.shading(min(float(share), 1.0)) if filled else theme.paper
    axes.add_patch(Rectangle((j + 0.03, i + 0.05), 0.94, 0.90, facecolor=colour, edgecolor=theme.grid, linewidth=0.6))
    if not np.isfinite(rank) or text_size < _SMALLEST_NUMBER:
        return
    ink = readable_on(theme.shading(min(float(share), 1.0))) if filled else theme.ink
    label = f"{rank:.0f}\n{100 * share:.0f} %" if filled and text_size > 7.5 else f"{rank:.0f}"
    axes.text(j + 0.5, i + 0.5, label, ha="center", va="center", color=ink, fontsize=text_size, family=FONT)
