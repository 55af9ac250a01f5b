"""Biases that read the distance between two tokens.

    T5 buckets (Raffel et al. 2020)   b_ij = table[bucket(t_j − t_i)]      near offsets alone, far ones by logarithm
    ALiBi (Press et al. 2022)         b_ij = −σ_a |t_i − t_j|              σ_a = 2^{−8a/A} for A a power of two
    table by offset                   b_ij = table[t_j − t_i]              one number per offset, Toeplitz

Each gives one tensor per forward pass for all layers. ALiBi is stated for causal attention; the absolute value is the
usual symmetric form, and the same thing under a causal mask.
"""

import math

import torch
from torch import Tensor, nn

from transformers_core.offsets import Offsets
from transformers_core.types import Bias, Positions, ReadPosition, token_index


class SumBias(nn.Module):
    """Add biases.

    Args:
        parts: modules that map query and key positions to dense biases.
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, queries: Positions, keys: Positions) -> Tensor:
        """Give the sum, broadcastable to [B, A, Lq, Lk]."""
        total, *rest = (part(queries, keys) for part in self.parts)
        for bias in rest:
            total = total + bias
        return total


def distance_bucket(offset: Tensor, num_buckets: int, max_distance: int, *, bidirectional: bool) -> Tensor:
    """Give T5's bucket of an offset t_j − t_i.

    Half of the buckets of a direction hold one offset each, the others grow by a constant factor up to `max_distance`,
    and the last holds everything beyond. In the bidirectional form later keys have the upper half of the buckets; in
    the causal form they share bucket 0.
    """
    start = torch.zeros_like(offset)
    if bidirectional:
        num_buckets //= 2
        start = (offset > 0) * num_buckets
        distance = offset.abs()
    else:
        distance = (-offset).clamp(min=0)
    exact = num_buckets // 2
    growth = torch.log(distance.clamp(min=1) / exact) / math.log(max_distance / exact)
    far = (exact + (growth * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
    return start + torch.where(distance < exact, distance, far)


class BucketBias(nn.Module):
    """T5's relative bias.

    Args:
        heads: A.
        num_buckets: over both directions.
        max_distance: from which all offsets share a bucket, tokens.
        bidirectional: whether later keys have buckets of their own.
    """

    def __init__(
        self, heads: int, num_buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_buckets, heads)
        self.max_distance, self.bidirectional = max_distance, bidirectional

    def forward(self, queries: Positions, keys: Positions) -> Tensor:
        """Give [B or 1, A, Lq, Lk]."""
        offset = keys.place[:, None, :] - queries.place[:, :, None]
        bucket = distance_bucket(offset, self.table.num_embeddings, self.max_distance, bidirectional=self.bidirectional)
        return self.table(bucket).movedim(-1, 1)


def geometric_slopes(heads: int) -> Tensor:
    """Give ALiBi's slopes [A], positive, dimensionless per token.

    For A not a power of two: those of the power below, then every second one of twice that power.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    slopes += [2 ** (-8 * (2 * head + 1) / (2 * power)) for head in range(heads - power)]
    return torch.tensor(slopes)


class SlopeBias(nn.Module):
    """ALiBi: a penalty that grows with the distance, steeper in some heads.

    Args:
        heads: A.
        factor: multiplies the slopes, dimensionless.
        read: which number of a token is its place.
    """

    slopes: Tensor

    def __init__(self, heads: int, factor: float = 1.0, read: ReadPosition = token_index) -> None:
        super().__init__()
        self.read = read
        self.register_buffer("slopes", factor * geometric_slopes(heads), persistent=False)

    def forward(self, queries: Positions, keys: Positions) -> Tensor:
        """Give [B or 1, A, Lq, Lk]."""
        distance = (self.read(queries)[:, :, None] - self.read(keys)[:, None, :]).abs()
        return -self.slopes[:, None, None] * distance[:, None]


class OffsetTable(nn.Module):
    """One learned number per head and offset on a line or on a grid of tokens, 0 at first.

    Args:
        heads: A.
        grid: the most tokens along each axis; a line may be shorter, a grid of two axes is always whole.
    """

    def __init__(self, heads: int, *grid: int) -> None:
        super().__init__()
        self.grid = grid
        self.values = nn.Parameter(torch.zeros(heads, *(2 * size - 1 for size in grid)))

    def forward(self, queries: Positions, keys: Positions) -> Bias:
        """Give the bias of tokens that follow each other without a gap.

        Raises:
            ValueError: if queries and keys differ, or do not fill the grid.
        """
        length = keys.place.shape[-1]
        if queries.place.shape[-1] != length:
            raise ValueError("A table by offset serves self-attention without a cache; got fewer queries than keys.")
        longest, *further = self.grid
        if further:
            if length != math.prod(self.grid):
                raise ValueError(f"A grid of {self.grid} tokens was announced, got {length} tokens.")
            return Offsets(self.values)
        if length > longest:
            raise ValueError(f"The table of offsets serves up to {longest} tokens, got {length}.")
        middle = longest - 1
        return Offsets(self.values[:, middle - length + 1 : middle + length])
