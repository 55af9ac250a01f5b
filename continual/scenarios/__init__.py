"""Task sequences: what is learned after what, and which rows of the head each task uses."""

from continual.scenarios.permuted import permuted
from continual.scenarios.rotated import rotated
from continual.scenarios.split import split
from continual.scenarios.task import Mode, Task, TaskSequence, TrainLogits

__all__ = ["Mode", "Task", "TaskSequence", "TrainLogits", "permuted", "rotated", "split"]
