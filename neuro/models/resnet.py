"""The pre-activation spiking ResNet-18 of HLOP's miniImageNet and 5-datasets experiments (Xiao et al. 2024).

A stem convolution, four stages of two blocks with widths 20, 40, 80, 160, then norm, neurons, global average pooling
and a linear head. A block is norm–neuron–conv–norm–neuron–conv plus the identity; where the shape changes the
shortcut is a 1x1 convolution that reads the spikes of the block's first neurons (He et al. 2016, with neurons for
ReLU).
"""

from collections.abc import Sequence

from torch import nn

from neuro.encoding import tick_shape
from neuro.models.classifier import SpikingClassifier
from neuro.models.parts import activation_for, as_channels, classifier, image_shape
from neuro.network import SpikingSequential
from neuro.residual import Residual
from neuro.synapses import Conv2d, Linear


def resnet18(
    input_shape: Sequence[int],
    num_classes: int,
    width: int = 20,
    neuron: nn.Module | None = None,
    time_steps: int = 4,
    normalise: nn.Module | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
) -> SpikingClassifier:
    """Build a spiking ResNet-18; convolutions and head without biases.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W], with frames in front where the encoder reads them. The stem
            has stride 1, or stride 2 and a 5x5 field for images of 64 pixels and more, as in the paper.
        num_classes: rows of the head.
        width: channels of the first stage.
        neuron: template, copied and sized for every layer; LIF by default, `torch.nn.ReLU()` for the twin.
        time_steps: T.
        normalise: on raw inputs; none by default.
        encoder: constant current by default.
        decoder: mean over time by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].
    """
    seen = tick_shape(encoder, input_shape)
    channels, height, across = image_shape(seen)
    kernel, stride = (5, 2) if min(height, across) >= 64 else (3, 1)
    layers = as_channels(seen)
    layers["stem"] = Conv2d(channels, width, kernel, stride, kernel // 2)
    before = width
    for number in range(8):
        after = width * 2 ** (number // 2)
        layers[f"block{number + 1}"] = block(before, after, 2 if number in (2, 4, 6) else 1, neuron)
        before = after
    layers["norm"] = nn.BatchNorm2d(before)
    layers["neuron"] = activation_for(neuron, (before, 1, 1))
    layers |= {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "head": Linear(before, num_classes)}
    return classifier(SpikingSequential(**layers), time_steps, normalise, encoder, decoder)


def block(before: int, after: int, stride: int, neuron: nn.Module | None) -> Residual:
    """Build one pre-activation block."""
    entry = SpikingSequential(norm=nn.BatchNorm2d(before), neuron=activation_for(neuron, (before, 1, 1)))
    body = SpikingSequential(
        conv1=Conv2d(before, after, 3, stride, 1),
        norm=nn.BatchNorm2d(after),
        neuron=activation_for(neuron, (after, 1, 1)),
        conv2=Conv2d(after, after, 3, 1, 1),
    )
    changes = stride != 1 or before != after
    return Residual(entry, body, Conv2d(before, after, 1, stride) if changes else None)
