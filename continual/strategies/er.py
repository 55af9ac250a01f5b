"""ER: experience replay (Chaudhry et al. 2019, tiny episodic memories; Ratcliff 1990 and Robins 1995 before).

A memory of M samples of the stream; every batch is learned from together with a batch drawn from it,

    Concat:  mean over the B + B_mem samples of CE        Sum:  mean over the B of CE + mean over the B_mem of CE

Samples are drawn uniformly without replacement from the memory as it was before the batch, and the batch is offered
to it after its optimiser steps, once, however many steps a rule makes. Needs no task's number, and no boundaries but
to begin its random streams. Each sample keeps the head rows it competed among; in class mode with
`train_logits="seen"` the rows seen since join them, as they do for cumulative training.

Deliberate differences: only the first epoch of a task is offered by default, so that no sample is held twice (the
common code offers every epoch); new and replayed samples go through the network in one batch, so norm layers see both
at once.
"""

from typing import Protocol

import torch
from torch import Tensor

from continual.batches import Batch, TrainingData
from continual.memory import Memory, check_capacity, layout_of
from continual.memory_policies import Policy, Reservoir
from continual.scenarios import Task
from continual.strategies.replay_stream import ReplayStream, check_replay, equal_weights, joined, require_weights
from continual.strategies.strategy import Setting, Strategy


class LossForm(Protocol):
    """The role: how the losses of new and replayed samples are put together."""

    name: str

    @property
    def weighs(self) -> bool:
        """Whether it needs the weights of samples."""
        ...

    def weights(self, num_new: int, num_drawn: int, like: Tensor) -> Tensor | None:
        """Give the weight of each sample in the loss, or None for the mean over all."""
        ...


class Concat:
    """Take the mean over new and replayed samples together."""

    name = "concat"
    weighs = False

    def weights(self, num_new: int, num_drawn: int, like: Tensor) -> Tensor | None:
        """Give None: the mean over all."""
        return None


class Sum:
    """Take the mean over the new samples plus the mean over the replayed ones."""

    name = "sum"
    weighs = True

    def weights(self, num_new: int, num_drawn: int, like: Tensor) -> Tensor | None:
        """Give 1/B to each new sample and 1/B_mem to each replayed one."""
        return equal_weights((num_new, num_drawn), (1.0, 1.0), like)


class ER(Strategy):
    """Replay samples from a memory.

    Args:
        capacity: M, samples in the memory; 0 is naive training.
        capacity_bytes: bytes of the memory, instead of M.
        replay_size: B_mem, samples drawn per batch; None for as many as the batch has.
        form: `Concat` or `Sum`.
        policy: which samples the memory holds; by default `Reservoir`.
        insert_epochs: in how many first epochs of a task its batches are offered to the memory; None for all.
        start_at_task: first task, counted from 1, in which anything is replayed; the memory fills before.

    Raises:
        ValueError: if a number is out of range, or not exactly one capacity is given.
    """

    def __init__(
        self,
        capacity: int | None = 500,
        capacity_bytes: int | None = None,
        replay_size: int | None = None,
        form: LossForm | None = None,
        policy: Policy | None = None,
        insert_epochs: int | None = 1,
        start_at_task: int = 1,
    ) -> None:
        check_capacity(capacity, capacity_bytes)
        check_replay(replay_size, insert_epochs, start_at_task)
        self.capacity, self.capacity_bytes, self.replay_size = capacity, capacity_bytes, replay_size
        self.form, self.policy = form if form is not None else Concat(), policy if policy is not None else Reservoir()
        self.insert_epochs, self.start_at_task = insert_epochs, start_at_task
        self.needs_labels = not isinstance(self.policy, Reservoir)
        self.name = "er" if self.form.name == "concat" else f"er_{self.form.name}"

    def attach(self, setting: Setting) -> None:
        """Make the memory.

        Raises:
            ValueError: if the bytes do not hold one sample, or the objective ignores weights that the form needs.
        """
        if self.form.weighs:
            require_weights(setting, self.name)
        layout = layout_of(setting.model, setting.sequence)
        memory = Memory(layout, self.policy, self.capacity, self.capacity_bytes)
        self._replay = ReplayStream(setting, memory, self.insert_epochs, self.start_at_task)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Begin the task's random streams."""
        self._replay.begin(task)

    def mix(self, batch: Batch) -> Batch:
        """Put samples of the memory behind those of the batch."""
        self._replay.settle()
        drawn = self._replay.draw("samples", self.replay_size or len(batch.targets))
        self._replay.offer(batch)
        if drawn is None:
            return batch
        weights = self.form.weights(len(batch.targets), len(drawn.batch.targets), batch.inputs)
        return joined(batch, [drawn.batch], weights)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Offer the last batch to the memory."""
        self._replay.settle()

    def state_dict(self) -> dict[str, Tensor]:
        """Give the memory and its counters."""
        return self._replay.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._replay.load_state_dict(state)

    def notices(self) -> list[str]:
        """Say how many samples the bytes hold, before anything is learned."""
        memory = self._replay.memory
        if self.capacity_bytes is None or memory.seen:
            return []
        return [f"{self.capacity_bytes} bytes hold {memory.capacity} samples of {memory.bytes_per_sample} bytes."]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the samples held."""
        return self._replay.memory.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of passing replayed samples through the network and back, counted densely."""
        return self._replay.operations
