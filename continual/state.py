"""What a run has measured so far: two accuracy matrices and what they cost."""

import math
import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from continual.costs import Costs
from continual.evaluation import EvaluationPart, Scores, part_of
from continual.metrics import AccuracyMatrices
from continual.robust_matrices import RobustMatrices
from continual.scenarios import Task, TaskSequence


@dataclass
class RunState:
    """Measurements of a run; with the model and the strategy, everything a resumed run needs.

    Attributes:
        task_aware: [T, T], row i after task i, NaN where not measured.
        task_agnostic: likewise.
        baseline: scores of the untrained network.
        tasks_done: finished tasks.
        costs: seconds and peak memory per phase, and what went through the network.
        robust: what was measured of robustness beside them.
        optimizer: what the optimiser remembered at the last task boundary; empty unless it is kept.
    """

    task_aware: np.ndarray
    task_agnostic: np.ndarray
    baseline: Scores
    tasks_done: int = 0
    costs: Costs = field(default_factory=Costs)
    optimizer: dict[str, Any] = field(default_factory=dict)
    robust: RobustMatrices = field(init=False)

    def __post_init__(self) -> None:
        self.robust = RobustMatrices(len(self.task_aware))

    def store(self, task: Task, scores: Scores) -> None:
        """Fill the row of a task."""
        self.task_aware[task.index], self.task_agnostic[task.index] = scores.task_aware, scores.task_agnostic
        self.costs.ledger.scored(scores.passes)

    def report(self, task: Task) -> dict[str, Any]:
        """Give a task's row and cost for the records."""
        rows = {name: getattr(self, name)[task.index].tolist() for name in ("task_aware", "task_agnostic")}
        return rows | self.robust_report(task) | self.costs.task_report()

    def robust_report(self, task: Task) -> dict[str, Any]:
        """Give a task's row of every robust matrix, where there is one."""
        return {"robustness": self.robust.row(task.index)} if self.robust.matrices else {}

    def matrices(self, sequence: TaskSequence, part: EvaluationPart) -> AccuracyMatrices:
        """Give the matrices with counts and baselines."""
        counts = np.array([len(part_of(task, part)) for task in sequence.tasks])
        untrained = self.baseline.task_aware, self.baseline.task_agnostic
        return AccuracyMatrices(self.task_aware, self.task_agnostic, counts, *untrained)

    def as_json(self, records_length: int) -> dict[str, Any]:
        """Give everything as plain numbers; NaN as null."""
        arrays = {
            "task_aware": self.task_aware,
            "task_agnostic": self.task_agnostic,
            "baseline_task_aware": self.baseline.task_aware,
            "baseline_task_agnostic": self.baseline.task_agnostic,
        }
        return {name: with_null(array) for name, array in arrays.items()} | {
            "costs": self.costs.as_json(),
            "robust": self.robust.as_json(),
            "records_length": records_length,
        }

    @classmethod
    def from_json(cls, tasks_done: int, progress: dict[str, Any]) -> "RunState":
        """Take back what `as_json` gave."""
        arrays = {name: np.array(progress[name], dtype=float) for name in ("task_aware", "task_agnostic")}
        untrained, agnostic = (np.array(progress[f"baseline_{name}"], dtype=float) for name in arrays)
        aware_rows, agnostic_rows = arrays.values()
        baseline, costs = Scores(untrained, agnostic, {}, 0), Costs.from_json(progress["costs"])
        state = cls(aware_rows, agnostic_rows, baseline, tasks_done, costs)
        state.robust = RobustMatrices.from_json(len(aware_rows), progress["robust"])
        return state

    @classmethod
    def fresh(cls, num_tasks: int, baseline: Scores) -> "RunState":
        """Start with nothing measured but the untrained network."""
        state = cls(np.full((num_tasks, num_tasks), np.nan), np.full((num_tasks, num_tasks), np.nan), baseline)
        state.costs.ledger.scored(baseline.passes)
        return state


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


def with_null(array: np.ndarray) -> Any:
    """Give an array as nested lists, NaN as None."""
    return [None if math.isnan(value) else value for value in array] if array.ndim == 1 else list(map(with_null, array))
