"""Joint training: one training on the union of all tasks from the initial weights; the upper reference.

Every sample is seen as often as in the sequence (`same_epochs`). Tasks before the last are skipped, so only the last
row of the accuracy matrix is measured and BWT is undefined.
"""

from collections.abc import Sequence

from continual.scenarios import Task, TaskSequence
from continual.strategies.strategy import Strategy


class Joint(Strategy):
    """Train once, on everything."""

    name = "joint"
    needs_labels = False
    needs_boundaries = True

    def training_data(self, task: Task, history: Sequence[Task], sequence: TaskSequence) -> Sequence[Task]:
        """Give all tasks at the last one, none before."""
        return [*history, task] if task.index == len(sequence.tasks) - 1 else []
