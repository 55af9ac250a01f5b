"""Norms over the nodes of a graph (Cai, Luo, Xu, He, Liu, Wang 2021).

    GraphNorm             s = h − α μ,   γ s / √(mean s² + ε) + β        μ and the mean over the graph's own nodes
    α = 1, not learned    instance norm over nodes, which erases degrees on regular graphs
    α = 0, not learned    root-mean-square norm over nodes

Statistics are per graph, never per batch, of real nodes alone, and the same in training and evaluation: none is kept.
A graph of one node gives β where α = 1, and γ sign(h) + β below.
"""

import torch
from torch import Tensor, nn


class GraphNorm(nn.Module):
    """Normalise each feature over the nodes of its graph.

    Args:
        width: D.
        shift: initial α, how much of the mean is taken out.
        learn_shift: whether α is learned.
        eps: added to the mean square.
    """

    def __init__(self, width: int, shift: float = 1.0, learn_shift: bool = True, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.shift = nn.Parameter(torch.full((width,), float(shift)), requires_grad=learn_shift)
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise [B, N, D]; `valid` says which nodes are real, [B, N], None for all."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        real = torch.ones_like(wide[..., :1]) if valid is None else valid[..., None].to(wide.dtype)
        count = real.sum(-2, keepdim=True).clamp(min=1)
        shifted = wide - self.shift * (wide * real).sum(-2, keepdim=True) / count
        square = (shifted.square() * real).sum(-2, keepdim=True) / count
        return (self.weight * shifted * torch.rsqrt(square + self.eps) + self.bias).to(x.dtype)


def instance_norm(width: int) -> GraphNorm:
    """Make the norm whose whole mean is taken out, α = 1."""
    return GraphNorm(width, 1.0, learn_shift=False)


def node_rms_norm(width: int) -> GraphNorm:
    """Make the norm that leaves the mean in, α = 0."""
    return GraphNorm(width, 0.0, learn_shift=False)
