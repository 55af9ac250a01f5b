"""An encoder of text: every token looks at every real token."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from transformers_core.blocks.stack import Stack
from transformers_core.masks import Mask, check_valid
from transformers_core.positions.absolute import TokenOrder
from transformers_core.types import Context, Positions

Locate = Callable[[Tensor, Any], tuple[Positions, Any]]
"""From token ids [B, L] and the state left by earlier tokens (None at first) to positions and the new state."""


class Encoder(nn.Module):
    """Embedding, layers, and what reads them out.

    Args:
        embedding: maps ids [B, L] and positions to [B, L, D].
        stack: the layers.
        head: last map; None gives the vectors themselves.
        pool: maps [B, L, D] and validity to [B, D]; None reads every token.
        pad: id of padding, which is then never looked at; None if callers pass `valid` or do not pad.
        locate: numbers the tokens; None numbers them from left to right.
    """

    def __init__(
        self,
        embedding: nn.Module,
        stack: Stack,
        head: nn.Module | None = None,
        pool: nn.Module | None = None,
        pad: int | None = None,
        locate: Locate | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.stack, self.pool, self.head = embedding, stack, pool, head
        self.pad = pad
        self.locate = locate if locate is not None else TokenOrder()

    def forward(self, tokens: Tensor, valid: Tensor | None = None) -> Tensor:
        """Encode.

        Args:
            tokens: ids [B, L].
            valid: which tokens are real, [B, L], True = real; None reads it off the padding id.

        Returns:
            [B, L, D or V], or [B, D or C] with a pool.
        """
        if valid is None and self.pad is not None:
            valid = tokens != self.pad
        check_valid(valid, *tokens.shape[:2])
        positions, _ = self.locate(tokens, None)
        x = self.stack(self.embedding(tokens, positions), Context(positions, positions, Mask(valid)))
        x = x if self.pool is None else self.pool(x, valid)
        return x if self.head is None else self.head(x)
