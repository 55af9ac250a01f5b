"""The position-wise sublayers.

FFN(x) = act(x W₁ + c₁) W₂ + c₂                     (Vaswani et al. 2017)
gated  = (act(x W_g) ⊙ x W_u) W_d                    (Shazeer 2020; with SiLU: SwiGLU)
"""

from torch import Tensor, nn

from transformers_core.types import Context


class FeedForward(nn.Module):
    """Two linear maps with an activation between them.

    Args:
        width: D.
        inner: width between the maps.
        activation: module applied there; None is ReLU.
        dropout: probability of dropping an inner activation.
        bias: whether the maps have offsets.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)
        self.activation = activation if activation is not None else nn.ReLU()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Map [B, L, D] to [B, L, D], each token alone."""
        del context
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    """A feed-forward sublayer whose inner units are gated; without offsets.

    Args:
        width: D.
        inner: number of gated units.
        activation: of the gate; None is SiLU.
    """

    def __init__(self, width: int, inner: int, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.activation = activation if activation is not None else nn.SiLU()

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Map [B, L, D] to [B, L, D], each token alone."""
        del context
        return self.down(self.activation(self.gate(x)) * self.up(x))
