"""Positive random features (Choromanski et al. 2021): exp(x·y) as the mean of products.

    φ(x) = m^{−1/2} exp(−‖x‖²/2) [exp(w_1·x), …, exp(w_m·x)],   w ~ N(0, I):   E φ(x)·φ(y) = exp(x·y)

For independent w the variance of the estimate, relative to exp(x·y)², is (exp(‖x + y‖²) − 1)/m: at most (e⁴ − 1)/m
for vectors of unit length, and without bound otherwise. Directions orthogonal within blocks of K lower it.
"""

import torch
from torch import Tensor, nn


def gaussian_directions(count: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw independent directions from N(0, I), [m, K]."""
    return torch.randn(count, width, generator=generator)


def orthogonal_directions(count: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw directions [m, K] of N(0, I) each, orthogonal to each other within blocks of K."""
    blocks = []
    for _ in range(-(-count // width)):
        square, _ = torch.linalg.qr(torch.randn(width, width, generator=generator))
        lengths = torch.randn(width, width, generator=generator).norm(dim=1)
        blocks.append(square.T * lengths[:, None])
    return torch.cat(blocks)[:count]


class PositiveRandomFeatures(nn.Module):
    """The feature map φ, with fixed directions that are stored with the weights.

    Args:
        directions: w, [m, K].
    """

    directions: Tensor

    def __init__(self, directions: Tensor) -> None:
        super().__init__()
        self.register_buffer("directions", directions)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., K] to positive features [..., m]."""
        exponent = x @ self.directions.T - x.square().sum(-1, keepdim=True) / 2
        return exponent.exp() * len(self.directions) ** -0.5
