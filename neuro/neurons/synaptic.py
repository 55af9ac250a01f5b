"""The current-based neuron (CUBA): a LIF behind a synaptic current of its own time constant.

    i_t = (1 − 1/τ_s) i_{t−1} + I_t
    h_t = (1 − 1/τ) v_{t−1} + i_t
    s_t = 1 where h_t >= θ,  v_t = reset(h_t, s_t)

The current of this tick charges the membrane in the same tick. snnTorch's Synaptic is the same second-order neuron with
decays alpha and beta, and resets one tick later unless told otherwise.
"""

from typing import NamedTuple

from torch import Tensor

from neuro.neurons.leaky import require_threshold, require_time_constant
from neuro.neurons.neuron import Neuron
from neuro.reset import Reset, SoftReset
from neuro.surrogate import Sigmoid, Surrogate, spike
from neuro.types import State, state_like


class SynapticState(NamedTuple):
    """Membrane after the last reset and synaptic current, both [B, ...]."""

    membrane: Tensor
    current: Tensor


class Synaptic(Neuron):
    """LIF neurons with a synaptic current.

    Example:
        >>> import torch
        >>> spikes, _ = Synaptic(tau=1.0, tau_synapse=2.0).simulate(torch.full((3, 1, 1), 0.6))
        >>> spikes.flatten().tolist()
        [0.0, 0.0, 1.0]

    Args:
        tau: membrane time constant in ticks, at least 1.
        tau_synapse: time constant of the synaptic current in ticks, at least 1.
        threshold: θ above 0, in units of the membrane.
        surrogate: pseudo-derivative of the spike.
        reset: what a spike does to the membrane.

    Raises:
        ValueError: if a constant is outside its range.
    """

    def __init__(
        self,
        tau: float = 2.0,
        tau_synapse: float = 2.0,
        threshold: float = 1.0,
        surrogate: Surrogate | None = None,
        reset: Reset | None = None,
    ) -> None:
        super().__init__()
        require_time_constant(tau)
        require_time_constant(tau_synapse, "tau_synapse")
        require_threshold(threshold)
        self.tau, self.tau_synapse, self.threshold = float(tau), float(tau_synapse), float(threshold)
        self.surrogate = surrogate if surrogate is not None else Sigmoid()
        self.reset = reset if reset is not None else SoftReset()

    def initial_state(self, current: Tensor) -> SynapticState:
        """Give membrane and current at 0."""
        return SynapticState(state_like(current), state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, SynapticState]:
        """Advance one tick; see `Neuron.step`."""
        membrane, flowing = state
        flowing = flowing * (1 - 1 / self.tau_synapse) + current
        charged = membrane * (1 - 1 / self.tau) + flowing
        spikes = spike(charged - self.threshold, self.surrogate)
        return spikes, SynapticState(self.reset(charged, spikes, self.threshold), flowing)

    def extra_repr(self) -> str:
        """Show the constants."""
        return (
            f"tau={self.tau}, tau_synapse={self.tau_synapse}, threshold={self.threshold}, "
            f"surrogate={self.surrogate}, reset={self.reset}"
        )
