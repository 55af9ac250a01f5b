"""The convolutional network of HLOP's CIFAR-100 experiment (Xiao et al. 2024): three stages and a linear head.

Each stage is a 3x3 convolution, batch norm, neurons and 2x2 average pooling; the paper's widths are 64, 128, 256. With
`torch.nn.ReLU()` for the neuron and one time step the same builder gives the ReLU twin.
"""

from collections.abc import Sequence

from torch import nn

from neuro.encoding import tick_shape
from neuro.models.classifier import SpikingClassifier
from neuro.models.parts import activation_for, as_channels, classifier, image_shape
from neuro.network import SpikingSequential
from neuro.synapses import Conv2d, Linear


def cnn(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int] = (64, 128, 256),
    neuron: nn.Module | None = None,
    time_steps: int = 6,
    normalise: nn.Module | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
) -> SpikingClassifier:
    """Build a spiking CNN; convolutions and head without biases.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W], with frames in front where the encoder reads them.
        num_classes: rows of the head.
        channels: width of each stage.
        neuron: template, copied and sized for every stage; LIF by default, `torch.nn.ReLU()` for the twin.
        time_steps: T.
        normalise: on raw inputs; none by default.
        encoder: constant current by default.
        decoder: mean over time by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if the image is too small for the stages.
    """
    seen = tick_shape(encoder, input_shape)
    before, height, width = image_shape(seen)
    layers = as_channels(seen)
    for number, after in enumerate(channels, start=1):
        layers[f"conv{number}"] = Conv2d(before, after, 3, padding=1)
        layers[f"norm{number}"] = nn.BatchNorm2d(after)
        layers[f"neuron{number}"] = activation_for(neuron, (after, height, width))
        layers[f"pool{number}"] = nn.AvgPool2d(2)
        before, height, width = after, height // 2, width // 2
    if min(height, width) < 1:
        raise ValueError(f"Images {seen} are too small for {len(channels)} stages that each halve them; use fewer.")
    layers |= {"flatten": nn.Flatten(), "head": Linear(before * height * width, num_classes)}
    return classifier(SpikingSequential(**layers), time_steps, normalise, encoder, decoder)
