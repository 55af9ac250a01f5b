"""A vision transformer for the runner: `transformers_core`'s Pre-LN ViT at the size of a data set's images.

Nothing about it is special to the runner. Its linear maps (patches, queries, keys, values, outputs, feed-forward) are
tapped and projected like any others, every token's row being a presynaptic row; norms, offsets, the class token and the
table of positions have no presynaptic side and stand still from the second task on under projection.
"""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from neuro.models.parts import as_channels, image_shape
from transformers_core.presets.size import Size
from transformers_core.presets.standard import vit


def vision_transformer(
    input_shape: Sequence[int],
    num_classes: int,
    patch: int = 7,
    width: int = 64,
    heads: int = 4,
    inner: int = 128,
    layers: int = 2,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Build a small ViT.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W]; patches must tile it.
        num_classes: rows of the head.
        patch: side of a patch, pixels.
        width: D, of a token.
        heads: of attention, a divisor of D.
        inner: width inside the feed-forward part.
        layers: number of blocks.
        dropout: probability.

    Returns:
        A model from raw inputs [B, *input_shape] in [0, 1] to logits [B, num_classes].

    Raises:
        ValueError: if patches do not tile the image, or heads do not divide the width.
    """
    size = Size(width=width, heads=heads, inner=inner, layers=layers, dropout=dropout)
    parts: OrderedDict[str, nn.Module] = OrderedDict(as_channels(input_shape))
    parts["vit"] = vit(size, image_shape(input_shape), patch, num_classes)
    return nn.Sequential(parts)
