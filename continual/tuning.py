"""Choose settings on validation data of the first tasks, and never see a test part.

Every choice of a grid learns the first k tasks of the very sequence that the result is about, with its whole head, and
is scored on their validation parts; the reported run then begins anew (the protocol of A-GEM, Chaudhry et al. 2019).
The first k tasks of a sequence are not a sequence of k tasks: a split by classes would deal later tasks' classes out
among them. Test parts are taken away before a network is built, so nothing behind this file could score on one.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continual.api import run_config
from continual.assembly import make_sequence
from continual.config import RunConfig, did_you_mean
from continual.data import Test
from continual.errors import DivergedError, UserError
from continual.scenarios import Task, TaskSequence


class Trial(NamedTuple):
    """A choice and what it was worth.

    Attributes:
        overrides: the choice, as on the command line.
        scores: one a seed, minus infinity where training diverged.
        score: their mean.
    """

    overrides: tuple[str, ...]
    scores: tuple[float, ...]
    score: float


def tune(
    overrides: Sequence[str],
    grid: Mapping[str, Sequence[Any]],
    *,
    num_tasks: int = 2,
    metric: str = "acc_final",
    seeds: Sequence[int] = (0,),
    each: Callable[..., Iterable[float]] = map,
    **settings: Any,
) -> list[Trial]:
    """Run every choice of a grid on the validation data of the first tasks.

    Args:
        overrides: what all choices share, as on the command line; the data needs a validation part, such as
            data.validation=0.2.
        grid: the values to try of each key; all combinations run.
        num_tasks: k, how many tasks are learned from the beginning of the sequence.
        metric: a number of `metrics.json` of which more is better.
        seeds: of the runs of every choice; take others than the results will have.
        each: applies a function to every run, such as the `map` of a process pool.
        settings: as for `continual.run`; a network or strategy of your own is copied for every run.

    Returns:
        One trial a choice, the best first; among equals the order of the grid. Runs lie in `tuning` below the output
        folder, so a search that was stopped goes on.

    Raises:
        UserError: if the test part is asked for, there is no validation part, there are not so many tasks, a setting
            fixes what the grid varies, or the metric does not exist or is undefined.
    """
    from continual.compose import compose  # as in `continual.run`: Hydra is slow to import

    keys = {override.partition("=")[0] for override in overrides} | set(grid) | set(settings)
    if "evaluate_on" in keys:
        raise UserError("Settings are chosen on validation parts alone; leave evaluate_on out.")
    for key in sorted({key.partition(".")[0] for key in (*grid, "seed")} & set(settings)):
        raise UserError(f"{key} varies from run to run, so it cannot be given as one value or object; leave it out.")
    choices = [
        tuple(f"{key}={value}" for key, value in zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]
    runs = [compose([*overrides, *choice, f"seed={seed}"]) | settings for choice in choices for seed in seeds]
    scores = list(each(partial(_score, num_tasks=num_tasks, metric=metric), runs))
    rows = (tuple(scores[start : start + len(seeds)]) for start in range(0, len(scores), len(seeds)))
    trials = [Trial(choice, row, sum(row) / len(row)) for choice, row in zip(choices, rows, strict=True)]
    return sorted(trials, key=lambda trial: -trial.score)


def for_selection(sequence: TaskSequence, num_tasks: int) -> TaskSequence:
    """Give the first tasks of a sequence, with its whole head and without its test parts.

    Args:
        sequence: all tasks.
        num_tasks: k.

    Returns:
        k tasks; the test part of each is one black sample, since a task has to have one.

    Raises:
        UserError: if there are not so many tasks, or one of them holds samples of a later one.
    """
    if not 1 <= num_tasks <= len(sequence):
        raise UserError(f"num_tasks must lie in 1..{len(sequence)}, the tasks of {sequence.name}, got {num_tasks}.")
    try:
        return replace(sequence, tasks=tuple(map(_without_test, sequence.tasks[:num_tasks])), checksum="")
    except ValueError as problem:
        raise UserError(f"The first {num_tasks} tasks cannot stand alone: {problem}") from problem


def _without_test(task: Task) -> Task:
    return replace(task, test=Test(np.zeros_like(task.train.inputs[:1]), np.array([task.classes[0]])))


def _score(description: dict[str, Any], num_tasks: int, metric: str) -> float:
    """Learn and score one choice with one seed."""
    config = RunConfig.from_dict(description)
    selected = {
        "scenario": for_selection(make_sequence(config), num_tasks),
        "data": None,
        "stream": None,  # both are in the sequence already
        "order_seed": None,
        "evaluate_on": "validation",
        "evaluate_future": False,
        "name": config.name,
        "output": str(Path(config.output) / "tuning"),
    }
    own = {key: copy.deepcopy(description[key]) for key in ("model", "strategy")}  # a run trains them in place
    try:
        metrics = run_config(description | own | selected).metrics
    except DivergedError:
        return -math.inf
    if metric not in metrics:
        raise UserError(f"There is no metric {metric!r}{did_you_mean(metric, metrics)}.")
    if metrics[metric] is None:
        raise UserError(f"{metric} is undefined on {num_tasks} tasks: {metrics['undefined'][metric]}.")
    return float(metrics[metric])
