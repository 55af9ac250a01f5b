"""A bias that depends on the offset between two tokens only, held once per offset.

    b_ij = values[j − i]        1-D: 2n − 1 numbers a head;        2-D: (2h − 1)(2w − 1) on a grid of h × w tokens

The index of offset zero is the middle. The dense matrix is Toeplitz (2-D: block Toeplitz with Toeplitz blocks), which
the kernels that multiply by FFT need to know and the others do not.
"""

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor


class Offsets(NamedTuple):
    """Values per offset.

    Attributes:
        values: [A, 2n − 1] or [A, 2h − 1, 2w − 1]; tokens of a grid are numbered row by row.
    """

    values: Tensor

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of tokens along each axis."""
        return tuple((size + 1) // 2 for size in self.values.shape[1:])

    def dense(self) -> Tensor:
        """Give the bias as a matrix, [A, L, L] with L the product of the grid."""
        return self.values.flatten(1)[:, pair_offsets(self.grid, self.values.device)]


def pair_offsets(grid: tuple[int, ...], device: torch.device) -> Tensor:
    """Number the offset of each pair of tokens of a grid.

    Args:
        grid: tokens along each axis.
        device: where to put it.

    Returns:
        index into the flattened table of offsets, [L, L], row = query, column = key.
    """
    places = torch.cartesian_prod(*(torch.arange(size, device=device) for size in grid)).reshape(prod(grid), len(grid))
    offset = places[None, :] - places[:, None]
    number = torch.zeros(offset.shape[:2], dtype=torch.int64, device=device)
    for axis, size in enumerate(grid):
        number = number * (2 * size - 1) + offset[..., axis] + size - 1
    return number
