"""What a kernel needs to know of a leaky neuron; every kernel takes the same three arguments."""

from typing import NamedTuple

from neuro.reset import Reset
from neuro.surrogate import Surrogate


class LeakyDynamics(NamedTuple):
    """Constants of h_t = d v_{t−1} + I_t, s_t = Θ(h_t − θ), v_t = reset(h_t, s_t).

    Attributes:
        decay: d, the share of the membrane kept per tick, dimensionless.
        threshold: θ, in units of the membrane.
        surrogate: ds/dh on the way back.
        reset: v(h, s, θ).
    """

    decay: float
    threshold: float
    surrogate: Surrogate
    reset: Reset
