"""Which class, and which task, a network answers for which: raw counts after every task.

    classes[i, t, p]   samples of class t, of the tasks seen after task i, that were taken for class p
    tasks[i, t, p]     the same, of tasks; kept where every class belongs to one task alone

The answers are the task-agnostic ones of the very evaluation that fills the accuracy matrix: one argmax over the rows
of all classes seen. The file is written anew at every task's end, so a resumed run goes on in it.
"""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continual.checkpoint import write_atomically
from continual.scenarios import TaskSequence

FILE = "confusion.npz"


def store_confusion(folder: Path, sequence: TaskSequence, after: int, counts: NDArray[np.int64]) -> None:
    """Write the counts of one more task, and those of tasks as far as classes tell them apart.

    Args:
        folder: of the run.
        sequence: all tasks.
        after: number of the task just learned.
        counts: [C, C], true class by answer.
    """
    path = folder / FILE
    classes = np.zeros((len(sequence), *counts.shape), dtype=np.int64)
    if after > 0 and path.exists():
        with np.load(path, allow_pickle=False) as kept:
            classes[:after] = kept["classes"][:after]
    classes[after] = counts
    arrays, membership = {"classes": classes}, task_of_classes(sequence)
    if membership is not None:
        arrays["tasks"] = np.einsum("tc,icp,up->itu", membership, classes, membership)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue())


def task_of_classes(sequence: TaskSequence) -> NDArray[np.int64] | None:
    """Give [T, C] with a one where a class belongs to a task; None where tasks share classes."""
    membership = np.zeros((len(sequence), sequence.num_classes), dtype=np.int64)
    for task in sequence.tasks:
        membership[task.index, list(task.classes)] = 1
    return membership if membership.sum(0).max() <= 1 else None
