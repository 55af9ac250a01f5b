"""Keys and values of tokens already seen, so that a decoder reads each token once.

The cache is the caller's: an empty one goes into the first call, every call appends to it, and throwing it away is the
reset. Each attention module stores under itself, so models of any shape share one kind of cache.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Cache:
    """What a decoder keeps between two calls.

    Attributes:
        locating: state of whatever numbers the tokens; None before the first call.
        entries: stored tensors by owner, each [B, A, L, K].
        notes: other tensors [B or 1, L] by name, such as positions of the keys and which are valid.
    """

    def __init__(self) -> None:
        self.locating: Any = None
        self.entries: dict[nn.Module, tuple[Tensor, ...]] = {}
        self.notes: dict[str, Tensor] = {}

    def append(self, owner: nn.Module, *fresh: Tensor) -> tuple[Tensor, ...]:
        """Add tokens along the axis before the last and give all of them."""
        old = self.entries.get(owner)
        if old is not None:
            fresh = tuple(torch.cat(pair, -2) for pair in zip(old, fresh, strict=True))
        self.entries[owner] = fresh
        return fresh

    def note(self, name: str, fresh: Tensor) -> Tensor:
        """Add to a [B or 1, L] tensor kept under a name and give all of it."""
        old = self.notes.get(name)
        self.notes[name] = fresh if old is None else torch.cat((old, fresh), -1)
        return self.notes[name]

    @property
    def length(self) -> int:
        """Number of tokens stored."""
        return self.notes["index"].shape[-1] if "index" in self.notes else 0
