"""Many run folders as a few tidy tables: one row per run, and one per run, task and moment of testing.

Collecting scans folders and reads files, and writes nothing into a run: the same folders give the same bytes, however
often and in whatever order they are named. A run that has not finished, is damaged, or repeats another one is left out
and named with the reason. Numbers stay as recorded (shares in [0, 1], seconds, bytes, joules); a cell is empty where a
number is undefined or was not measured. Task and moment count from 1; moment 0 is the untrained network.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .grouping import differing, flat, seeds_of, settings, tasks_of
from .run_folder import RunFolder, read_run

Row = dict[str, Any]

_OTHER_COLUMNS = ("strategy", "mode", "format_version")


class Skipped(NamedTuple):
    """A folder that was left out.

    Attributes:
        path: The folder.
        reason: Why, in words.
    """

    path: Path
    reason: str


class Collected(NamedTuple):
    """What was found.

    Attributes:
        runs: Finished runs in order of tasks, strategy, settings and seeds.
        skipped: The others.
    """

    runs: tuple[RunFolder, ...]
    skipped: tuple[Skipped, ...]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """List the run folders among paths and anywhere below them.

    Args:
        paths: Run folders, or folders that hold some.

    Returns:
        Folders with a ``config.yaml``, each once, sorted.

    Raises:
        ValueError: When a path is not a folder.
    """
    found: set[Path] = set()
    for path in map(Path, paths):
        if not path.is_dir():
            raise ValueError(f"{path} must be the folder of a run or a folder that holds runs, but it is no folder.")
        found |= {file.parent.resolve() for file in path.rglob("config.yaml")}
    return sorted(found)


def collect(paths: Iterable[Path]) -> Collected:
    """Read every finished run among paths and below them.

    Args:
        paths: Run folders, or folders that hold some.

    Returns:
        The runs, and what was left out.

    Raises:
        ValueError: When a path is not a folder, or none holds a finished run.
    """
    paths = list(paths)
    runs: dict[str, RunFolder] = {}
    skipped: list[Skipped] = []
    for folder in find_runs(paths):
        try:
            run = _finished(folder)
        except (ValueError, OSError) as problem:
            skipped.append(Skipped(folder, str(problem)))
            continue
        twin = runs.setdefault(_identity(run), run)
        if twin is not run:
            skipped.append(Skipped(folder, f"same settings and seeds as {twin.path}"))
    if not runs:
        names = ", ".join(map(str, paths)) or "nothing"
        reasons = "".join(f"\n  {path}: {reason}" for path, reason in skipped)
        raise ValueError(f"collect needs at least one finished run, but {names} holds none.{reasons}")
    return Collected(tuple(runs[identity] for identity in sorted(runs)), tuple(skipped))


def by_tasks(runs: Sequence[RunFolder]) -> list[list[RunFolder]]:
    """Part runs into those that solved the same tasks and so may stand in one table.

    Args:
        runs: Any.

    Returns:
        Lists of runs in the order given.
    """
    parts: dict[tuple[tuple[str, str], ...], list[RunFolder]] = {}
    for run in runs:
        parts.setdefault(tuple(sorted(tasks_of(run).items())), []).append(run)
    return list(parts.values())


def run_rows(runs: Sequence[RunFolder]) -> list[Row]:
    """Make one row per run: what it is, in what it differs from the others, and every number it recorded.

    Args:
        runs: Any.

    Returns:
        Rows with the same keys in the same order; None where there is no number.
    """
    keys = [key for key in differing(runs) if key != "strategy name"]
    rows = []
    for run in runs:
        own = settings(run)
        seeds = {
            f"config.{key}": int(seed) for key, seed in seeds_of(run) if key not in ("", "seed") and seed.isdigit()
        }
        rows.append(
            {**_name(run), "scenario": run.scenario, "mode": run.mode, **seeds}
            | {f"config.{key}": own.get(key) for key in keys}
            | _numbers(run)
        )
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in columns} for row in rows]


def accuracy_rows(runs: Sequence[RunFolder]) -> list[Row]:
    """Make one row per run, task and moment of testing.

    Args:
        runs: Any.

    Returns:
        Rows with ``after_task`` (0 for the untrained network), ``task`` and both accuracies; what was not measured has
        no row.
    """
    rows = []
    for run in runs:
        matrices = run.matrices
        aware = np.vstack([matrices.baseline_task_aware, matrices.task_aware])
        agnostic = np.vstack([matrices.baseline_task_agnostic, matrices.task_agnostic])
        for after, task in np.ndindex(aware.shape):
            both = _or_none(aware.item(after, task)), _or_none(agnostic.item(after, task))
            if both == (None, None):
                continue
            rows.append(
                {
                    **_name(run),
                    "after_task": after,
                    "task": task + 1,
                    "task_name": run.task_names[task],
                    "accuracy_task_aware": both[0],
                    "accuracy_task_agnostic": both[1],
                    "test_samples": int(matrices.counts[task]),
                }
            )
    return rows


def _finished(folder: Path) -> RunFolder:
    if not (folder / "metrics.json").is_file():
        records = folder / "records.jsonl"
        done = records.read_text(encoding="utf-8").count('"event": "task_end"') if records.is_file() else 0
        raise ValueError(f"not finished, {done} tasks done; the command that began it resumes it")
    run = read_run(folder)
    if run.end is None:
        raise ValueError("its records have no end; the command that began it resumes it")
    return run


def _identity(run: RunFolder) -> str:
    """Return a text that is the same for two runs of one configuration, and sorts as tables are read."""
    facts = {**tasks_of(run), "strategy": run.strategy}
    return repr([run.scenario, sorted(facts.items()), sorted(settings(run).items()), seeds_of(run)])


def _name(run: RunFolder) -> Row:
    return {"run": run.path.resolve().name, "strategy": run.strategy, "seed": run.seed}


def _numbers(run: RunFolder) -> Row:
    """Return the single numbers that a run recorded, nested ones under dotted keys, and None for undefined ones."""
    known = {**flat({key: value for key, value in run.metrics.items() if key != "undefined"})}
    references = {key: run.references[key] for key in ("intransigence", "plasticity") if key in run.references}
    return {
        key: value
        for key, value in {**known, **references}.items()
        if key not in _OTHER_COLUMNS
        and (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
    }


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
