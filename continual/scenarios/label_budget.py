"""A label budget: of every task's train samples some keep their label, some lose it, and the rest is left out.

Labels are kept class by class in the proportions of the whole. A sample without a label stays a sample of its task: its
input goes through the task's permutation or rotation like any other. Validation and test parts keep all labels. A
sample that is in the test part too is refused, for a network could learn to be stable on the very images that score it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from continual.data.arrays import Train
from continual.data.stratify import named_generator, stratified_split
from continual.scenarios.task import Task, TaskSequence


def label_budget(
    sequence: TaskSequence, num_labelled: int | None = None, num_unlabelled: int | None = None, seed: int = 0
) -> TaskSequence:
    """Withhold labels of train samples.

    Args:
        sequence: Any sequence.
        num_labelled: Train samples of each task that keep their label; None keeps all labels.
        num_unlabelled: Train samples of each task without a label; None takes all that are left.
        seed: Decides which.

    Returns:
        The sequence with smaller train parts, labels withheld; the same object when nothing is asked for.

    Raises:
        ValueError: More samples than a task has, numbers below 0 (of labelled ones, below 1), or a sample without a
            label that the test part holds too.
    """
    if num_labelled is None:
        if num_unlabelled is not None:
            raise ValueError(f"num_unlabelled={num_unlabelled} needs num_labelled, the samples that keep their label.")
        return sequence
    if num_labelled < 1 or (num_unlabelled is not None and num_unlabelled < 0):
        raise ValueError(
            f"num_labelled must be at least 1 and num_unlabelled at least 0, got {num_labelled} and {num_unlabelled}."
        )
    tasks = [_budgeted(task, num_labelled, num_unlabelled, seed) for task in sequence.tasks]
    return replace(sequence, tasks=tuple(tasks), checksum="")


def _budgeted(task: Task, num_labelled: int, num_unlabelled: int | None, seed: int) -> Task:
    wanted, there = num_labelled + (num_unlabelled or 0), len(task.train)
    if wanted > there:
        raise ValueError(f"task {task.name!r} has {there} train samples, and {wanted} were asked for; ask for fewer.")
    rest, labelled = _drawn(task, num_labelled, seed)
    unlabelled = rest[:num_unlabelled]
    _refuse_test_samples(task, unlabelled)
    chosen = np.concatenate([labelled, unlabelled])
    order = named_generator(seed, "label budget order", task.index).permutation(len(chosen))
    return replace(
        task,
        train=Train(task.train.inputs[chosen[order]], task.train.targets[chosen[order]]),
        origins=None if task.origins is None else task.origins[chosen[order]],
        withheld=(np.arange(len(chosen)) >= num_labelled)[order],
    )


def _drawn(task: Task, num_labelled: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if num_labelled == len(task.train):
        return np.arange(0), np.arange(num_labelled)
    return stratified_split(task.train.targets, num_labelled, seed, stream=f"label budget {task.index}")


def _refuse_test_samples(task: Task, unlabelled: np.ndarray) -> None:
    known = {sample.tobytes() for sample in np.ascontiguousarray(task.test.inputs)}
    shared = [index for index in unlabelled if np.ascontiguousarray(task.train.inputs[index]).tobytes() in known]
    if shared:
        raise ValueError(
            f"{len(shared)} samples of task {task.name!r} without a label are in its test part too (the first is train "
            f"sample {int(shared[0])}); take them out of one of the two."
        )
