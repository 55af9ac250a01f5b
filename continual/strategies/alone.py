"""Alone: before each task the network goes back to its initial weights; the reference of plasticity.

The diagonal of its accuracy matrix is s_k, the accuracy on task k of a network that has seen nothing else. What a
strategy's own diagonal has beyond it, earlier tasks gave (`plasticity`, `transfer_independent`). Everything else of the
protocol is the run's: epochs, order of the data, rows of the head that compete.
"""

from typing import Any

import torch
from torch import Tensor

from continual.initial_weights import InitialWeights
from continual.scenarios import Task
from continual.strategies.strategy import Setting, Strategy


class Alone(Strategy):
    """Train each task from the initial weights."""

    name = "alone"
    needs_boundaries = True

    def attach(self, setting: Setting) -> None:
        """Keep the initial weights."""
        self._initial = InitialWeights(setting.model)

    def before_task(self, task: Task, optimizer: torch.optim.Optimizer) -> None:
        """Start again from them."""
        self._initial.restore()

    def state_dict(self) -> dict[str, Tensor]:
        """Give the initial weights."""
        return self._initial.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take them back.

        Raises:
            ValueError: if a part is missing or left over.
        """
        self._initial.load_state_dict(state)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the copy of the initial weights."""
        return self._initial.nbytes
