"""What a run has measured so far: two accuracy matrices and what they cost."""

import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from continual.evaluation import EvaluationPart, Scores, part_of
from continual.metrics import AccuracyMatrices
from continual.scenarios import Task, TaskSequence


@dataclass
class RunState:
    """Measurements of a run; with the model and the strategy, everything a resumed run needs.

    Attributes:
        task_aware: [T, T], row i after task i, NaN where not measured.
        task_agnostic: likewise.
        baseline: scores of the untrained network.
        tasks_done: finished tasks.
        seconds: wall time per phase: train, consolidate, evaluate.
        latest: wall time per phase of the current task.
        optimizer: what the optimiser remembered at the last task boundary; empty unless it is kept.
    """

    task_aware: np.ndarray
    task_agnostic: np.ndarray
    baseline: Scores
    tasks_done: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("train", "consolidate", "evaluate"), 0.0))
    latest: dict[str, float] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def timed(self, phase: str, device: torch.device) -> Iterator[None]:
        """Add the wall time of a phase, waiting for the device at both ends."""
        synchronise(device)
        started = time.perf_counter()
        yield
        synchronise(device)
        self.latest[phase] = time.perf_counter() - started
        self.seconds[phase] += self.latest[phase]

    def store(self, task: Task, scores: Scores) -> None:
        """Fill the row of a task."""
        self.task_aware[task.index], self.task_agnostic[task.index] = scores

    def report(self, task: Task) -> dict[str, Any]:
        """Give a task's row and cost for the records."""
        latest, self.latest = self.latest, {}
        return {
            "task_aware": self.task_aware[task.index].tolist(),
            "task_agnostic": self.task_agnostic[task.index].tolist(),
        } | {f"seconds_{phase}": latest.get(phase, 0.0) for phase in self.seconds}

    def matrices(self, sequence: TaskSequence, part: EvaluationPart) -> AccuracyMatrices:
        """Give the matrices with counts and baselines."""
        counts = np.array([len(part_of(task, part)) for task in sequence.tasks])
        return AccuracyMatrices(self.task_aware, self.task_agnostic, counts, *self.baseline)

    def as_json(self, records_length: int) -> dict[str, Any]:
        """Give everything as plain numbers; NaN as null."""
        arrays = {
            "task_aware": self.task_aware,
            "task_agnostic": self.task_agnostic,
            "baseline_task_aware": self.baseline.task_aware,
            "baseline_task_agnostic": self.baseline.task_agnostic,
        }
        return {name: _with_null(array) for name, array in arrays.items()} | {
            "seconds": self.seconds,
            "records_length": records_length,
        }

    @classmethod
    def from_json(cls, tasks_done: int, progress: dict[str, Any]) -> "RunState":
        """Take back what `as_json` gave."""
        arrays = {name: np.array(progress[name], dtype=float) for name in ("task_aware", "task_agnostic")}
        baseline = Scores(*(np.array(progress[f"baseline_{name}"], dtype=float) for name in arrays))
        aware, agnostic = arrays.values()
        return cls(aware, agnostic, baseline, tasks_done, dict(progress["seconds"]))

    @classmethod
    def fresh(cls, num_tasks: int, baseline: Scores) -> "RunState":
        """Start with nothing measured but the untrained network."""
        return cls(np.full((num_tasks, num_tasks), np.nan), np.full((num_tasks, num_tasks), np.nan), baseline)


def conditions(model: nn.Module) -> dict[str, str]:
    """Give what decides bits: the same run under other conditions may round differently."""
    reference = next(model.parameters())
    return {
        "device": reference.device.type,
        "dtype": str(reference.dtype).removeprefix("torch."),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def synchronise(device: torch.device) -> None:
    """Wait for the work queued on an accelerator; a CPU has none."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _with_null(array: np.ndarray) -> Any:
    return (
        [None if math.isnan(value) else value for value in array] if array.ndim == 1 else list(map(_with_null, array))
    )
