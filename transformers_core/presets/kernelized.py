"""Kernelised attention with relative positions by FFT (Luo et al. 2021), for text both ways and for images.

    projections dense · queries and keys of unit length · scale 1 · positive random features · one table of offsets

One table per model, shared by all layers and 0 at first, where the paper also has one per layer; directions are drawn
once from the generator and stay. The image model has no class token, which would break the Toeplitz structure: it
reads the mean of the patches. Decoding has no cache: the FFT form is for training. Pre-LN hosts.
"""

import torch
from torch import nn

from transformers_core.attention.features import PositiveRandomFeatures, orthogonal_directions
from transformers_core.attention.kernelized import ToeplitzKernel
from transformers_core.blocks.stack import Block, Stack
from transformers_core.models.decoder import Decoder
from transformers_core.models.embedding import MeanOfTokens, TokenEmbedding
from transformers_core.models.encoder import Encoder
from transformers_core.models.vit import PatchEmbedding, ViT
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.relative import OffsetTable
from transformers_core.positions.rotary import UnitLength
from transformers_core.presets.size import Size, feed_forward, repeated, self_attention
from transformers_core.residual import pre_norm


def kernelized_stack(
    size: Size, grid: tuple[int, ...], generator: torch.Generator, num_features: int, dtype: torch.dtype | None = None
) -> Stack:
    """Make the layers: one table of offsets over the grid, and random features per layer."""
    attention_size = size._replace(dropout=0.0)  # there are no weights to drop
    place = pre_norm(size.width, size.dropout)

    def layer() -> Block:
        directions = orthogonal_directions(num_features, size.width // size.heads, generator)
        kernel = ToeplitzKernel(PositiveRandomFeatures(directions), dtype)
        attention = self_attention(attention_size, UnitLength(), kernel, 1.0)
        return Block(place(attention, 1.0), place(feed_forward(size, nn.GELU()), 1.0))

    return Stack(repeated(size, layer), OffsetTable(size.heads, *grid), LayerNorm(size.width))


def kernelized_encoder(
    size: Size, generator: torch.Generator, num_features: int = 16, dtype: torch.dtype | None = None
) -> Encoder:
    """Make an encoder of text; logits [B, L, V]."""
    stack = kernelized_stack(size, (size.max_length,), generator, num_features, dtype)
    return Encoder(TokenEmbedding(size.vocabulary, size.width), stack, nn.Linear(size.width, size.vocabulary))


def kernelized_decoder(
    size: Size, generator: torch.Generator, num_features: int = 16, dtype: torch.dtype | None = torch.float64
) -> Decoder:
    """Make a decoder of text; logits [B, L, V]. The FFT runs in float64: causal sums start small."""
    stack = kernelized_stack(size, (size.max_length,), generator, num_features, dtype)
    head = nn.Linear(size.width, size.vocabulary, bias=False)
    return Decoder(TokenEmbedding(size.vocabulary, size.width), stack, head)


def kernelized_vit(
    size: Size,
    image: tuple[int, int, int],
    side: int,
    num_classes: int,
    generator: torch.Generator,
    num_features: int = 16,
) -> ViT:
    """Make a model of images [B, C, H, W] with offsets in two dimensions; logits [B, C]."""
    embedding = PatchEmbedding(image, side, size.width)
    stack = kernelized_stack(size, embedding.grid, generator, num_features)
    return ViT(embedding, stack, MeanOfTokens(), nn.Linear(size.width, num_classes))
