"""Untied positions (TUPE, Ke et al. 2021): places look at places, words at words, and the scores are added.

    v_ij = (p_i U_Q)·(p_j U_K)/√(2K)          p = LN(P[index]),  U_Q, U_K ∈ R^{D×D} shared by all layers
    score = (x_i W_Q)·(x_j W_K)/√(2K) + v_ij

√(2K) gives the sum of two terms of equal scale the variance of one. `ResetFirst` overwrites what the first token (a
class token, or a virtual node) sees and how it is seen: whatever the distance, row 0 is θ_row and column 0 is θ_column
per head, and the row wins at the corner. Here θ are free scalars; the authors take products of two spare places.
"""

import torch
from torch import Tensor, nn

from transformers_core.attention.multihead import check_heads, split_heads
from transformers_core.positions.absolute import check_length
from transformers_core.types import Positions


class UntiedBias(nn.Module):
    """Scores between places, v_ij.

    Args:
        heads: A.
        width: D, a multiple of A.
        max_length: rows of the table P.
        terms: k, how many untied position terms are summed in all; the scale is 1/√((1 + k)K).
    """

    def __init__(self, heads: int, width: int, max_length: int, terms: int = 1) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.scale = heads, untied_scale(width // heads, terms)
        self.table, self.norm = nn.Embedding(max_length, width), nn.LayerNorm(width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, queries: Positions, keys: Positions) -> Tensor:
        """Give [B or 1, A, Lq, Lk]."""
        check_length(keys.place, self.table.num_embeddings)
        query = split_heads(self.query(self.norm(self.table(queries.place))), self.heads)
        key = split_heads(self.key(self.norm(self.table(keys.place))), self.heads)
        return (query * self.scale) @ key.transpose(-2, -1)


def untied_scale(head_width: int, terms: int = 1) -> float:
    """Give 1/√((1 + k)K), for words and k terms of positions of equal scale."""
    return ((1 + terms) * head_width) ** -0.5


def reset_first(bias: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Overwrite the first row and column of a bias.

    Args:
        bias: [B or 1, A, L, L].
        row: what the first token sees, [A].
        column: how the others see it, [A].

    Returns:
        [B or 1, A, L, L].
    """
    first_query = torch.arange(bias.shape[-2], device=bias.device)[:, None] == 0
    first_key = torch.arange(bias.shape[-1], device=bias.device) == 0
    bias = torch.where(first_key, column[:, None, None].to(bias.dtype), bias)
    return torch.where(first_query, row[:, None, None].to(bias.dtype), bias)


class ResetFirst(nn.Module):
    """A bias that leaves the first token out of all distances.

    Args:
        bias: maps query and key positions to a dense bias.
        heads: A.
    """

    def __init__(self, bias: nn.Module, heads: int) -> None:
        super().__init__()
        self.bias = bias
        self.row, self.column = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.zeros(heads))

    def forward(self, queries: Positions, keys: Positions) -> Tensor:
        """Give [B or 1, A, L, L]."""
        return reset_first(self.bias(queries, keys), self.row, self.column)
