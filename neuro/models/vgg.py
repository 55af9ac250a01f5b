"""A spiking VGG (Simonyan and Zisserman 2015, with batch norm and a single linear head).

A plan lists channels of 3x3 convolutions, each with batch norm and neurons, and "pool" for 2x2 average pooling. The
default is VGG-11's convolutions cut to images of 28 or 32 pixels: its last pooling is left out below 32 pixels.
"""

from collections.abc import Sequence

from torch import nn

from neuro.encoding import tick_shape
from neuro.models.classifier import SpikingClassifier
from neuro.models.parts import activation_for, as_channels, classifier, image_shape
from neuro.network import SpikingSequential
from neuro.synapses import Conv2d, Linear

POOL = "pool"
VGG11: tuple[int | str, ...] = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512)


def vgg(
    input_shape: Sequence[int],
    num_classes: int,
    plan: Sequence[int | str] = VGG11,
    neuron: nn.Module | None = None,
    time_steps: int = 4,
    normalise: nn.Module | None = None,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
) -> SpikingClassifier:
    """Build a spiking VGG; convolutions and head without biases.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W], with frames in front where the encoder reads them.
        num_classes: rows of the head.
        plan: channels, and "pool" where the image is halved.
        neuron: template, copied and sized for every layer; LIF by default, `torch.nn.ReLU()` for the twin.
        time_steps: T.
        normalise: on raw inputs; none by default.
        encoder: constant current by default.
        decoder: mean over time by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if the plan holds another word, or the image is too small for its poolings.
    """
    seen = tick_shape(encoder, input_shape)
    before, height, width = image_shape(seen)
    layers = as_channels(seen)
    for number, entry in enumerate(plan, start=1):
        if entry == POOL:
            layers[f"pool{number}"] = nn.AvgPool2d(2)
            height, width = height // 2, width // 2
        elif isinstance(entry, int):
            layers[f"conv{number}"] = Conv2d(before, entry, 3, padding=1)
            layers[f"norm{number}"] = nn.BatchNorm2d(entry)
            layers[f"neuron{number}"] = activation_for(neuron, (entry, height, width))
            before = entry
        else:
            raise ValueError(f"A plan holds channel numbers and {POOL!r}, got {entry!r}.")
    if min(height, width) < 1:
        raise ValueError(f"Images {seen} are too small for the plan's {list(plan).count(POOL)} poolings.")
    layers |= {"flatten": nn.Flatten(), "head": Linear(before * height * width, num_classes)}
    return classifier(SpikingSequential(**layers), time_steps, normalise, encoder, decoder)
