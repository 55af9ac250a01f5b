"""Online EWC: one Fisher that fades, one anchor (Schwarz et al. 2018, Progress & Compress; Huszár 2018).

    CE + (λ/2) Σ_p F_p (θ_p − θ*_p)²,      after task t:  F ← γ F + F_t,  θ* ← θ

With γ = 1 the curvature is that of EWC's terms together, but all of them are centred on the latest weights: the
Laplace approximation of the posterior, where EWC's sum counts old tasks' pull twice. γ < 1 forgets old tasks
gracefully. Fisher, notes on λ, needs and differences are those of `ewc.py`. FACIL's α F + (1 − α) F_t is another rule,
not offered here.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.importance import Exact, Importance
from continual.quadratic_penalty import QuadraticPenalty, overshoot, protection_notices, require_strength
from continual.scenarios import Task
from continual.strategies.strategy import Setting, Strategy


class OnlineEWC(Strategy):
    """Pull parameters back to the latest task's weights, by a running Fisher.

    Args:
        fisher: how the importances are estimated; `Exact` by default.
        strength: λ, at least 0.
        gamma: γ in [0, 1], what is kept of the Fisher so far at every task's end.

    Raises:
        ValueError: if a number is out of range.
    """

    needs_boundaries = True

    def __init__(self, fisher: Importance | None = None, strength: float = 30.0, gamma: float = 1.0) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], got {gamma}.")
        self.fisher = fisher if fisher is not None else Exact()
        self.strength, self.gamma = require_strength(strength), float(gamma)
        self.name = f"online_ewc_{self.fisher.name}"

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
        """Add λ F (θ − θ*) to the gradients."""
        self._penalty.add_to_gradients(self._pull)

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Estimate the task's Fisher, let the old one fade, and anchor at the weights of now."""
        setting = self._setting
        found = self.fisher.estimate(setting.model, self._penalty.names, data, setting.seed, task.index)
        self._penalty.move_anchor(found.importance, self.gamma)
        self._penalty.count(found, setting.sequence)

    def state_dict(self) -> dict[str, Tensor]:
        """Give Fisher, anchor and counters."""
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
