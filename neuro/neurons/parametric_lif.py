"""The parametric leaky integrate-and-fire neuron: a LIF whose time constant is learned (Fang et al. 2021, PLIF).

    h_t = (1 − 1/τ) v_{t−1} + I_t,  s_t = 1 where h_t >= θ,  v_t = reset(h_t, s_t),     1/τ = σ(a)

a is learned, so τ > 1 whatever the optimiser does. There is one a for the layer, or one per neuron (per channel of an
image). Differences from the paper: the input is not scaled by 1/τ, as in our LIF, and the reset is soft by default.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neuro.kernels import LeakyDynamics, reference
from neuro.neurons.leaky import LeakyState, require_threshold
from neuro.neurons.neuron import Neuron
from neuro.reset import Reset, SoftReset
from neuro.surrogate import Sigmoid, Surrogate
from neuro.types import State, state_like


class ParametricLIF(Neuron):
    """LIF neurons that learn their time constant.

    Example:
        >>> import torch
        >>> neuron = ParametricLIF(tau=2.0)
        >>> spikes, _ = neuron.simulate(torch.full((3, 1, 1), 0.6))
        >>> spikes.sum().backward()
        >>> neuron.leak_logit.grad is not None
        True

    Args:
        tau: time constant in ticks at the start, above 1.
        threshold: θ above 0, in units of the membrane.
        surrogate: pseudo-derivative of the spike.
        reset: what a spike does to the membrane.
        per_neuron: learn one τ a neuron (a channel of an image) instead of one a layer; the neuron is then a
            template until `for_layer` gives it a shape.

    Raises:
        ValueError: if tau is not above 1 or the threshold not above 0.
    """

    def __init__(
        self,
        tau: float = 2.0,
        threshold: float = 1.0,
        surrogate: Surrogate | None = None,
        reset: Reset | None = None,
        per_neuron: bool = False,
    ) -> None:
        super().__init__()
        if not tau > 1:
            raise ValueError(f"tau, the time constant at the start in ticks, must be above 1, got {tau}.")
        require_threshold(threshold)
        self.threshold, self.per_neuron = float(threshold), bool(per_neuron)
        self.surrogate = surrogate if surrogate is not None else Sigmoid()
        self.reset = reset if reset is not None else SoftReset()
        self.leak_logit = nn.Parameter(torch.tensor(-math.log(tau - 1)))

    @property
    def tau(self) -> Tensor:
        """Time constants in ticks, a scalar or of the layer's shape."""
        return 1 / torch.sigmoid(self.leak_logit)

    def for_layer(self, shape: Sequence[int]) -> "ParametricLIF":
        """Give a copy with one time constant for the layer, or one per neuron, or per channel of [C, H, W]."""
        fresh = copy.deepcopy(self)
        if self.per_neuron:
            own = tuple(shape) if len(shape) == 1 else (shape[0],) + (1,) * (len(shape) - 1)
            fresh.leak_logit = nn.Parameter(self.leak_logit.detach().expand(own).clone())
        return fresh

    def initial_state(self, current: Tensor) -> LeakyState:
        """Give a membrane at 0."""
        return LeakyState(state_like(current))

    def step(self, current: Tensor, state: State) -> tuple[Tensor, LeakyState]:
        """Advance one tick; see `Neuron.step`."""
        kept = torch.sigmoid(-self.leak_logit).to(current.dtype) * state[0]
        still = LeakyDynamics(1.0, self.threshold, self.surrogate, self.reset)
        spikes, membrane = reference.leaky_step(current, kept, still)
        return spikes, LeakyState(membrane)

    def starting_state(self, current: Any, state: State | None) -> State:
        """Check also that a per-neuron template has been given its layer's shape.

        Raises:
            ValueError: if not.
        """
        if self.per_neuron and self.leak_logit.ndim == 0:
            raise ValueError("A per-neuron ParametricLIF needs its layer's shape: use neuron.for_layer((features,)).")
        return super().starting_state(current, state)

    def extra_repr(self) -> str:
        """Show the constants."""
        shape = f"per neuron {list(self.leak_logit.shape)}" if self.per_neuron else f"{float(self.tau.detach()):.3g}"
        return f"tau={shape}, threshold={self.threshold}, surrogate={self.surrogate}, reset={self.reset}"
