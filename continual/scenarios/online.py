"""Who is told where a task ends: everybody, or nobody.

In an online stream every sample is seen once, the optimiser goes on over the whole stream, and nothing that learns is
told which task a sample is of or where one ends. The tasks stay: they are where the run is scored and saved. A strategy
that needs boundaries, or the task's number in training, is refused at the start. In mode "task" a sample still names
the rows of the head that it competes among, in training as at test time; "domain" and "class" withhold that too.

Source: Aljundi, Kelchtermans and Tuytelaars (2019), task-free continual learning.
"""

from __future__ import annotations

from dataclasses import replace

from continual.scenarios.task import TaskSequence


def as_given(sequence: TaskSequence) -> TaskSequence:
    """Leave a sequence as the scenario made it.

    Args:
        sequence: Any sequence.
    """
    return sequence


def online(sequence: TaskSequence) -> TaskSequence:
    """Hide where the tasks of a sequence end, and which task a training sample is of.

    Args:
        sequence: Any sequence.

    Returns:
        The same tasks with `boundaries` "hidden".
    """
    return replace(sequence, boundaries="hidden", checksum="")
