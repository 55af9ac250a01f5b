"""The non-spiking twin of the spiking MLP: the same weights and widths with ReLU in place of neurons and time."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from neuro.synapses import Linear


def relu_mlp(
    input_shape: Sequence[int],
    num_classes: int,
    hidden: Sequence[int] = (800, 800),
    bias: bool = False,
    normalise: nn.Module | None = None,
) -> nn.Sequential:
    """Build a ReLU MLP.

    Args:
        input_shape: of one raw input, flattened by the model.
        num_classes: rows of the head.
        hidden: widths of the hidden layers.
        bias: whether layers have one; the head never has.
        normalise: on raw inputs; none by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if a width is below 1.
    """
    widths = [math.prod(input_shape), *hidden]
    if min(*widths, num_classes) < 1:
        raise ValueError(f"Every layer needs at least 1 unit, got {widths} and {num_classes} classes.")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["normalise"] = normalise if normalise is not None else nn.Identity()
    layers["flatten"] = nn.Flatten()
    for number, (narrow, wide) in enumerate(pairwise(widths), start=1):
        layers[f"fc{number}"] = Linear(narrow, wide, bias=bias)
        layers[f"relu{number}"] = nn.ReLU()
    layers["head"] = Linear(widths[-1], num_classes)
    return nn.Sequential(layers)
