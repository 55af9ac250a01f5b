"""Bilevel positions (BiPE, He et al. 2024): the place of a token in its segment, and the segment's place in the text.

    segment_t = Σ_{u<t} separator_u                       a separator closes its segment and belongs to it
    index_t   = min(t − start_t, T_max − 1)               start_t = 1 + the last separator before t, or 0

    separators 0010001100  ->  index 0120123001,  segment 0001111233

A learned table reads the index at the embedding; a rotation or a slope bias reads the segment in every layer. The
places of later tokens follow from the last token alone, so a text can be read piece by piece. The index is clamped
without a word: `clamp_rate` says how often. Padding and start tokens count as ordinary ones, so pad on the right.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from transformers_core.types import Positions


class BilevelState(NamedTuple):
    """Where the next token will stand.

    Attributes:
        place: in its segment, before clamping, [B].
        segment: [B].
    """

    place: Tensor
    segment: Tensor


def bilevel_positions(
    separators: Tensor, max_index: int, state: BilevelState | None = None
) -> tuple[Positions, BilevelState]:
    """Locate tokens on both levels.

    Args:
        separators: which tokens close a segment, [B, L], boolean.
        max_index: T_max, places that the table of the lower level has.
        state: where the first token stands; None starts a text.

    Returns:
        positions [B, L], and the state after the last token.
    """
    batch, length = separators.shape
    zero = torch.zeros(batch, dtype=torch.int64, device=separators.device)
    state = BilevelState(zero, zero) if state is None else state
    closed = separators.long().cumsum(1)
    segment = state.segment[:, None] + closed - separators.long()
    time = torch.arange(length, device=separators.device)
    opened = torch.where(separators, time + 1, 0).cummax(1).values  # start of what follows each token
    start = torch.cat((zero[:, None], opened), 1)
    carried = torch.where(start == 0, state.place[:, None], 0)  # the first segment may have begun earlier
    place = torch.arange(length + 1, device=separators.device) - start + carried
    positions = Positions(place[:, :length].clamp(max=max_index - 1), segment)
    return positions, BilevelState(place[:, length], state.segment + separators.sum(1))


def clamp_rate(separators: Tensor, max_index: int) -> Tensor:
    """Give the share of tokens [B, L] whose place in the segment is clamped, a scalar in [0, 1]."""
    positions, _ = bilevel_positions(separators, separators.shape[1])
    return (positions.place >= max_index).double().mean()


class Segmenter:
    """Locate tokens by the ids that close a segment: full stop and newline in text, the newline in code.

    Example:
        >>> locate = Segmenter([7], max_index=8)
        >>> positions, _ = locate(torch.tensor([[1, 7, 2, 3]]), None)
        >>> positions.place.tolist(), positions.segment.tolist()
        ([[0, 1, 0, 1]], [[0, 0, 1, 1]])

    Args:
        separators: token ids; Llama's tokeniser has 869 for the full stop and 13 for the newline.
        max_index: T_max, rows of the table of the lower level.

    Raises:
        ValueError: if there is no place at all.
    """

    def __init__(self, separators: Iterable[int], max_index: int) -> None:
        if max_index < 1:
            raise ValueError(f"A segment needs at least one place, got max_index = {max_index}.")
        self.separators, self.max_index = tuple(separators), max_index

    @classmethod
    def of_code(cls, newline: int, max_index: int) -> "Segmenter":
        """Take lines for segments: a full stop inside a line of code closes nothing."""
        return cls((newline,), max_index)

    @classmethod
    def of_text(cls, full_stop: int, newline: int, max_index: int) -> "Segmenter":
        """Take sentences and lines for segments."""
        return cls((full_stop, newline), max_index)

    def __call__(self, tokens: Tensor, state: BilevelState | None) -> tuple[Positions, BilevelState]:
        """Locate tokens [B, L] that follow what `state` was left by."""
        closes = torch.isin(tokens, torch.tensor(self.separators, device=tokens.device, dtype=tokens.dtype))
        return bilevel_positions(closes, self.max_index, state)
