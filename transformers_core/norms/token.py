"""Norms of each token on its own. All norms take which tokens are real; these have no use for it.

LayerNorm (Ba et al. 2016)           γ (x − mean)/√(var + ε) + β
RMSNorm (Zhang & Sennrich 2019)      γ x/√(mean x² + ε)
group LayerNorm (TIM)                LayerNorm within each of `groups` equal parts of the channels, one γ and β over D
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the last axis; arguments as torch's."""

    def forward(self, input: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise [..., D]."""
        del valid
        return super().forward(input)


class RMSNorm(nn.RMSNorm):
    """Root-mean-square norm over the last axis; arguments as torch's."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise [..., D]."""
        del valid
        return super().forward(x)


class GroupLayerNorm(nn.Module):
    """LayerNorm of each group of channels on its own.

    Args:
        width: D.
        groups: how many equal parts D is cut into.
        eps: added to the variance.

    Raises:
        ValueError: if the groups do not divide D.
    """

    def __init__(self, width: int, groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        if groups < 1 or width % groups:
            raise ValueError(f"The width {width} must be a multiple of the number of groups, got {groups}.")
        self.groups, self.eps = groups, eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise [..., D]."""
        del valid
        parts = x.unflatten(-1, (self.groups, -1))
        return F.layer_norm(parts, parts.shape[-1:], eps=self.eps).flatten(-2) * self.weight + self.bias
