"""The integrate-and-fire neuron: a LIF without leak.

h_t = v_{t−1} + I_t,  s_t = 1 where h_t >= θ,  v_t = reset(h_t, s_t).  With the soft reset its rate is the clipped mean
input, which is why conversion and DSR use it.
"""

from neuro.kernels import LeakyDynamics
from neuro.neurons.leaky import LeakyNeuron, require_threshold
from neuro.reset import Reset, SoftReset
from neuro.surrogate import Sigmoid, Surrogate


class IF(LeakyNeuron):
    """Integrate-and-fire neurons.

    Example:
        >>> import torch
        >>> spikes, _ = IF(threshold=1.0).simulate(torch.full((4, 1, 1), 0.5))
        >>> spikes.flatten().tolist()
        [0.0, 1.0, 0.0, 1.0]

    Args:
        threshold: θ above 0, in units of the membrane.
        surrogate: pseudo-derivative of the spike.
        reset: what a spike does to the membrane.

    Raises:
        ValueError: if the threshold is not above 0.
    """

    def __init__(self, threshold: float = 1.0, surrogate: Surrogate | None = None, reset: Reset | None = None) -> None:
        super().__init__()
        require_threshold(threshold)
        self.threshold = float(threshold)
        self.surrogate = surrogate if surrogate is not None else Sigmoid()
        self.reset = reset if reset is not None else SoftReset()

    @property
    def dynamics(self) -> LeakyDynamics:
        """The constants as a kernel takes them."""
        return LeakyDynamics(1.0, self.threshold, self.surrogate, self.reset)
