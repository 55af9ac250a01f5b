"""An episodic memory: samples of a stream, bounded exactly in samples or in bytes.

Every sample keeps its input, target, the head rows it competed among, its task and, where asked for, logits. Inputs
are stored as the data has them: an image that came as uint8 and is trained on as k/255 is stored as k again, which is
exact, in one byte a pixel. A policy says which samples are held. The number of samples seen is part of the state, so
that a memory goes on as if it had never been saved.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from continual.batches import Batch
from continual.memory_policies import KEY, Columns, Policy, random_keys
from continual.scenarios import TaskSequence

COUNTER_BYTES = 8


class Layout(NamedTuple):
    """What a sample looks like.

    Attributes:
        sample: shape of one input.
        stored: dtype of inputs in the memory.
        given: dtype of inputs in batches.
        num_classes: rows of the head.
        device: where the memory lies.
        with_logits: whether logits are stored too.
    """

    sample: tuple[int, ...]
    stored: torch.dtype
    given: torch.dtype
    num_classes: int
    device: torch.device
    with_logits: bool = False


class Drawn(NamedTuple):
    """Samples out of a memory.

    Attributes:
        batch: the samples; each row of `active` [B, classes] is the one it came with.
        logits: recorded when they were stored, [B, classes]; None where none are.
    """

    batch: Batch
    logits: Tensor | None


def layout_of(model: nn.Module, sequence: TaskSequence, with_logits: bool = False) -> Layout:
    """Give the layout of a sequence's samples as a model is trained on them."""
    reference, raw = next(model.parameters()), sequence.tasks[0].train.inputs.dtype
    stored = torch.uint8 if raw == np.uint8 else smaller(torch.float32, reference.dtype)
    return Layout(
        tuple(sequence.input_shape), stored, reference.dtype, sequence.num_classes, reference.device, with_logits
    )


def smaller(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    """Give the dtype of fewer bytes."""
    return min(one, other, key=lambda dtype: dtype.itemsize)


def check_capacity(capacity: int | None, capacity_bytes: int | None) -> None:
    """Check that exactly one bound is given.

    Raises:
        ValueError: saying what came.
    """
    if (capacity is None) == (capacity_bytes is None):
        raise ValueError(
            f"Give exactly one of capacity (in samples) and capacity_bytes, got {capacity} and {capacity_bytes}."
        )
    for name, value in (("capacity", capacity), ("capacity_bytes", capacity_bytes)):
        if value is not None and value < 0:
            raise ValueError(f"{name} must be 0 or more, got {value}.")


class Memory:
    """Samples of a stream.

    Example:
        >>> from continual.memory_policies import Reservoir
        >>> layout = Layout((2,), torch.uint8, torch.float32, 3, torch.device("cpu"))
        >>> memory = Memory(layout, Reservoir(), capacity=4)
        >>> inputs, zeros = torch.tensor([[0.0, 1.0]] * 9), torch.zeros(9, dtype=torch.int64)
        >>> memory.insert(Batch(inputs, zeros, None, zeros), torch.Generator())
        >>> len(memory), memory.seen, memory.bytes_per_sample
        (4, 9, 21)

    Args:
        layout: of a sample.
        policy: which samples are held.
        capacity: M, the largest number of samples.
        capacity_bytes: the largest `stored_bytes`, instead of M.

    Raises:
        ValueError: if not exactly one bound is given, or the bytes do not hold one sample.
    """

    def __init__(
        self, layout: Layout, policy: Policy, capacity: int | None = None, capacity_bytes: int | None = None
    ) -> None:
        check_capacity(capacity, capacity_bytes)
        self.layout, self.policy, self.seen = layout, policy, 0
        self._held: Columns = self._empty(0)
        self.bytes_per_sample = sum(
            column.dtype.itemsize * math.prod(column.shape[1:]) for column in self._held.values()
        )
        if capacity is None:
            assert capacity_bytes is not None
            capacity = max(0, (capacity_bytes - COUNTER_BYTES) // self.bytes_per_sample)
            if capacity == 0 < capacity_bytes:
                raise ValueError(
                    f"capacity_bytes must hold at least one sample of {self.bytes_per_sample} bytes and a counter of "
                    f"{COUNTER_BYTES}, got {capacity_bytes}; give 0 for no memory."
                )
        self.capacity = capacity

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the samples held and of the counter; 0 without any capacity."""
        return len(self) * self.bytes_per_sample + (COUNTER_BYTES if self.capacity else 0)

    @property
    def columns(self) -> Columns:
        """What is held, by name, a row per sample."""
        return {name: column[: len(self)] for name, column in self._held.items()}

    @torch.no_grad()
    def insert(self, batch: Batch, generator: torch.Generator, logits: Tensor | None = None) -> None:
        """Offer samples to the memory; the policy decides which of them it holds.

        Args:
            batch: of the stream, each sample once.
            generator: of the policy's draws, on the CPU.
            logits: of each sample, [B, classes], where the layout has them.

        Raises:
            ValueError: if they are missing there.
        """
        num_new = len(batch.targets)
        if self.capacity > 0 and num_new > 0:
            new = self._encoded(batch, logits)
            if self.policy.keyed:
                new[KEY] = random_keys(num_new, generator).to(self.layout.device)
            slots, sources, taken = self.policy.place(self.columns, new, self.capacity, self.seen, generator)
            self._reserve(min(self.capacity, self.seen + num_new))
            slots, sources = slots.to(self.layout.device), sources.to(self.layout.device)
            for name, column in self._held.items():
                rows = new[name][sources]
                if taken is not None:
                    rows = rows.where(taken, column[slots])
                column[slots] = rows
        self.seen += num_new

    def draw(self, count: int, generator: torch.Generator) -> Drawn:
        """Draw samples uniformly without replacement; all of them if there are no more."""
        return self.take(torch.randperm(len(self), generator=generator)[:count])

    def take(self, chosen: Tensor) -> Drawn:
        """Give the samples of these rows, as a batch."""
        chosen = chosen.to(self.layout.device)
        held = {name: column[chosen] for name, column in self._held.items()}
        batch = Batch(self._decoded(held["inputs"]), held["targets"], held["active"], held["task"])
        return Drawn(batch, held.get("logits"))

    def state_dict(self) -> dict[str, Tensor]:
        """Give the samples held and how many were seen."""
        return self.columns | {"seen": torch.tensor(self.seen, dtype=torch.int64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take back what `state_dict` gave.

        Raises:
            ValueError: if a part is missing, left over, or does not fit.
        """
        wanted = {*self._held, "seen"}
        if set(state) != wanted:
            raise ValueError(f"The memory's state needs exactly {sorted(wanted)}, got {sorted(state)}.")
        seen = int(state["seen"])
        size = min(seen, self.capacity)
        for name, column in self._held.items():
            shape = (size, *column.shape[1:])
            if tuple(state[name].shape) != shape or state[name].dtype != column.dtype:
                raise ValueError(
                    f"The memory's state needs {name} {list(shape)} {column.dtype}, got {list(state[name].shape)} "
                    f"{state[name].dtype}."
                )
        self.seen = seen
        self._held = {name: state[name].to(self.layout.device).clone() for name in self._held}

    def _empty(self, rows: int) -> Columns:
        """Make columns of a number of rows."""
        layout = self.layout
        kinds = {
            "inputs": (layout.sample, layout.stored),
            "targets": ((), torch.int64),
            "active": ((layout.num_classes,), torch.bool),
            "task": ((), torch.int64),
        }
        if layout.with_logits:
            kinds["logits"] = ((layout.num_classes,), layout.given)
        if self.policy.keyed:
            kinds[KEY] = ((), torch.int64)
        return {
            name: torch.empty(rows, *shape, dtype=dtype, device=layout.device) for name, (shape, dtype) in kinds.items()
        }

    def _reserve(self, rows: int) -> None:
        """Make room for a number of samples, in steps that at least double it."""
        there = len(self._held["targets"])
        if rows > there:
            larger = self._empty(min(self.capacity, max(rows, 2 * there)))
            for name, column in self._held.items():
                larger[name][:there] = column
            self._held = larger

    def _encoded(self, batch: Batch, logits: Tensor | None) -> Columns:
        """Turn a batch into what is stored."""
        layout = self.layout
        inputs = quantised(batch.inputs) if layout.stored == torch.uint8 else batch.inputs.to(layout.stored)
        active = rows_of(batch, layout.num_classes)
        new = {"inputs": inputs, "targets": batch.targets, "active": active, "task": batch.task}
        if layout.with_logits:
            if logits is None:
                raise ValueError(
                    "This memory keeps logits, and a batch came without; was terms called with its outputs?"
                )
            new["logits"] = logits.to(layout.given)
        return new

    def _decoded(self, inputs: Tensor) -> Tensor:
        """Turn stored inputs into what a model is trained on."""
        given = inputs.to(self.layout.given)
        return given.div_(255) if self.layout.stored == torch.uint8 else given


def quantised(inputs: Tensor) -> Tensor:
    """Give k of inputs k/255, uint8."""
    return (inputs.to(torch.promote_types(inputs.dtype, torch.float32)) * 255).round_().to(torch.uint8)


def rows_of(batch: Batch, num_classes: int) -> Tensor:
    """Give the head rows each sample of a batch competes among, [B, classes]."""
    size = (len(batch.targets), num_classes)
    if batch.active is None:
        return torch.ones(size, dtype=torch.bool, device=batch.targets.device)
    return batch.active.expand(size)
