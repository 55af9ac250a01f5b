"""Axis letters, what positions are, and what travels beside the activations through every layer.

Shapes are written in letters throughout: B batch, L tokens (Lq queries, Lk keys), D model width, A attention heads,
K width of one head (A·K = D unless said otherwise), V vocabulary, C classes or channels, N nodes of a graph.

Data flow of one forward pass:

    inputs ─ embedding ─► x [B, L, D] ─┬─► layer ─► layer ─► … ─► final norm ─► head
    positions ─ bias module, once ─────┘     each layer reads the same Context

A bias is data about pairs of tokens and not about layers, so the model owns it, computes it once and hands it on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from transformers_core.cache import Cache
from transformers_core.masks import Mask
from transformers_core.offsets import Offsets

Bias: TypeAlias = Tensor | Offsets
"""Added to the scores: a tensor that broadcasts to [B, A, Lq, Lk], or one value per offset between two tokens."""


class Positions(NamedTuple):
    """Where tokens stand: what position encodings may read.

    Attributes:
        place: of each token, [B or 1, L], int64. For bilevel positions: the place inside its segment.
        segment: number of the segment each token lies in, [B or 1, L], int64; None where text has no segments.
    """

    place: Tensor
    segment: Tensor | None = None


def token_index(positions: Positions) -> Tensor:
    """Read the place of each token, [B or 1, L]."""
    return positions.place


def segment_index(positions: Positions) -> Tensor:
    """Read the segment of each token, [B or 1, L].

    Raises:
        ValueError: if the positions have no segments.
    """
    if positions.segment is None:
        raise ValueError("These positions have no segments; let a Segmenter locate the tokens of this model.")
    return positions.segment


ReadPosition: TypeAlias = Callable[[Positions], Tensor]
"""Which number of a token a relative encoding looks at."""


def consecutive(length: int, device: torch.device, start: int = 0) -> Positions:
    """Number tokens from `start` on, the same way for every row of the batch."""
    return Positions(torch.arange(start, start + length, device=device)[None])


class Shared:
    """A slot that lives for one forward pass, in which one layer leaves its attention for the next ones."""

    mix: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Context:
    """What every layer may read beside its input.

    Attributes:
        positions: of the queries.
        key_positions: of the keys; with a cache there are more keys than queries.
        mask: which key a query may look at; True = may attend.
        bias: added to the scores of self-attention, the same in all layers.
        memory: tokens of another sequence for cross-attention, [B, Lm, D].
        memory_mask: which of them may be looked at.
        cache: keys and values of earlier calls, or None.
        shared: slot for attention that several layers use.
    """

    positions: Positions
    key_positions: Positions
    mask: Mask = field(default_factory=Mask)
    bias: Bias | None = None
    memory: Tensor | None = None
    memory_mask: Mask = field(default_factory=Mask)
    cache: Cache | None = None
    shared: Shared | None = None
