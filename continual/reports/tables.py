"""The same numbers for the terminal: one row a strategy, and the accuracy matrix of each, within 80 columns.

Names from files are put in as plain text, so that brackets in them are not read as colours.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.columns import Columns
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .formatting import MISSING, formatter, percent, with_interval
from .grouping import Group, read_groups
from .run_folder import read_run

_QUALITY = (
    ("acc_final", "final\naccuracy"),
    ("acc_learning", "learning\naccuracy"),
    ("bwt", "backward\ntransfer"),
    ("forgetting", "forgetting"),
)
_COST = (("synaptic_operations", "synaptic\noperations"), ("seconds", "time"))
_MOST_TASKS_IN_MATRIX = 12
_LONGEST_NAME = 16


def run_table(run_folder: Path) -> RenderableType:
    """Make the table of one run and its accuracy matrix.

    Args:
        run_folder: Of a run that wrote its metrics.

    Returns:
        Something ``rich`` prints.

    Raises:
        ValueError: When a needed file is missing or damaged.
    """
    run = read_run(Path(run_folder))
    return _stack((Group(run.strategy, run.strategy, (run,)),))


def comparison_table(folders: Sequence[Path]) -> RenderableType:
    """Make one table with a row per strategy, means over seeds, and the accuracy matrix of each.

    Args:
        folders: Finished runs of the same tasks.

    Returns:
        Something ``rich`` prints.

    Raises:
        ValueError: As :func:`continual.reports.compare`.
    """
    return _stack(read_groups(folders))


def _stack(groups: Sequence[Group]) -> RenderableType:
    first = groups[0].runs[0]
    title = Text(f"{first.scenario}, {first.matrices.num_tasks} tasks, mode {first.mode}", style="bold")
    matrices = Columns([_matrix(group) for group in groups], padding=(0, 3, 1, 0))
    return Stack(title, Text(), _summary(groups), Text(), matrices, _legend(groups))


def _summary(groups: Sequence[Group]) -> Table:
    several = any(len(group.runs) > 1 for group in groups)
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("strategy", style="bold", vertical="bottom", overflow="fold", min_width=8, max_width=22)
    if several:
        table.add_column("n", justify="right", vertical="bottom")
    for _, head in (*_QUALITY, *_COST):
        table.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    for group in groups:
        quality = [_compact(with_interval(metric, group.interval(metric))) for metric, _ in _QUALITY]
        cost = [formatter(metric)(group.interval(metric).mean) for metric, _ in _COST]
        number = [str(len(group.runs))] if several else []
        table.add_row(Text(_folded(group.name)), *map(Text, (*number, *quality, *cost)))
    return table


def _folded(name: str) -> str:
    """Break a long name after an underscore or a space, where a reader would."""
    pieces = re.findall(r"[^_ ]*[_ ]?", name)
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > _LONGEST_NAME:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _compact(text: str) -> str:
    """Leave out the unit and the spaces that a wide page has room for."""
    return text.replace("\u00a0%", "").replace(" ± ", "±")


def _matrix(group: Group) -> RenderableType:
    """Show the mean matrix: rows after each task, columns the tasks tested; underlined just learnt."""
    R: NDArray[np.float64] = np.mean(np.array(group.matrices), axis=0)
    shown = np.unique(np.linspace(0, len(R) - 1, min(len(R), _MOST_TASKS_IN_MATRIX)).round().astype(int))
    table = Table(box=None, padding=(0, 0), show_edge=False)
    table.add_column("after", style="dim", justify="right")
    for j in shown:
        table.add_column(f"{j + 1} ", justify="right", header_style="dim", min_width=6)
    for i in shown[np.isfinite(R[shown]).any(axis=1)]:
        table.add_row(f"{i + 1} ", *(_cell(float(R[i, j]), bool(i == j)) for j in shown))
    return Stack(Text(_folded(group.name), style="bold"), table)


def _cell(value: float, is_diagonal: bool) -> Text:
    if np.isnan(value):
        return Text(f"{MISSING} ", style="dim")
    red, green, blue = (round(low + (high - low) * value) for low, high in ((228, 9), (236, 74), (243, 128)))
    ink = "#ffffff" if value > 0.55 else "#17212b"
    emphasis = " bold underline" if is_diagonal else ""
    number = _compact(percent(value))
    paper = f"{ink} on #{red:02x}{green:02x}{blue:02x}"
    return Text.assemble((" " * (6 - len(number)), paper), (number, paper + emphasis))


def _legend(groups: Sequence[Group]) -> Text:
    words = "Matrix: rows after training on a task, columns the task tested (%).\n"
    words += "Transfer and forgetting in points; synaptic operations per test sample."
    if any(len(group.runs) > 1 for group in groups):
        words += "\nn runs with different seeds; ± is the half width of the 95 % t-interval."
    return Text(words, style="dim")
