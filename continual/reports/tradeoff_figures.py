"""What each strategy pays for what it keeps: stability against plasticity, and accuracy against stored bytes.

The left panel has learning accuracy to the right and backward transfer upwards, so that the two are never read apart;
with T tasks, ``acc_final = acc_learning + bwt (T - 1) / T``, and the thin lines join points of equal final accuracy.
The right panel has the mean bytes that a strategy keeps beside the network on a logarithmic axis with a place for none.
Lines through a point are 95 % t-intervals over the runs. Every point carries the number of its strategy in the key
below, moved aside where points lie close.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from continual.metrics import Interval

from .style import FONT, SMALL, Theme, dress, look_of, new_figure, plain_text, set_percent_limits

_KEY_COLUMNS = 3
_POINTS_APART = 14.0


class Standing(NamedTuple):
    """Where a strategy stands.

    Attributes:
        name: Of the strategy.
        acc_learning: In [0, 1].
        bwt: In [-1, 1].
        acc_final: In [0, 1].
        stored_bytes: Kept beside the network.
    """

    name: str
    acc_learning: Interval
    bwt: Interval
    acc_final: Interval
    stored_bytes: Interval


class Place(NamedTuple):
    """A point in units of its axes, and half the lengths of the lines through it, NaN for none."""

    x: float
    y: float
    x_half: float
    y_half: float


def tradeoffs(standings: Sequence[Standing], num_tasks: int, theme: Theme) -> Figure | None:
    """Draw both panels and the key.

    Args:
        standings: In the order of the page.
        num_tasks: T.
        theme: Colours.

    Returns:
        A figure 11.2 inches wide; None where fewer than two strategies have a place in either panel.
    """
    balance, price = _balance(standings), _price(standings)
    if max(len(balance), len(price)) < 2:
        return None
    key_rows = -(-len(standings) // _KEY_COLUMNS)
    figure = new_figure(11.2, 5.0 + 0.2 * key_rows, theme)
    grid = figure.add_gridspec(2, 2, height_ratios=[4.7, 0.2 * key_rows])
    left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    dress(left, theme, "Stability and plasticity", "learning accuracy (%)", "backward transfer (points)", grid="none")
    dress(right, theme, "Accuracy and what it stores", "stored beside the network", "final accuracy (%)", grid="both")
    for axes, places in ((left, balance), (right, price)):
        _draw_points(axes, places, theme)
    left.set_xlim(right=min(left.get_xlim()[1], 101.5))
    _draw_equal_accuracy(left, num_tasks, theme)
    set_percent_limits(right)
    _name_sizes(right, [standing.stored_bytes.mean for standing in standings])
    _draw_key(figure.add_subplot(grid[1, :]), [standing.name for standing in standings], theme)
    figure.draw_without_rendering()  # places the axes, so that distances between points are known
    for axes, places in ((left, balance), (right, price)):
        _number_points(axes, places, theme)
    return figure


def size_positions(sizes: Sequence[float]) -> NDArray[np.float64]:
    """Place sizes on a logarithmic axis, with a place apart for zero.

    Args:
        sizes: In bytes, zero or more.

    Returns:
        Logarithms to base ten; zeros lie to the left of the least other size by a fifth of the span, at least a half.
    """
    given = np.asarray(sizes, dtype=np.float64)
    positive = given[given > 0]
    if not positive.size:
        return np.where(np.isnan(given), np.nan, 0.0)
    logarithms = np.log10(np.where(given > 0, given, positive.min()))
    none = np.log10(positive.min()) - max(0.5, 0.2 * float(np.ptp(np.log10(positive))))
    return np.where(np.isnan(given), np.nan, np.where(given > 0, logarithms, none))


def moved_apart(points: NDArray[np.float64], distance: float, rounds: int = 200) -> NDArray[np.float64]:
    """Place a label above each point and push labels apart until none is nearer than a distance to another.

    Args:
        points: ``[n, 2]`` positions of the points.
        distance: Wanted between two labels, and between a label and any point, in the same unit.
        rounds: Of pushing, each by half of what is missing; where the room is too narrow some stay nearer.

    Returns:
        ``[n, 2]`` positions of the labels.
    """
    count = len(points)
    angles = 2.4 * np.arange(count)  # labels of equal points start in different directions
    labels = points + [0.0, distance] + 1e-3 * distance * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(rounds):
        gaps = labels[:, None] - np.concatenate([labels, points])[None]
        lengths = np.hypot(gaps[..., 0], gaps[..., 1])
        lengths[np.arange(count), np.arange(count)] = np.inf
        missing = np.clip(distance - lengths, 0.0, None)
        if not missing.any():
            break
        labels = labels + 0.5 * (gaps / np.maximum(lengths, 1e-9)[..., None] * missing[..., None]).sum(axis=1)
    return labels


def _balance(standings: Sequence[Standing]) -> dict[int, Place]:
    """Place strategies by learning accuracy and backward transfer, in percent and points."""
    return {
        number: Place(*(100.0 * value for value in (x.mean, y.mean, x.half_width, y.half_width)))
        for number, (_, x, y, _, _) in enumerate(standings)
        if np.isfinite(x.mean) and np.isfinite(y.mean)
    }


def _price(standings: Sequence[Standing]) -> dict[int, Place]:
    """Place strategies by stored bytes, as :func:`size_positions`, and final accuracy in percent."""
    positions = size_positions([standing.stored_bytes.mean for standing in standings])
    return {
        number: Place(float(position), 100.0 * final.mean, np.nan, 100.0 * final.half_width)
        for number, (position, (*_, final, _)) in enumerate(zip(positions, standings, strict=True))
        if np.isfinite(position) and np.isfinite(final.mean)
    }


def _draw_points(axes: Axes, places: Mapping[int, Place], theme: Theme) -> None:
    for number, place in places.items():
        look = look_of(number, theme)
        x_half, y_half = (half if np.isfinite(half) else None for half in (place.x_half, place.y_half))
        point = {"color": look.colour, "marker": look.marker, "markersize": 7, "linewidth": 1.2}
        axes.errorbar(place.x, place.y, xerr=x_half, yerr=y_half, **point)
    axes.margins(0.12)


def _draw_equal_accuracy(axes: Axes, num_tasks: int, theme: Theme) -> None:
    """Join points of equal final accuracy by thin lines, each named where it enters the picture."""
    if num_tasks < 2:
        return
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    slope = (num_tasks - 1) / num_tasks
    least, most = max(left + slope * low, 0.0), min(right + slope * high, 100.0)
    step = next((step for step in (1, 2, 5, 10, 20) if (most - least) / step <= 8), 50)
    for level in np.arange(np.ceil(least / step) * step, most + 1e-9, step):
        axes.plot([left, right], (level - np.array([left, right])) / slope, color=theme.grid, linewidth=1.0, zorder=0)
        top = level - slope * high
        at = (top, high) if top >= left else (left, (level - left) / slope)
        if low < at[1] and at[0] < right - 0.05 * (right - left):
            small = {"color": theme.muted, "fontsize": SMALL - 1.5, "family": FONT}
            axes.annotate(f"{level:.0f}", at, (3, -3), textcoords="offset points", va="top", **small)
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    words = "thin lines: equal final accuracy (%)"
    axes.set_title(words, loc="right", color=theme.muted, fontsize=SMALL, family=FONT, pad=10)


def _name_sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """Put ticks at round sizes within what is drawn, and one at none."""
    positive = [size for size in sizes if size > 0]
    ticks = {}
    if positive:
        low, high = 0.6 * min(positive), 1.6 * max(positive)
        known = [
            (part * 1024.0**power, f"{part:g}\u00a0{unit}")
            for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
            for part in (1, 2, 5, 10, 20, 50, 100, 200, 500)
        ]
        within = [(size, name) for size, name in known if low <= size <= high]
        decades = [(size, name) for size, name in within if name[0] == "1"]
        ticks = {float(np.log10(size)): name for size, name in (decades if len(decades) > 2 else within)}
    if any(size == 0 for size in sizes):
        ticks[float(size_positions([*sizes, 0.0])[-1])] = "none"
    axes.set_xticks(list(ticks), list(ticks.values()))


def _number_points(axes: Axes, places: Mapping[int, Place], theme: Theme) -> None:
    """Write the number of every strategy beside its point, joined by a hair line where it had to move away."""
    if not places:
        return
    data = np.array([(place.x, place.y) for place in places.values()])
    points = axes.transData.transform(data) * 72.0 / axes.figure.dpi
    hair = {"arrowstyle": "-", "color": theme.muted, "linewidth": 0.6, "shrinkA": 5, "shrinkB": 3}
    for number, at, offset in zip(places, data, moved_apart(points, _POINTS_APART) - points, strict=True):
        axes.annotate(
            str(number + 1),
            at,
            offset,
            textcoords="offset points",
            ha="center",
            va="center",
            color=theme.ink,
            fontsize=SMALL,
            fontweight="bold",
            family=FONT,
            path_effects=[withStroke(linewidth=2.5, foreground=theme.paper)],
            annotation_clip=False,
            arrowprops=hair if float(np.hypot(*offset)) > 1.3 * _POINTS_APART else None,
        )


def _draw_key(axes: Axes, names: Sequence[str], theme: Theme) -> None:
    """List the strategies by number with their marks, in columns to be read downwards."""
    axes.set_axis_off()
    rows = -(-len(names) // _KEY_COLUMNS)
    axes.set_xlim(0.0, _KEY_COLUMNS)
    axes.set_ylim(rows, 0.0)
    for number, name in enumerate(names):
        column, row = divmod(number, rows)
        look = look_of(number, theme)
        words = {"va": "center", "color": theme.ink, "fontsize": SMALL, "family": FONT}
        axes.plot(column + 0.03, row + 0.5, color=look.colour, marker=look.marker, markersize=6.5, clip_on=False)
        axes.text(column + 0.12, row + 0.5, f"{number + 1}", ha="right", fontweight="bold", **words)
        axes.text(column + 0.14, row + 0.5, plain_text(name, 48), **words)
