"""The 1,797 small handwritten digits (8x8, 17 grey levels) that come with scikit-learn: real data for runs of seconds.

They are the test part of UCI's "Optical Recognition of Handwritten Digits". The grey levels 0..16 are divided by 16,
and the set is cut into 1,437 to learn from and 360 to score by the seed, stratified. The task is too easy to rank
methods on.

Source: Alpaydin and Kaynak (1998).
"""

from __future__ import annotations

import numpy as np

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import PackagedFile
from continual.data.stratify import stratified_split

DIGITS_FILE = PackagedFile(
    package="sklearn",
    relative="datasets/data/digits.csv.gz",
    sha256="6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
    repair="pip install --force-reinstall scikit-learn",
)
NUM_TEST = 360


def digits(seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load the small digits, cut into 1,437 train and 360 test digits.

    Args:
        seed: Decides the cut and the order.
        validation: Fraction of the 1,437 that is carved out for selection, stratified.

    Returns:
        Images [N, 8, 8] float32 in [0, 1] (multiples of 1/16), labels 0..9.

    Raises:
        ValueError: scikit-learn's file is missing, truncated or altered.
    """
    table = np.loadtxt(DIGITS_FILE.read().decode().splitlines(), delimiter=",", dtype=np.int64)
    images = (table[:, :-1].reshape(-1, 8, 8) / 16).astype(np.float32)
    labels = table[:, -1]
    learned, scored = stratified_split(labels, NUM_TEST, seed)
    train, held_out = carve_validation(Train(images[learned], labels[learned]), validation, seed)
    return Dataset("digits", train, held_out, Test(images[scored], labels[scored]), 10)
