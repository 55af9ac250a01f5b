"""Recurrent neurons: any neuron whose layer also hears its own spikes of one tick ago.

    J_t = I_t + R s_{t−1},    (s_t, state) = neuron(J_t, state),    s_0 = 0

The recurrent weight R is an ordinary `Linear` synapse, so it is tapped and protected on its own presynaptic side,
s_{t−1}, beside the feed-forward weight on its.
"""

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from neuro.neurons.neuron import Neuron
from neuro.synapses import Linear
from neuro.types import State, first_tick, state_like


class Recurrent(Neuron):
    """A neuron layer with all-to-all recurrent synapses.

    Example:
        >>> import torch
        >>> from neuro import LIF
        >>> layer = Recurrent(LIF(), features=3)
        >>> spikes, state = layer.simulate(torch.rand(5, 2, 3))
        >>> spikes.shape
        torch.Size([5, 2, 3])

    Args:
        neuron: what every neuron does with its current; copied.
        features: neurons in the layer; None makes a template that `for_layer` completes.

    Raises:
        ValueError: if features is below 1.
    """

    def __init__(self, neuron: Neuron, features: int | None = None) -> None:
        super().__init__()
        if features is not None and features < 1:
            raise ValueError(f"features must be at least 1, got {features}.")
        self.neuron = copy.deepcopy(neuron)
        self.is_spiking = neuron.is_spiking
        self.synapse = Linear(features, features) if features is not None else None

    def for_layer(self, shape: Sequence[int]) -> "Recurrent":
        """Give a copy with a recurrent weight for [N].

        Raises:
            ValueError: if the layer is not flat.
        """
        if len(shape) != 1:
            raise ValueError(f"Recurrent neurons need a flat layer (N,), got {tuple(shape)}; flatten before them.")
        return Recurrent(self.neuron.for_layer(shape), shape[0])

    def initial_state(self, current: Tensor) -> State:
        """Give silence, and the neuron's own fresh state."""
        return (*self.neuron.initial_state(current), state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance one tick; see `Neuron.step`."""
        *inner, spikes = state
        assert self.synapse is not None  # starting_state has refused a template
        spikes, advanced = self.neuron.step(current + self.synapse(spikes), tuple(inner))
        return spikes, (*advanced, spikes)

    def starting_state(self, current: Any, state: State | None) -> State:
        """Check also that a template has been given its layer's shape, and that it stands in such a layer.

        Raises:
            ValueError: if not.
        """
        if self.synapse is None:
            raise ValueError("A Recurrent template needs its width: give features=, or use for_layer((features,)).")
        seen, width = first_tick(current).shape, self.synapse.in_features
        if len(seen) != 2 or seen[1] != width:
            raise ValueError(f"Recurrent neurons need an input [B, {width}] in every tick, got {list(seen)}.")
        return super().starting_state(current, state)
