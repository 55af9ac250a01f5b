"""From token ids to vectors, and from vectors of all tokens to one: the two ends of a model of text."""

from torch import Tensor, nn

from transformers_core.types import Positions


class TokenEmbedding(nn.Module):
    """Look tokens up and add their absolute positions.

    Args:
        vocabulary: V.
        width: D.
        positions: maps positions to [B or 1, L, D]; None adds nothing.
        norm: applied to the sum; None leaves it.
        dropout: probability of dropping an entry.
        scale: multiplies the looked-up vectors, √D in Vaswani et al. (2017).
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        positions: nn.Module | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.positions, self.norm, self.scale = positions, norm, scale
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, positions: Positions) -> Tensor:
        """Embed ids [B, L] as [B, L, D].

        Raises:
            ValueError: if the ids are not [B, L].
            TypeError: if they are not whole numbers.
        """
        if tokens.dim() != 2:
            raise ValueError(f"Token ids have the shape [B, L], got {list(tokens.shape)}.")
        if tokens.is_floating_point():
            raise TypeError(f"Token ids are whole numbers, got {tokens.dtype}; cast them with tokens.long().")
        x = self.scale * self.table(tokens)
        if self.positions is not None:
            x = x + self.positions(positions)
        return self.dropout(x if self.norm is None else self.norm(x))


class FirstToken(nn.Module):
    """Read a sequence at its first token."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Give [B, D] of [B, L, D]."""
        del valid
        return x[:, 0]


class MeanOfTokens(nn.Module):
    """Read a sequence as the mean of its real tokens; 0 where there is none."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Give [B, D] of [B, L, D]."""
        if valid is None:
            return x.mean(1)
        real = valid[..., None].to(x.dtype)
        return (x * real).sum(1) / real.sum(1).clamp(min=1)
