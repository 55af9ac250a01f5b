"""What LIF and IF share: one membrane, a constant leak, the fused kernel."""

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor

from neuro.kernels import LeakyDynamics, fused, reference
from neuro.neurons.neuron import Neuron
from neuro.reference_mode import reference_wanted
from neuro.types import Activity, State, num_time_steps, state_like


class LeakyState(NamedTuple):
    """Membrane after the last reset, [B, ...]."""

    membrane: Tensor


class LeakyNeuron(Neuron):
    """A spiking neuron that is fully described by `LeakyDynamics`."""

    @property
    @abstractmethod
    def dynamics(self) -> LeakyDynamics:
        """The constants as a kernel takes them."""

    def initial_state(self, current: Tensor) -> LeakyState:
        """Give a membrane at 0."""
        return LeakyState(state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, LeakyState]:
        """Advance one tick; see `Neuron.step`."""
        spikes, membrane = reference.leaky_step(current, state[0], self.dynamics)
        return spikes, LeakyState(membrane)

    def simulate(self, current: Activity, state: State | None = None) -> tuple[Tensor, LeakyState]:
        """Run all ticks in the fused kernel, or inside `reference_kernels()` in the loop; see `Neuron.simulate`."""
        num_time_steps(current)
        (membrane,) = self.starting_state(current, state)
        kernel = reference if reference_wanted() else fused
        spikes, membrane = kernel.simulate_leaky(current, membrane, self.dynamics)
        return spikes, LeakyState(membrane)

    def extra_repr(self) -> str:
        """Show the constants."""
        return ", ".join(f"{name}={value}" for name, value in self.dynamics._asdict().items())


def require_threshold(threshold: float) -> None:
    """Refuse a threshold at or below 0, at which a neuron at rest would fire.

    Raises:
        ValueError: saying so.
    """
    if not threshold > 0:
        raise ValueError(f"threshold must be above 0 (at 0 a neuron at rest fires for ever), got {threshold}.")


def require_time_constant(tau: float, name: str = "tau") -> None:
    """Refuse a time constant below one tick, at which the leak would overshoot.

    Raises:
        ValueError: saying so.
    """
    if not tau >= 1:
        raise ValueError(f"{name}, a time constant in ticks, must be at least 1, got {tau}.")
