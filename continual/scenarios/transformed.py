"""Make a sequence of one dataset seen through a different transform in each task.

Permuted and rotated sequences share all but the transform: the labels stay the same and every part of a task goes
through the same transform. In mode "domain" all tasks use the same C rows of the head; in modes "task" and "class"
task k uses the rows k C to k C + C - 1 of its own, so label c of task k is row c + k C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset
from continual.scenarios.task import Mode, Task, TaskSequence, TrainLogits, check_choice

Transform = Callable[[np.ndarray], np.ndarray]


def transformed_sequence(
    dataset: Dataset,
    name: str,
    transforms: Sequence[tuple[str, Transform]],
    mode: Mode,
    train_logits: TrainLogits,
) -> TaskSequence:
    """Build one task of each transform.

    Args:
        dataset: What every task shows.
        name: Name of the sequence.
        transforms: (task name, function from inputs [N, ...] to new inputs of the same shape and dtype), one a task.
        mode: "domain" shares the rows of the head between tasks, "task" and "class" give each task its own.
        train_logits: See `TaskSequence`.

    Returns:
        The sequence; its head has C rows in mode "domain", C times the number of tasks otherwise.

    Raises:
        ValueError: Unknown mode or `train_logits`.
    """
    check_choice("mode", mode, get_args(Mode))
    check_choice("train_logits", train_logits, get_args(TrainLogits))
    labels = np.arange(dataset.num_classes)
    tasks = []
    for index, (task_name, transform) in enumerate(transforms):
        rows = labels if mode == "domain" else labels + index * dataset.num_classes
        tasks.append(transformed_task(dataset, index, task_name, transform, rows))
    num_rows = dataset.num_classes if mode == "domain" else dataset.num_classes * len(tasks)
    return TaskSequence(name, tuple(tasks), mode, num_rows, train_logits)


def transformed_task(
    dataset: Dataset, index: int, name: str, transform: Transform, rows: npt.NDArray[np.int64]
) -> Task:
    """Build one task: every part through the same transform, label c to head row `rows[c]`.

    Args:
        dataset: What the task shows.
        index: Its position in the sequence.
        name: Its name.
        transform: Function from inputs [N, ...] to new inputs.
        rows: [C] head row of each label.

    Returns:
        The task, with the dataset's labels as label names.
    """
    train, validation, test = dataset.train, dataset.validation, dataset.test
    return Task(
        index=index,
        name=name,
        train=replace(train, inputs=transform(train.inputs), targets=rows[train.targets]),
        validation=None
        if validation is None
        else replace(validation, inputs=transform(validation.inputs), targets=rows[validation.targets]),
        test=replace(test, inputs=transform(test.inputs), targets=rows[test.targets]),
        classes=tuple(rows.tolist()),
        label_names=tuple(str(label) for label in range(dataset.num_classes)),
    )
