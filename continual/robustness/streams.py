"""Random numbers that belong to a sample and not to its batch.

An attack on one image must not depend on which other images share its batch. So each sample has a seed of its own,
one draw from the caller's generator, and every number is a hash of (seed, key, position): the finaliser of SplitMix64
(Steele, Lea and Flood 2014) on 64-bit integers, the same on every device. Nothing is consumed: the same key gives the
same numbers again, so a run with more restarts or steps repeats the shorter run first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_WORD = 1 << 64
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _signed(word: int) -> int:
    """Read 64 bits as torch does."""
    word %= _WORD
    return word - _WORD if word >= _WORD >> 1 else word


def mixed(words: Tensor) -> Tensor:
    """Mix the bits of int64 words, one to one; sums and products wrap around."""
    words = (words ^ _shifted(words, 30)) * _signed(_FIRST)
    words = (words ^ _shifted(words, 27)) * _signed(_SECOND)
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, places: int) -> Tensor:
    """Shift right with zeros coming in; torch alone would repeat the sign."""
    return (words >> places) & ((1 << (64 - places)) - 1)


def _folded(key: tuple[int, ...]) -> int:
    """Make one word of a key, in the same way as words of tensors are mixed."""
    folded = 0
    for word in key:
        folded = (folded + (word + 1) * _GOLDEN) % _WORD
        folded = (folded ^ folded >> 30) * _FIRST % _WORD
        folded = (folded ^ folded >> 27) * _SECOND % _WORD
        folded ^= folded >> 31
    return folded


@dataclass(frozen=True)
class SampleStreams:
    """One stream a sample.

    Example:
        >>> import torch
        >>> streams = SampleStreams.drawn(torch.Generator().manual_seed(0), 3, torch.device("cpu"))
        >>> whole = streams.uniform(torch.zeros(3, 2), 7)
        >>> torch.equal(whole[1:2], streams[1:2].uniform(torch.zeros(1, 2), 7))
        True

    Attributes:
        seeds: int64, [B].
    """

    seeds: Tensor

    @classmethod
    def drawn(cls, generator: torch.Generator, number: int, device: torch.device) -> "SampleStreams":
        """Draw one seed a sample, one after the other, so that batches drawn in turn equal one large batch.

        Args:
            generator: on the CPU.
            number: B.
            device: where the numbers are wanted.
        """
        seeds = [torch.randint(2**63 - 1, (1,), generator=generator) for _ in range(number)]
        return cls(torch.cat(seeds).to(device))

    def __getitem__(self, samples: Tensor | slice) -> "SampleStreams":
        """Give the streams of some of the samples."""
        return SampleStreams(self.seeds[samples])

    def bits(self, like: Tensor, *key: int) -> Tensor:
        """Give random 64-bit words of the shape of `like` [B, ...]."""
        seeds = mixed(self.seeds + _signed(_folded(key)))
        places = torch.arange(1, like[0].numel() + 1, device=seeds.device) * _signed(_GOLDEN)
        return mixed(seeds[:, None] + places[None]).view(like.shape)

    def uniform(self, like: Tensor, *key: int) -> Tensor:
        """Draw from [0, 1), of the shape and dtype of `like` [B, ...]."""
        digits = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}[like.dtype]
        return _shifted(self.bits(like, *key), 64 - digits).to(like.dtype) * 2.0**-digits

    def normal(self, like: Tensor, *key: int) -> Tensor:
        """Draw from N(0, 1), of the shape and dtype of `like` [B, ...]."""
        inside = (_shifted(self.bits(like, *key), 12).double() + 0.5) * 2.0**-52
        return torch.special.ndtri(inside).to(like.dtype)

    def signs(self, like: Tensor, *key: int) -> Tensor:
        """Draw −1 or 1, of the shape and dtype of `like` [B, ...]."""
        return 1 - 2 * _shifted(self.bits(like, *key), 63).to(like.dtype)

    def integers(self, below: Sequence[int], *key: int) -> Tensor:
        """Draw whole numbers from [0, below_i), [B, number of bounds] int64."""
        words = _shifted(self.bits(self.seeds[:, None].expand(-1, len(below)), *key), 1)
        return words % torch.tensor(below, device=words.device)
