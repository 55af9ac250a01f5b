"""LwF: learning without forgetting (Li, Hoiem 2016).

Before a task the network is copied and frozen; on the *new* inputs it says what the old network would have answered,
and the new one may not answer otherwise:

    objective + λ T² Σ_h KL(softmax(z_old,h / T) ‖ softmax(z_new,h / T)),      mean over the batch

h runs over the old heads: with the task known the rows of each old task by themselves, in domain mode the shared rows,
in class mode the rows seen before. T² keeps the pull's size when T changes; `t_squared=False` drops it, as much
published code does. The loss reported holds the term. Needs boundaries, no task's number. The teacher runs in
evaluation mode, once a batch; a teacher that draws noise has streams of its own. Under a rule that scores every tick,
each tick's outputs are held against the teacher's answer over all ticks.

Deliberate differences: KL divergence in place of cross-entropy (the same gradient); no warm-up of a new head; no
weight decay of its own.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.pass_cost import FORWARD
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart, reseed_modules
from continual.strategies.replay_stream import PassCost
from continual.strategies.strategy import Setting, Strategy


class LwF(Strategy):
    """Distil the network of the last task while the next one is learned.

    Args:
        strength: λ, at least 0.
        temperature: T above 0; higher values compare the small probabilities too.
        t_squared: multiply by T².

    Raises:
        ValueError: if a number is out of range.
    """

    name = "lwf"
    needs_labels = False
    needs_boundaries = True

    def __init__(self, strength: float = 1.0, temperature: float = 2.0, t_squared: bool = True) -> None:
        if not strength >= 0:
            raise ValueError(f"strength must be at least 0, got {strength}.")
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature}.")
        self.strength, self.temperature, self.t_squared = float(strength), float(temperature), bool(t_squared)

    def attach(self, setting: Setting) -> None:
        """Meet the model; there is no teacher yet."""
        self._setting, self._cost = setting, PassCost(setting, FORWARD)
        self._teacher: nn.Module | None = None
        self._answered: tuple[Tensor, Tensor] | None = None

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Find the old heads, and start the teacher's random streams."""
        device = next(self._setting.model.parameters()).device
        self._heads = [rows.to(device) for rows in old_heads(self._setting.sequence, task)]
        if self._teacher is not None:
            reseed_modules(self._teacher, self._setting.seed, "teacher", task.index)

    def terms(self, outputs: Tensor, batch: Batch) -> Tensor | None:
        """Give λ T² Σ_h KL, or nothing where there is no teacher or λ = 0."""
        if self._teacher is None or self.strength == 0:
            return None
        wanted = self._answer(self._teacher, batch.inputs)
        found = torch.stack([divergence(wanted[:, h], outputs[:, h], self.temperature) for h in self._heads]).sum()
        return self.strength * (self.temperature**2 if self.t_squared else 1.0) * found

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Copy the network."""
        self._copy_teacher()

    def _answer(self, teacher: nn.Module, inputs: Tensor) -> Tensor:
        """Give the teacher's logits; a rule that asks at every tick gets the same ones."""
        if self._answered is None or self._answered[0] is not inputs:
            with torch.no_grad():
                self._answered = inputs, teacher(inputs)
            self._cost.count(len(inputs))
        return self._answered[1]

    def _copy_teacher(self) -> None:
        with apart(self._setting.model, self._setting.seed, "teacher"):  # which leaves no generator to be copied
            self._teacher = copy.deepcopy(self._setting.model).eval().requires_grad_(False)
        self._answered = None

    def state_dict(self) -> dict[str, Tensor]:
        """Give the counters; at a task's boundary the teacher has the model's own weights."""
        has_teacher = torch.tensor(self._teacher is not None)
        return {"has_teacher": has_teacher, "passed": self._cost.state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back; the model holds the weights of that moment, and the teacher copies them.

        Raises:
            ValueError: if a part is missing or left over.
        """
        if set(state) != {"has_teacher", "passed"}:
            raise ValueError(f"lwf's state needs exactly has_teacher and passed, got {sorted(state)}.")
        self._cost.load(state)
        self._teacher = None
        if state["has_teacher"]:
            self._copy_teacher()

    @property
    def stored_bytes(self) -> int:
        """Bytes of the teacher's parameters and buffers."""
        if self._teacher is None:
            return 0
        return sum(tensor.nbytes for tensor in (*self._teacher.parameters(), *self._teacher.buffers()))

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the teacher's forward passes, counted densely."""
        return self._cost.operations


def divergence(old: Tensor, new: Tensor, temperature: float) -> Tensor:
    """Give KL(softmax(old/T) ‖ softmax(new/T)), the mean over the batch, from logits [B, rows]."""
    expected, found = ((logits / temperature).log_softmax(1) for logits in (old, new))
    return F.kl_div(found, expected, reduction="batchmean", log_target=True)


def old_heads(sequence: TaskSequence, task: Task) -> list[Tensor]:
    """Give the rows that are distilled together while a task is learned, head by head; none before the first."""
    if task.index == 0:
        return []
    if sequence.mode == "task":
        return [torch.tensor(sorted(old.classes)) for old in sequence.tasks[: task.index]]
    return [torch.tensor(sorted(sequence.classes_seen(task.index - 1)))]
