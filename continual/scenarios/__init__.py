"""Task sequences: what is learned after what, and which rows of the head each task uses."""

from continual.scenarios.domain_sequence import domain_sequence
from continual.scenarios.five_offline import five_offline
from continual.scenarios.permuted import permuted
from continual.scenarios.rotated import rotated
from continual.scenarios.split import split
from continual.scenarios.task import Mode, Task, TaskSequence, TrainLogits

__all__ = [
    "Mode",
    "Task",
    "TaskSequence",
    "TrainLogits",
    "domain_sequence",
    "five_offline",
    "permuted",
    "rotated",
    "split",
]
