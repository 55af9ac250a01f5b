"""Task sequences: what is learned after what, and which rows of the head each task uses."""

from continual.scenarios.blurry import blurry
from continual.scenarios.domain_sequence import domain_sequence
from continual.scenarios.five_datasets import five_datasets
from continual.scenarios.five_offline import five_offline
from continual.scenarios.label_budget import label_budget
from continual.scenarios.online import as_given, online
from continual.scenarios.order import reordered
from continual.scenarios.permuted import permuted
from continual.scenarios.rotated import rotated
from continual.scenarios.split import split
from continual.scenarios.superclasses import superclasses
from continual.scenarios.task import Boundaries, Mode, Task, TaskSequence, TrainLogits

__all__ = [
    "Boundaries",
    "Mode",
    "Task",
    "TaskSequence",
    "TrainLogits",
    "as_given",
    "blurry",
    "domain_sequence",
    "five_datasets",
    "five_offline",
    "label_budget",
    "online",
    "permuted",
    "reordered",
    "rotated",
    "split",
    "superclasses",
]
