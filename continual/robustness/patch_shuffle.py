"""Shape or texture? Cut images into patches, shuffle them, and see what a network still recognises.

Small patches destroy shape and keep texture; a network that goes by shape falls to chance, one that goes by texture
does not (the probe of Luo et al. 2019, and before it of Brendel and Bethge 2019).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from continual.robustness.checks import require_images, require_labels
from continual.robustness.scoring import predict
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target
from continual.robustness.threat import linf


def patch_shuffle(images: Tensor, patches: int, generator: torch.Generator) -> Tensor:
    """Cut each image into patches x patches pieces and shuffle them, each image its own way.

    Args:
        images: [B, H, W] or [B, C, H, W].
        patches: pieces along each side; it must divide H and W. 1 changes nothing.
        generator: on the CPU; gives one seed an image, in order.

    Returns:
        Images of the same shape and dtype, the same pixels in other places.

    Raises:
        ValueError: if the pieces do not fit, or images have another shape.
    """
    if images.ndim not in (3, 4):
        raise ValueError(f"Patches need images [B, H, W] or [B, C, H, W], got the shape {list(images.shape)}.")
    height, width = images.shape[-2:]
    if patches < 1 or height % patches or width % patches:
        fitting = [n for n in range(1, min(height, width) + 1) if not height % n and not width % n]
        raise ValueError(f"patches must divide {height} and {width}, got {patches}; choose from {fitting}.")
    streams = SampleStreams.drawn(generator, len(images), images.device)
    places = images.new_zeros((len(images), patches**2), dtype=torch.float64)
    order = streams.uniform(places, 0).argsort(1) if patches > 1 else places.long()
    tall, wide = height // patches, width // patches
    pieces = images.reshape(len(images), -1, patches, tall, patches, wide).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    moved = pieces.gather(1, order.view(*order.shape, 1, 1, 1).expand_as(pieces))
    return moved.unflatten(1, (patches, patches)).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def patch_shuffle_accuracy(
    model: Model | Target, images: Tensor, labels: Tensor, patches: Sequence[int] = (1, 2, 4), seed: int = 0
) -> dict[int, float]:
    """Score a network on shuffled images.

    Args:
        model: any callable from images to logits, or a `Target`; left as it was found.
        images: [N, H, W] or [N, C, H, W] in [0, 1].
        labels: [N].
        patches: pieces along each side; 1 is the image as it is.
        seed: of the shuffling.

    Returns:
        Accuracy by number of pieces.
    """
    require_images(images, linf(0.0))
    require_labels(labels, images)

    def score(number: int) -> float:
        shuffled = patch_shuffle(images, number, torch.Generator().manual_seed(seed))
        return float((predict(model, shuffled, seed=seed) == labels).double().mean())

    return {number: score(number) for number in patches}
