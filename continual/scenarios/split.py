"""Split classes: each task brings the samples of a few classes that no other task has.

The C classes are put in order (0..C-1, or drawn from `order_seed`) and cut into T groups of C / T. In modes "task"
and "class" the class at position i of the order is row i of the head; in mode "domain" all tasks share C / T rows and
a label is its position within the task. The original labels stay on each task as `label_names`.

Sources: Zenke, Poole and Ganguli (2017), split MNIST; van de Ven and Tolias (2019), the three modes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, get_args

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Split
from continual.data.stratify import named_generator
from continual.scenarios.task import Mode, Task, TaskSequence, TrainLogits, check_choice, check_num_tasks

Part = TypeVar("Part", bound=Split)


def split(
    dataset: Dataset,
    num_tasks: int = 5,
    mode: Mode = "task",
    order_seed: int | None = None,
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make a sequence of tasks with disjoint classes.

    Args:
        dataset: Any data; C classes, each with samples in every part.
        num_tasks: T, a divisor of C.
        mode: "task" or "class" (a row for each class), or "domain" (C / T rows shared by all tasks).
        order_seed: Draws the order of the classes; None keeps 0..C-1.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Returns:
        The sequence; every sample is in exactly one task.

    Raises:
        ValueError: The classes do not divide into `num_tasks`, a part lacks a class, or an unknown mode or
            `train_logits`.
    """
    check_num_tasks(num_tasks)
    check_choice("mode", mode, get_args(Mode))
    check_choice("train_logits", train_logits, get_args(TrainLogits))
    _check_divides(dataset, num_tasks)
    order = class_order(dataset.num_classes, order_seed)
    width = dataset.num_classes // num_tasks
    tasks = []
    for index, labels in enumerate(order.reshape(num_tasks, width)):
        rows = np.arange(width) + (0 if mode == "domain" else index * width)
        tasks.append(task_of_classes(dataset, index, labels, rows))
    num_rows = width if mode == "domain" else dataset.num_classes
    return TaskSequence(f"split {dataset.name}", tuple(tasks), mode, num_rows, train_logits)


def class_order(num_classes: int, order_seed: int | None) -> npt.NDArray[np.int64]:
    """Return the classes in the order in which tasks bring them.

    Args:
        num_classes: C.
        order_seed: Draws the order; None keeps 0..C-1.
    """
    if order_seed is None:
        return np.arange(num_classes)
    return named_generator(order_seed, "class order").permutation(num_classes)


def task_of_classes(dataset: Dataset, index: int, labels: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> Task:
    """Take the samples of `labels` from every part, with label `labels[i]` as row `rows[i]`."""
    row_of = np.full(dataset.num_classes, -1, dtype=np.int64)
    row_of[labels] = rows

    train, validation, test = dataset.train, dataset.validation, dataset.test
    names = tuple(str(label) for label in labels)
    return Task(
        index=index,
        name=f"classes {' '.join(names)}",
        train=_relabelled(train, row_of),
        validation=None if validation is None else _relabelled(validation, row_of),
        test=_relabelled(test, row_of),
        classes=tuple(rows.tolist()),
        label_names=names,
    )


def _relabelled(part: Part, row_of: npt.NDArray[np.int64]) -> Part:
    """Keep the samples whose label has a row, and let the row be the target."""
    members = part.select(np.flatnonzero(row_of[part.targets] >= 0))
    return replace(members, targets=row_of[members.targets])


def _check_divides(dataset: Dataset, num_tasks: int) -> None:
    num_classes = dataset.num_classes
    if num_classes % num_tasks:
        divisors = ", ".join(str(number) for number in range(1, num_classes + 1) if num_classes % number == 0)
        raise ValueError(
            f"num_tasks must divide the {num_classes} classes of {dataset.name}, but it is {num_tasks}; "
            f"use one of {divisors}."
        )
    for part in dataset.parts:
        absent = np.setdiff1d(np.arange(num_classes), part.targets)
        if absent.size:
            raise ValueError(
                f"split needs samples of every class in every part, but the {type(part).__name__.lower()} part of "
                f"{dataset.name} has none of class {absent[0]}; add some or renumber the classes."
            )
