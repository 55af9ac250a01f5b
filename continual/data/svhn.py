"""Read SVHN's cropped house numbers from their two official `.mat` files.

`X` holds pictures as [32, 32, 3, N] bytes and `y` labels as [N, 1], where the digit 0 is written as 10. The extra part
is not read. Source: Netzer et al. (2011).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation

SVHN_REPAIR = "put train_32x32.mat and test_32x32.mat into this folder"


def svhn(root: str | Path, validation: float = 0.0, seed: int = 0) -> Dataset:
    """Load SVHN: 73,257 train and 26,032 test pictures of single digits.

    Args:
        root: Folder of the two files.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.

    Returns:
        Images [N, 3, 32, 32] uint8, labels 0..9 (the files' 10 is 0).

    Raises:
        ValueError: A file is missing or damaged, or holds something else.
    """
    train, test = (_read(Path(root) / f"{part}_32x32.mat") for part in ("train", "test"))
    kept, held_out = carve_validation(Train(*train), validation, seed)
    return Dataset("svhn", kept, held_out, Test(*test), 10)


def _read(path: Path) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    from scipy.io import loadmat  # here, so that whoever loads other data does not wait for it

    if not path.is_file():
        raise ValueError(f"{path} is needed but not there; to get it: {SVHN_REPAIR}.")
    try:
        found = loadmat(path, variable_names=("X", "y"))
    except Exception as problem:  # scipy raises whatever its parser stumbles over
        raise ValueError(f"{path} must be a MATLAB file, but it cannot be read ({problem}); get it again.") from problem
    pixels, labels = found.get("X"), found.get("y")
    if pixels is None or labels is None or pixels.shape[:3] != (32, 32, 3) or pixels.dtype != np.uint8:
        raise ValueError(f"{path} must hold X of [32, 32, 3, N] bytes and y of N labels; get it again.")
    if labels.size != pixels.shape[3] or not (labels.min() >= 1 and labels.max() <= 10):
        raise ValueError(f"{path} must hold a label of 1..10 for each of its {pixels.shape[3]} pictures; get it again.")
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10
