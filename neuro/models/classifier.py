"""The boundary of a spiking model: x in [0, 1] → logits.

Normalisation, encoding, T and decoding live inside, so that whatever stands outside (a runner, an attack, a
certificate) sees a plain function.
"""

import torch
from torch import Tensor, nn

from neuro.network import SpikingSequential
from neuro.types import Activity


class Normalise(nn.Module):
    """Shift and scale raw pixels: (x − mean) / std.

    Args:
        mean: of the raw range.
        std: above 0.

    Raises:
        ValueError: if std is not above 0.
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__()
        if not std > 0:
            raise ValueError(f"std must be above 0, got {std}.")
        self.mean, self.std = float(mean), float(std)

    def forward(self, inputs: Tensor) -> Tensor:
        """Give (x − mean) / std."""
        return (inputs - self.mean) / self.std

    def extra_repr(self) -> str:
        """Show the constants."""
        return f"mean={self.mean}, std={self.std}"


class SpikingClassifier(nn.Module):
    """normalise → encode → network over T ticks → decode.

    Args:
        normalise: on raw inputs [B, ...].
        encoder: called with the inputs and T.
        network: the layers.
        decoder: from [T, B, classes] to [B, classes].
        time_steps: T, at least 1; may be changed between calls.

    Raises:
        ValueError: if T is below 1.
    """

    def __init__(
        self, normalise: nn.Module, encoder: nn.Module, network: SpikingSequential, decoder: nn.Module, time_steps: int
    ) -> None:
        super().__init__()
        if time_steps < 1:
            raise ValueError(f"time_steps must be at least 1, got {time_steps}.")
        self.normalise, self.encoder, self.network, self.decoder = normalise, encoder, network, decoder
        self.time_steps = int(time_steps)

    def forward(self, inputs: Tensor) -> Tensor:
        """Give logits [B, classes]."""
        return self.decoder(self.network(self.encode(inputs)))

    def encode(self, inputs: Tensor) -> Activity:
        """Give what the first layer receives over time."""
        return self.encoder(self.normalise(inputs), self.time_steps)

    @torch.no_grad()
    def activity(self, inputs: Tensor) -> Tensor:
        """Give the last layer's outputs over time, [T, B, classes]."""
        return self.network(self.encode(inputs))
