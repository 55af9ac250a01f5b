"""SI: synaptic intelligence (Zenke, Poole, Ganguli 2017).

While a task is learned, every parameter's share of the fall in loss is summed along the path that training takes, and
at the task's end related to how far the parameter went:

    w_p ← w_p − g_p Δθ_p                    at every step: the task loss's gradient before it, the change it really made
    Ω_p ← Ω_p + max(0, w_p) / ((θ_p − θ_p at the task's start)² + ξ),      w ← 0
    CE + c Σ_p Ω_p (θ_p − θ*_p)²,           θ* the weights after the last task

No pass over data, no per-sample gradient: it works with every network, neuron and optimiser, and g is what the
learning rule gives (surrogate gradients where neurons spike). Under a rule that steps at every tick, a tick's gradient
is 1/T of the batch's, so it counts T times in the path, and the pull is shared among the ticks. Needs boundaries, no
task's number.

Deliberate differences: g is without the pull (`include_penalty` adds it, as common code does), so Ω is about the new
task alone; negative w is cut to 0, which keeps the penalty from pushing away; a head of which each task has its own
rows is not protected, it needs none.
"""

import torch
from torch import Tensor, nn

from continual.batches import TrainingData
from continual.importance import Weights, no_weights
from continual.quadratic_penalty import QuadraticPenalty, overshoot, protection_notices, require_strength
from continual.scenarios import Task
from continual.strategies.strategy import Setting, Strategy


class SI(Strategy):
    """Pull parameters back to the last task's weights, by what their movement has won.

    Args:
        strength: c, at least 0.
        damping: ξ above 0, in units of a squared parameter; bounds the importance of one that hardly moved.
        include_penalty: take the gradient for the path with the pull in it.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "si"
    needs_boundaries = True

    def __init__(self, strength: float = 1.0, damping: float = 0.1, include_penalty: bool = False) -> None:
        if not damping > 0:
            raise ValueError(f"damping must be above 0, got {damping}.")
        self.strength, self.damping = require_strength(strength), float(damping)
        self.include_penalty = bool(include_penalty)

    def attach(self, setting: Setting) -> None:
        """Find what tasks share.

        Raises:
            ValueError: if tasks share nothing.
        """
        self._setting, self._pull, self._optimizer = setting, 0.0, None
        self._penalty = QuadraticPenalty(setting.model, setting.head, setting.sequence)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Start the path, and share the pull among the steps of a batch."""
        self._optimizer = optimizer
        self._updates = self._setting.rule.updates_per_batch(self._setting.model)
        self._pull = 2 * self.strength / self._updates
        self._start, self._before = self._penalty.weights(), self._penalty.weights()
        self._path = no_weights(self._setting.model, self._penalty.names)
        self._gradients = no_weights(self._setting.model, self._penalty.names)

    def after_backward(self, model: nn.Module) -> None:
        """Note where the step begins, and add 2 c Ω (θ − θ*) to the gradients."""
        if self.include_penalty:
            self._penalty.add_to_gradients(self._pull)
            self._note(model)
        else:
            self._note(model)
            self._penalty.add_to_gradients(self._pull)

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Add what the step has won to the path."""
        for name, before in self._before.items():
            change = model.get_parameter(name) - before
            self._path[name].addcmul_(self._gradients[name], change, value=-self._updates)
        self._penalty.operations += self._penalty.num_parameters

    def after_task(self, task: Task, data: TrainingData) -> None:
        """Turn the path into importances, and anchor at the weights of now."""
        self._penalty.move_anchor(relative_gain(self._path, self._start, self._penalty.weights(), self.damping))
        self._start = self._before = self._path = self._gradients = {}

    @torch.no_grad()
    def _note(self, model: nn.Module) -> None:
        for name, before in self._before.items():
            parameter = model.get_parameter(name)
            before.copy_(parameter)
            if parameter.grad is None:
                self._gradients[name].zero_()
            else:
                self._gradients[name].copy_(parameter.grad)

    def state_dict(self) -> dict[str, Tensor]:
        """Give importances, anchor and counters; between tasks there is no path."""
        return self._penalty.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take them back."""
        self._penalty.load_state_dict(state)

    def notices(self) -> list[str]:
        """Say what is not protected, and later whether the pull is too strong."""
        return protection_notices(self._penalty, overshoot(self._penalty, self._pull, self._optimizer))

    @property
    def stored_bytes(self) -> int:
        """Bytes of the importances and the anchor; within a task four times the weights come on top."""
        return self._penalty.stored_bytes

    @property
    def operations(self) -> int:
        """Multiply-accumulates of the path (1 a weight and step) and of the pull (2 a weight and step)."""
        return self._penalty.operations


def relative_gain(path: Weights, start: Weights, end: Weights, damping: float) -> Weights:
    """Give max(0, w) / (Δ² + ξ) for every parameter, Δ how far it went."""
    return {name: gain.clamp(min=0) / ((end[name] - start[name]).square() + damping) for name, gain in path.items()}
