"""One mask rule for the whole package: True = may attend.

Three conditions, all of which must allow a pair: the key is a real token (`valid`), it does not lie in the query's
future (`causal`), and the pair itself is allowed (`pairs`). They are kept apart so that a kernel can use the structure:
a causal mask needs no matrix, and the FFT kernels know valid keys and causality but no matrix at all. A query that may
look at nothing gets the value 0, never NaN.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Mask(NamedTuple):
    """Which key a query may look at; with no condition at all, any.

    Attributes:
        valid: which keys are real tokens, [B, Lk], boolean.
        causal: whether a query sees no later key. With fewer queries than keys, the queries are the last ones.
        pairs: which pairs are allowed, broadcastable to [B, A, Lq, Lk], boolean.
    """

    valid: Tensor | None = None
    causal: bool = False
    pairs: Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is forbidden."""
        return self.valid is None and not self.causal and self.pairs is None

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Give the mask as one boolean tensor that broadcasts to [B, A, Lq, Lk]; None allows everything."""
        allowed = self.pairs
        if self.causal:
            order = causal_pairs(queries, keys, device)
            allowed = order if allowed is None else allowed & order
        if self.valid is not None:
            real = self.valid[:, None, None, :]
            allowed = real if allowed is None else allowed & real
        return allowed


def causal_pairs(queries: int, keys: int, device: torch.device) -> Tensor:
    """Allow each query its own place and what came before, [1, 1, Lq, Lk]; the queries are the last of the keys."""
    last = torch.arange(keys - queries, keys, device=device)
    return (torch.arange(keys, device=device) <= last[:, None])[None, None]


def check_valid(valid: Tensor | None, batch: int, length: int) -> None:
    """Refuse a padding mask that does not say for each token whether it is real.

    Raises:
        TypeError: if it is not boolean.
        ValueError: if it is not [B, L].
    """
    if valid is None:
        return
    _check_boolean(valid, "valid")
    if valid.shape != (batch, length):
        raise ValueError(
            f"A padding mask has the shape [B, L] = {[batch, length]} of the tokens it speaks of, "
            f"got {list(valid.shape)}; put pair masks into Mask(pairs=...)."
        )


def check_mask(mask: Mask, shape: tuple[int, int, int, int]) -> None:
    """Refuse a mask that does not fit scores of shape [B, A, Lq, Lk].

    Raises:
        TypeError: if a part is not boolean.
        ValueError: if a part does not broadcast.
    """
    check_valid(mask.valid, shape[0], shape[3])
    if mask.causal and shape[2] > shape[3]:
        raise ValueError(f"A causal mask needs at least as many keys as queries, got {shape[2]} and {shape[3]}.")
    if mask.pairs is None:
        return
    _check_boolean(mask.pairs, "pairs")
    fits = mask.pairs.dim() == 4 and all(have in (1, need) for have, need in zip(mask.pairs.shape, shape, strict=True))
    if not fits:
        raise ValueError(
            f"A pair mask has four axes that broadcast to [B, A, Lq, Lk] = {list(shape)}, "
            f"got {list(mask.pairs.shape)}; add axes of size 1 with mask[None, None]."
        )


def _check_boolean(mask: Tensor, name: str) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(
            f"Mask part '{name}' must be boolean with True = may attend, got {mask.dtype}; "
            "numbers that are added to the scores belong into the bias."
        )
