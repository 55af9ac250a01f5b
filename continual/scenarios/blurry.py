"""Blurry boundaries: tasks exchange a share of their training samples, so each shows some of the others early or late.

Of the n_t train samples of task t, k_t = round(m n_t) are drawn and put into one pool; every task then gets k_t back
that are not its own. A task keeps its size, and every sample is in exactly one task as before. m = 0 is the sequence as
it was, to the bit; m = 1 leaves no task a sample of its own. An exchanged sample keeps its input (its permutation, its
rotation) and its row of the head, and competes among the rows of the task it came from where that is known. Validation
and test parts are untouched.

A task larger than all others together gives only as many as they can take. Source of the idea: Koh, Kim, Ha and Choi
(2022); Aljundi, Lin, Goujaud and Bengio (2019). Differs from both: one parameter, for any data and any mode.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Train
from continual.data.stratify import named_generator
from continual.scenarios.task import Task, TaskSequence


def blurry(sequence: TaskSequence, mixing: float = 0.1, seed: int = 0) -> TaskSequence:
    """Exchange a share of every task's train samples with the other tasks.

    Args:
        sequence: Any sequence whose tasks hold their own samples.
        mixing: m, the share, 0 <= m <= 1.
        seed: Decides which samples go where.

    Returns:
        The sequence with train parts mixed; the same object when nothing is to be mixed.

    Raises:
        ValueError: A share out of range, more than 0 of it with one task alone, or a sequence that is mixed already.
    """
    if not 0.0 <= mixing <= 1.0:
        raise ValueError(f"mixing must be a share from 0 to 1, but it is {mixing}.")
    if mixing == 0.0:
        return sequence
    if len(sequence) < 2:
        raise ValueError("a blurry stream needs two tasks that exchange samples, but there is one; use mixing=0.")
    if any(task.origins is not None for task in sequence.tasks):
        raise ValueError("this sequence holds exchanged samples already; make the stream of the original one.")
    generator = named_generator(seed, "blurry")
    counts = exchanged_counts([len(task.train) for task in sequence.tasks], mixing)
    given = [generator.permutation(len(task.train))[:count] for task, count in zip(sequence.tasks, counts, strict=True)]
    sources = exchange(counts, generator)
    return replace(sequence, tasks=_mixed(sequence.tasks, given, sources), checksum="")


def exchanged_counts(sizes: list[int], mixing: float) -> npt.NDArray[np.int64]:
    """Give how many samples each task exchanges: its share, and no more than all others together.

    Args:
        sizes: Train samples of each task.
        mixing: The share.
    """
    counts = np.array([round(mixing * size) for size in sizes], dtype=np.int64)
    largest = int(counts.argmax())
    counts[largest] = min(counts[largest], counts.sum() - counts[largest])
    return counts


def exchange(counts: npt.NDArray[np.int64], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Assign the samples of a pool to its places at random so that no task gets one of its own.

    The pool holds `counts[t]` samples of task t after one another, and as many places. After a random assignment every
    place of t that holds a sample of t swaps with one that has to do with t in neither way. Of S places, c of them of t
    and b holding its own, there are S - 2c + b of those, hence enough.

    Args:
        counts: Samples a task exchanges; none exceeds the sum of the others.
        generator: Draws the assignment.

    Returns:
        The sample at each place, a permutation of the pool's positions.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    sample = generator.permutation(len(owner))
    for task in range(len(counts)):
        place, held = owner == task, owner[sample] == task
        own = np.flatnonzero(place & held)
        others = generator.choice(np.flatnonzero(~place & ~held), len(own), replace=False)
        sample[own], sample[others] = sample[others], sample[own]
    return sample


def _mixed(
    tasks: tuple[Task, ...], given: list[npt.NDArray[np.int64]], sources: npt.NDArray[np.int64]
) -> tuple[Task, ...]:
    """Put the samples of the pool at their places; `given` holds the places of each task in its train part."""
    owner = np.repeat(np.arange(len(tasks)), [len(places) for places in given])
    inputs = np.concatenate([task.train.inputs[places] for task, places in zip(tasks, given, strict=True)])[sources]
    targets = np.concatenate([task.train.targets[places] for task, places in zip(tasks, given, strict=True)])[sources]
    mixed = []
    for task, places in zip(tasks, given, strict=True):
        taken = owner == task.index
        train = Train(task.train.inputs.copy(), task.train.targets.copy())
        train.inputs[places], train.targets[places] = inputs[taken], targets[taken]
        origins = np.full(len(train), task.index, dtype=np.int64)
        origins[places] = owner[sources][taken]
        mixed.append(replace(task, train=train, origins=origins))
    return tuple(mixed)
