"""Macaron Net (Lu et al. 2019): half a feed-forward step, attention, half a feed-forward step.

    x ← x + ½ FFN_a(x),   x ← x + MHA(x),   x ← x + ½ FFN_b(x)

Tokens are particles that attention diffuses and the feed-forward map moves; the layer is the Strang–Marchuk split of
their equation in place of the Lie–Trotter split. The inner width is halved, so the two maps cost what one did. Pre-LN,
as in translation there; ½ is a constant and multiplies after dropout. In the authors' BERT code FFN_a keeps ReLU
whatever FFN_b has; here both have the same activation.

Defaults there (IWSLT14 De-En): inner 512 in place of 1024, dropout 0.3, attention dropout 0.1, Adam (0.9, 0.98),
learning rate 1.5e-3 with 8,000 steps of warm-up and inverse square root decay, label smoothing 0.1, weight decay 1e-4.
"""

from torch import nn

from transformers_core.blocks.feed_forward import FeedForward
from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.decoder import Decoder, EncoderDecoder
from transformers_core.models.embedding import TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.absolute import SinusoidalPositions
from transformers_core.presets.size import Size, cross_attention, repeated, self_attention
from transformers_core.residual import Placement, pre_norm


def macaron_layer(size: Size, place: Placement, *attentions: nn.Module) -> Block:
    """Put attentions between two half feed-forward steps of half the inner width.

    Raises:
        ValueError: if the inner width is odd.
    """
    if size.inner % 2:
        raise ValueError(f"A Macaron layer halves its inner width, which must be even, got {size.inner}.")

    def half() -> nn.Module:
        return place(FeedForward(size.width, size.inner // 2, None, size.dropout), 0.5)

    return Block(half(), *(place(attention, 1.0) for attention in attentions), half())


def macaron_encoder(size: Size) -> Encoder:
    """Make a Macaron encoder; logits [B, L, V]."""
    place = pre_norm(size.width, size.dropout)
    stack = Stack(repeated(size, lambda: macaron_layer(size, place, self_attention(size))), None, LayerNorm(size.width))
    return Encoder(_embedding(size), stack, nn.Linear(size.width, size.vocabulary))


def macaron_decoder(size: Size) -> Decoder:
    """Make a Macaron language model; logits [B, L, V]."""
    place = pre_norm(size.width, size.dropout)
    stack = Stack(repeated(size, lambda: macaron_layer(size, place, self_attention(size))), None, LayerNorm(size.width))
    return Decoder(_embedding(size), stack, nn.Linear(size.width, size.vocabulary, bias=False))


def macaron_translator(size: Size) -> EncoderDecoder:
    """Make the encoder–decoder of the paper; logits [B, Lt, V]."""
    place = pre_norm(size.width, size.dropout)

    def reading() -> Block:
        return macaron_layer(size, place, self_attention(size))

    def writing() -> Block:
        return macaron_layer(size, place, self_attention(size), cross_attention(size))

    encoder = Encoder(_embedding(size), Stack(repeated(size, reading), None, LayerNorm(size.width)))
    stack = Stack(repeated(size, writing), None, LayerNorm(size.width))
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return EncoderDecoder(encoder, Decoder(_embedding(size), stack, head))


def _embedding(size: Size) -> TokenEmbedding:
    positions = SinusoidalPositions(size.width)
    return TokenEmbedding(size.vocabulary, size.width, positions, None, size.dropout, size.width**0.5)
