"""Score every test sample of every task once, from the same logits both ways.

Task-aware accuracy picks among the task's own rows. Task-agnostic accuracy picks among the rows of all classes seen
so far, and is computed from logits that were made without the task's number. Modes, gradients and random streams of
training are left as they were.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from continual.batches import as_tensors, row_mask
from continual.objectives import masked_logits
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart
from neuro.lateral import evaluating

EvaluationPart = Literal["test", "validation"]
BATCH_SIZE = 500


class Scores(NamedTuple):
    """What an evaluation found.

    Attributes:
        task_aware: accuracy per task, [T], NaN where not measured.
        task_agnostic: likewise.
        answers: by task, the counts [C, C] of true classes and task-agnostic answers.
        passes: how many samples went through the network.
    """

    task_aware: np.ndarray
    task_agnostic: np.ndarray
    answers: dict[int, np.ndarray]
    passes: int


def evaluate(
    predict: Callable[..., Tensor],
    model: nn.Module,
    sequence: TaskSequence,
    tasks: Sequence[Task],
    classes_seen: Sequence[int],
    part: EvaluationPart,
    needs_task_id: bool,
    seed: int,
) -> Scores:
    """Score a model on tasks.

    Args:
        predict: a strategy's `predict(model, inputs, task)`.
        model: the network; its first parameter gives device and dtype.
        sequence: all tasks; it says how many rows the head has.
        tasks: those to score; the others stay NaN.
        classes_seen: head rows that task-agnostic prediction chooses from.
        part: which data; selection uses validation, reports use test.
        needs_task_id: ask again with the task's number for the task-aware score; else one prediction serves both.
        seed: of the streams used meanwhile.
    """
    num_tasks, num_classes = len(sequence.tasks), sequence.num_classes
    task_aware, task_agnostic = np.full(num_tasks, np.nan), np.full(num_tasks, np.nan)
    answers, passes, seen = {}, 0, row_mask(classes_seen, num_classes)
    with evaluating(model), apart(model, seed, "evaluation"):
        for task in tasks:
            own, counts = row_mask(task.classes, num_classes), np.zeros((num_classes, num_classes), dtype=np.int64)
            aware = 0
            for inputs, targets in _batches(task, part, model):
                logits = predict(model, inputs, None)
                informed = predict(model, inputs, task.index) if needs_task_id else logits
                aware += int((_answers(informed, own) == targets).sum())
                pairs = targets * num_classes + _answers(logits, seen)
                counts += torch.bincount(pairs, minlength=counts.size).cpu().numpy().reshape(counts.shape)
            total = int(counts.sum())
            task_aware[task.index], task_agnostic[task.index] = aware / total, int(np.trace(counts)) / total
            answers[task.index] = counts
            passes += total * (2 if needs_task_id else 1)
    return Scores(task_aware, task_agnostic, answers, passes)


def part_of(task: Task, part: EvaluationPart) -> Sequence:
    """Give a task's test or validation part.

    Raises:
        ValueError: if there is no validation part.
    """
    split = task.test if part == "test" else task.validation
    if split is None:
        raise ValueError(f"Task {task.name!r} has no validation part; carve one out with data.validation=0.2, say.")
    return split  # pyright: ignore[reportReturnType]


def _batches(task: Task, part: EvaluationPart, model: nn.Module):  # noqa: ANN202  # pairs of tensors
    reference = next(model.parameters())
    inputs, targets = as_tensors(part_of(task, part), reference.device, reference.dtype)  # pyright: ignore[reportArgumentType]
    yield from zip(inputs.split(BATCH_SIZE), targets.split(BATCH_SIZE), strict=True)


def _answers(logits: Tensor, rows: Tensor) -> Tensor:
    return masked_logits(logits, rows.to(logits.device)).argmax(1)
