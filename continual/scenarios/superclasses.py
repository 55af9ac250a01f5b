"""Superclasses: tasks that are made along a grouping of classes, such as CIFAR-100's twenty.

In modes "task" and "class" task k holds the classes of group k, each with a row of its own (Saha, Garg, Roy 2021, with
the task known). In mode "domain" task k holds the k-th class of every group, and the label is the group: the same
question of other animals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from continual.data.arrays import Dataset
from continual.scenarios.split import task_of_classes
from continual.scenarios.task import Mode, TaskSequence, TrainLogits, check_choice


def superclasses(
    dataset: Dataset,
    num_tasks: int | None = None,
    mode: Mode = "task",
    groups: Sequence[Sequence[int]] | None = None,
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make a sequence along a grouping.

    Args:
        dataset: Any data, each class with samples in every part.
        num_tasks: The first so many tasks; None makes all there are.
        mode: "task" or "class" (a group a task), or "domain" (a class of every group a task).
        groups: Classes of each group; None takes the data set's own.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Raises:
        ValueError: No grouping, a class in two groups or outside the data, groups of different sizes in mode "domain",
            or more tasks than there are.
    """
    check_choice("mode", mode, get_args(Mode))
    check_choice("train_logits", train_logits, get_args(TrainLogits))
    groups = [list(group) for group in (dataset.groups if groups is None else groups)]
    _check_groups(groups, dataset, mode)
    found = [list(members) for members in zip(*groups, strict=True)] if mode == "domain" else groups
    if num_tasks is not None and not 1 <= num_tasks <= len(found):
        raise ValueError(f"num_tasks must lie in 1..{len(found)} for this grouping, but it is {num_tasks}.")
    tasks, offset = [], 0
    for index, labels in enumerate(found[:num_tasks]):
        tasks.append(task_of_classes(dataset, index, np.array(labels), np.arange(len(labels)) + offset))
        offset += 0 if mode == "domain" else len(labels)
    rows = len(groups) if mode == "domain" else offset
    return TaskSequence(f"superclasses of {dataset.name}", tuple(tasks), mode, rows, train_logits)


def _check_groups(groups: list[list[int]], dataset: Dataset, mode: Mode) -> None:
    if not groups or not all(groups):
        raise ValueError(f"{dataset.name} has no superclasses; name them: groups=[[0,1],[2,3]].")
    listed = [label for group in groups for label in group]
    if len(set(listed)) != len(listed):
        twice = next(label for label in listed if listed.count(label) > 1)
        raise ValueError(f"every class must lie in one group, but class {twice} is listed twice.")
    if min(listed) < 0 or max(listed) >= dataset.num_classes:
        raise ValueError(f"groups must hold classes 0..{dataset.num_classes - 1}, but {max(listed)} is listed.")
    if mode == "domain" and len({len(group) for group in groups}) > 1:
        raise ValueError("in mode domain every group must have as many classes as the others.")
