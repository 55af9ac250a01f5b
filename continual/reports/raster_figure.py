"""Every spike that one test image causes in every hidden layer, beside the image.

A row is a neuron, a tick is a spike. Of a wide layer only some neurons are drawn, evenly spaced over the layer, and the
title says how many of how many; the firing rate in it is that of all of them.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .run_folder import Activity
from .style import FONT, LABEL, Theme, dress, new_figure, short_names

MOST_NEURONS = 48
_WIDTH = 11.2


def spike_raster(activity: Activity, theme: Theme, most_neurons: int = MOST_NEURONS) -> Figure:
    """Draw the raster of every layer, first layer on top.

    Args:
        activity: Recorded spikes of one image.
        theme: Colours.
        most_neurons: Rows per layer at most.

    Returns:
        A figure of 11.2 inches by 2.4 inches a layer and 0.5 more, at least 3.8 in all.
    """
    num_layers = len(activity.spikes)
    figure = new_figure(_WIDTH, raster_height(num_layers), theme)
    with_image = activity.image is not None
    grid = figure.add_gridspec(num_layers, 2 if with_image else 1, width_ratios=[1.0, 3.2] if with_image else [1.0])
    if activity.image is not None:
        _draw_image(figure.add_subplot(grid[:, 0]), activity.image, activity.label, theme)
    first: Axes | None = None
    for position, (name, spikes, colour) in enumerate(
        zip(short_names(list(activity.spikes), 28), activity.spikes.values(), theme.ordered(num_layers), strict=True)
    ):
        axes = figure.add_subplot(grid[position, -1], sharex=first)
        first = first or axes
        _draw_layer(axes, name, np.asarray(spikes).reshape(len(spikes), -1), colour, theme, most_neurons)
        is_last = position == num_layers - 1
        axes.tick_params(labelbottom=is_last)
        axes.set_xlabel("time step" if is_last else "", color=theme.ink, fontsize=LABEL, family=FONT)
    return figure


def raster_height(num_layers: int) -> float:
    """Return the height of the raster figure in inches.

    Args:
        num_layers: Layers drawn.

    Returns:
        Inches.
    """
    return max(3.8, 0.5 + 2.4 * num_layers)


def _draw_image(axes: Axes, image: NDArray[np.float64], label: int | None, theme: Theme) -> None:
    shown = np.squeeze(image)
    if shown.ndim == 3 and shown.shape[0] in (3, 4) and shown.shape[2] not in (3, 4):
        shown = np.moveaxis(shown, 0, -1)
    colours = {} if shown.ndim == 3 else {"cmap": "gray", "vmin": 0.0, "vmax": max(1.0, float(shown.max()))}
    axes.imshow(shown, interpolation="nearest", **colours)
    title = "Input" if label is None else f"Input, class {label}"
    dress(axes, theme, title, grid="none")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_anchor("N")
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(theme.muted)


def _draw_layer(
    axes: Axes,
    name: str,
    spikes: NDArray[np.uint8],
    colour: tuple[float, float, float, float],
    theme: Theme,
    most_neurons: int,
) -> None:
    num_steps, num_neurons = spikes.shape
    shown = np.unique(np.linspace(0, num_neurons - 1, min(num_neurons, most_neurons)).round().astype(int))
    times, rows = np.nonzero(spikes[:, shown])
    extent = f"all {num_neurons} neurons" if len(shown) == num_neurons else f"{len(shown)} of {num_neurons} neurons"
    title = f"{name}   {extent}, firing rate {100 * float(spikes.mean()):.1f} %"
    dress(axes, theme, grid="none", y_label="neuron")
    axes.set_title(title, loc="left", color=theme.ink, fontsize=LABEL, fontweight="bold", family=FONT, pad=6)
    row_height = 72.0 * 1.75 / len(shown)  # points, of the 1.75 inches left for the rows of a layer
    tick = float(np.clip(1.2 * row_height, 6.0, 9.0))  # a little taller than a row, for thin rows cannot be seen
    width = float(np.clip(60.0 / num_steps, 0.9, 2.0))
    axes.scatter(times + 1, rows + 0.5, s=tick**2, marker="|", color=[colour], linewidths=width)
    axes.set_xlim(0.4, num_steps + 0.6)
    axes.set_ylim(len(shown), 0)
    step = max(1, int(np.ceil(num_steps / 20)))
    axes.set_xticks(np.arange(1, num_steps + 1, step))
    ticks = [0, len(shown) - 1] if len(shown) > 1 else [0]
    axes.set_yticks([tick + 0.5 for tick in ticks], [str(int(shown[tick]) + 1) for tick in ticks])
