"""Robustness over the sequence: for every measurement a matrix beside the clean one.

A measurement is one attack or one radius. Entry (i, j) is its value on the test part of task j after task i, asked of
the network as evaluation asks it: rows of the task's own head with the task known, of all classes seen where it is not.
By default only the diagonal and the last row are measured, which is what final value and backward transfer need.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from continual.batches import as_tensors
from continual.evaluation import EvaluationPart, part_of
from continual.metrics.transfer import acc_final, bwt
from continual.robustness import Target
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart
from continual.strategies import Strategy


class Measurement(Protocol):
    """What is asked of an evaluation of robustness."""

    def measure(self, model: Target, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Give values by kind, such as `robust`, higher is better."""
        ...


class RobustMatrices:
    """Matrices by name, [T, T] with NaN where nothing was measured; a name is kind and measurement, `robust_pgd20`."""

    def __init__(self, num_tasks: int) -> None:
        self.num_tasks = num_tasks
        self.matrices: dict[str, np.ndarray] = {}

    def store(self, row: int, column: int, name: str, values: Mapping[str, float]) -> None:
        """Enter what a measurement found."""
        for kind, value in values.items():
            matrix = self.matrices.setdefault(joined(kind, name), np.full((self.num_tasks, self.num_tasks), np.nan))
            matrix[row, column] = value

    def row(self, index: int) -> dict[str, list[float | None]]:
        """Give a task's row of every matrix, for the records."""
        return {name: [None if np.isnan(v) else v for v in matrix[index]] for name, matrix in self.matrices.items()}

    def save(self, path: Path) -> None:
        """Write all matrices."""
        np.savez(path, allow_pickle=False, **self.matrices)  # pyright: ignore[reportArgumentType]

    def summary(self) -> dict[str, float | None]:
        """Give the final value and the backward transfer of every matrix, by names as in `robust_bwt_pgd20`."""
        found: dict[str, float | None] = {}
        for name, matrix in self.matrices.items():
            kind, _, rest = name.partition("_")
            for metric, value in (("final", acc_final(matrix)), ("bwt", bwt(matrix))):
                found[f"{kind}_{metric}_{rest}"] = None if np.isnan(value) else float(value)
        return found

    def as_json(self) -> dict[str, Any]:
        """Give everything as plain numbers; NaN as null."""
        return {name: [self._plain(row) for row in matrix] for name, matrix in self.matrices.items()}

    @classmethod
    def from_json(cls, num_tasks: int, stored: Mapping[str, Any]) -> "RobustMatrices":
        """Take back what `as_json` gave."""
        found = cls(num_tasks)
        found.matrices = {name: np.array(rows, dtype=float) for name, rows in stored.items()}
        return found

    @staticmethod
    def _plain(row: np.ndarray) -> list[float | None]:
        return [None if np.isnan(value) else float(value) for value in row]


def joined(kind: str, name: str) -> str:
    """Give a matrix its name: `robust_pgd20` of `robust` and `pgd20`; the detail of `certified_r0.5` comes last."""
    first, _, detail = kind.partition("_")
    return "_".join(part for part in (first, name, detail) if part)


def tasks_to_measure(sequence: TaskSequence, task: Task, every: bool) -> Iterable[Task]:
    """Give the tasks whose robustness is measured after a task: itself, after the last one all of them."""
    everything = every or task.index == len(sequence.tasks) - 1
    return sequence.tasks[: task.index + 1] if everything else [task]


def target_of(strategy: Strategy, model: nn.Module, sequence: TaskSequence, asked: Task, learned: Task) -> Target:
    """Give the network as it is asked about a task after another was learned."""
    known = asked.index if strategy.needs_task_id_in_test else None
    rows = sorted(asked.classes) if sequence.mode == "task" else sequence.classes_seen(learned.index)
    draws = any(hasattr(module, "reseed") for module in model.modules())
    return Target(
        lambda images: strategy.predict(model, images, known), classes=rows, stochastic=draws, networks=(model,)
    )


def measure_robustness(
    measurements: Mapping[str, Measurement],
    found: RobustMatrices,
    strategy: Strategy,
    model: nn.Module,
    sequence: TaskSequence,
    learned: Task,
    part: EvaluationPart,
    every: bool,
    seed: int,
) -> None:
    """Fill the row of a task in every matrix.

    Args:
        measurements: by name.
        found: extended in place.
        strategy: asked to predict.
        model: the network; modes, gradients and random streams are left as they were.
        sequence: all tasks.
        learned: the task that was just learned.
        part: which data.
        every: measure all tasks so far after each, not the new one alone.
        seed: of the streams used meanwhile.
    """
    reference = next(model.parameters())
    for asked in tasks_to_measure(sequence, learned, every):
        images, labels = as_tensors(part_of(asked, part), reference.device, reference.dtype)  # pyright: ignore[reportArgumentType]
        target = target_of(strategy, model, sequence, asked, learned)
        with apart(model, seed, "robustness", learned.index, asked.index):
            for name, measurement in measurements.items():
                found.store(learned.index, asked.index, name, measurement.measure(target, images, labels))
