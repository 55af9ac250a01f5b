"""A decoder of text: every token looks at itself and what came before, and predicts the next one."""

import torch
from torch import Tensor, nn

from transformers_core.blocks.stack import Stack
from transformers_core.cache import Cache
from transformers_core.masks import Mask, check_valid
from transformers_core.models.encoder import Encoder, Locate
from transformers_core.positions.absolute import TokenOrder
from transformers_core.types import Context, Positions


class Decoder(nn.Module):
    """Embedding, causal layers and a head over the vocabulary.

    Args:
        embedding: maps ids [B, L] and positions to [B, L, D].
        stack: the layers; with cross-attention in them, calls need a memory.
        head: maps [B, L, D] to logits [B, L, V].
        pad: id of padding, which is then never looked at; None if callers pass `valid` or do not pad.
        locate: numbers the tokens; None numbers them from left to right.
    """

    def __init__(
        self,
        embedding: nn.Module,
        stack: Stack,
        head: nn.Module,
        pad: int | None = None,
        locate: Locate | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.stack, self.head, self.pad = embedding, stack, head, pad
        self.locate = locate if locate is not None else TokenOrder()

    def forward(
        self,
        tokens: Tensor,
        valid: Tensor | None = None,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Predict the token after each token.

        Args:
            tokens: ids [B, L]; with a cache, only those not seen yet.
            valid: which of them are real, [B, L]; None reads it off the padding id.
            memory: for cross-attention, [B, Lm, D].
            memory_valid: which of it is real, [B, Lm].
            cache: what earlier calls left; it is extended by this one.

        Returns:
            logits [B, L, V].
        """
        if valid is None and self.pad is not None:
            valid = tokens != self.pad
        check_valid(valid, *tokens.shape[:2])
        positions, state = self.locate(tokens, None if cache is None else cache.locating)
        keys = positions
        if cache is not None:
            keys, valid, cache.locating = *_remember(cache, positions, valid, tokens), state
        if memory is not None:
            check_valid(memory_valid, *memory.shape[:2])
        context = Context(positions, keys, Mask(valid, causal=True), None, memory, Mask(memory_valid), cache)
        return self.head(self.stack(self.embedding(tokens, positions), context))


class EncoderDecoder(nn.Module):
    """A decoder that looks at what an encoder read.

    Args:
        encoder: gives vectors per token.
        decoder: has cross-attention.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self, source: Tensor, target: Tensor, source_valid: Tensor | None = None, target_valid: Tensor | None = None
    ) -> Tensor:
        """Predict the token after each target token.

        Args:
            source: ids [B, Ls].
            target: ids [B, Lt].
            source_valid: which source tokens are real; None reads it off the encoder's padding id.
            target_valid: which target tokens are real.

        Returns:
            logits [B, Lt, V].
        """
        if source_valid is None and self.encoder.pad is not None:
            source_valid = source != self.encoder.pad
        return self.decoder(target, target_valid, self.encoder(source, source_valid), source_valid)


def _remember(
    cache: Cache, positions: Positions, valid: Tensor | None, tokens: Tensor
) -> tuple[Positions, Tensor | None]:
    """Note this call's tokens in the cache; give positions and validity of all keys."""
    if valid is None and "valid" in cache.notes:
        valid = torch.ones_like(tokens, dtype=torch.bool)
    index = cache.note("index", positions.place)
    segment = None if positions.segment is None else cache.note("segment", positions.segment)
    return Positions(index, segment), None if valid is None else cache.note("valid", valid)
