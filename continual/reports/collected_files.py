"""Collected runs as files: CSV and Parquet for programs, Markdown and LaTeX with intervals for people.

CSV holds numbers with all their digits, so that reading gives the same floats back. Parquet needs ``pyarrow``, which is
an extra of its own. Markdown and LaTeX have the tables of a comparison page, one set for each sequence of tasks; the
LaTeX asks for the package ``booktabs``.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from continual.optional import optional_package

from . import comparison_tables
from .atomic_file import write_atomically
from .collect import Collected, Row, accuracy_rows, by_tasks, run_rows
from .comparison_tables import Tabular
from .grouping import group_runs

_LATEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\u00a0": "~", "±": r"$\pm$", "−": "$-$", "×": r"$\times$",
    "–": "--", "µ": r"$\mu$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def write_collected(collected: Collected, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write collected runs.

    Args:
        collected: At least one run.
        folder: Made when missing; files of the same name are replaced.
        formats: Among ``csv``, ``parquet``, ``markdown`` and ``latex``.

    Returns:
        The files written.

    Raises:
        ValueError: When a format is unknown, or its package is not installed; nothing is written then.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ValueError(f"a format must be one of {', '.join(FORMATS)}, but {', '.join(unknown)} was asked for.")
    files = [file for name in dict.fromkeys(formats) for file in FORMATS[name](collected)]
    return [write_atomically(Path(folder) / name, content) for name, content in files]


def markdown(table: Tabular) -> str:
    """Print a table in Markdown, its first column to the left and the others to the right.

    Args:
        table: The table.

    Returns:
        Lines that end in a line break; the caption follows.
    """
    lines = [table.head, (":--", *("--:" for _ in table.head[1:])), *table.rows]
    printed = (" | ".join(_markdown(cell) for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in printed) + f"\n{_markdown(table.caption)}\n"


def latex(table: Tabular) -> str:
    """Print a table in LaTeX, for the package ``booktabs``.

    Args:
        table: The table.

    Returns:
        A ``table`` environment.
    """
    head, *rows = (" & ".join(_latex(cell) for cell in line) + r" \\" for line in (table.head, *table.rows))
    return "\n".join(
        (
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(table.caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        )
    )


def _csv_files(collected: Collected) -> Iterator[tuple[str, bytes]]:
    for name, rows in _tidy(collected):
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        yield f"{name}.csv", text.getvalue().encode("utf-8")


def _parquet_files(collected: Collected) -> Iterator[tuple[str, bytes]]:
    arrow, parquet = optional_package("pyarrow", "parquet"), optional_package("pyarrow.parquet", "parquet")
    for name, rows in _tidy(collected):
        buffer = io.BytesIO()
        parquet.write_table(arrow.Table.from_pylist(rows), buffer)
        yield f"{name}.parquet", buffer.getvalue()


def _markdown_files(collected: Collected) -> Iterator[tuple[str, bytes]]:
    parts = [
        f"## {_markdown(title)}\n\n" + "\n".join(markdown(table) for table in tables)
        for title, tables in _tables(collected)
    ]
    yield "tables.md", "\n".join(parts).encode("utf-8")


def _latex_files(collected: Collected) -> Iterator[tuple[str, bytes]]:
    parts = [
        f"% {_latex(title)}\n" + "\n".join(latex(table) for table in tables) for title, tables in _tables(collected)
    ]
    yield "tables.tex", ("% needs \\usepackage{booktabs}\n" + "\n".join(parts)).encode("utf-8")


FORMATS: dict[str, Callable[[Collected], Iterator[tuple[str, bytes]]]] = {
    "csv": _csv_files,
    "latex": _latex_files,
    "markdown": _markdown_files,
    "parquet": _parquet_files,
}


def _tidy(collected: Collected) -> tuple[tuple[str, list[Row]], ...]:
    return ("runs", run_rows(collected.runs)), ("accuracies", accuracy_rows(collected.runs))


def _tables(collected: Collected) -> Iterator[tuple[str, list[Tabular]]]:
    """Give the title and the tables of every sequence of tasks."""
    for runs in by_tasks(collected.runs):
        groups = group_runs(runs)
        tables = [comparison_tables.quality(groups), comparison_tables.to_baseline(groups)]
        tables.append(comparison_tables.cost(groups))
        yield f"{runs[0].scenario}, {runs[0].matrices.num_tasks} tasks, mode {runs[0].mode}", [t for t in tables if t]


def _markdown(text: str) -> str:
    printable = "".join(character if character.isprintable() or character == "\u00a0" else " " for character in text)
    return printable.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _latex(text: str) -> str:
    printable = (character if character.isprintable() or character == "\u00a0" else " " for character in text)
    return "".join(_LATEX.get(character, character) for character in printable)
