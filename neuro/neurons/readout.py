"""The leaky readout: a membrane that never fires.

v_t = (1 − 1/τ) v_{t−1} + I_t; the membrane itself is the output. It turns the spikes of the last hidden layer into
a graded score with a memory of τ ticks.
"""

from torch import Tensor

from neuro.neurons.leaky import LeakyState, require_time_constant
from neuro.neurons.neuron import Neuron
from neuro.types import State, state_like


class LeakyReadout(Neuron):
    """Non-spiking leaky integrators.

    Example:
        >>> import torch
        >>> membranes, _ = LeakyReadout(tau=2.0).simulate(torch.ones(3, 1, 1))
        >>> membranes.flatten().tolist()
        [1.0, 1.5, 1.75]

    Args:
        tau: time constant in ticks, at least 1.

    Raises:
        ValueError: if tau is below 1.
    """

    is_spiking = False

    def __init__(self, tau: float = 2.0) -> None:
        super().__init__()
        require_time_constant(tau)
        self.tau = float(tau)

    def initial_state(self, current: Tensor) -> LeakyState:
        """Give a membrane at 0."""
        return LeakyState(state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, LeakyState]:
        """Advance one tick; the output is the membrane."""
        membrane = state[0] * (1 - 1 / self.tau) + current
        return membrane, LeakyState(membrane)

    def extra_repr(self) -> str:
        """Show the constant."""
        return f"tau={self.tau}"
