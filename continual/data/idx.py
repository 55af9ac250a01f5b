"""Read the IDX files of MNIST and Fashion-MNIST, strictly.

An IDX file is two zero bytes, one byte for the type of its numbers (0x08: unsigned bytes, the only one these sets
use), one for the number n of axes, n big-endian 32-bit lengths, and the numbers. The reader takes plain and gzipped
files and refuses everything that does not add up to the last byte. `mnist` and `fashion_mnist` read the four files of
a folder under their official names and use them whole, unless a stratified, seeded part is asked for.

Sources: LeCun, Bottou, Bengio and Haffner (1998); Xiao, Rasul and Vollgraf (2017).
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import read_bytes
from continual.data.stratify import stratified_split

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
FASHION_REPAIR = (
    "apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb fashion, "
    "then root=fashion/usr/share/datasets/fashion-mnist (or: make bench-data)"
)
MNIST_REPAIR = "put the four official MNIST files (plain or .gz) into this folder; data=mnist5k needs no download"
UNSIGNED_BYTE = 8


def fashion_mnist(
    root: str | Path,
    validation: float = 0.0,
    seed: int = 0,
    limit_train: int | None = None,
    limit_test: int | None = None,
) -> Dataset:
    """Load Fashion-MNIST: 60,000 train and 10,000 test pictures of clothes in ten classes.

    Args:
        root: Folder of the four files, plain or gzipped.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out and which part a limit keeps.
        limit_train: Use only that many train samples, stratified; None uses all.
        limit_test: The same for the test part.

    Returns:
        Images [N, 28, 28] uint8, labels 0..9.

    Raises:
        ValueError: A file is missing or damaged, or a limit exceeds what is there.
    """
    return _load("fashion_mnist", Path(root), FASHION_REPAIR, validation, seed, (limit_train, limit_test))


def mnist(
    root: str | Path,
    validation: float = 0.0,
    seed: int = 0,
    limit_train: int | None = None,
    limit_test: int | None = None,
) -> Dataset:
    """Load MNIST: 60,000 train and 10,000 test handwritten digits.

    Args:
        root: Folder of the four files, plain or gzipped.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out and which part a limit keeps.
        limit_train: Use only that many train samples, stratified; None uses all.
        limit_test: The same for the test part.

    Returns:
        Images [N, 28, 28] uint8, labels 0..9.

    Raises:
        ValueError: A file is missing or damaged, or a limit exceeds what is there.
    """
    return _load("mnist", Path(root), MNIST_REPAIR, validation, seed, (limit_train, limit_test))


def read_idx(path: str | Path, num_axes: int) -> npt.NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, plain or gzipped.

    Args:
        path: The file.
        num_axes: How many axes it must have: 3 for images, 1 for labels.

    Returns:
        The array, of the shape that the file states.

    Raises:
        ValueError: Magic, type, axes or length are wrong, or the gzip stream is damaged.
    """
    content = read_bytes(Path(path))
    wanted = bytes((0, 0, UNSIGNED_BYTE, num_axes))
    if content[:4] != wanted:
        raise ValueError(
            f"{path} must start with the IDX magic 0x{wanted.hex()} (unsigned bytes, {num_axes} axes), but it starts "
            f"with 0x{content[:4].hex()}; check that images and labels are not swapped and that this is an IDX file."
        )
    start = 4 + 4 * num_axes
    if len(content) < start:
        raise ValueError(f"{path} must state {num_axes} lengths, but it ends after {len(content)} bytes; get it again.")
    shape = struct.unpack(f">{num_axes}I", content[4:start])
    expected = int(np.prod(shape, dtype=object))
    if len(content) - start != expected:
        raise ValueError(
            f"{path} must hold {expected} numbers, since it states the shape {shape}, but it holds "
            f"{len(content) - start}; it is truncated or has something appended, so get it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def find_idx(root: Path, name: str) -> Path | None:
    """Return the gzipped or plain file of that official name in a folder, or None."""
    return next((path for path in (root / f"{name}.gz", root / name) if path.is_file()), None)


def _load(
    name: str, root: Path, repair: str, validation: float, seed: int, limits: tuple[int | None, int | None]
) -> Dataset:
    train = Train(*_limited(_read_pair(root, FILES[0], FILES[1], repair), limits[0], seed, "limit_train"))
    test = Test(*_limited(_read_pair(root, FILES[2], FILES[3], repair), limits[1], seed, "limit_test"))
    kept, held_out = carve_validation(train, validation, seed)
    return Dataset(name, kept, held_out, test, 10)


def _read_pair(root: Path, images: str, labels: str, repair: str) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    paths = []
    for name in (images, labels):
        path = find_idx(root, name)
        if path is None:
            raise ValueError(f"{root / name}.gz (or without .gz) is needed but not there; to get it: {repair}")
        paths.append(path)
    pixels, targets = read_idx(paths[0], 3), read_idx(paths[1], 1)
    if targets.size and targets.max() > 9:
        first = int(np.argmax(targets > 9))
        raise ValueError(
            f"{paths[1]} must hold labels 0..9, but label {targets[first]} stands at index {first}; get it again."
        )
    return pixels, targets.astype(np.int64)


def _limited(
    pair: tuple[np.ndarray, npt.NDArray[np.int64]], limit: int | None, seed: int, name: str
) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    inputs, targets = pair
    if limit is None or limit == len(targets):
        return pair
    if not 0 < limit < len(targets):
        raise ValueError(f"{name} must lie in 1..{len(targets)}, the samples there are, but it is {limit}.")
    _, chosen = stratified_split(targets, limit, seed, stream=name)
    return inputs[chosen], targets[chosen]
