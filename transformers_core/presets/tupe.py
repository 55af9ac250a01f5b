"""TUPE (Ke et al. 2021): a Post-LN encoder in which words enter alone and places meet in the bias.

    TUPE-A   v_ij = (p_i U_Q)·(p_j U_K)/√(2K)
    TUPE-R   v_ij + b_{j−i}, 32 T5 buckets up to distance 128
    both     row and column of [CLS] reset; words scaled by 1/√(2K)

Differences: the reset values are free scalars per head and start at 0; no separate buckets for pairs with [CLS], which
the reset overwrites anyway. Defaults there: BERT-base, N(0, 0.02) everywhere (`initialise_normal`), Adam (0.9, 0.999),
learning rate 1e-4, 10,000 steps of warm-up of 1M, batch 256, weight decay 0.01, dropout 0.1, masking 15 %.
"""

from torch import nn

from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.embedding import TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.relative import BucketBias, SumBias
from transformers_core.positions.untied import ResetFirst, UntiedBias, untied_scale
from transformers_core.presets.size import Size, feed_forward, repeated, self_attention
from transformers_core.residual import post_norm


def tupe_a(size: Size) -> Encoder:
    """Make TUPE with absolute positions; logits [B, L, V]."""
    return _tupe(size, UntiedBias(size.heads, size.width, size.max_length))


def tupe_r(size: Size) -> Encoder:
    """Make TUPE with absolute and relative positions; logits [B, L, V]."""
    places = UntiedBias(size.heads, size.width, size.max_length)
    return _tupe(size, SumBias(places, BucketBias(size.heads)))


def _tupe(size: Size, places: nn.Module) -> Encoder:
    place, scale = post_norm(size.width, size.dropout), untied_scale(size.width // size.heads)

    def layer() -> Block:
        return Block(place(self_attention(size, scale=scale), 1.0), place(feed_forward(size, nn.GELU()), 1.0))

    embedding = TokenEmbedding(size.vocabulary, size.width, None, LayerNorm(size.width), size.dropout)
    stack = Stack(repeated(size, layer), ResetFirst(places, size.heads))
    return Encoder(embedding, stack, nn.Linear(size.width, size.vocabulary))
