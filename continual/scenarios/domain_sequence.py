"""A sequence of whole datasets: each task is another one, all of them brought to one shape and one head.

Images are fitted to `image_shape` (see `common_shape`). Where some sets hold bytes and others fractions, the bytes are
divided by 255, which is what the loop does with them anyway. In modes "task" and "class" dataset k has rows of its
own, label c being row c + C_0 + ... + C_{k-1}. In mode "domain" all share the rows 0 to max C - 1, label c being row c;
all of them compete in every task, also those for which its dataset has no class.

The number of train samples a task can be capped, so that no dataset outweighs the others; test parts stay whole.
Source: Ebrahimi, Meier, Calandra, Darrell and Rohrbach (2020) for a sequence of whole datasets under one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, get_args

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Split, Train
from continual.data.stratify import named_generator
from continual.scenarios.common_shape import fit_images
from continual.scenarios.task import Mode, Task, TaskSequence, TrainLogits, check_choice

Part = TypeVar("Part", bound=Split)


def domain_sequence(
    datasets: Sequence[Dataset],
    mode: Mode = "task",
    image_shape: Sequence[int] = (1, 28, 28),
    samples_per_task: int | None = None,
    seed: int = 0,
    train_logits: TrainLogits = "seen",
    name: str = "domains",
) -> TaskSequence:
    """Make a sequence with one task a dataset.

    Args:
        datasets: Image sets in their order, at least one, under names that differ.
        mode: "task" or "class" (rows of its own for each dataset), or "domain" (rows shared by all).
        image_shape: (C, H, W) of every sample, no smaller than any dataset's.
        samples_per_task: Most train samples a task keeps, drawn with the proportions of its classes; None keeps all.
        seed: Decides which samples are kept.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".
        name: Name of the sequence.

    Returns:
        The sequence; its head has as many rows as all datasets have classes together, or as the largest has in mode
        "domain". The images are copies, uint8 where all datasets are, else float32.

    Raises:
        ValueError: No dataset, a shape that does not fit (the dataset is named), a cap that loses a class, two datasets
            of one name, or an unknown mode or `train_logits`.
    """
    check_choice("mode", mode, get_args(Mode))
    check_choice("train_logits", train_logits, get_args(TrainLogits))
    _check_image_shape(image_shape)
    if not datasets:
        raise ValueError("domain_sequence needs at least one dataset, but none came.")
    dtype = np.result_type(*(dataset.train.inputs.dtype for dataset in datasets))
    tasks = []
    for index, (dataset, rows) in enumerate(zip(datasets, head_rows(datasets, mode), strict=True)):
        try:
            train = capped(dataset.train, samples_per_task, seed, index)
            shown = replace(dataset, train=train, checksum="")
            tasks.append(_task_of(shown, index, rows, image_shape, dtype))
        except ValueError as problem:
            raise ValueError(f"dataset {dataset.name!r}: {problem}") from problem
    num_rows = 1 + max(max(task.classes) for task in tasks)
    return TaskSequence(name, tuple(tasks), mode, num_rows, train_logits)


def head_rows(datasets: Sequence[Dataset], mode: Mode) -> list[npt.NDArray[np.int64]]:
    """Return the rows of the head that each dataset uses; label c of a dataset is its row at place c."""
    sizes = [dataset.num_classes for dataset in datasets]
    if mode == "domain":
        return [np.arange(max(sizes))] * len(sizes)
    return [np.arange(size) + sum(sizes[:index]) for index, size in enumerate(sizes)]


def capped(train: Train, samples: int | None, seed: int, index: int) -> Train:
    """Keep at most so many samples, with the class proportions of the whole to within one sample.

    Args:
        train: What to draw from.
        samples: How many to keep; None, or more than there are, keeps all in their order.
        seed: Decides which, and their order.
        index: Number of the task; each has draws of its own.

    Raises:
        ValueError: Fewer than one sample, or a class that would be left without any.
    """
    if samples is None or samples >= len(train):
        return train
    if samples < 1:
        raise ValueError(f"samples_per_task must be at least 1, but it is {samples}.")
    order = named_generator(seed, "samples of a task", index).permutation(len(train))
    # Number k (from 0) of the n samples of a class stands at (k + 1/2) / n: every beginning of the line is stratified.
    place = np.empty(len(train))
    for label, count in zip(*np.unique(train.targets, return_counts=True), strict=True):
        members = order[train.targets[order] == label]
        place[members] = (np.arange(count) + 0.5) / count
    kept = order[np.argsort(place[order], kind="stable")[:samples]]
    lost = np.setdiff1d(train.targets, train.targets[kept])
    if lost.size:
        raise ValueError(
            f"samples_per_task must leave every class a sample, but {samples} of {len(train)} leave none of class "
            f"{lost[0]}; raise it."
        )
    return train.select(kept)


def as_dtype(inputs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Turn bytes into fractions of 255 where fractions are wanted; else give the inputs back."""
    if inputs.dtype == dtype:
        return inputs
    return inputs.astype(dtype) / np.array(255, dtype)


def _task_of(
    dataset: Dataset, index: int, rows: npt.NDArray[np.int64], image_shape: Sequence[int], dtype: np.dtype
) -> Task:
    def shown(part: Part) -> Part:
        return replace(part, inputs=as_dtype(fit_images(part.inputs, image_shape), dtype), targets=rows[part.targets])

    labels = [str(label) if label < dataset.num_classes else "unused" for label in range(len(rows))]
    return Task(
        index=index,
        name=dataset.name,
        train=shown(dataset.train),
        validation=None if dataset.validation is None else shown(dataset.validation),
        test=shown(dataset.test),
        classes=tuple(rows.tolist()),
        label_names=tuple(labels),
    )


def _check_image_shape(image_shape: Sequence[int]) -> None:
    if len(image_shape) != 3 or not all(isinstance(side, int) and side > 0 for side in image_shape):
        raise ValueError(
            f"image_shape must be (channels, height, width), each at least 1, but it is {tuple(image_shape)}."
        )
