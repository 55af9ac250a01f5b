"""EWC: elastic weight consolidation (Kirkpatrick et al. 2017).

At a task's end the diagonal Fisher F_k says how much each parameter matters to it; later learning is pulled back to
that task's weights θ*_k:

    CE + (λ/2) Σ_{k<t} Σ_p F_{k,p} (θ_p − θ*_{k,p})²

One term a task, each with its own Fisher and anchor. Which Fisher is a part (`continual.importance`): the exact one by
default; the estimators differ by orders of magnitude, so λ belongs to one of them. The task's number is needed neither
in training, beyond the boundaries, nor in the test. Under a rule that steps at every tick, each step gets an equal
share of the pull. As long as λ F times the learning rate stays below 2 the pull is stable; above it overshoots.

Deliberate differences: the pull is a gradient in closed form; the terms are held as the one quadratic that they sum to
(same gradient, memory of one term); a head of which each task has its own rows is not protected, it needs none.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.importance import Exact, Importance
from continual.quadratic_penalty import QuadraticPenalty, overshoot, protection_notices, require_strength
from continual.scenarios import Task
from continual.strategies.strategy import Setting, Strategy


class EWC(Strategy):
    """Pull parameters back to each old task's weights, by that task's Fisher.

    Args:
        fisher: how the importances are estimated; `Exact` by default.
        strength: λ, at least 0.

    Raises:
        ValueError: if the strength is below 0.
    """

    needs_boundaries = True

    def __init__(self, fisher: Importance | None = None, strength: float = 30.0) -> None:
        self.fisher = fisher if fisher is not None else Exact()
        self.strength = require_strength(strength)
        self.name = f"ewc_{self.fisher.name}"

    def attach(self, setting: Setting) -> None:
        """Find what tasks share, and try the estimator.

        Raises:
            ValueError: if tasks share nothing, or the estimator cannot work with the network.
        """
        self._setting, self._pull, self._optimizer = setting, 0.0, None
        self._penalty = QuadraticPenalty(setting.model, setting.head, setting.sequence)
        self.fisher.check(setting.model, self._penalty.names, setting.sequence)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Share the pull among the steps of a batch."""
        self._optimizer = optimizer
        self._pull = self.strength / self._setting.rule.updates_per_batch(self._setting.model)

    def after_backward(self, model: nn.Module) -> None:
        """Add λ Σ_k F_k (θ − θ*_k) to the gradients."""
        self._penalty.add_to_gradients(self._pull)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Estimate the task's Fisher and add its term."""
        setting = self._setting
        found = self.fisher.estimate(setting.model, self._penalty.names, data, setting.seed, task.index)
        self._penalty.add_term(found.importance)
        self._penalty.count(found, setting.sequence)

    def state_dict(self) -> dict[str, Tensor]:
        """Give Fishers, anchors and counters."""
        return self._penalty.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._penalty.load_state_dict(state)

    def notices(self) -> list[str]:
        """Say what weighs and what is not protected, and later whether the pull is too strong."""
        reach = overshoot(self._penalty, self._pull, self._optimizer)
        return protection_notices(self._penalty, reach, self.fisher.reported_name(self._setting.model))

    @property
    def stored_bytes(self) -> int:
        """Bytes of the Fisher and the anchor."""
        return self._penalty.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the estimator, counted densely, and of the pull (2 a weight and step)."""
        return self._penalty.operations
