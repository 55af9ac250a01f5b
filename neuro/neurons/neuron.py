"""The role of a neuron layer: explicit state in, explicit state out.

A neuron is a `step`: one tick's current and a state give one tick's output and the next state. From that alone the
multi-step `simulate` follows, a plain loop under autograd; a neuron with a fused kernel overrides it and must agree
with the loop.
"""

import copy
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from neuro.temporal import Temporal
from neuro.types import Activity, State, first_tick, num_time_steps, unroll


class Neuron(Temporal):
    """A layer of neurons, elementwise over [B, ...]."""

    is_spiking: bool = True
    """Whether the output is 0/1; a readout gives a membrane instead."""

    @abstractmethod
    def step(self, current: Tensor, state: State) -> tuple[Tensor, State]:
        """Advance one tick.

        Args:
            current: input of this tick, [B, ...].
            state: as `initial_state` or an earlier step gave it.

        Returns:
            Output of this tick [B, ...] and the next state.
        """

    @abstractmethod
    def initial_state(self, current: Tensor) -> State:
        """Give the state before the first tick, for inputs like `current` [B, ...]."""

    def simulate(self, current: Activity, state: State | None = None) -> tuple[Tensor, State]:
        """Run all ticks.

        Args:
            current: [T, B, ...], or a static [B, ...].
            state: where to start; None starts fresh.

        Returns:
            Outputs [T, B, ...] and the state after the last tick.

        Raises:
            ValueError: if T is 0 or the state does not fit the input.
        """
        num_time_steps(current)
        state = self.starting_state(current, state)
        outputs = []
        for tick in unroll(current).unbind(0):
            output, state = self.step(tick, state)
            outputs.append(output)
        return torch.stack(outputs), state

    def forward(self, current: Activity, state: State | None = None) -> tuple[Tensor, State]:
        """Simulate; a module call, so that probes see it."""
        return self.simulate(current, state)

    def run(self, activity: Activity, state: State | None = None) -> tuple[Tensor, State]:
        """Simulate, as a layer of a network."""
        return self(activity, state)

    def tick(self, current: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Advance one tick, as a layer of a network; the state is checked."""
        return self.step(current, self.starting_state(current[None], state))

    def for_layer(self, shape: Sequence[int]) -> "Neuron":
        """Give a fresh copy for a layer whose input in one tick has this shape, without the batch.

        A model builder calls it on its template; a neuron with parameters of the layer's shape overrides it.
        """
        return copy.deepcopy(self)

    def starting_state(self, current: Activity, state: State | None) -> State:
        """Give a fresh state, or check that the one given fits the input.

        Raises:
            ValueError: naming the layer's class, both shapes, dtypes and devices.
        """
        tick = first_tick(current)
        fresh = self.initial_state(tick)
        if state is None:
            return fresh
        if len(state) != len(fresh):
            raise ValueError(
                f"{type(self).__name__}: a state has {len(fresh)} parts, got {len(state)}; start from None."
            )
        for held, wanted in zip(state, fresh, strict=True):
            if (held.shape, held.dtype, held.device) != (wanted.shape, wanted.dtype, wanted.device):
                raise ValueError(
                    f"{type(self).__name__}: the state is {list(held.shape)} {held.dtype} on {held.device}, the input "
                    f"needs {list(wanted.shape)} {wanted.dtype} on {wanted.device}; start from state=None or move it."
                )
        return state
