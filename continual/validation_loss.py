"""The loss on a task's validation part: what a schedule may look at, where the test part is out of reach."""

import torch
import torch.nn.functional as F
from torch import nn

from continual.batches import as_tensors, training_rows
from continual.objectives import masked_logits
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart
from neuro.lateral import evaluating

BATCH_SIZE = 500


def validation_loss(model: nn.Module, sequence: TaskSequence, task: Task, seed: int) -> float:
    """Give the mean cross-entropy on the validation part, among the rows that compete in training.

    Modes and random streams are left as they were.

    Raises:
        ValueError: if the task has no validation part.
    """
    if task.validation is None:
        raise ValueError(f"Task {task.name!r} has no validation part; carve one out with data.validation=0.1, say.")
    reference = next(model.parameters())
    inputs, targets = as_tensors(task.validation, reference.device, reference.dtype)
    rows, total = training_rows(sequence, task).to(reference.device), torch.zeros((), device=reference.device)
    with evaluating(model), apart(model, seed, "validation", task.index):
        for seen, wanted in zip(inputs.split(BATCH_SIZE), targets.split(BATCH_SIZE), strict=True):
            total += F.cross_entropy(masked_logits(model(seen), rows), wanted, reduction="sum")
    return float(total) / len(targets)
