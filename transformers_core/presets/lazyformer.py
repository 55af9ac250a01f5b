"""LazyFormer (Ying et al. 2021): L layers in blocks of m; attention weights are computed once a block.

    parameters of attention: L·4D² → (L/m)·4D² + (L − L/m)·2D²         (and their offsets)

The host is BERT-like, Post-LN. No dropout of attention weights, as in the paper. `keep` says what a block stores. The
paper names a model M{m}x{L/m}, such as M2x6, and spends what is saved on width.
"""

from collections.abc import Iterator

from torch import nn

from transformers_core.attention.lazy import Keep, keep_weights, lazy_attentions
from transformers_core.blocks.stack import Block, SharingBlock, Stack
from transformers_core.models.decoder import Decoder
from transformers_core.models.embedding import TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.absolute import LearnedPositions
from transformers_core.presets.size import Size, feed_forward
from transformers_core.residual import Placement, post_norm, pre_norm


def lazy_layers(size: Size, group: int, place: Placement, keep: Keep = keep_weights) -> Iterator[SharingBlock]:
    """Make blocks of `group` layers that share attention.

    Raises:
        ValueError: if the number of layers is not a multiple of the group.
    """
    if group < 1 or size.layers % group:
        raise ValueError(f"{size.layers} layers do not divide into lazy blocks of {group}; choose a divisor.")
    for _ in range(size.layers // group):
        attentions = lazy_attentions(size.heads, size.width, group, keep)
        yield SharingBlock(*(Block(place(a, 1.0), place(feed_forward(size, nn.GELU()), 1.0)) for a in attentions))


def lazy_encoder(size: Size, group: int = 2, keep: Keep = keep_weights) -> Encoder:
    """Make a Post-LN lazy encoder; logits [B, L, V]."""
    positions = LearnedPositions(size.max_length, size.width)
    embedding = TokenEmbedding(size.vocabulary, size.width, positions, LayerNorm(size.width), size.dropout)
    stack = Stack(lazy_layers(size, group, post_norm(size.width, size.dropout), keep))
    return Encoder(embedding, stack, nn.Linear(size.width, size.vocabulary))


def lazy_decoder(size: Size, group: int = 2, keep: Keep = keep_weights) -> Decoder:
    """Make a Pre-LN lazy decoder; logits [B, L, V]."""
    embedding = TokenEmbedding(size.vocabulary, size.width, LearnedPositions(size.max_length, size.width))
    layers = lazy_layers(size, group, pre_norm(size.width, size.dropout), keep)
    stack = Stack(layers, None, LayerNorm(size.width))
    return Decoder(embedding, stack, nn.Linear(size.width, size.vocabulary, bias=False))
