"""How large a model is, apart from what it is, and the pieces that most presets make alike."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from torch import nn

from transformers_core.attention.multihead import CrossAttention, Projections, SelfAttention, dense_projections
from transformers_core.blocks.feed_forward import FeedForward
from transformers_core.blocks.stack import Block


class Size(NamedTuple):
    """Widths and counts.

    Attributes:
        vocabulary: V, token ids.
        width: D.
        heads: A, a divisor of D.
        inner: width inside the feed-forward sublayer.
        layers: number of blocks.
        max_length: rows of learned tables of positions, tokens.
        dropout: probability, of branches and of attention weights.
    """

    vocabulary: int = 32
    width: int = 32
    heads: int = 4
    inner: int = 64
    layers: int = 2
    max_length: int = 64
    dropout: float = 0.0


def self_attention(
    size: Size,
    qk_map: nn.Module | None = None,
    kernel: nn.Module | None = None,
    scale: float | None = None,
    projections: Projections | None = None,
) -> SelfAttention:
    """Make self-attention of a size, with dense projections unless others are given."""
    maps = projections if projections is not None else dense_projections(size.width)
    return SelfAttention(size.heads, maps, qk_map, kernel, scale, size.dropout)


def cross_attention(size: Size) -> CrossAttention:
    """Make plain cross-attention of a size."""
    return CrossAttention(size.heads, dense_projections(size.width), dropout=size.dropout)


def feed_forward(size: Size, activation: nn.Module | None = None) -> FeedForward:
    """Make the feed-forward sublayer of a size."""
    return FeedForward(size.width, size.inner, activation, size.dropout)


def repeated(size: Size, layer: Callable[[], Block]) -> Iterable[Block]:
    """Make as many layers as the size says."""
    return (layer() for _ in range(size.layers))
