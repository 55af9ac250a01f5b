"""Three decoders and an encoder–decoder that differ in how they see distance.

    ALiBi (Press et al. 2022)      Pre-LN, no positions but the slope bias
    rotary (Su et al. 2021)        Llama's body (Touvron et al. 2023): RMSNorm, SwiGLU, rotated queries, keys
    T5 (Raffel et al. 2020)        RMSNorm, no offsets, scores without scale, bucket bias shared by all layers

T5 here has an embedding per side and a head of its own, where the original ties all three; its cross-attention is
scaled by 1/√K as everywhere else in this package, where the original folds the scale into its initial weights.
"""

from torch import nn

from transformers_core.attention.multihead import dense_projections
from transformers_core.blocks.feed_forward import FeedForward, GatedFeedForward
from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.decoder import Decoder, EncoderDecoder
from transformers_core.models.embedding import TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.norms.token import LayerNorm, RMSNorm
from transformers_core.positions.relative import BucketBias, SlopeBias
from transformers_core.positions.rotary import Rotary
from transformers_core.presets.size import Size, cross_attention, repeated, self_attention
from transformers_core.presets.standard import standard_layer
from transformers_core.residual import pre_norm
from transformers_core.types import ReadPosition, token_index


def alibi_decoder(size: Size) -> Decoder:
    """Make a Pre-LN decoder with ALiBi; logits [B, L, V]."""
    place = pre_norm(size.width, size.dropout)
    stack = Stack(repeated(size, lambda: standard_layer(size, place)), SlopeBias(size.heads), LayerNorm(size.width))
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return Decoder(TokenEmbedding(size.vocabulary, size.width), stack, head)


def llama_layer(size: Size, qk_map: nn.Module | None) -> Block:
    """Make a layer of Llama's kind; its rotation is a part like any other."""
    place = pre_norm(size.width, size.dropout, lambda width: RMSNorm(width, eps=1e-5))
    attention = self_attention(size, qk_map, projections=dense_projections(size.width, bias=False))
    return Block(place(attention, 1.0), place(GatedFeedForward(size.width, size.inner), 1.0))


def rotary(size: Size, read: ReadPosition = token_index) -> Rotary:
    """Make the rotation of a size's heads."""
    return Rotary(size.width // size.heads, read=read)


def rotary_decoder(size: Size) -> Decoder:
    """Make Llama's decoder; logits [B, L, V]."""
    stack = Stack(repeated(size, lambda: llama_layer(size, rotary(size))), None, RMSNorm(size.width, eps=1e-5))
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return Decoder(TokenEmbedding(size.vocabulary, size.width), stack, head)


def t5(size: Size) -> EncoderDecoder:
    """Make T5's encoder–decoder; logits [B, Lt, V]."""
    place = pre_norm(size.width, size.dropout, lambda width: RMSNorm(width, eps=1e-6))

    def layer(*, writing: bool) -> Block:
        attention = self_attention(size, scale=1.0, projections=dense_projections(size.width, bias=False))
        memory = (cross_attention(size),) if writing else ()
        parts = (attention, *memory, FeedForward(size.width, size.inner, None, size.dropout, bias=False))
        return Block(*(place(part, 1.0) for part in parts))

    def stack(*, writing: bool) -> Stack:
        bias = BucketBias(size.heads, bidirectional=not writing)
        return Stack(repeated(size, lambda: layer(writing=writing)), bias, RMSNorm(size.width, eps=1e-6))

    encoder = Encoder(TokenEmbedding(size.vocabulary, size.width), stack(writing=False))
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return EncoderDecoder(encoder, Decoder(TokenEmbedding(size.vocabulary, size.width), stack(writing=True), head))
