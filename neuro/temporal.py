"""The role of whatever has a state over time: neurons, blocks, whole networks.

Two traversals, one meaning. `run` takes all T ticks through a layer before the next layer begins; `tick` advances it
by one tick. A state goes in and comes out; None starts fresh.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from neuro.types import Activity, Static, unroll


class Temporal(nn.Module, ABC):
    """A module with explicit state over time."""

    @abstractmethod
    def run(self, activity: Activity, state: Any = None) -> tuple[Activity, Any]:
        """Take all ticks.

        Args:
            activity: [T, B, ...], or a static [B, ...].
            state: where to start; None starts fresh.

        Returns:
            Activity after the layer, and the state after the last tick.

        Raises:
            ValueError: if the state does not fit.
        """

    @abstractmethod
    def tick(self, current: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Advance one tick.

        Args:
            current: input of this tick, [B, ...].
            state: as an earlier tick gave it; None starts fresh.

        Returns:
            Output of this tick [B, ...] and the next state.

        Raises:
            ValueError: if the state does not fit.
        """


def run_layer(layer: nn.Module, activity: Activity, state: Any = None) -> tuple[Activity, Any]:
    """Take all ticks through one layer.

    A layer without state sees time folded into the batch, [(T·B), ...], in one call; a static input stays static there,
    and is computed once.
    """
    if isinstance(layer, Temporal):
        return layer.run(activity, state)
    if isinstance(activity, Static):
        return Static(layer(activity.value), activity.time_steps), None
    return layer(activity.flatten(0, 1)).unflatten(0, activity.shape[:2]), None


def tick_layer(layer: nn.Module, current: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Advance one layer by a tick."""
    return layer.tick(current, state) if isinstance(layer, Temporal) else (layer(current), None)


def add_activities(first: Activity, second: Activity) -> Activity:
    """Add two activities; the sum of static ones is static."""
    if isinstance(first, Static) and isinstance(second, Static):
        return Static(first.value + second.value, first.time_steps)
    return unroll(first) + unroll(second)


@contextmanager
def naming(layer: str) -> Iterator[None]:
    """Put the layer's name before a mistake's message, and beside a failure of torch; nested names join to a path."""
    try:
        yield
    except RuntimeError as failure:
        failure.add_note(f"Raised in layer {layer!r}.")
        raise
    except ValueError as problem:
        inner = str(problem)
        message = f"Layer '{layer}.{inner[7:]}" if inner.startswith("Layer '") else f"Layer {layer!r}: {inner}"
        raise ValueError(message) from problem
