"""Multiply by a Toeplitz matrix through FFT, on a line or on a grid of tokens.

    y_i = Σ_j c_{j−i} x_j,    t = j − i ∈ [−(n−1), n−1]

With r_t = c_{−t} this is a convolution; laid on a circle of length ℓ ≥ 2n − 1 it is y = F⁻¹(F r · F x), cut to n. Two
axes are the same with one circle each. Cost O(n log n) a channel. The error of an FFT is absolute, about the machine's
precision times the largest |y|: outputs much smaller than the largest lose relative accuracy, which `dtype=float64`
buys back. Half precision is refused, for FFTs of it are too coarse.
"""

from math import prod

import torch
from torch import Tensor

from transformers_core.offsets import Offsets


def fast_length(least: int) -> int:
    """Give the smallest product of powers of 2, 3 and 5 that is at least `least`."""
    length = least
    while not _is_smooth(length):
        length += 1
    return length


def _is_smooth(number: int) -> bool:
    for factor in (2, 3, 5):
        while number % factor == 0:
            number //= factor
    return number == 1


def toeplitz_product(weights: Offsets, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Multiply each head's Toeplitz matrix with its channels.

    Args:
        weights: c, [A, 2n − 1] or [A, 2h − 1, 2w − 1].
        x: [B, A, L, F] with L the product of the grid.
        dtype: in which the FFT runs; None takes that of x.

    Returns:
        [B, A, L, F] in the dtype of x.

    Raises:
        TypeError: if the FFT would run in half precision.
        ValueError: if x has another number of tokens than the grid.
    """
    inside = x.dtype if dtype is None else dtype
    if inside not in (torch.float32, torch.float64):
        raise TypeError(f"The FFT runs in float32 or float64, got {inside}; pass dtype=torch.float32.")
    grid = weights.grid
    if x.shape[2] != prod(grid):
        raise ValueError(f"A bias over a grid of {grid} tokens serves {prod(grid)} tokens, got {x.shape[2]}.")
    axes = tuple(range(-len(grid), 0))
    circle = [fast_length(2 * size - 1) for size in grid]
    backward = weights.values.to(inside).flip(axes)  # r_t, with t = 0 in the middle
    kernel = torch.fft.rfftn(_on_circle(backward, circle, grid), dim=axes)
    channels = x.to(inside).transpose(-2, -1).unflatten(-1, grid)  # [B, A, F, *grid]
    spectrum = torch.fft.rfftn(channels, s=circle, dim=axes) * kernel[:, None]
    y = torch.fft.irfftn(spectrum, s=circle, dim=axes)
    for axis, size in zip(axes, grid, strict=True):
        y = y.narrow(axis, 0, size)
    return y.flatten(-len(grid)).transpose(-2, -1).to(x.dtype)


def _on_circle(values: Tensor, circle: list[int], grid: tuple[int, ...]) -> Tensor:
    """Lay offsets −(n−1) … n−1 on circles, offset 0 first."""
    margin = []
    for size, have in zip(reversed(circle), reversed(values.shape[1:]), strict=True):
        margin += [0, size - have]
    shifts = tuple(1 - size for size in grid)
    return torch.nn.functional.pad(values, margin).roll(shifts, tuple(range(-len(grid), 0)))
