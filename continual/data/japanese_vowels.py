"""Japanese Vowels: nine men say the vowels "ae", and the question is who speaks; real speech of 12 channels over time.

An utterance is 7 to 29 frames of 12 coefficients from a linear prediction analysis. The published cut is kept: 270
utterances to learn from (30 a speaker) and 370 to score (24 to 88 a speaker). The files are those inside the package
sktime, read without importing it.

Channel c is scaled to (x - low_c) / (high_c - low_c), with low_c and high_c the smallest and the largest value that it
takes in any frame of the 270 train utterances, padding excluded. So train frames lie in [0, 1], and test frames are
clipped to it. A validation part is carved from the 270 afterwards, and the constants know all nine speakers even where
a scenario brings them one after another. Utterances of fewer than 29 frames are followed by zeros, silence after the
voice; a frame of a voice is never 0 in all 12 channels.

Source: Kudo, Toyama and Shimbo (1999), multidimensional curve classification using passing-through regions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import PackagedFile

TEMPORAL_REPAIR = (
    "pip install 'palimpsest[temporal]' (over an altered copy: pip install --force-reinstall --no-deps sktime)"
)
JAPANESE_VOWELS_FILES = tuple(
    PackagedFile("sktime", f"datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts", sha256, TEMPORAL_REPAIR)
    for part, sha256 in (
        ("TRAIN", "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd"),
        ("TEST", "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462"),
    )
)
NUM_FRAMES = 29
NUM_SPEAKERS = 9


def japanese_vowels(seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load Japanese Vowels by speaker: 270 train and 370 test utterances.

    Args:
        seed: Decides what is carved out; the cut into train and test is the published one.
        validation: Fraction of the 270 that is carved out for selection, stratified.

    Returns:
        Sequences [N, 29, 12] float32 in [0, 1], time first, zeros after the utterance; labels 0..8, the speakers in the
        files' order, so sorted where nothing is carved.

    Raises:
        ValueError: sktime or a file is missing, truncated or altered.
    """
    (learned, learned_speakers), (scored, scored_speakers) = (
        read_ts(file.read().decode()) for file in JAPANESE_VOWELS_FILES
    )
    low, high = channel_range(learned)
    train = Train(padded(scaled(learned, low, high), NUM_FRAMES), learned_speakers)
    test = Test(padded(scaled(scored, low, high), NUM_FRAMES), scored_speakers)
    kept, held_out = carve_validation(train, validation, seed)
    return Dataset("japanese_vowels", kept, held_out, test, NUM_SPEAKERS)


def read_ts(text: str) -> tuple[list[npt.NDArray[np.float64]], npt.NDArray[np.int64]]:
    """Read sequences of different length in the .ts format: one a line, channels apart by colons, the label last.

    Args:
        text: The file's content; lines that start with # or @ are its head, labels are whole numbers from 1.

    Returns:
        One array [T, C] a sequence, time first, and the labels [N] counted from 0.
    """
    sequences, labels = [], []
    for line in text.splitlines():
        if not line.strip() or line[0] in "#@":
            continue
        *channels, label = line.split(":")
        sequences.append(np.array([channel.split(",") for channel in channels], dtype=np.float64).T)
        labels.append(int(label) - 1)
    return sequences, np.array(labels, dtype=np.int64)


def channel_range(sequences: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of every channel, [C] each, over all frames of sequences [T, C]."""
    frames = np.concatenate(sequences)
    return frames.min(axis=0), frames.max(axis=0)


def scaled(sequences: Sequence[np.ndarray], low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Map `low` [C] to 0 and `high` [C] to 1 in sequences [T, C], and clip what lies outside."""
    return [((sequence - low) / (high - low)).clip(0.0, 1.0) for sequence in sequences]


def padded(sequences: Sequence[np.ndarray], num_frames: int) -> npt.NDArray[np.float32]:
    """Put sequences [T, C] of at most `num_frames` into one array [N, num_frames, C], zeros after each.

    Args:
        sequences: At least one, all with C channels.
        num_frames: Length of the array.

    Raises:
        ValueError: A sequence is longer.
    """
    longest = max(len(sequence) for sequence in sequences)
    if longest > num_frames:
        raise ValueError(f"num_frames must be at least {longest}, the longest sequence, but it is {num_frames}.")
    whole = np.zeros((len(sequences), num_frames, sequences[0].shape[1]), dtype=np.float32)
    for row, sequence in zip(whole, sequences, strict=True):
        row[: len(sequence)] = sequence
    return whole
