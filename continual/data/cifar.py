"""Read CIFAR-10 and CIFAR-100 from the official archive for Python, or from the folder it unpacks to.

Each file is a pickle with `data`, N rows of 3072 bytes (a plane of 32x32 for red, green and blue), and labels:
`labels` for CIFAR-10, `fine_labels` and `coarse_labels` for CIFAR-100, whose hundred classes lie in twenty
superclasses. The archive is read in place and nothing is unpacked to disk. Source: Krizhevsky (2009).
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from continual.data.allowed_pickle import read_arrays
from continual.data.arrays import Dataset, Test, Train, carve_validation

CIFAR10_REPAIR = "put cifar-10-python.tar.gz, or the folder cifar-10-batches-py that it unpacks to, into this folder"
CIFAR100_REPAIR = "put cifar-100-python.tar.gz, or the folder cifar-100-python that it unpacks to, into this folder"
TRAIN10, TEST10 = tuple(f"data_batch_{number}" for number in range(1, 6)), ("test_batch",)


def cifar10(root: str | Path, validation: float = 0.0, seed: int = 0) -> Dataset:
    """Load CIFAR-10: 50,000 train and 10,000 test pictures of animals and vehicles in ten classes.

    Args:
        root: Folder with the archive or with `cifar-10-batches-py/`.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.

    Returns:
        Images [N, 3, 32, 32] uint8, labels 0..9.

    Raises:
        ValueError: A file is missing, damaged, or a pickle of something else.
    """
    source = _source(Path(root), "cifar-10-python.tar.gz", "cifar-10-batches-py", CIFAR10_REPAIR)
    batches = {name: _batch(source, name, {"labels": 10}) for name in (*TRAIN10, *TEST10)}
    train = Train(*_joined([batches[name] for name in TRAIN10], "labels"))
    test = Test(*_joined([batches[name] for name in TEST10], "labels"))
    kept, held_out = carve_validation(train, validation, seed)
    return Dataset("cifar10", kept, held_out, test, 10)


def cifar100(root: str | Path, validation: float = 0.0, seed: int = 0) -> Dataset:
    """Load CIFAR-100: 50,000 train and 10,000 test pictures in a hundred classes, grouped into twenty superclasses.

    Args:
        root: Folder with the archive or with `cifar-100-python/`.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.

    Returns:
        Images [N, 3, 32, 32] uint8, labels 0..99 (the fine ones), and the superclasses as `groups`.

    Raises:
        ValueError: A file is missing, damaged, or a pickle of something else, or a class lies in two superclasses.
    """
    source = _source(Path(root), "cifar-100-python.tar.gz", "cifar-100-python", CIFAR100_REPAIR)
    train, test = (_batch(source, name, {"fine_labels": 100, "coarse_labels": 20}) for name in ("train", "test"))
    groups = _superclasses(train["fine_labels"], train["coarse_labels"])
    kept, held_out = carve_validation(Train(*_joined([train], "fine_labels")), validation, seed)
    return Dataset("cifar100", kept, held_out, Test(*_joined([test], "fine_labels")), 100, groups=groups)


def _source(root: Path, archive: str, folder: str, repair: str) -> dict[str, bytes]:
    """Return the content of every file of the set, by name: of the unpacked folder, else of the archive."""
    if (root / folder).is_dir():
        return {path.name: path.read_bytes() for path in (root / folder).iterdir() if path.is_file()}
    if not (root / archive).is_file():
        raise ValueError(f"{root / archive} is needed but not there; to get it: {repair}.")
    try:
        with tarfile.open(root / archive) as opened:
            members = ((member, opened.extractfile(member)) for member in opened if member.isfile())
            return {Path(member.name).name: file.read() for member, file in members if file is not None}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise ValueError(f"{root / archive} must be a whole archive, but it is damaged ({problem}).") from problem


def _batch(source: dict[str, bytes], name: str, labels: dict[str, int]) -> dict[str, np.ndarray]:
    if name not in source:
        raise ValueError(f"the file {name} is needed but not among {', '.join(sorted(source)) or 'no files'}.")
    found = read_arrays(source[name], name)
    pixels = found.get("data")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise ValueError(f"{name} must hold data of N rows of 3072 bytes, but it holds {_description(pixels)}.")
    read = {key: _labels(found.get(key), len(pixels), below, name, key) for key, below in labels.items()}
    return {"data": pixels.reshape(-1, 3, 32, 32), **read}


def _labels(values: Any, number: int, below: int, name: str, key: str) -> npt.NDArray[np.int64]:
    if not isinstance(values, list | np.ndarray) or len(values) != number:
        raise ValueError(f"{name} must hold {number} {key}, one a picture, but it holds {_description(values)}.")
    labels = np.asarray(values, dtype=np.int64)
    if labels.size and not (labels.min() >= 0 and labels.max() < below):
        raise ValueError(f"{name} must hold {key} of 0..{below - 1}, but they run to {labels.max()}; get it again.")
    return labels


def _joined(batches: Sequence[dict[str, np.ndarray]], key: str) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    return np.concatenate([batch["data"] for batch in batches]), np.concatenate([batch[key] for batch in batches])


def _superclasses(fine: np.ndarray, coarse: np.ndarray) -> tuple[tuple[int, ...], ...]:
    pairs = np.unique(np.stack([coarse, fine], axis=1), axis=0)
    classes, counts = np.unique(pairs[:, 1], return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"every class must lie in one superclass, but class {classes[counts > 1][0]} lies in two.")
    return tuple(tuple(pairs[pairs[:, 0] == group, 1].tolist()) for group in np.unique(pairs[:, 0]))


def _description(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return "none" if value is None else f"a {type(value).__name__}"
