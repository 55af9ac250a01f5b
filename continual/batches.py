"""Batches: what a model is trained on, as tensors on the device.

`TrainingData` holds the union of one or more tasks' train parts; each sample keeps the head rows it may be scored on,
so a sample of an old task competes among the same rows as it did then.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from continual.data import Split
from continual.scenarios import Task, TaskSequence

UNLABELLED = -1
"""The target of a sample whose label is not known."""


class Batch(NamedTuple):
    """Samples that are learned from together.

    Attributes:
        inputs: raw inputs in [0, 1], [B, ...].
        targets: head rows, [B] int64; `UNLABELLED` where the label is withheld.
        active: rows that compete in the loss, [classes] or [B, classes] of booleans; None for all.
        task: 0-based task of each sample, [B] int64.
        weights: of each sample in the loss, [B], which then is their weighted sum; None for the mean.
    """

    inputs: Tensor
    targets: Tensor
    active: Tensor | None
    task: Tensor
    weights: Tensor | None = None


class TrainingData(NamedTuple):
    """Everything a task trains on.

    Attributes:
        inputs: [N, ...] in [0, 1].
        targets: [N].
        active: [classes] where all samples agree, else [N, classes].
        task: [N].
    """

    inputs: Tensor
    targets: Tensor
    active: Tensor
    task: Tensor

    def __len__(self) -> int:
        return self.targets.shape[0]

    def batches(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Give all samples once in random order; the last batch may be smaller."""
        order = torch.randperm(self.targets.shape[0], generator=generator).to(self.targets.device)
        shared = None if bool(self.active.all()) else self.active
        for chosen in order.split(batch_size):
            active = shared if shared is None or shared.ndim == 1 else shared[chosen]
            yield Batch(self.inputs[chosen], self.targets[chosen], active, self.task[chosen])


def as_tensors(split: Split, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Move a split to the device: inputs as floats in [0, 1] [N, ...], targets as int64 [N]."""
    inputs = torch.from_numpy(np.ascontiguousarray(split.inputs)).to(device)
    scaled = inputs.to(dtype).div_(255) if inputs.dtype == torch.uint8 else inputs.to(dtype)
    return scaled, torch.from_numpy(np.asarray(split.targets, dtype=np.int64)).to(device)


def row_mask(rows: Sequence[int], num_classes: int) -> Tensor:
    """Give the rows as booleans [num_classes]."""
    mask = torch.zeros(num_classes, dtype=torch.bool)
    mask[list(rows)] = True
    return mask


def training_rows(sequence: TaskSequence, task: Task) -> Tensor:
    """Give the head rows that compete in the loss of a task's samples, [num_classes].

    With the task known, its own rows, and those of the tasks whose samples a stream mixed in; in domain mode the shared
    rows; in class mode what `train_logits` says.
    """
    if sequence.mode == "task":
        return row_mask(
            [row for origin in task.origin_tasks for row in sequence.tasks[origin].classes], sequence.num_classes
        )
    if sequence.mode == "domain" or sequence.train_logits == "current":
        return row_mask(task.trained_rows, sequence.num_classes)
    if sequence.train_logits == "seen":
        return row_mask(sequence.classes_seen(task.index), sequence.num_classes)
    return torch.ones(sequence.num_classes, dtype=torch.bool)


def gather(
    tasks: Sequence[Task], current: Task, sequence: TaskSequence, device: torch.device, dtype: torch.dtype
) -> TrainingData:
    """Put the train parts of tasks together.

    Args:
        tasks: whose data is used.
        current: the task being learned; in class mode it decides which rows compete, beside those of `tasks`.
        sequence: the whole sequence; where it hides its boundaries, every sample is told to be of task 0.
        device: where the tensors go.
        dtype: of the inputs.
    """
    parts = [as_tensors(task.train, device, dtype) for task in tasks]
    origins = torch.cat([origins_of(task) for task in tasks])
    active = training_rows(sequence, current)
    for task in tasks:  # an old sample whose row did not compete would cost infinitely much
        active = active | row_mask(task.trained_rows, sequence.num_classes)
    if sequence.mode == "task":
        own = torch.stack([row_mask(task.classes, sequence.num_classes) for task in sequence.tasks])[origins]
        active = own[0] if bool((own == own[0]).all()) else own
    return TrainingData(
        torch.cat([inputs for inputs, _ in parts]),
        torch.cat([known(task, targets) for task, (_, targets) in zip(tasks, parts, strict=True)]),
        active.to(device),
        (torch.zeros_like(origins) if sequence.boundaries == "hidden" else origins).to(device),
    )


def known(task: Task, targets: Tensor) -> Tensor:
    """Give a task's train targets [N] with `UNLABELLED` in place of what is withheld."""
    if task.withheld is None:
        return targets
    return targets.masked_fill(torch.from_numpy(task.withheld).to(targets.device), UNLABELLED)


def origins_of(task: Task) -> Tensor:
    """Give the task that each train sample came from, [N] int64."""
    if task.origins is None:
        return torch.full((len(task.train),), task.index)
    return torch.from_numpy(np.asarray(task.origins, dtype=np.int64))
