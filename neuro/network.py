"""A sequence of layers over time, with both traversals and no hidden state.

`simulate` goes layer by layer: a layer without state sees all T ticks folded into the batch, [(T·B), ...], in one
call; a neuron layer scans T in one kernel call; a static input stays static, and is computed once, until the first
neuron. `step` goes tick by tick through all layers, with memory independent of T. Both give the same spikes.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from neuro.neurons.neuron import Neuron
from neuro.types import Activity, State, Static, num_time_steps, unroll

NetworkState = tuple[State | None, ...]
"""One entry a layer: a neuron's state, None for layers without."""


class SpikingSequential(nn.Sequential):
    """Layers in a row, each a `Neuron` or any module without state over time.

    Example:
        >>> import torch
        >>> from neuro import LIF, Linear, SpikingSequential
        >>> network = SpikingSequential(fc1=Linear(4, 8), lif1=LIF(), head=Linear(8, 2))
        >>> outputs, state = network.simulate(torch.rand(5, 3, 4))
        >>> outputs.shape
        torch.Size([5, 3, 2])

    Args:
        layers: by name, in order; the names are what probes, reports and messages use.

    Raises:
        ValueError: if there is no layer.
    """

    def __init__(self, **layers: nn.Module) -> None:
        if not layers:
            raise ValueError("A network needs at least one layer, got none.")
        super().__init__(OrderedDict(layers))

    def __getitem__(self, index: Any) -> Any:
        """Give a layer by position, or a shorter network by slice."""
        if isinstance(index, slice):
            return type(self)(**dict(list(self._modules.items())[index]))  # pyright: ignore[reportArgumentType]
        return super().__getitem__(index)

    def simulate(self, inputs: Activity, state: NetworkState | None = None) -> tuple[Tensor, NetworkState]:
        """Run all ticks, layer by layer.

        Args:
            inputs: [T, B, ...], or static.
            state: one entry a layer; None starts fresh.

        Returns:
            Outputs of the last layer [T, B, ...] and the state of every layer after the last tick.

        Raises:
            ValueError: if T is 0, or a state does not fit (the layer is named).
        """
        num_time_steps(inputs)
        given = self._entries(state)
        activity, states = inputs, []
        for name, layer, entry in zip(self._modules, self, given, strict=True):
            if isinstance(layer, Neuron):
                with _naming(name):
                    activity, entry = layer(activity, entry)
            else:
                activity = map_over_time(layer, activity)
            states.append(entry)
        return unroll(activity), tuple(states)

    def step(self, inputs: Tensor, state: NetworkState | None = None) -> tuple[Tensor, NetworkState]:
        """Advance one tick through all layers.

        Args:
            inputs: [B, ...].
            state: one entry a layer; None starts fresh.

        Returns:
            Outputs of the last layer [B, ...] and every layer's next state.
        """
        states = []
        for name, layer, entry in zip(self._modules, self, self._entries(state), strict=True):
            if isinstance(layer, Neuron):
                with _naming(name):
                    inputs, entry = layer.step(inputs, layer.starting_state(inputs[None], entry))
            else:
                inputs = layer(inputs)
            states.append(entry)
        return inputs, tuple(states)

    def forward(self, input: Activity) -> Tensor:
        """Give the outputs [T, B, ...] from a fresh state."""
        return self.simulate(input)[0]

    def _entries(self, state: NetworkState | None) -> NetworkState:
        if state is None:
            return (None,) * len(self)
        if len(state) != len(self):
            raise ValueError(f"The network has {len(self)} layers, the state {len(state)}; pass it back whole.")
        return state


@contextmanager
def _naming(layer: str) -> Iterator[None]:
    """Put the layer's name before a mistake's message."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"Layer {layer!r}: {problem}") from problem


def map_over_time(layer: nn.Module, activity: Activity) -> Activity:
    """Apply a layer without state to every tick in one call; a static input stays static."""
    if isinstance(activity, Static):
        return Static(layer(activity.value), activity.time_steps)
    return layer(activity.flatten(0, 1)).unflatten(0, activity.shape[:2])
