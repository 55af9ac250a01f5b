"""The spiking multi-layer perceptron of HLOP's permuted-MNIST experiments: linear, neuron, linear, neuron, linear."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from neuro.encoding import tick_shape
from neuro.models.classifier import SpikingClassifier
from neuro.models.parts import activation_for, classifier
from neuro.network import SpikingSequential
from neuro.synapses import Linear


def spiking_mlp(
    input_shape: Sequence[int],
    num_classes: int,
    hidden: Sequence[int] = (800, 800),
    neuron: nn.Module | None = None,
    time_steps: int = 6,
    normalise: nn.Module | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
) -> SpikingClassifier:
    """Build a spiking MLP without biases.

    Args:
        input_shape: of one raw input, flattened by the model.
        num_classes: rows of the head.
        hidden: widths of the hidden layers.
        neuron: template, copied and sized for every hidden layer; LIF by default.
        time_steps: T.
        normalise: on raw inputs; none by default.
        encoder: constant current by default.
        decoder: mean over time by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if a width is below 1.
    """
    widths = [math.prod(tick_shape(encoder, input_shape)), *hidden]
    if min(*widths, num_classes) < 1:
        raise ValueError(f"Every layer needs at least 1 neuron, got {widths} and {num_classes} classes.")
    layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
    for number, (narrow, wide) in enumerate(pairwise(widths), start=1):
        layers[f"fc{number}"] = Linear(narrow, wide)
        layers[f"neuron{number}"] = activation_for(neuron, (wide,))
    layers["head"] = Linear(widths[-1], num_classes)
    return classifier(SpikingSequential(**layers), time_steps, normalise, encoder, decoder)
