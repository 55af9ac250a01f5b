"""A residual block over time: what comes in, plus what a body makes of it.

    x̂ = before(x),    y = body(x̂) + shortcut(x̂)       where the shape changes
                       y = body(x̂) + x                  where it does not

Pre-activation (He et al. 2016): `before` is norm and neuron, so a shortcut convolution reads spikes. Each part is a
module or a network with a state of its own; the block's state is theirs together.
"""

from typing import Any

from torch import Tensor, nn

from neuro.temporal import Temporal, add_activities, naming, run_layer, tick_layer
from neuro.types import Activity

ResidualState = tuple[Any, Any, Any]
"""States of before, body and shortcut."""


class Residual(Temporal):
    """A residual block.

    Example:
        >>> import torch
        >>> from neuro import LIF, Linear, SpikingSequential
        >>> block = Residual(LIF(), Linear(4, 4))
        >>> SpikingSequential(block=block)(torch.rand(5, 2, 4)).shape
        torch.Size([5, 2, 4])

    Args:
        before: what both branches see.
        body: the residual branch.
        shortcut: the other branch, where the shape changes; None adds the block's input itself.
    """

    def __init__(self, before: nn.Module, body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.before, self.body, self.shortcut = before, body, shortcut

    def run(self, activity: Activity, state: ResidualState | None = None) -> tuple[Activity, ResidualState]:
        """Take all ticks through both branches."""
        before, body, shortcut = state if state is not None else (None, None, None)
        with naming("before"):
            seen, before = run_layer(self.before, activity, before)
        with naming("body"):
            inside, body = run_layer(self.body, seen, body)
        if self.shortcut is None:
            return add_activities(inside, activity), (before, body, None)
        with naming("shortcut"):
            around, shortcut = run_layer(self.shortcut, seen, shortcut)
        return add_activities(inside, around), (before, body, shortcut)

    def tick(self, current: Tensor, state: ResidualState | None = None) -> tuple[Tensor, ResidualState]:
        """Advance both branches by a tick."""
        before, body, shortcut = state if state is not None else (None, None, None)
        with naming("before"):
            seen, before = tick_layer(self.before, current, before)
        with naming("body"):
            inside, body = tick_layer(self.body, seen, body)
        if self.shortcut is None:
            return inside + current, (before, body, None)
        with naming("shortcut"):
            around, shortcut = tick_layer(self.shortcut, seen, shortcut)
        return inside + around, (before, body, shortcut)
