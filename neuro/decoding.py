"""From the activity of the last layer [T, B, classes] to logits [B, classes]."""

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
