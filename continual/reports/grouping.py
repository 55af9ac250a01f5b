"""Which runs are repetitions of each other, which may stand in one table, and which may not.

Two runs repeat each other when their configurations differ in nothing but seeds, the seed of the order of tasks among
them (and in what moves no number: device, threads, where the output goes). Runs may be compared when they solved the
same tasks: scenario, data, mode, the number of tasks and of test samples agree; what only people read (names of tasks,
a label, a description) may differ. Any other key may differ, and the report lists those that do.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continual.metrics import Interval, mean_and_interval, paired_difference

from .run_folder import RunFolder, read_run

BASELINE_STRATEGY = "naive"

_MOVES_NO_NUMBER = (
    "output",
    "device",
    "threads",
    "resume",
    "overwrite",
    "dry_run",
    "strategies",
    "experiment",
    "hydra",
    "name",
    "allow",
)
_LABELS = ("label", "title", "description")
_SAME_TASKS = ("scenario", "data")


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of one strategy with one configuration and different seeds, of whatever kind.

    Attributes:
        name: Of the strategy, with the keys that tell it from other groups of the same strategy.
        strategy: Name alone.
        runs: In order of seed.
    """

    name: str
    strategy: str
    runs: tuple[RunFolder, ...]

    @property
    def matrices(self) -> list[NDArray[np.float64]]:
        """Return the accuracy matrix of every run."""
        return [run.accuracies for run in self.runs]

    def values(self, metric: str) -> list[float]:
        """Return one metric of every run.

        Args:
            metric: As in ``metrics.json``.

        Returns:
            One value a run, NaN where undefined or not recorded.
        """
        found = (run.number(metric) for run in self.runs)
        return [float("nan") if value is None else value for value in found]

    def has(self, metric: str) -> bool:
        """Return whether any run of the group recorded a metric.

        Args:
            metric: As in ``metrics.json``.
        """
        return any(run.number(metric) is not None for run in self.runs)

    def interval(self, metric: str) -> Interval:
        """Return the mean of a metric over the runs, that is over seeds and orders, with its interval.

        Args:
            metric: As in ``metrics.json``.

        Returns:
            Mean and 95 % t-interval.
        """
        return mean_and_interval(self.values(metric))

    def difference(self, metric: str, other: "Group") -> Interval | None:
        """Return the paired difference to another group on the seeds both ran.

        A seed that only one side has, such as that of a part the other side lacks, pairs nothing and is left out; where
        a side then has several runs for one pair, their mean stands for them.

        Args:
            metric: As in ``metrics.json``.
            other: Usually the naive strategy.

        Returns:
            The interval of ``self - other``; None without a common seed.
        """
        shared = {key for key, _ in seeds_of(self.runs[0])} & {key for key, _ in seeds_of(other.runs[0])}
        own, theirs = (_by_seed(group, metric, shared) for group in (self, other))
        common = [seed for seed in own if seed in theirs]
        if not common:
            return None
        return paired_difference([own[seed] for seed in common], [theirs[seed] for seed in common])


def read_groups(folders: Sequence[Path]) -> tuple[Group, ...]:
    """Read finished runs and group repetitions.

    Args:
        folders: Run folders of the same tasks; at least one.

    Returns:
        Groups in the order in which their first run was given.

    Raises:
        ValueError: When a run is not finished, two are the same run, or the tasks differ; the sentence names the keys.
    """
    if not folders:
        raise ValueError("a comparison needs at least one run folder, but none was given.")
    runs = [read_run(Path(folder)) for folder in folders]
    for run in runs:
        if run.end is None:
            raise ValueError(f"{run.path} holds a run that has not finished; resume it, then compare.")
    for run in runs[1:]:
        _refuse_other_tasks(runs[0], run)
    return group_runs(runs)


def group_runs(runs: Sequence[RunFolder]) -> tuple[Group, ...]:
    """Group repetitions among finished runs of the same tasks.

    Args:
        runs: At least one.

    Returns:
        Groups in the order in which their first run was given.

    Raises:
        ValueError: When two are the same run.
    """
    members: dict[tuple[tuple[str, str], ...], list[RunFolder]] = {}
    for run in runs:
        members.setdefault(tuple(sorted(settings(run).items())), []).append(run)
    for same in members.values():
        _refuse_repeats(same)
    names = _names([same[0] for same in members.values()])
    return tuple(
        Group(name, same[0].strategy, tuple(sorted(same, key=seeds_of)))
        for name, same in zip(names, members.values(), strict=True)
    )


def tasks_of(run: RunFolder) -> dict[str, str]:
    """Return what two runs must agree in to have solved the same tasks.

    The order of the tasks is drawn from a seed, so the sizes of the test sets count without their order, and those of
    a split by classes only in their sum.

    Args:
        run: The run.

    Returns:
        Dotted key, or words, to value as text.
    """
    kept = {key: value for key, value in settings(run).items() if key.split(".")[0] in _SAME_TASKS}
    counts = run.matrices.counts
    return {
        **kept, "mode": run.mode, "number of tasks": str(len(counts)), "test samples of all tasks": str(counts.sum())
    }  # fmt: skip


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested configuration to dotted keys.

    Args:
        config: Nested mappings.
        prefix: Put before every key.

    Returns:
        Dotted key to value; lists are values.
    """
    result: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            result.update(flat(value, f"{prefix}{key}."))
        else:
            result[f"{prefix}{key}"] = value
    return result


def seeds_of(run: RunFolder) -> tuple[tuple[str, str], ...]:
    """Return all seeds of a run, which tell repetitions apart.

    Args:
        run: The run.

    Returns:
        Pairs of dotted key and value, the run's own seed first.
    """
    found = {key: str(value).rjust(12, "0") for key, value in flat(run.config).items() if _is_seed(key)}
    return (("", str(run.seed).rjust(12, "0")), *sorted(found.items()))


def settings(run: RunFolder) -> dict[str, str]:
    """Return every setting that may move a number, other than seeds.

    Args:
        run: The run.

    Returns:
        Dotted key to value as text; the name of the strategy is among them.
    """
    kept = {
        key: str(value)
        for key, value in flat(run.config).items()
        if not _is_seed(key) and not _is_label(key) and key.split(".")[0] not in _MOVES_NO_NUMBER
    }
    return {**kept, "strategy name": run.strategy}


def differing(runs: Sequence[RunFolder]) -> list[str]:
    """List the settings in which runs differ.

    Args:
        runs: Any.

    Returns:
        Dotted keys, sorted.
    """
    all_settings = [settings(run) for run in runs]
    keys = sorted({key for one in all_settings for key in one})
    return [key for key in keys if len({one.get(key) for one in all_settings}) > 1]


def _is_label(key: str) -> bool:
    return key.rpartition(".")[2] in _LABELS


def _is_seed(key: str) -> bool:
    last = key.rpartition(".")[2]
    return last == "seed" or last.endswith("_seed")


def _refuse_other_tasks(first: RunFolder, other: RunFolder) -> None:
    """Raise when two runs did not solve the same tasks."""
    facts = [tasks_of(run) for run in (first, other)]
    keys = sorted(key for key in facts[0].keys() | facts[1].keys() if facts[0].get(key) != facts[1].get(key))
    if keys:
        reasons = "; ".join(f"{key}: {facts[0].get(key)} and {facts[1].get(key)}" for key in keys)
        raise ValueError(
            f"compared runs must solve the same tasks, but {first.path} and {other.path} differ in {reasons}; "
            "compare them in two reports."
        )


def _by_seed(group: Group, metric: str, keys: Collection[str]) -> dict[tuple[tuple[str, str], ...], float]:
    """Return a metric by those seeds that have the given keys."""
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for run, value in zip(group.runs, group.values(metric), strict=True):
        found.setdefault(tuple((key, seed) for key, seed in seeds_of(run) if key in keys), []).append(value)
    return {seeds: float(np.mean(values)) for seeds, values in found.items()}


def _refuse_repeats(same: Sequence[RunFolder]) -> None:
    seen: dict[tuple[tuple[str, str], ...], RunFolder] = {}
    for run in same:
        twin = seen.setdefault(seeds_of(run), run)
        if twin is not run:
            raise ValueError(
                f"a run may be counted once, but {twin.path} and {run.path} have the same settings and the same seed; "
                "leave one out."
            )


def _names(firsts: Sequence[RunFolder]) -> list[str]:
    """Name groups by strategy, adding the settings that differ where one strategy has several groups."""
    names = []
    for run in firsts:
        siblings = [other for other in firsts if other.strategy == run.strategy]
        keys = differing(siblings)
        own = settings(run)
        told = ", ".join(f"{key.removeprefix('strategy.')}={own.get(key, 'unset')}" for key in keys)
        names.append(f"{run.strategy} ({told})" if told else run.strategy)
    return names
