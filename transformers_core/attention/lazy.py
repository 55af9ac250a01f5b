"""Attention that several layers use (LazyFormer, Ying et al. 2021).

    anchor   A = softmax(QKᵀ·scale + b)     from the first layer's input
    all      out_l = (A · X_l W_V,l) W_O,l  each with values of its own; the followers have no W_Q, W_K

What the anchor leaves can be kept in two ways that agree: the weights (L² numbers, one product per follower), or what
they are made of (no L² numbers; the fused kernel runs again with other values, and only the projections are saved).
Weights are not dropped in training: a dropped one would stay dropped for the whole block.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn

from transformers_core.attention.kernel import Scores, SDPAKernel, attention_weights
from transformers_core.attention.multihead import Attention, Projections, SelfAttention, merge_heads, split_heads
from transformers_core.types import Context

Keep: TypeAlias = Callable[[Scores], Callable[[Tensor], Tensor]]
"""From what weights are made of to a function that mixes values with them."""


def keep_weights(scores: Scores) -> Callable[[Tensor], Tensor]:
    """Store the weights [B, A, Lq, Lk]."""
    return partial(torch.matmul, attention_weights(scores))


def keep_scores(scores: Scores) -> Callable[[Tensor], Tensor]:
    """Store queries, keys, bias and mask, and let the fused kernel run again."""
    return partial(SDPAKernel(), scores)


class AnchorAttention(SelfAttention):
    """Self-attention that leaves its weights for the layers above it.

    Args:
        heads: A.
        projections: the linear maps.
        keep: how the weights are stored.
        qk_map: acts on queries and on keys; None leaves them.
        scale: factor of q·k; None is 1/√K.
    """

    def __init__(
        self,
        heads: int,
        projections: Projections,
        keep: Keep = keep_weights,
        qk_map: nn.Module | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__(heads, projections, qk_map, None, scale)
        self.keep = keep

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Attend within [B, L, D] and leave the mixture in the context's slot.

        Raises:
            ValueError: if the context has no slot.
        """
        if context.shared is None:
            raise ValueError("An anchor leaves its attention to others; put it into a SharingBlock.")
        query, key, value = self.project_query(x, context.positions), *self.keys_and_values(x, context)
        mix = self.keep(self.score(query, key, context.bias, context.mask))
        context.shared.mix = mix
        return self.projections.output(merge_heads(mix(value)))


class FollowerAttention(nn.Module):
    """Values and output of its own, mixed as the anchor said.

    Args:
        heads: A.
        value: [.., D] to [.., A·K'].
        output: [.., A·K'] to [.., D].
    """

    def __init__(self, heads: int, value: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.heads, self.value, self.output = heads, value, output

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Mix [B, L, D]; with a cache, only values are stored.

        Raises:
            ValueError: if no anchor has run before.
        """
        if context.shared is None or context.shared.mix is None:
            raise ValueError("A follower mixes as an anchor below it did; make AnchorAttention the block's first.")
        value = split_heads(self.value(x), self.heads)
        if context.cache is not None:
            (value,) = context.cache.append(self, value)
        return self.output(merge_heads(context.shared.mix(value)))


def lazy_attentions(
    heads: int, width: int, count: int, keep: Keep = keep_weights
) -> list[Attention | FollowerAttention]:
    """Make the attentions of one block of `count` layers: an anchor and its followers."""

    def linear() -> nn.Linear:
        return nn.Linear(width, width)

    anchor = AnchorAttention(heads, Projections(linear(), linear(), linear(), linear()), keep)
    return [anchor, *(FollowerAttention(heads, linear(), linear()) for _ in range(count - 1))]
