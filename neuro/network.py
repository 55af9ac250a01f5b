"""A sequence of layers over time, with both traversals and no hidden state.

`simulate` goes layer by layer: a layer without state sees all T ticks folded into the batch, [(T·B), ...], in one
call; a neuron layer scans T in one kernel call; a static input stays static, and is computed once, until the first
neuron. `step` goes tick by tick through all layers, with memory independent of T. Both give the same spikes.
"""

from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

from neuro.temporal import Temporal, naming, run_layer, tick_layer
from neuro.types import Activity, Static, num_time_steps, unroll

NetworkState = tuple[Any, ...]
"""One entry a layer: its state, None for layers without."""


class SpikingSequential(nn.Sequential, Temporal):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Layers in a row, each a neuron, a block, another network, or any module without state over time.

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
        outputs, state = self.run(inputs, state)
        return unroll(outputs), state

    def run(self, activity: Activity, state: NetworkState | None = None) -> tuple[Activity, NetworkState]:
        """Take all ticks, layer by layer; outputs stay static while no layer has a state."""
        num_time_steps(activity)
        require_time_axis(activity)
        states = []
        for name, layer, entry in zip(self._modules, self, self._entries(state), strict=True):
            with naming(name):
                activity, entry = run_layer(layer, activity, entry)
            states.append(entry)
        return activity, tuple(states)

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
            with naming(name):
                inputs, entry = tick_layer(layer, inputs, entry)
            states.append(entry)
        return inputs, tuple(states)

    def tick(self, current: Tensor, state: NetworkState | None = None) -> tuple[Tensor, NetworkState]:
        """Advance one tick, as a layer of a larger network."""
        return self.step(current, state)

    def forward(self, input: Activity) -> Tensor:
        """Give the outputs [T, B, ...] from a fresh state."""
        return self.simulate(input)[0]

    def _entries(self, state: NetworkState | None) -> NetworkState:
        if state is None:
            return (None,) * len(self)
        if len(state) != len(self):
            raise ValueError(f"The network has {len(self)} layers, the state {len(state)}; pass it back whole.")
        return state


def require_time_axis(activity: Activity) -> None:
    """Refuse an activity that cannot be time first.

    Raises:
        ValueError: saying which axes are wanted.
    """
    axes = activity.value.ndim + 1 if isinstance(activity, Static) else activity.ndim
    if axes < 3:
        raise ValueError(
            f"Activity over time must be [T, B, ...] with at least one axis of features, got {axes} axes; "
            f"add the time axis in front, or present one input T times with Static(input, time_steps=T)."
        )
