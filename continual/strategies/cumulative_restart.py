"""Cumulative from scratch: for each task the initial weights, then all data so far; the reference of intransigence.

The diagonal of its accuracy matrix is a*_k, the accuracy on task k of a network trained jointly on tasks 1..k
(Chaudhry et al., 2018). It differs from `cumulative`, which goes on from the weights of the task before, and from
`joint`, which trains once, on all tasks. Budget: `epochs` passes over all data so far, so the steps grow with k.
"""

from collections.abc import Sequence

from continual.scenarios import Task, TaskSequence
from continual.strategies.alone import Alone


class CumulativeRestart(Alone):
    """Train on every task seen so far, from the initial weights."""

    name = "cumulative_restart"

    def training_data(self, task: Task, history: Sequence[Task], sequence: TaskSequence) -> Sequence[Task]:
        """Give the old tasks and the new one."""
        return [*history, task]
