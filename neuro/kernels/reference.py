"""The truth: the leaky integrate-and-fire loop as autograd sees it, tick by tick."""

import torch
from jaxtyping import Float
from torch import Tensor

from neuro.kernels.dynamics import LeakyDynamics
from neuro.surrogate import spike
from neuro.types import Activity, unroll


def leaky_step(
    current: Float[Tensor, "B *n"], membrane: Float[Tensor, "B *n"], dynamics: LeakyDynamics
) -> tuple[Float[Tensor, "B *n"], Float[Tensor, "B *n"]]:
    """Advance one tick: h = d v + I, s = Θ(h − θ), v = reset(h, s).

    Args:
        current: I, [B, ...].
        membrane: v, [B, ...].
        dynamics: the constants.

    Returns:
        Spikes and the membrane after the reset, both [B, ...].
    """
    charged = torch.add(current, membrane, alpha=dynamics.decay)
    spikes = spike(charged - dynamics.threshold, dynamics.surrogate)
    return spikes, dynamics.reset(charged, spikes, dynamics.threshold)


def simulate_leaky(
    current: Activity, membrane: Float[Tensor, "B *n"], dynamics: LeakyDynamics
) -> tuple[Float[Tensor, "T B *n"], Float[Tensor, "B *n"]]:
    """Run T ticks in a plain loop.

    Args:
        current: [T, B, ...], or static [B, ...].
        membrane: at the start, [B, ...].
        dynamics: the constants.

    Returns:
        Spikes [T, B, ...] and the last membrane [B, ...].
    """
    spikes = []
    for tick in unroll(current).unbind(0):
        fired, membrane = leaky_step(tick, membrane, dynamics)
        spikes.append(fired)
    return torch.stack(spikes), membrane
