"""Evaluation inside tasks: every so many optimiser steps, without touching what training draws or sees."""

from collections.abc import Callable

import numpy as np
import torch

from continual.evaluation import Scores
from continual.records import Records
from continual.scenarios import Task
from continual.state import RunState, with_null


class Watch:
    """Counts the steps of one task, and scores whenever it is time.

    Args:
        every: optimiser steps between two evaluations; None never evaluates.
        score: from the number of the step to scores.
        state: is charged the cost.
        records: get a line per evaluation.
        task: being learned.
    """

    def __init__(
        self, every: int | None, score: Callable[[int], Scores], state: RunState, records: Records, task: Task
    ) -> None:
        self._every, self._score, self._state, self._records, self._task = every, score, state, records, task
        self._steps = 0

    def step(self, epoch: int, device: torch.device) -> None:
        """Count an optimiser step, and evaluate if it is time."""
        self._steps += 1
        if self._every is None or self._steps % self._every:
            return
        with self._state.costs.phase("evaluate", device):
            scores = self._score(self._steps)
        self._state.costs.ledger.scored(scores.passes)
        rows = {name: with_null(np.asarray(getattr(scores, name))) for name in ("task_aware", "task_agnostic")}
        self._records.write("within", task=self._task.index, epoch=epoch, step=self._steps, **rows)
