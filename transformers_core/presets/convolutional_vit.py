"""ViT that starts as a convolutional network (Li et al. 2021), trained in two phases.

    phase 1   every attention is a K × K convolution on the pixels of the patches
    phase 2   `begin_attention_phase(model, generator)` puts attention in its place: same function, all weights free

Tokens keep the width P²C from end to end. Pre-LN with a norm over each patch, no class token, mean of the patches.
The paper trains in small-data regimes with K = 3 or 5.
"""

from torch import nn

from transformers_core.attention.convolutional import TokenConvolution
from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.embedding import MeanOfTokens
from transformers_core.models.vit import PatchEmbedding, ViT
from transformers_core.norms.token import LayerNorm
from transformers_core.presets.size import Size, feed_forward, repeated
from transformers_core.residual import pre_norm


def convolutional_vit(
    size: Size, image: tuple[int, int, int], side: int, num_classes: int, kernel_size: int = 3
) -> ViT:
    """Make the model of the first phase for images [B, C, H, W]; logits [B, C].

    Raises:
        ValueError: if the width is not a multiple of P².
    """
    if size.width % side**2:
        raise ValueError(f"A token is a patch of {side} x {side} pixels; the width {size.width} must be a multiple.")
    place, channels = pre_norm(size.width, size.dropout), size.width // side**2
    embedding = PatchEmbedding(image, side, size.width)

    def layer() -> Block:
        convolution = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2)
        mixing = TokenConvolution(convolution, side, embedding.grid)
        return Block(place(mixing, 1.0), place(feed_forward(size, nn.GELU()), 1.0))

    stack = Stack(repeated(size, layer), None, LayerNorm(size.width))
    return ViT(embedding, stack, MeanOfTokens(), nn.Linear(size.width, num_classes))
