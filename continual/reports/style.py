"""One look for every figure: two themes (for light and for dark pages), one type size scale, colours safe for all eyes.

Categories take the palette of Okabe and Ito (2008), told apart with the common colour deficiencies; ordered things take
viridis, whose lightness grows evenly. Figures are built through matplotlib's objects, so no global state of a user's
session is read or changed, and no display is needed.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory, offset_copy
from matplotlib.typing import ColorType

DOTS_PER_INCH = 160
TITLE, LABEL, SMALL = 12.5, 10.5, 9.0
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINE_STYLES = ("-", "--", ":", "-.")
FONT = "DejaVu Sans"  # travels with matplotlib, so every machine draws the same picture


@dataclass(frozen=True)
class Theme:
    """Colours of a figure.

    Attributes:
        name: ``light`` or ``dark``.
        paper: Background.
        ink: Text and the most important line.
        muted: Text and marks of second rank.
        grid: Lines of reference.
        accent: The one colour that draws the eye.
        shades: From low to high, for areas filled by value.
        order_range: Part of viridis that is readable on the paper.
        categories: One colour per thing without an order.
    """

    name: str
    paper: str
    ink: str
    muted: str
    grid: str
    accent: str
    shades: tuple[str, ...]
    order_range: tuple[float, float]
    categories: tuple[str, ...]

    @property
    def shading(self) -> Colormap:
        """Return the colour map for areas filled by value."""
        return LinearSegmentedColormap.from_list(f"palimpsest-{self.name}", self.shades)

    def ordered(self, number: int) -> list[tuple[float, float, float, float]]:
        """Return colours for things with an order, such as tasks or layers.

        Args:
            number: How many.

        Returns:
            RGBA values, evenly spaced in lightness.
        """
        return [tuple(colormaps["viridis"](share)) for share in np.linspace(*self.order_range, max(number, 1))]  # type: ignore[misc]


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#17212b",
    muted="#5b6875",
    grid="#e2e7ec",
    accent="#d55e00",
    shades=("#f1f6fa", "#c3dbec", "#7fb3d5", "#2f7fb5", "#0b4a7d", "#062b4f"),
    order_range=(0.0, 0.72),
    categories=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#17212b"),
)
DARK = Theme(
    name="dark",
    paper="#161c24",
    ink="#e9eef3",
    muted="#9fabb8",
    grid="#2c3743",
    accent="#ff9a4d",
    shades=("#1d2732", "#1f4261", "#2c6f9f", "#5aa5d0", "#a5d3ec", "#e6f4fb"),
    order_range=(0.42, 1.0),
    categories=("#4fb0e8", "#ff8a3d", "#2fc79b", "#e39bc4", "#f2bd4b", "#9ad2f3", "#e9eef3"),
)


class EndLabel(NamedTuple):
    """The name of a curve.

    Attributes:
        height: Where the curve ends, in units of the axis.
        name: Safe to draw, see :func:`plain_text`.
        colour: Of the curve.
        bold: True for the one that matters most.
        look: A sample of the curve is drawn before the name, for where colours repeat; None leaves it out.
    """

    height: float
    name: str
    colour: ColorType
    bold: bool = False
    look: "Look | None" = None


class Look(NamedTuple):
    """How one thing among many is told from the others in every figure of a page.

    Attributes:
        colour: Of a category.
        marker: In matplotlib's letters.
        line_style: In matplotlib's characters.
    """

    colour: str
    marker: str
    line_style: str


def look_of(position: int, theme: Theme) -> Look:
    """Give the look of the thing at a position: 7 colours, then the same again with other markers and lines.

    Args:
        position: From 0; 49 combinations of colour and marker are distinct.
        theme: Colours.
    """
    number = len(theme.categories)
    turn = position // number
    return Look(
        theme.categories[position % number],
        _MARKERS[(position + turn) % len(_MARKERS)],
        _LINE_STYLES[turn % len(_LINE_STYLES)],
    )


def new_figure(width: float, height: float, theme: Theme) -> Figure:
    """Make an empty figure with the layout that keeps labels apart.

    Args:
        width: Inches.
        height: Inches.
        theme: Its colours.

    Returns:
        A figure that belongs to no window.
    """
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, facecolor=theme.paper, layout="constrained")
    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.10, h_pad=0.10)  # type: ignore[call-arg]
    return figure


def dress(
    axes: Axes, theme: Theme, title: str = "", x_label: str = "", y_label: str = "", grid: str = "y", pad: float = 10.0
) -> None:
    """Give axes the common look: two spines, quiet ticks, a bold title at the left.

    Args:
        axes: To dress.
        theme: Colours.
        title: Above the axes.
        x_label: Below.
        y_label: At the left.
        grid: ``x``, ``y``, ``both`` or ``none``.
        pad: Points between the axes and the title.
    """
    axes.set_facecolor(theme.paper)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.muted)
        spine.set_linewidth(0.8)
    axes.tick_params(colors=theme.muted, labelsize=SMALL, length=3, width=0.8, labelfontfamily=FONT)
    axes.set_axisbelow(True)
    if grid != "none":
        axes.grid(visible=True, axis=grid, color=theme.grid, linewidth=0.8)  # type: ignore[arg-type]
    if title:
        axes.set_title(
            plain_text(title), loc="left", color=theme.ink, fontsize=TITLE, fontweight="bold", family=FONT, pad=pad
        )
    axes.set_xlabel(x_label, color=theme.ink, fontsize=LABEL, family=FONT)
    axes.set_ylabel(y_label, color=theme.ink, fontsize=LABEL, family=FONT)


def plain_text(text: str, longest: int = 60) -> str:
    """Make a string from a file safe to draw: no formula, no control character, no endless name.

    Args:
        text: Any string.
        longest: Characters to keep.

    Returns:
        The text, shortened at its end, with dollar signs that stay dollar signs.
    """
    printable = "".join(character if character.isprintable() else " " for character in text).strip()
    shortened = printable if len(printable) <= longest else printable[: longest - 1].rstrip() + "…"
    return shortened.replace("$", r"\$")


def short_names(names: Sequence[str], longest: int = 18) -> list[str]:
    """Leave out the dotted parts that all names begin with, for what tells layers apart stands at the end.

    Args:
        names: Dotted names such as ``network.layers.fc1``.
        longest: Characters to keep, of a third from the start and two thirds from the end of a name.

    Returns:
        Names that are safe to draw, in the same order.
    """
    parts = [name.split(".") for name in names]
    shared = 0
    while parts and all(len(one) > shared + 1 and one[shared] == parts[0][shared] for one in parts):
        shared += 1
    ends = [".".join(one[shared:]) for one in parts]
    start = longest // 3
    return [plain_text(end if len(end) <= longest else f"{end[:start]}…{end[start + 1 - longest :]}") for end in ends]


def readable_on(colour: tuple[float, float, float, float]) -> str:
    """Return black-ish or white-ish, whichever can be read on a colour.

    Args:
        colour: RGBA in [0, 1].

    Returns:
        A colour name.
    """
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#0d151d" if luminance > 0.18 else "#ffffff"


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart until none is nearer than a gap to the next, moving each as little as needed.

    Args:
        positions: Wanted positions in any order.
        gap: Least distance between two labels.
        low: Lowest position allowed.
        high: Highest position allowed.

    Returns:
        New positions in the same order.
    """
    order = np.argsort(positions, kind="stable")
    steps = gap * np.arange(len(order))
    wanted = np.asarray(positions, dtype=np.float64)[order] - steps
    blocks: list[list[float]] = []  # runs of labels that touch: sum of wanted positions, number of labels
    for value in wanted:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, number = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += number
    placed = np.repeat([total / number for total, number in blocks], [int(number) for _, number in blocks])
    placed = np.clip(placed, low, max(low, high - (steps[-1] if len(steps) else 0.0))) + steps
    result = np.empty(len(order))
    result[order] = placed
    return result.tolist()


def set_percent_limits(axes: Axes, least_span: float = 10.0) -> None:
    """Fit the vertical axis to what is drawn, within 0 to 100 and never so narrow that noise looks like a trend.

    Args:
        axes: With everything drawn, in percent.
        least_span: Smallest distance between the limits, in points.
    """
    low, high = axes.get_ylim()
    missing = max(0.0, least_span - (high - low)) / 2
    margin = 0.02 * (high - low)
    axes.set_ylim(max(-2.0, low - missing), min(101.5, high + missing + margin))


def label_ends(axes: Axes, ends: Sequence[EndLabel], theme: Theme, gap: float = 0.05) -> None:
    """Name curves at the right edge of the axes, in their colours, moved apart where names would touch.

    Args:
        axes: With their limits set.
        ends: The names; those at a height that is not a number are left out.
        theme: Colours; names lean to its ink, since bright lines are readable where thin letters are not.
        gap: Least distance between two names, as a share of the height.
    """
    shown = [end for end in ends if np.isfinite(end.height)]
    low, high = axes.get_ylim()
    placed = spread([end.height for end in shown], gap * (high - low), low, high)
    ink = np.array(to_rgb(theme.ink))
    for end, height in zip(shown, placed, strict=True):
        axes.annotate(
            end.name,
            (1.0, height),
            xycoords=("axes fraction", "data"),
            xytext=(7 if end.look is None else 36, 0),
            textcoords="offset points",
            va="center",
            fontsize=LABEL if end.bold else SMALL,
            fontweight="bold" if end.bold else "normal",
            color=tuple(0.72 * np.array(to_rgb(end.colour)) + 0.28 * ink),
            family=FONT,
            annotation_clip=False,
            arrowprops=None if end.look is None else _draw_sample(axes, height, end.look),
        )


def _draw_sample(axes: Axes, height: float, look: Look) -> dict[str, Any]:
    """Draw the mark of a curve outside the right edge, and give the line that joins it to the name beside it."""
    beside = blended_transform_factory(axes.transAxes, axes.transData)
    middle = offset_copy(beside, axes.get_figure(root=True), x=19, units="points")
    axes.plot([1.0], [height], transform=middle, color=look.colour, marker=look.marker, markersize=5.5, clip_on=False)
    line = {"color": look.colour, "linestyle": look.line_style, "linewidth": 1.8}
    return {"arrowstyle": "-", "relpos": (0.0, 0.5), "shrinkA": 3, "shrinkB": 6, **line}


def png_bytes(figure: Figure) -> bytes:
    """Draw a figure to PNG: the same figure gives the same bytes.

    Args:
        figure: Made by :func:`new_figure`.

    Returns:
        The file, ``160 * inches`` pixels wide and high.
    """
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="png", dpi=DOTS_PER_INCH, facecolor=figure.get_facecolor(), metadata={"Software": None}
    )
    return buffer.getvalue()
