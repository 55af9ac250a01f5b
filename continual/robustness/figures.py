"""Three pictures of an evaluation: accuracy against radius, what each attack left, and the images themselves."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from continual.reports.style import FONT, LIGHT, SMALL, Theme, dress, new_figure, plain_text, png_bytes
from continual.robustness.adversarial import Adversarial

if TYPE_CHECKING:
    from continual.robustness.report import RobustnessReport

_MOST_IMAGES = 6


def figures_of(report: "RobustnessReport", theme: Theme = LIGHT) -> dict[str, bytes]:
    """Draw what can be drawn, as PNG by name; inputs that are no images have no picture.

    Args:
        report: of an evaluation.
        theme: colours.
    """
    figures = {"accuracy_against_epsilon": accuracy_curve(report, theme), "attacks": attack_bars(report, theme)}
    if picture(report.adversarial.images[0]) is not None:
        figures["adversarial_images"] = side_by_side(report.adversarial, theme)
    return {name: png_bytes(figure) for name, figure in figures.items()}


def accuracy_curve(report: "RobustnessReport", theme: Theme) -> Figure:
    """Draw worst-case accuracy against the radius.

    Args:
        report: of an evaluation.
        theme: colours.
    """
    figure = new_figure(6.4, 4.2, theme)
    axes = figure.add_subplot()
    radii, accuracies = zip(*report.curve, strict=True)
    norm = report.adversarial.threat.norm.name
    dress(axes, theme, "Accuracy under attack", f"ε ({norm}, raw pixel units)", "accuracy (%)", grid="both")
    axes.plot(radii, [100 * accuracy for accuracy in accuracies], "o-", color=theme.categories[0], clip_on=False)
    if report.verdict is not None and report.verdict.failed:
        axes.text(
            0.98,
            0.96,
            "verdict: unreliable, an upper bound",
            transform=axes.transAxes,
            ha="right",
            va="top",
            color=theme.accent,
            fontsize=SMALL,
            family=FONT,
        )
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    return figure


def attack_bars(report: "RobustnessReport", theme: Theme) -> Figure:
    """Draw the accuracy that is left after each attack, in order.

    Args:
        report: of an evaluation.
        theme: colours.
    """
    total = len(report.adversarial.labels)
    names = ["unattacked", *(plain_text(row.attack, 34) for row in report.rows)]
    left = [100 * report.clean_accuracy, *(100 * row.left / total for row in report.rows)]
    figure = new_figure(6.4, 1.4 + 0.45 * len(names), theme)
    axes = figure.add_subplot()
    dress(axes, theme, "What each attack left", "accuracy (%)", grid="x")
    axes.barh(range(len(names)), left, color=[theme.muted, *[theme.categories[0]] * len(report.rows)], height=0.6)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    for row, value in enumerate(left):
        axes.text(value + 1, row, f"{value:.1f}", va="center", color=theme.ink, fontsize=SMALL, family=FONT)
    return figure


def side_by_side(found: Adversarial, theme: Theme, most: int = _MOST_IMAGES) -> Figure:
    """Draw images before and after, and their difference: grey is none, black and white the largest there is.

    Args:
        found: adversarial images; those that were right before and are wrong now come first.
        theme: colours.
        most: columns.
    """
    turned = found.success & (found.clean_predictions == found.labels)
    order = torch.argsort(~turned, stable=True)[:most].tolist()
    figure = new_figure(1.5 * max(len(order), 2) + 0.9, 5.4, theme)
    grid = figure.subplots(3, len(order), squeeze=False)
    largest = max(float((found.images[order] - found.origin[order]).abs().max()), torch.finfo(torch.float64).tiny)
    for column, sample in enumerate(order):
        before, after = found.origin[sample].double(), found.images[sample].double()
        lower, width = found.threat.lower, found.threat.width
        rows = ((before - lower) / width, (after - lower) / width, 0.5 + (after - before) / (2 * largest))
        for axes, image in zip(grid[:, column], rows, strict=True):
            _draw(axes, image, theme)
        grid[0, column].set_title(f"{int(found.clean_predictions[sample])}", color=theme.ink, fontsize=SMALL)
        colour = theme.accent if bool(found.success[sample]) else theme.ink
        grid[1, column].set_title(f"{int(found.predictions[sample])}", color=colour, fontsize=SMALL)
    for axes, name in zip(grid[:, 0], ("before", "after", f"difference, ± {largest:.2g}"), strict=True):
        axes.set_ylabel(name, color=theme.ink, fontsize=SMALL, family=FONT)
    return figure


def picture(image: Tensor) -> "np.ndarray | None":
    """Give an image [H, W] or [C, H, W] as matplotlib draws it; None if it is none, averaged over unusual channels."""
    pixels = image.detach().cpu().double().numpy()
    if pixels.ndim == 2:
        return pixels
    if pixels.ndim != 3:
        return None
    return np.moveaxis(pixels, 0, -1) if pixels.shape[0] == 3 else pixels.mean(0)


def _draw(axes: Axes, image: Tensor, theme: Theme) -> None:
    shown = picture(image.clamp(0, 1))
    assert shown is not None
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(theme.muted)
