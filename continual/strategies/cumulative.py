"""Cumulative training: at each task train on all data so far, continuing from the weights of the task before."""

from collections.abc import Sequence

from continual.scenarios import Task, TaskSequence
from continual.strategies.strategy import Strategy


class Cumulative(Strategy):
    """Train on every task seen so far."""

    name = "cumulative"
    needs_labels = False
    needs_boundaries = True

    def training_data(self, task: Task, history: Sequence[Task], sequence: TaskSequence) -> Sequence[Task]:
        """Give the old tasks and the new one."""
        return [*history, task]
