"""The order of tasks, drawn from a seed of its own.

Papers that report "three runs" mean three orders or three initialisations, and seldom say which. Here the order has its
own seed: changing it moves which task comes when, and neither a task's data nor the initial weights of a network. Every
task keeps its rows of the head and its label names, so original and mapped labels can still be told apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from continual.data.stratify import named_generator
from continual.scenarios.task import TaskSequence


def reordered(sequence: TaskSequence, order_seed: int | None) -> TaskSequence:
    """Put the tasks of a sequence in another order.

    Args:
        sequence: Any sequence.
        order_seed: Draws the order; None gives the sequence back as it is.

    Returns:
        The same tasks, numbered anew.

    Raises:
        TypeError: The seed is no integer.
        ValueError: The seed is negative.
    """
    if order_seed is None:
        return sequence
    order = named_generator(order_seed, "task order").permutation(len(sequence))
    place = np.argsort(order)  # of every old task in the new order
    tasks = [sequence.tasks[old] for old in order]
    moved = (
        replace(task, index=index, origins=None if task.origins is None else place[task.origins])
        for index, task in enumerate(tasks)
    )
    return replace(sequence, tasks=tuple(moved), checksum="")
