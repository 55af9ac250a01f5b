"""The adaptive leaky integrate-and-fire neuron: every spike raises its own threshold for a while (Bellec et al. 2018).

    h_t = (1 − 1/τ) v_{t−1} + I_t
    s_t = 1 where h_t >= θ + β a_{t−1}
    a_t = (1 − 1/τ_a) a_{t−1} + s_t
    v_t = reset(h_t, s_t)                 the reset subtracts the resting threshold θ, as in the paper

The gradient flows through the adaptation: that is the slow memory that the neuron is used for. Difference from the
paper: decays are 1 − 1/τ, as everywhere here, instead of exp(−1/τ), and there is no refractory period.
"""

from typing import NamedTuple

from torch import Tensor

from neuro.neurons.leaky import require_threshold, require_time_constant
from neuro.neurons.neuron import Neuron
from neuro.reset import Reset, SoftReset
from neuro.surrogate import Sigmoid, Surrogate, spike
from neuro.types import State, state_like


class AdaptiveState(NamedTuple):
    """Membrane after the last reset and adaptation, both [B, ...]."""

    membrane: Tensor
    adaptation: Tensor


class AdaptiveLIF(Neuron):
    """LIF neurons with an adapting threshold.

    Example:
        >>> import torch
        >>> spikes, _ = AdaptiveLIF(tau=1.0, strength=1.0).simulate(torch.full((4, 1, 1), 1.2))
        >>> spikes.flatten().tolist()
        [1.0, 0.0, 0.0, 0.0]

    Args:
        tau: membrane time constant in ticks, at least 1.
        threshold: resting θ above 0, in units of the membrane.
        tau_adaptation: time constant of the adaptation in ticks, at least 1.
        strength: β, how much a spike raises the threshold, at least 0, in units of the membrane.
        surrogate: pseudo-derivative of the spike.
        reset: what a spike does to the membrane.

    Raises:
        ValueError: if a constant is outside its range.
    """

    def __init__(
        self,
        tau: float = 2.0,
        threshold: float = 1.0,
        tau_adaptation: float = 20.0,
        strength: float = 0.2,
        surrogate: Surrogate | None = None,
        reset: Reset | None = None,
    ) -> None:
        super().__init__()
        require_time_constant(tau)
        require_time_constant(tau_adaptation, "tau_adaptation")
        require_threshold(threshold)
        if not strength >= 0:
            raise ValueError(f"strength must be at least 0, got {strength}.")
        self.tau, self.threshold = float(tau), float(threshold)
        self.tau_adaptation, self.strength = float(tau_adaptation), float(strength)
        self.surrogate = surrogate if surrogate is not None else Sigmoid()
        self.reset = reset if reset is not None else SoftReset()

    def initial_state(self, current: Tensor) -> AdaptiveState:
        """Give membrane and adaptation at 0."""
        return AdaptiveState(state_like(current), state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, AdaptiveState]:
        """Advance one tick; see `Neuron.step`."""
        membrane, adaptation = state
        charged = membrane * (1 - 1 / self.tau) + current
        spikes = spike(charged - self.threshold - self.strength * adaptation, self.surrogate)
        adapted = adaptation * (1 - 1 / self.tau_adaptation) + spikes
        return spikes, AdaptiveState(self.reset(charged, spikes, self.threshold), adapted)

    def extra_repr(self) -> str:
        """Show the constants."""
        return (
            f"tau={self.tau}, threshold={self.threshold}, tau_adaptation={self.tau_adaptation}, "
            f"strength={self.strength}, surrogate={self.surrogate}, reset={self.reset}"
        )
