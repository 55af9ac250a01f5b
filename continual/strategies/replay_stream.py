"""What replay strategies share: a memory beside the training stream.

In `mix`, a strategy settles the batch before (offers it to the memory: its optimiser steps are over, however many
they were), then draws, then leaves the new batch to be settled. So a draw sees the memory as it was before the batch,
and every batch is offered exactly once. Settling the last batch of a task is left to `after_task`. Every draw and
every decision of the policy comes from a stream named by the task, so a resume at a task boundary draws the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from continual.batches import Batch, training_rows
from continual.memory import Memory, rows_of
from continual.pass_cost import FORWARD_AND_BACKWARD, forward_operations
from continual.scenarios import Task, TaskSequence
from continual.seeding import stream
from continual.strategies.strategy import Setting


class Replayed(NamedTuple):
    """Samples to be learned from again.

    Attributes:
        batch: the samples, with the rows they compete among now.
        existed: rows they competed among when they were stored, [B, classes].
        logits: of that moment, [B, classes]; None where the memory keeps none.
    """

    batch: Batch
    existed: Tensor
    logits: Tensor | None


class ReplayStream:
    """Offer a training stream to a memory, and draw from what it held before.

    Args:
        setting: what the strategy is attached to.
        memory: still empty.
        insert_epochs: in how many first epochs of a task its batches are offered; None for all.
        start_at_task: first task, counted from 1, in which anything is drawn.
    """

    def __init__(self, setting: Setting, memory: Memory, insert_epochs: int | None, start_at_task: int) -> None:
        self._setting, self.memory = setting, memory
        self._insert_epochs, self._start_at_task = insert_epochs, start_at_task
        self._pending: Batch | None = None
        self._cost = PassCost(setting)

    def begin(self, task: Task) -> None:
        """Get ready for a task."""
        self._task, self._pending = task, None
        self._left = None if self._insert_epochs is None else self._insert_epochs * len(task.train)
        self._insertion = stream(self._setting.seed, "memory", "insert", task.index)
        self._draws: dict[str, torch.Generator] = {}
        self._competing = competing_rows(self._setting.sequence, task, self.memory.layout.device)

    def settle(self, logits: Tensor | None = None) -> None:
        """Offer the batch before, whose steps are over, to the memory.

        Args:
            logits: of its samples, where the memory keeps them.
        """
        if self._pending is not None:
            self.memory.insert(self._pending, self._insertion, logits)
            self._pending = None

    def draw(self, name: str, count: int) -> Replayed | None:
        """Draw samples to be replayed; None while there is nothing, or before the task to start at.

        Args:
            name: of the draw; draws of different names are independent.
            count: of samples.
        """
        if len(self.memory) == 0 or self._task.index + 1 < self._start_at_task:
            return None
        generator = self._draws.setdefault(name, stream(self._setting.seed, "memory", f"draw {name}", self._task.index))
        batch, logits = self.memory.draw(count, generator)
        self._cost.count(len(batch.targets))
        existed = rows_of(batch, self.memory.layout.num_classes)
        return Replayed(batch._replace(active=existed | self._competing), existed, logits)

    def offer(self, batch: Batch) -> bool:
        """Leave a batch to be settled later; give whether it will be."""
        if self._left is not None:
            if self._left <= 0:
                return False
            self._left -= len(batch.targets)
        self._pending = batch
        return True

    @property
    def operations(self) -> int:
        """Multiply-accumulates of replaying so far."""
        return self._cost.operations

    def state_dict(self) -> dict[str, Tensor]:
        """Give the memory and the count of replayed samples."""
        return self.memory.state_dict() | {"passed": self._cost.state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: if a part is missing or left over.
        """
        self._cost.load(state)
        self.memory.load_state_dict({name: part for name, part in state.items() if name != "passed"})


class PassCost:
    """Count samples that a strategy passes through the network beside the training itself.

    Args:
        setting: what the strategy is attached to.
        passes: what one sample costs, in forward passes.
    """

    def __init__(self, setting: Setting, passes: int = FORWARD_AND_BACKWARD) -> None:
        self._setting, self._passes, self._samples = setting, passes, 0
        self._per_sample: int | None = None

    def count(self, samples: int) -> None:
        """Count samples."""
        self._samples += samples

    @property
    def operations(self) -> int:
        """Multiply-accumulates so far, counted densely."""
        if self._samples == 0:
            return 0
        if self._per_sample is None:  # measured when first asked for: the model may still be moved before
            self._per_sample = forward_operations(self._setting.model, self._setting.sequence)
        return self._passes * self._samples * self._per_sample

    def state(self) -> Tensor:
        """Give the count."""
        return torch.tensor(self._samples, dtype=torch.int64)

    def load(self, state: dict[str, Tensor], name: str = "passed") -> None:
        """Take the count back.

        Raises:
            ValueError: if it is missing.
        """
        if name not in state:
            raise ValueError(f"The state needs a part {name!r}, got {sorted(state)}.")
        self._samples = int(state[name])


def competing_rows(sequence: TaskSequence, task: Task, device: torch.device) -> Tensor:
    """Give the head rows that samples of old tasks compete among beside their own, [classes].

    None with the task known or rows shared by all. In class mode with `train_logits="seen"` the rows seen since: an
    old sample that never competed with a new class would be taken for it.
    """
    rows = training_rows(sequence, task).to(device)
    grows = sequence.mode == "class" and sequence.train_logits == "seen"
    return rows if grows else torch.zeros_like(rows)


def joined(batch: Batch, drawn: Sequence[Batch], weights: Tensor | None) -> Batch:
    """Put replayed samples behind those of a batch.

    Args:
        batch: of the current task.
        drawn: samples of memories; at least one group, whose `active` is [n, classes].
        weights: of all samples in the loss, or None for their mean.
    """
    first = drawn[0].active
    assert first is not None
    own = rows_of(batch, first.shape[1])
    parts = [batch._replace(active=own), *drawn]
    inputs, targets, active, task = (torch.cat(column) for column in list(zip(*parts, strict=True))[:4])  # pyright: ignore[reportArgumentType, reportCallIssue]
    return Batch(inputs, targets, active, task, weights)


def equal_weights(counts: Sequence[int], shares: Sequence[float], like: Tensor) -> Tensor:
    """Give weights with which the weighted sum is Σ share_g · mean over group g, [Σ counts].

    Args:
        counts: samples of each group, in their order.
        shares: of each group's mean.
        like: a floating tensor, for the device; weights are in single precision at least.
    """
    precision = torch.promote_types(like.dtype, torch.float32)
    groups = zip(counts, shares, strict=True)
    return torch.cat([like.new_full((count,), share / count, dtype=precision) for count, share in groups])


def require_weights(setting: Setting, name: str) -> None:
    """Refuse an objective that would not look at the weights of samples.

    Raises:
        ValueError: saying what is missing.
    """
    if not getattr(setting.objective, "weighs_samples", False):
        raise ValueError(
            f"{name} weighs the samples of a batch, and the objective {type(setting.objective).__name__} does not say "
            f"that it reads Batch.weights; give it weighs_samples = True once it does, or use CrossEntropy."
        )


def check_replay(replay_size: int | None, insert_epochs: int | None, start_at_task: int) -> None:
    """Check the numbers that replay strategies share.

    Raises:
        ValueError: if one is below 1.
    """
    numbers = {"replay_size": replay_size, "insert_epochs": insert_epochs, "start_at_task": start_at_task}
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
