"""The leaky integrate-and-fire neuron: the file to copy for a new neuron.

    h_t = (1 − 1/τ) v_{t−1} + I_t        the input is not scaled by the leak
    s_t = 1 where h_t >= θ               equality is a spike
    v_t = reset(h_t, s_t)                in the same tick

v_0 = 0. This is the discretisation of HLOP's BPTT and OTTT experiments (ICLR 2024); snnTorch's Leaky has the same leak,
beta = 1 − 1/τ, but resets one tick later unless told otherwise. τ counts ticks; τ = 1 forgets everything at once.
"""

from neuro.kernels import LeakyDynamics
from neuro.neurons.leaky import LeakyNeuron, require_threshold, require_time_constant
from neuro.reset import Reset, SoftReset
from neuro.surrogate import Sigmoid, Surrogate


class LIF(LeakyNeuron):
    """Leaky integrate-and-fire neurons.

    Example:
        >>> import torch
        >>> spikes, state = LIF(tau=2.0).simulate(torch.full((3, 1, 1), 0.6))
        >>> spikes.flatten().tolist()
        [0.0, 0.0, 1.0]

    Args:
        tau: membrane time constant in ticks, at least 1.
        threshold: θ above 0, in units of the membrane.
        surrogate: pseudo-derivative of the spike.
        reset: what a spike does to the membrane.

    Raises:
        ValueError: if tau is below 1 or the threshold is not above 0.
    """

    def __init__(
        self,
        tau: float = 2.0,
        threshold: float = 1.0,
        surrogate: Surrogate | None = None,
        reset: Reset | None = None,
    ) -> None:
        super().__init__()
        require_time_constant(tau)
        require_threshold(threshold)
        self.tau, self.threshold = float(tau), float(threshold)
        self.surrogate = surrogate if surrogate is not None else Sigmoid()
        self.reset = reset if reset is not None else SoftReset()

    @property
    def dynamics(self) -> LeakyDynamics:
        """The constants as a kernel takes them."""
        return LeakyDynamics(1 - 1 / self.tau, self.threshold, self.surrogate, self.reset)
