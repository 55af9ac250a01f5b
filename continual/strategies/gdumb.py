"""GDumb: a balanced memory and nothing else (Prabhu, Torr, Dokania 2020); a control that questions the others.

The memory holds as many samples of every class, within one. For each task the network starts again from its initial
weights and is trained on the memory alone, the new task's samples that are in it among them. A strategy with as many
stored bytes that does not beat this has gained nothing from training along the stream.

Which samples are held is drawn by keys (see `continual.memory_policies`), and is what inserting task after task would
leave; since keys can be drawn again from their streams, the samples need not be copied out of the tasks, and
`stored_bytes` counts what they take. It counts the copy of the initial weights, too. Needs no task's number.
Deliberate differences: a task is trained on for the run's epochs, by its rule and optimiser (the paper: 256 epochs of
a cosine schedule with CutMix), and the run reports all tasks' accuracy after each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from continual.initial_weights import InitialWeights
from continual.memory import COUNTER_BYTES, Memory, check_capacity, layout_of
from continual.memory_policies import ClassBalanced, balanced_selection, random_keys
from continual.scenarios import Task, TaskSequence
from continual.seeding import stream
from continual.strategies.strategy import Setting, Strategy


class GDumb(Strategy):
    """Train anew on a class-balanced memory for each task.

    Args:
        capacity: M, samples in the memory, at least 1.
        capacity_bytes: bytes of the memory, instead of M.

    Raises:
        ValueError: if not exactly one capacity is given, or it is 0.
    """

    name = "gdumb"
    needs_boundaries = True

    def __init__(self, capacity: int | None = 500, capacity_bytes: int | None = None) -> None:
        check_capacity(capacity, capacity_bytes)
        if 0 in (capacity, capacity_bytes):
            raise ValueError("GDumb learns from its memory alone, so its capacity must be above 0, got 0.")
        self.capacity, self.capacity_bytes = capacity, capacity_bytes

    def attach(self, setting: Setting) -> None:
        """Keep the initial weights, and see how many samples fit.

        Raises:
            ValueError: if the bytes do not hold one sample.
        """
        self._setting, self._initial = setting, InitialWeights(setting.model)
        layout = layout_of(setting.model, setting.sequence)
        self._memory = Memory(layout, ClassBalanced(), self.capacity, self.capacity_bytes)  # for its size alone
        self._held = 0

    def training_data(self, task: Task, history: Sequence[Task], sequence: TaskSequence) -> Sequence[Task]:
        """Give what the memory holds of the tasks so far."""
        tasks = [*history, task]
        keys = [random_keys(len(one.train), stream(self._setting.seed, "memory", "insert", one.index)) for one in tasks]
        targets = torch.from_numpy(np.concatenate([one.train.targets for one in tasks]))
        held = balanced_selection(targets, torch.cat(keys), self._memory.capacity)
        self._held = int(held.sum())
        parts = zip(tasks, held.split([len(one.train) for one in tasks]), strict=True)
        chosen = [(one, part.nonzero().flatten().numpy()) for one, part in parts]
        return [replace(one, train=one.train.select(places)) for one, places in chosen if len(places)]

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Start again from the initial weights."""
        self._initial.restore()

    def state_dict(self) -> dict[str, Tensor]:
        """Give the initial weights and how many samples are held."""
        return {"held": torch.tensor(self._held, dtype=torch.int64)} | self._initial.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take them back.

        Raises:
            ValueError: if a part is missing or left over.
        """
        if "held" not in state:
            raise ValueError(f"The state of {self.name} needs a part 'held', got {sorted(state)}.")
        self._initial.load_state_dict({name: part for name, part in state.items() if name != "held"})
        self._held = int(state["held"])

    @property
    def stored_bytes(self) -> int:
        """Bytes of the samples held, as a memory would hold them, and of the initial weights."""
        samples = self._held * self._memory.bytes_per_sample + COUNTER_BYTES
        return samples + self._initial.nbytes
