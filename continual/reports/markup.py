"""Pieces of a self-contained HTML page; everything that comes from outside is escaped here and nowhere else.

A page needs no network and no script: figures travel inside it, once for light and once for dark pages, and the
reader's own setting chooses.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

from matplotlib.figure import Figure

from .atomic_file import write_atomically
from .glossary import GLOSSARY
from .style import DARK, LIGHT, Theme, png_bytes


class Illustration(NamedTuple):
    """A figure for a page.

    Attributes:
        name: Of its file, without ending.
        draw: From a theme to the figure; None where there is nothing to draw.
        caption: One sentence on how to read it.
        alternative: What it shows, for who cannot see it.
        wide: True to take the whole width of the page.
    """

    name: str
    draw: Callable[[Theme], Figure | None]
    caption: str
    alternative: str
    wide: bool = True


class Tile(NamedTuple):
    """A headline number, or two that must not be read apart.

    Attributes:
        values: Pairs of label and value.
        note: Small print below.
    """

    values: tuple[tuple[str, str], ...]
    note: str = ""


def tiles(entries: Sequence[Tile]) -> str:
    """Lay out headline numbers.

    Args:
        entries: The tiles in order.

    Returns:
        HTML.
    """
    blocks = []
    for tile in entries:
        pairs = "".join(
            f'<div class="pair"><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>' for label, value in tile.values
        )
        double = " double" if len(tile.values) > 1 else ""
        blocks.append(f'<div class="tile{double}"><dl>{pairs}</dl><p>{escape(tile.note)}</p></div>')
    return f'<div class="tiles">{"".join(blocks)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str, text_columns: int = 1) -> str:
    """Lay out a table whose first columns are text and whose others are numbers.

    Args:
        head: Titles of the columns.
        rows: Cells as text; the first of each is the row's title.
        caption: What the table holds.
        text_columns: How many columns are aligned left.

    Returns:
        HTML that scrolls sideways where the screen is narrow.
    """
    titles = "".join(
        f'<th scope="col"{_side(position, text_columns)}>{escape(title)}</th>' for position, title in enumerate(head)
    )
    body = "".join(f"<tr>{_cells(row, text_columns)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="group" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[str], text_columns: int) -> str:
    first = f'<th scope="row">{escape(row[0])}</th>'
    others = (
        f"<td{_side(position, text_columns)}>{escape(cell)}</td>" for position, cell in enumerate(row[1:], start=1)
    )
    return first + "".join(others)


def _side(position: int, text_columns: int) -> str:
    return "" if position < text_columns else ' class="number"'


def picture(illustration: Illustration) -> tuple[str, bytes] | None:
    """Draw a figure for light and for dark pages and put both into one element.

    Args:
        illustration: What to draw.

    Returns:
        HTML and the bytes of the light PNG; None where there is nothing to draw.
    """
    light = illustration.draw(LIGHT)
    if light is None:
        return None
    dark = illustration.draw(DARK)
    assert dark is not None
    inches = light.get_size_inches()
    width, height = (round(float(side) * 100) for side in inches)
    light_png = png_bytes(light)
    kind = "wide" if illustration.wide else "half"
    html = (
        f'<figure class="{kind}"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{_inline(png_bytes(dark))}">'
        f'<img src="{_inline(light_png)}" width="{width}" height="{height}" alt="{escape(illustration.alternative)}">'
        f"</picture><figcaption>{escape(illustration.caption)}</figcaption></figure>"
    )
    return html, light_png


def pictures(illustrations: Iterable[Illustration], folder: Path) -> str:
    """Draw figures for a page and keep the light ones as files.

    Args:
        illustrations: In the order of the page; those with nothing to draw are left out.
        folder: Where ``NAME.png`` go.

    Returns:
        HTML.
    """
    drawn = []
    for illustration in illustrations:
        found = picture(illustration)
        if found is not None:
            html, png = found
            write_atomically(folder / f"{illustration.name}.png", png)
            drawn.append(html)
    return f'<div class="figures">{"".join(drawn)}</div>' if drawn else ""


def _inline(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def details(title: str, content: str) -> str:
    """Fold content away under a title.

    Args:
        title: Text.
        content: HTML, already escaped.

    Returns:
        HTML.
    """
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def preformatted(text: str) -> str:
    """Show text with its own line breaks.

    Args:
        text: Any text.

    Returns:
        HTML.
    """
    return f'<pre tabindex="0">{escape(text)}</pre>'


def paragraph(text: str) -> str:
    """Make a paragraph.

    Args:
        text: Any text.

    Returns:
        HTML.
    """
    return f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """Make a paragraph in small print.

    Args:
        text: Any text.

    Returns:
        HTML.
    """
    return f'<p class="note">{escape(text)}</p>'


def section(title: str, content: str) -> str:
    """Put content under a heading.

    Args:
        title: Text.
        content: HTML, already escaped.

    Returns:
        HTML; empty where the content is.
    """
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def glossary(names: Iterable[str]) -> str:
    """Explain the given names, each folded under its title.

    Args:
        names: Keys of the glossary; others are passed over.

    Returns:
        HTML.
    """
    entries = []
    for name in dict.fromkeys(names):
        if name in GLOSSARY:
            entry = GLOSSARY[name]
            formula = f"<p><code>{escape(entry.formula)}</code></p>" if entry.formula else ""
            entries.append(details(entry.title, paragraph(entry.meaning) + formula))
    return f'<div class="glossary">{"".join(entries)}</div>'


def page(title: str, lead: str, body: str) -> str:
    """Put a body into the page's frame.

    Args:
        title: Of the page.
        lead: One line below the title.
        body: HTML, already escaped.

    Returns:
        A whole HTML document.
    """
    frame = Template(resources.files("continual.reports").joinpath("page.html").read_text(encoding="utf-8"))
    return frame.substitute(title=escape(title), lead=escape(lead), body=body)
