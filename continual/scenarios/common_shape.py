"""Bring images of different sets to one shape without inventing pixels.

Three small steps, in this order: enlarge by a whole factor (every pixel becomes a square of f x f), pad with black
around the centre, repeat the grey channel. Nothing is cropped, interpolated or mixed, so every original value can be
read back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def fit_images(inputs: np.ndarray, image_shape: Sequence[int]) -> np.ndarray:
    """Enlarge, pad and repeat images until they have the wanted shape.

    Args:
        inputs: [N, H, W] or [N, C, H, W].
        image_shape: (C, H, W) that is wanted. The factor is the largest whole one that fits both sides.

    Returns:
        A new array [N, C, H, W] of the same dtype.

    Raises:
        ValueError: Inputs that are no images, larger than wanted, or with channels that cannot be repeated.
    """
    channels, height, width = image_shape
    if inputs.ndim not in (3, 4):
        raise ValueError(
            f"images must be [N, H, W] or [N, C, H, W], but the shape is {inputs.shape}; reshape them first."
        )
    images = inputs[:, np.newaxis] if inputs.ndim == 3 else inputs
    if images.shape[2] > height or images.shape[3] > width:
        raise ValueError(
            f"images must not be larger than the wanted {height}x{width} pixels, but they have "
            f"{images.shape[2]}x{images.shape[3]}; choose a larger image_shape or load smaller images."
        )
    factor = min(height // images.shape[2], width // images.shape[3])
    return repeat_channel(pad_to(enlarge(images, factor), height, width), channels)


def enlarge(images: np.ndarray, factor: int) -> np.ndarray:
    """Make every pixel of [..., H, W] a square of `factor` x `factor` pixels."""
    return images.repeat(factor, axis=-2).repeat(factor, axis=-1)


def pad_to(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Put images [..., H, W] into the middle of black ones [..., height, width]; an odd pixel goes below and right."""
    rows, columns = height - images.shape[-2], width - images.shape[-1]
    around = ((rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2))
    return np.pad(images, ((0, 0),) * (images.ndim - 2) + around)


def repeat_channel(images: np.ndarray, channels: int) -> np.ndarray:
    """Repeat the one channel of [N, 1, H, W], or leave images [N, C, H, W] that have the wanted number as they are.

    Raises:
        ValueError: The images have another number of channels, and more than one.
    """
    if images.shape[1] == channels:
        return images
    if images.shape[1] != 1:
        raise ValueError(
            f"only a single grey channel can be repeated to {channels}, but there are {images.shape[1]}; "
            f"load grey images, or ask for {images.shape[1]} channels."
        )
    return images.repeat(channels, axis=1)
