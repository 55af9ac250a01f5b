"""What the model builders share: the boundary around a network, and a fresh activation for every layer."""

import copy
from collections.abc import Sequence

from torch import nn

from neuro.decoding import MeanOverTime
from neuro.encoding import ConstantCurrent
from neuro.models.classifier import Normalise, SpikingClassifier
from neuro.network import SpikingSequential
from neuro.neurons import LIF, Neuron


def activation_for(template: nn.Module | None, shape: Sequence[int]) -> nn.Module:
    """Give a fresh activation for a layer: a neuron sized for it, or a copy of any other module; LIF by default.

    Args:
        template: a neuron, or a module without state such as `torch.nn.ReLU()`, which makes the network's ReLU twin.
        shape: of the layer's input in one tick, without the batch.
    """
    template = template if template is not None else LIF()
    return template.for_layer(shape) if isinstance(template, Neuron) else copy.deepcopy(template)


def classifier(
    network: SpikingSequential,
    time_steps: int,
    normalise: nn.Module | None,
    encoder: nn.Module | None,
    decoder: nn.Module | None,
) -> SpikingClassifier:
    """Put the boundary around a network: by default no normalisation, a constant current, the mean over time."""
    return SpikingClassifier(
        normalise if normalise is not None else Normalise(),
        encoder if encoder is not None else ConstantCurrent(),
        network,
        decoder if decoder is not None else MeanOverTime(),
        time_steps,
    )


def image_shape(input_shape: Sequence[int]) -> tuple[int, int, int]:
    """Give [C, H, W] of the image of one tick, a grey one [H, W] having one channel.

    Raises:
        ValueError: if it is no image.
    """
    shape = tuple(input_shape) if len(input_shape) > 2 else (1, *input_shape)
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(
            f"A convolutional network needs images [H, W] or [C, H, W] in every tick, got {tuple(input_shape)}; "
            f"inputs with frames in front need encoder=Frames()."
        )
    return shape  # pyright: ignore[reportReturnType]  # its length is checked


def as_channels(input_shape: Sequence[int]) -> dict[str, nn.Module]:
    """Give the layer that adds a grey image's channel axis, where one is missing."""
    return {"channels": nn.Unflatten(1, (1, input_shape[0]))} if len(input_shape) == 2 else {}
