"""Where the norm stands around a sublayer s, one class for each place.

    pre        x ← x + α s(N(x))                 (Xiong et al. 2020; one more norm after the last layer)
    post       x ← N(x + α s(x))                 (Vaswani et al. 2017)
    sandwich   x ← x + α N'(s(N(x)))             (Ding et al. 2021)

α is a constant of the branch, ½ in a Macaron's feed-forward halves, and multiplies after dropout. A `Placement` turns
a sublayer and its α into a residual module, so a block says what it is made of and not how it is normalised.
"""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

from transformers_core.norms.token import LayerNorm
from transformers_core.types import Context

MakeNorm: TypeAlias = Callable[[int], nn.Module]
"""From a width D to a norm module."""

Placement: TypeAlias = Callable[[nn.Module, float], nn.Module]
"""From a sublayer and its α to a residual module."""


class PreNorm(nn.Module):
    """x + α s(N(x)).

    Args:
        sublayer: s, called with tokens [B, L, D] and the context.
        norm: N, called with tokens and which of them are real.
        dropout: probability of dropping an entry of the branch.
        scale: α, dimensionless.
    """

    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.sublayer, self.norm, self.dropout, self.scale = sublayer, norm, nn.Dropout(dropout), scale

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        branch = self.dropout(self.sublayer(self.norm(x, context.mask.valid), context))
        return x + self.scale * branch


class PostNorm(nn.Module):
    """N(x + α s(x)); arguments as `PreNorm`."""

    def __init__(self, sublayer: nn.Module, norm: nn.Module, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.sublayer, self.norm, self.dropout, self.scale = sublayer, norm, nn.Dropout(dropout), scale

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        branch = self.dropout(self.sublayer(x, context))
        return self.norm(x + self.scale * branch, context.mask.valid)


class SandwichNorm(nn.Module):
    """x + α N'(s(N(x))); arguments as `PreNorm`, and N' as `norm_after`."""

    def __init__(
        self, sublayer: nn.Module, norm: nn.Module, norm_after: nn.Module, dropout: float = 0.0, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.sublayer, self.norm, self.norm_after = sublayer, norm, norm_after
        self.dropout, self.scale = nn.Dropout(dropout), scale

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        valid = context.mask.valid
        branch = self.dropout(self.norm_after(self.sublayer(self.norm(x, valid), context), valid))
        return x + self.scale * branch


def pre_norm(width: int, dropout: float = 0.0, norm: MakeNorm = LayerNorm) -> Placement:
    """Place a norm before every sublayer."""
    return lambda sublayer, scale=1.0: PreNorm(sublayer, norm(width), dropout, scale)


def post_norm(width: int, dropout: float = 0.0, norm: MakeNorm = LayerNorm) -> Placement:
    """Place a norm after every residual sum."""
    return lambda sublayer, scale=1.0: PostNorm(sublayer, norm(width), dropout, scale)


def sandwich_norm(width: int, dropout: float = 0.0, norm: MakeNorm = LayerNorm) -> Placement:
    """Place a norm before and after every sublayer, inside the branch."""
    return lambda sublayer, scale=1.0: SandwichNorm(sublayer, norm(width), norm(width), dropout, scale)
