"""Small convolutional ReLU networks of continual-learning and certification papers, without biases.

    alexnet_style    conv 64 4x4, 128 3x3, 256 2x2, each ReLU, dropout, 2x2 pooling; 2048, 2048   (Serra et al. 2018)
    lenet            conv 20 5x5, 50 5x5, each ReLU, 2x2 pooling; 500                         (LeCun et al. 1998)

Deliberate difference from GPM's AlexNet: no batch norm. The released one keeps no running statistics, so its answers
depend on which samples share a batch.
"""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from neuro.models.parts import as_channels, image_shape
from neuro.synapses import Conv2d, Linear


def alexnet_style(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int] = (64, 128, 256),
    kernels: Sequence[int] = (4, 3, 2),
    hidden: Sequence[int] = (2048, 2048),
    dropout: Sequence[float] = (0.2, 0.5),
    normalise: nn.Module | None = None,
) -> nn.Sequential:
    """Build the five-layer network of GPM's CIFAR-100 experiments.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W].
        num_classes: rows of the head.
        channels: of each stage.
        kernels: side of each stage's convolution.
        hidden: widths of the fully connected layers.
        dropout: after all stages but the last, and after the last stage and the fully connected layers.
        normalise: on raw inputs; none by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if the image is too small for the stages.
    """
    return _network(input_shape, num_classes, channels, kernels, hidden, dropout, normalise)


def lenet(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int] = (20, 50),
    kernels: Sequence[int] = (5, 5),
    hidden: Sequence[int] = (500,),
    normalise: nn.Module | None = None,
) -> nn.Sequential:
    """Build LeNet with the widths of the Caffe example; hidden=(800, 500) for GPM's superclasses.

    Args:
        input_shape: of one raw input, [H, W] or [C, H, W].
        num_classes: rows of the head.
        channels: of each stage.
        kernels: side of each stage's convolution.
        hidden: widths of the fully connected layers.
        normalise: on raw inputs; none by default.

    Returns:
        A model from raw inputs [B, *input_shape] to logits [B, num_classes].

    Raises:
        ValueError: if the image is too small for the stages.
    """
    return _network(input_shape, num_classes, channels, kernels, hidden, (0.0, 0.0), normalise)


def _network(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int],
    kernels: Sequence[int],
    hidden: Sequence[int],
    dropout: Sequence[float],
    normalise: nn.Module | None,
) -> nn.Sequential:
    before, height, width = image_shape(input_shape)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["normalise"] = normalise if normalise is not None else nn.Identity()
    layers |= as_channels(input_shape)
    for number, (after, kernel) in enumerate(zip(channels, kernels, strict=True), start=1):
        layers[f"conv{number}"] = Conv2d(before, after, kernel)
        layers[f"relu{number}"] = nn.ReLU()
        layers |= _dropout(f"drop{number}", dropout[number == len(channels)])
        layers[f"pool{number}"] = nn.MaxPool2d(2)
        before, height, width = after, (height - kernel + 1) // 2, (width - kernel + 1) // 2
    if min(height, width) < 1:
        raise ValueError(f"Images {list(input_shape)} are too small for {len(channels)} stages; use fewer.")
    layers["flatten"], narrow = nn.Flatten(), before * height * width
    for number, wide in enumerate(hidden, start=1):
        layers[f"fc{number}"], layers[f"relu{len(channels) + number}"] = Linear(narrow, wide), nn.ReLU()
        layers |= _dropout(f"drop{len(channels) + number}", dropout[1])
        narrow = wide
    layers["head"] = Linear(narrow, num_classes)
    return nn.Sequential(layers)


def _dropout(name: str, share: float) -> dict[str, nn.Module]:
    return {name: nn.Dropout(share)} if share > 0 else {}
