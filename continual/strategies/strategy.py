"""The role of a strategy: what protects old tasks, as hooks with a do-nothing default.

The runner calls, in this order: `attach` and `check_optimizer` once; then per task `before_task`, `training_data`, per
batch `mix`, `terms`, `after_backward`, `after_step`, and `after_task`. `predict` is what evaluation sees. A strategy
declares what it needs, and is refused at the start by a scenario that hides it (`needs_labels`: of every train sample).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from continual.batches import Batch, TrainingData
from continual.scenarios import Task, TaskSequence
from neuro.learning import Objective, Rule


class Setting(NamedTuple):
    """What a strategy is attached to.

    Attributes:
        model: the network.
        head: name of its head, the last linear layer.
        sequence: all tasks; a strategy must not look at test parts.
        seed: root of the named random streams.
        rule: how gradients arise; it knows what is presynaptic.
        objective: what is minimised.
        epochs: per task.
        batch_size: samples per training batch.
    """

    model: nn.Module
    head: str
    sequence: TaskSequence
    seed: int
    rule: Rule
    objective: Objective
    epochs: int
    batch_size: int


class LayerRank(NamedTuple):
    """What one protected layer holds after a task."""

    name: str
    rank: int
    width: int
    learned: int
    captured_energy: float


class Strategy:
    """Do nothing; the base of every strategy."""

    name: str = "strategy"
    needs_boundaries: bool = False
    needs_task_id_in_training: bool = False
    needs_task_id_in_test: bool = False
    needs_labels: bool = True

    def attach(self, setting: Setting) -> None:
        """Meet the model and the sequence, before any training.

        Raises:
            ValueError: if this strategy cannot work with them.
        """

    def check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Look, before any training, at an optimiser as later tasks will have it.

        Raises:
            ValueError: if this strategy cannot work with it.
        """

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Get ready for a task."""

    def training_data(self, task: Task, history: Sequence[Task], sequence: TaskSequence) -> Sequence[Task]:
        """Give the tasks whose train parts are learned from now; none skips training and evaluation."""
        return [task]

    def mix(self, batch: Batch) -> Batch:
        """Change a batch before it is learned from."""
        return batch

    def terms(self, outputs: Tensor, batch: Batch) -> Tensor | None:
        """Give extra loss that needs the forward pass."""
        return None

    def after_backward(self, model: nn.Module) -> None:
        """Change the gradients."""

    def after_step(self, model: nn.Module) -> None:
        """Change the update that was applied."""

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Consolidate what was learned from `data`."""

    def predict(self, model: nn.Module, inputs: Tensor, task: int | None = None) -> Tensor:
        """Give logits [B, classes]; `task` is None wherever the scenario withholds it."""
        return model(inputs)

    def state_dict(self) -> dict[str, Tensor]:
        """Give everything a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave; the model holds the weights of that moment.

        Raises:
            ValueError: if a part is missing or left over.
        """
        if state:
            raise ValueError(f"{self.name} keeps no state, got {sorted(state)}.")

    def ranks(self) -> list[LayerRank]:
        """Give what each protected layer holds; empty for strategies without subspaces."""
        return []

    def notices(self) -> list[str]:
        """Give what the user should know now, a sentence each; asked at the start and after every task."""
        return []

    @property
    def stored_bytes(self) -> int:
        """Bytes held between tasks, beside the model."""
        return 0

    @property
    def operations(self) -> int:
        """Multiply-accumulates spent on protection so far, beside the training itself."""
        return 0
