"""Score every test sample of every task once, from the same logits both ways.

Task-aware accuracy picks among the task's own rows. Task-agnostic accuracy picks among the rows of all classes seen
so far, and is computed from logits that were made without the task's number. Modes, gradients and random streams of
training are left as they were.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor, nn

from continual.batches import as_tensors, row_mask
from continual.objectives import masked_logits
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart
from neuro.lateral import evaluating

EvaluationPart = Literal["test", "validation"]
BATCH_SIZE = 500


class Scores(NamedTuple):
    """Accuracy per task, [T] each, NaN where not measured."""

    task_aware: np.ndarray
    task_agnostic: np.ndarray


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
    scores = Scores(np.full(len(sequence.tasks), np.nan), np.full(len(sequence.tasks), np.nan))
    seen = row_mask(classes_seen, sequence.num_classes)
    with evaluating(model), apart(model, seed, "evaluation"):
        for task in tasks:
            aware, agnostic, total = 0, 0, 0
            for inputs, targets in _batches(task, part, model):
                logits = predict(model, inputs, None)
                informed = predict(model, inputs, task.index) if needs_task_id else logits
                aware += _hits(informed, row_mask(task.classes, sequence.num_classes), targets)
                agnostic += _hits(logits, seen, targets)
                total += len(targets)
            scores.task_aware[task.index], scores.task_agnostic[task.index] = aware / total, agnostic / total
    return scores


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


def _hits(logits: Tensor, rows: Tensor, targets: Tensor) -> int:
    return int((masked_logits(logits, rows.to(logits.device)).argmax(1) == targets).sum())
