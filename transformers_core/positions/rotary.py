"""Rotary positions (Su et al. 2021): queries and keys turn with their place, so scores see the difference only.

    (x_m, x_{m+K/2}) ← rotation by t·θ_m,   θ_m = base^{−2m/K},   m = 0 … K/2 − 1

⟨R_s q, R_t k⟩ depends on s − t alone. The halves are paired as Llama pairs them (m with m + K/2); the paper pairs
neighbours, which is the same up to a fixed permutation of channels.
"""

import torch
from torch import Tensor, nn

from transformers_core.types import Positions, ReadPosition, token_index


class Rotary(nn.Module):
    """Turn queries or keys by their place.

    Example:
        >>> from transformers_core.types import consecutive
        >>> turned = Rotary(4)(torch.ones(1, 1, 2, 4), consecutive(2, torch.device("cpu")))
        >>> turned[0, 0, 0].tolist()
        [1.0, 1.0, 1.0, 1.0]

    Args:
        head_width: K, even.
        base: of the wavelengths, dimensionless.
        read: which number of a token is its place.

    Raises:
        ValueError: if K is odd.
    """

    frequency: Tensor

    def __init__(self, head_width: int, base: float = 10000.0, read: ReadPosition = token_index) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"Rotations need pairs of channels, so the head width must be even, got {head_width}.")
        self.read = read
        self.register_buffer("frequency", base ** (-torch.arange(0, head_width, 2) / head_width), persistent=False)

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        """Turn [B, A, L, K]."""
        angle = (self.read(positions)[:, None, :, None] * self.frequency).to(x.dtype)
        first, second = x.chunk(2, -1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class UnitLength(nn.Module):
    """Divide queries or keys by their length, as kernelised attention wants them (Luo et al. 2021)."""

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        """Normalise [B, A, L, K] along K; positions are not read."""
        del positions
        return nn.functional.normalize(x, dim=-1)
