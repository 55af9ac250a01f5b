"""Three pictures of certifications: certified accuracy against radius, how p_A is spread, and what each image took."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from continual.reports.style import (
    FONT,
    LIGHT,
    SMALL,
    EndLabel,
    Theme,
    dress,
    label_ends,
    look_of,
    new_figure,
    plain_text,
    png_bytes,
)
from continual.robustness.smoothing.certificates import Certificates

_POINTS = 400


def figures_of(named: Mapping[str, Certificates], theme: Theme = LIGHT) -> dict[str, bytes]:
    """Draw what can be drawn, as PNG by name.

    Args:
        named: certifications to compare, by name.
        theme: colours.
    """
    drawings = {"certified_accuracy": certified_curves, "p_a": p_a_histograms, "draws": draws_per_image}
    drawn = {name: draw(named, theme) for name, draw in drawings.items()}
    return {name: png_bytes(figure) for name, figure in drawn.items() if figure is not None}


def certified_curves(named: Mapping[str, Certificates], theme: Theme) -> Figure | None:
    """Draw certified accuracy against radius; ends of dotted lines are the ceilings. None where labels are unknown.

    Of a certification that stopped early only the radii it was to decide are drawn, as points.

    Args:
        named: certifications, by name.
        theme: colours.
    """
    known = {name: found for name, found in named.items() if all(row.label is not None for row in found.rows)}
    if not known:
        return None
    figure = new_figure(7.4, 4.4, theme)
    axes = figure.add_subplot()
    dress(axes, theme, "Certified accuracy", "radius (l2, raw pixel units)", "certified accuracy (%)", grid="both")
    widest = 1.02 * max(found.budget.ceiling for found in known.values())
    ends = []
    for place, (name, found) in enumerate(known.items()):
        look, ceiling = look_of(place, theme), found.budget.ceiling
        stated = getattr(found.budget.goal, "radii", None) if found.budget.rule.sequential else None
        radii = np.linspace(0, widest, _POINTS) if stated is None else np.asarray(stated)
        heights = [100 * found.certified_accuracy(radius) for radius in radii]
        if stated is None:
            line = {"color": look.colour, "marker": look.marker, "markersize": 5.5, "markevery": (10 * place, 60)}
            axes.plot(radii, heights, linestyle=look.line_style, linewidth=1.8, clip_on=False, **line)
        else:
            axes.plot(radii, heights, look.marker, color=look.colour, markersize=6, clip_on=False)
        axes.plot([ceiling, ceiling], [0, 6], ":", color=look.colour, linewidth=1.6)
        ends.append(EndLabel(92.0 - 8.0 * place, plain_text(name, 26), look.colour, look=look))
    axes.set_xlim(0, widest)
    axes.set_ylim(0, 100)
    label_ends(axes, ends, theme, gap=0.07)
    return figure


def p_a_histograms(named: Mapping[str, Certificates], theme: Theme) -> Figure | None:
    """Draw how many images have which share of agreeing draws; the part that is right, wrong, and abstains.

    Args:
        named: certifications, by name.
        theme: colours.
    """
    figure = new_figure(7.4, 0.8 + 2.0 * len(named), theme)
    edges = np.linspace(0, 1, 51)
    for axes, (name, found) in zip(figure.subplots(len(named), 1, squeeze=False)[:, 0], named.items(), strict=True):
        last = name == list(named)[-1]
        title = f"{plain_text(name, 40)}: how often draws agree"
        dress(axes, theme, title, "share of agreeing draws, estimate of p_A" if last else "", "images")
        kinds = _kinds(found, theme)
        parts = [found.p_a[where] for _, where, _ in kinds]
        axes.hist(parts, bins=edges, stacked=True, color=[c for *_, c in kinds], label=[n for n, *_ in kinds])
        axes.axvline(0.5, color=theme.muted, linewidth=1.0, linestyle="--")
        axes.set_xlim(0, 1)
        legend = axes.legend(frameon=False, loc="upper left", prop={"family": FONT, "size": SMALL})
        for text in legend.get_texts():
            text.set_color(theme.ink)
    return figure


def _kinds(found: Certificates, theme: Theme) -> list[tuple[str, np.ndarray, str]]:
    colours = theme.categories
    abstained = ("abstains", found.abstained, theme.muted)
    if any(row.label is None for row in found.rows):
        return [("answers", ~found.abstained, colours[0]), abstained]
    wrong = ~found.abstained & ~found.correct
    return [("right", found.correct, colours[0]), ("wrong", wrong, theme.accent), abstained]


def draws_per_image(named: Mapping[str, Certificates], theme: Theme) -> Figure | None:
    """Draw which share of images needs more than so many draws. None where every certification is of one fixed sample.

    Args:
        named: certifications, by name.
        theme: colours.
    """
    if not any(found.budget.rule.sequential for found in named.values()):
        return None
    figure = new_figure(7.4, 4.0, theme)
    axes = figure.add_subplot()
    dress(axes, theme, "Draws used", "draws of the estimate", "images that need more (%)", grid="both")
    ends = []
    for place, (name, found) in enumerate(named.items()):
        look, draws = look_of(place, theme), np.sort(found.column("draws"))
        left = 100 * (1 - np.arange(1, len(draws) + 1) / len(draws))
        line = {"color": look.colour, "linestyle": look.line_style, "linewidth": 1.8}
        axes.step([1, *draws], [100, *left], where="post", **line)
        mean = f"{plain_text(name, 20)}: mean {draws.mean():.0f}"
        ends.append(EndLabel(92.0 - 8.0 * place, mean, look.colour, look=look))
    axes.set_xscale("log")
    axes.set_xlim(min(50, *(found.column("draws").min() for found in named.values())), None)
    axes.set_ylim(0, 102)
    label_ends(axes, ends, theme, gap=0.07)
    return figure
