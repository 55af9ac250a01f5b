"""Pre-LN and Post-LN (Xiong et al. 2020), and the models everybody compares with.

    post   x ← LN(x + s(x))          no norm at the end; gradients near the output do not shrink with depth L
    pre    x ← x + s(LN(x))          one LN after the last layer; the last layer's gradient shrinks as 1/√L

`post_ln_encoder` is BERT's body (Devlin et al. 2019), `pre_ln_decoder` GPT-2's (Radford et al. 2019), `transformer` the
first encoder–decoder (Vaswani et al. 2017), `vit` Dosovitskiy et al. (2021), each without its pre-training head: one
linear map reads out.
Initial weights are torch's; the papers' (BERT: N(0, 0.02), offsets 0) are set by `initialise_normal`.
"""

from torch import nn

from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.decoder import Decoder, EncoderDecoder
from transformers_core.models.embedding import FirstToken, TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.models.vit import PatchEmbedding, ViT
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.absolute import LearnedPositions, SinusoidalPositions
from transformers_core.presets.size import Size, cross_attention, feed_forward, repeated, self_attention
from transformers_core.residual import Placement, post_norm, pre_norm


def standard_layer(size: Size, place: Placement) -> Block:
    """Make self-attention and feed-forward, placed alike."""
    return Block(place(self_attention(size), 1.0), place(feed_forward(size, nn.GELU()), 1.0))


def post_ln_encoder(size: Size) -> Encoder:
    """Make a Post-LN encoder with learned positions and a norm after the embedding; logits [B, L, V]."""
    place = post_norm(size.width, size.dropout)
    positions = LearnedPositions(size.max_length, size.width)
    embedding = TokenEmbedding(size.vocabulary, size.width, positions, LayerNorm(size.width), size.dropout)
    stack = Stack(repeated(size, lambda: standard_layer(size, place)))
    return Encoder(embedding, stack, nn.Linear(size.width, size.vocabulary))


def pre_ln_encoder(size: Size) -> Encoder:
    """Make a Pre-LN encoder with learned positions and a final norm; logits [B, L, V]."""
    place = pre_norm(size.width, size.dropout)
    embedding = TokenEmbedding(size.vocabulary, size.width, LearnedPositions(size.max_length, size.width))
    stack = Stack(repeated(size, lambda: standard_layer(size, place)), None, LayerNorm(size.width))
    return Encoder(embedding, stack, nn.Linear(size.width, size.vocabulary))


def pre_ln_decoder(size: Size) -> Decoder:
    """Make a Pre-LN decoder with learned positions and a final norm; logits [B, L, V]."""
    place = pre_norm(size.width, size.dropout)
    embedding = TokenEmbedding(size.vocabulary, size.width, LearnedPositions(size.max_length, size.width))
    stack = Stack(repeated(size, lambda: standard_layer(size, place)), None, LayerNorm(size.width))
    return Decoder(embedding, stack, nn.Linear(size.width, size.vocabulary, bias=False))


def transformer(size: Size) -> EncoderDecoder:
    """Make the Post-LN encoder–decoder with sinusoidal positions; logits [B, Lt, V]."""
    place = post_norm(size.width, size.dropout)

    def embed() -> TokenEmbedding:
        positions = SinusoidalPositions(size.width)
        return TokenEmbedding(size.vocabulary, size.width, positions, None, size.dropout, size.width**0.5)

    def reading() -> Block:
        return Block(place(self_attention(size), 1.0), place(feed_forward(size), 1.0))

    def writing() -> Block:
        parts = (self_attention(size), cross_attention(size), feed_forward(size))
        return Block(*(place(part, 1.0) for part in parts))

    encoder = Encoder(embed(), Stack(repeated(size, reading)))
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return EncoderDecoder(encoder, Decoder(embed(), Stack(repeated(size, writing)), head))


def vit(size: Size, image: tuple[int, int, int], side: int, num_classes: int) -> ViT:
    """Make a Pre-LN vision transformer with a class token for images [B, C, H, W]; logits [B, C]."""
    place = pre_norm(size.width, size.dropout)
    embedding = PatchEmbedding(image, side, size.width)
    positions = LearnedPositions(1 + embedding.grid[0] * embedding.grid[1], size.width)
    stack = Stack(repeated(size, lambda: standard_layer(size, place)), None, LayerNorm(size.width))
    return ViT(embedding, stack, FirstToken(), nn.Linear(size.width, num_classes), positions, size.width)
