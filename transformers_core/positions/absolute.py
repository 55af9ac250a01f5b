"""Positions that are added to the embedding: a learned table, or sines of fixed wavelengths.

    learned      P[index],  P ∈ R^{T×D}
    sinusoidal   P[t, 2m] = sin(t·ω_m),  P[t, 2m + 1] = cos(t·ω_m),  ω_m = 10000^{−2m/D}    (Vaswani et al. 2017)

`TokenOrder` numbers tokens from left to right, which is what all models but the bilevel ones read.
"""

import torch
from torch import Tensor, nn

from transformers_core.types import Positions, consecutive


class TokenOrder:
    """Number tokens from left to right; its state is how many came before."""

    def __call__(self, tokens: Tensor, state: int | None) -> tuple[Positions, int]:
        """Locate tokens [B, L, ...] that follow `state` earlier ones; give positions and the new state."""
        start = 0 if state is None else state
        return consecutive(tokens.shape[1], tokens.device, start), start + tokens.shape[1]


class LearnedPositions(nn.Module):
    """A learned vector per place.

    Args:
        max_length: T, rows of the table.
        width: D.
    """

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, width)

    def forward(self, positions: Positions) -> Tensor:
        """Give [B or 1, L, D].

        Raises:
            ValueError: if a place lies beyond the table. Not on a GPU, where looking would wait for the device and
                torch's own assertion speaks instead.
        """
        check_length(positions.place, self.table.num_embeddings)
        return self.table(positions.place)


class SinusoidalPositions(nn.Module):
    """Sines and cosines of the place, for any length.

    Args:
        width: D, even.

    Raises:
        ValueError: if the width is odd.
    """

    frequency: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"Sines come with cosines, so the width must be even, got {width}.")
        self.register_buffer("frequency", 10000 ** (-torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, positions: Positions) -> Tensor:
        """Give [B or 1, L, D]."""
        angle = positions.place[..., None] * self.frequency
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


def check_length(index: Tensor, max_length: int) -> None:
    """Refuse places beyond a table of `max_length` rows.

    Raises:
        ValueError: if there are any.
    """
    if index.device.type != "cpu" or not index.numel():
        return
    longest = int(index.max()) + 1  # not the number of tokens: places inside segments start again
    if longest > max_length:
        raise ValueError(
            f"The table of positions has {max_length} rows, got a sequence of {longest} tokens; "
            "shorten it, or build the model with a larger max_length."
        )
