"""Cut a labelled set in two so that every class keeps its share on both sides.

Class c with n_c of N samples gives n_c * M / N of the M held-out ones; whole parts are given first, and what is left
over goes to the classes with the largest remainder (Hamilton's method), so a balanced set is cut exactly. Every draw
comes from a seed and a named stream, so the cut into train and test never moves when a validation part is carved too.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt


def named_generator(seed: int, stream: str, *index: int) -> np.random.Generator:
    """Return the random generator of one named stream; streams of one seed are independent of each other.

    Args:
        seed: Root seed, 0 or more.
        stream: What is drawn, for example "permutation".
        index: Numbers that tell members of the stream apart, for example the task's.

    Raises:
        TypeError: The seed is not an integer.
        ValueError: The seed is negative.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"a seed must be an integer, but {seed!r} came.")
    if seed < 0:
        raise ValueError(f"a seed must be 0 or more, but it is {seed}.")
    key = (zlib.crc32(stream.encode()), *index)
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=key))


def stratified_split(
    targets: npt.NDArray[np.int64], num_held_out: int, seed: int, *, stream: str = "test"
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw `num_held_out` samples with the class proportions of the whole.

    Args:
        targets: [N] labels.
        num_held_out: M, how many samples to hold out.
        seed: Decides which samples.
        stream: Name of the random stream; cuts of different names are independent.

    Returns:
        Indices of the kept [N - M] and of the held-out [M] samples; disjoint, together all of them, each shuffled.

    Raises:
        ValueError: A class would be left without a sample on one side.
    """
    labels, counts = np.unique(targets, return_counts=True)
    shares = _held_out_counts(counts, num_held_out)
    generator = named_generator(seed, stream)
    kept, held_out = [], []
    for label, share in zip(labels, shares, strict=True):
        members = generator.permutation(np.flatnonzero(targets == label))
        held_out.append(members[:share])
        kept.append(members[share:])
    return generator.permutation(np.concatenate(kept)), generator.permutation(np.concatenate(held_out))


def _held_out_counts(counts: npt.NDArray[np.int64], num_held_out: int) -> npt.NDArray[np.int64]:
    """Share out `num_held_out` over classes of the given sizes by largest remainder."""
    total = int(counts.sum())
    whole, remainder = np.divmod(counts * num_held_out, total)
    left_over = num_held_out - int(whole.sum())
    # A stable sort gives ties to the lower label, so the shares do not depend on the seed.
    whole[np.argsort(-remainder, kind="stable")[: max(left_over, 0)]] += 1
    if not ((whole >= 1) & (whole < counts)).all():
        raise ValueError(
            f"a stratified split must leave every class a sample on both sides, but holding out {num_held_out} of "
            f"{total} samples in {len(counts)} classes does not; hold out another number or drop the rare classes."
        )
    return whole
