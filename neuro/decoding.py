"""From the activity of the last layer [T, B, classes] to logits [B, classes]."""

import torch
from torch import Tensor, nn


class MeanOverTime(nn.Module):
    """Mean over all ticks: the rate, or the mean current of a linear last layer."""

    def forward(self, outputs: Tensor) -> Tensor:
        """Give [B, classes]."""
        return outputs.mean(0)


class LastTick(nn.Module):
    """The output of the last tick: with a leaky readout, its final membrane."""

    def forward(self, outputs: Tensor) -> Tensor:
        """Give [B, classes]."""
        return outputs[-1]


class MaxOverTime(nn.Module):
    """The largest output over all ticks: with a leaky readout, its peak membrane."""

    def forward(self, outputs: Tensor) -> Tensor:
        """Give [B, classes]."""
        return outputs.amax(0)


class WeightedRate(nn.Module):
    """The weighted rate Σ w_t x_t / Σ w_t with w_t = exp(−(T − t)/τ): how DSR reads a leaky neuron.

    Args:
        tau: in ticks, above 0; DSR's time constant over its tick, 1 / 0.05 by default.

    Raises:
        ValueError: if tau is not above 0.
    """

    def __init__(self, tau: float = 20.0) -> None:
        super().__init__()
        if not tau > 0:
            raise ValueError(f"tau must be above 0, got {tau}.")
        self.tau = float(tau)

    def forward(self, outputs: Tensor) -> Tensor:
        """Give [B, classes]."""
        return weighted_rate(outputs, self.tau)


def weighted_rate(activity: Tensor, tau: float) -> Tensor:
    """Give Σ w_t x_t / Σ w_t over the first axis, w_t = exp(−(T − t)/τ), τ in ticks."""
    time_steps = activity.shape[0]
    ages = torch.arange(time_steps - 1, -1, -1, device=activity.device, dtype=activity.dtype)
    weights = torch.exp(-ages / tau)
    return torch.tensordot(weights / weights.sum(), activity, dims=1)
