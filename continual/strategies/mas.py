"""MAS: memory aware synapses (Aljundi et al. 2018).

A parameter matters if the outputs would change with it. At a task's end, per sample and without labels,

    Ω_p += mean over x of |∂‖z(x)‖² / ∂θ_p|,      CE + λ Σ_p Ω_p (θ_p − θ*_p)²,      θ* the weights after the last task

with z the logits among the rows the task trains. The mean of absolute values is taken over samples
(`importance.OutputSensitivity`); widely used code takes the absolute value of a batch's mean gradient, in training
mode. Needs boundaries, no task's number. Under a rule that steps at every tick, each step gets an equal share of the
pull.

Deliberate differences: importances are summed over tasks as in the paper, not averaged; the pull is a gradient in
closed form; a head of which each task has its own rows is not protected, it needs none.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.importance import OutputSensitivity
from continual.quadratic_penalty import QuadraticPenalty, overshoot, protection_notices, require_strength
from continual.scenarios import Task
from continual.strategies.strategy import Setting, Strategy


class MAS(Strategy):
    """Pull parameters back to the last task's weights, by how much the outputs depend on them.

    Args:
        strength: λ, at least 0.
        max_samples: how many samples of a task are looked at, drawn by seed; None looks at all.
        chunk_size: samples whose gradients are held at a time; None keeps them below 64 MiB.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "mas"
    needs_boundaries = True

    def __init__(self, strength: float = 0.1, max_samples: int | None = 500, chunk_size: int | None = None) -> None:
        self.strength = require_strength(strength)
        self.max_samples, self.chunk_size = max_samples, chunk_size
        self._sensitivity = OutputSensitivity(max_samples, chunk_size)

    def attach(self, setting: Setting) -> None:
        """Find what tasks share, and try the estimator.

        Raises:
            ValueError: if tasks share nothing, or the network has no per-sample gradients.
        """
        self._setting, self._pull, self._optimizer = setting, 0.0, None
        self._penalty = QuadraticPenalty(setting.model, setting.head, setting.sequence)
        self._sensitivity.check(setting.model, self._penalty.names, setting.sequence)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Share the pull among the steps of a batch."""
        self._optimizer = optimizer
        self._pull = 2 * self.strength / self._setting.rule.updates_per_batch(self._setting.model)

    def after_backward(self, model: nn.Module) -> None:
        """Add 2 λ Ω (θ − θ*) to the gradients."""
        self._penalty.add_to_gradients(self._pull)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Add the task's sensitivities, and anchor at the weights of now."""
        setting = self._setting
        found = self._sensitivity.estimate(setting.model, self._penalty.names, data, setting.seed, task.index)
        self._penalty.move_anchor(found.importance)
        self._penalty.count(found, setting.sequence)

    def state_dict(self) -> dict[str, Tensor]:
        """Give importances, anchor and counters."""
        return self._penalty.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._penalty.load_state_dict(state)

    def notices(self) -> list[str]:
        """Say what weighs and what is not protected, and later whether the pull is too strong."""
        reach = overshoot(self._penalty, self._pull, self._optimizer)
        return protection_notices(self._penalty, reach, self._sensitivity.reported_name(self._setting.model))

    @property
    def stored_bytes(self) -> int:
        """Bytes of the importances and the anchor."""
        return self._penalty.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the estimator, counted densely, and of the pull (2 a weight and step)."""
        return self._penalty.operations
