"""Read sets that come as picture files: notMNIST (a folder a letter) and miniImageNet (a folder and three lists).

notMNIST has no official test part. A sixth of its fonts is held out, drawn by the checksum of the file's name, so that
all letters of a font are on one side. miniImageNet's lists divide *classes* for few-shot learning; a sequence of tasks
uses all hundred, with the last sixth of each class's pictures held out (500 and 100), in the order of the lists.

Sources: Bulatov (2011), notMNIST; Vinyals et al. (2016) and Ravi and Larochelle (2017), miniImageNet and its lists.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation

NOTMNIST_REPAIR = "put the folders A to J of notMNIST_small or notMNIST_large into this folder"
MINI_IMAGENET_REPAIR = "put the folder images and the lists train.csv, val.csv, test.csv into this folder"
LETTERS = "ABCDEFGHIJ"
LISTS = ("train.csv", "val.csv", "test.csv")
HELD_OUT = 6
"""One in so many is tested on."""


def notmnist(root: str | Path, validation: float = 0.0, seed: int = 0) -> Dataset:
    """Load notMNIST: the letters A to J in many fonts.

    Args:
        root: Folder with `A/` … `J/`, each with PNG files named after their font.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.

    Returns:
        Images [N, 28, 28] uint8, labels 0..9.

    Raises:
        ValueError: A folder or its pictures are missing, or files are no pictures (all of them are named; the released
            archives hold some that are empty).
    """
    paths = {letter: sorted((Path(root) / letter).glob("*.png")) for letter in LETTERS}
    for letter, found in paths.items():
        if not found:
            raise ValueError(f"{Path(root) / letter}/*.png is needed but not there; to get it: {NOTMNIST_REPAIR}.")
    fonts = sorted({path.name for found in paths.values() for path in found}, key=lambda name: (_drawn(name), name))
    held_out = set(fonts[: max(1, len(fonts) // HELD_OUT)])
    labelled = [(path, label) for label, letter in enumerate(LETTERS) for path in paths[letter]]
    return _divided("notmnist", labelled, [path.name in held_out for path, _ in labelled], (28, None), validation, seed)


def mini_imagenet(root: str | Path, validation: float = 0.0, seed: int = 0, size: int = 84) -> Dataset:
    """Load miniImageNet: 600 photographs of each of a hundred classes.

    Args:
        root: Folder with `images/` and the three lists, whose lines are a file's name and its class.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.
        size: Side in pixels to which photographs are scaled.

    Returns:
        Images [N, 3, size, size] uint8; labels are the classes in the order in which the lists name them first.

    Raises:
        ValueError: A list or a photograph is missing or damaged.
    """
    listed = [row for name in LISTS for row in _rows(Path(root) / name)]
    classes = {name: label for label, name in enumerate(dict.fromkeys(name for _, name in listed))}
    labelled = [(Path(root) / "images" / file, classes[name]) for file, name in listed]
    missing = next((path for path, _ in labelled if not path.is_file()), None)
    if missing is not None:
        raise ValueError(f"{missing} is listed but not there; to get it: {MINI_IMAGENET_REPAIR}.")
    labels = np.array([label for _, label in labelled], dtype=np.int64)
    return _divided("mini_imagenet", labelled, _last_of_each(labels), (size, "RGB"), validation, seed)


def _drawn(name: str) -> int:
    return zlib.crc32(name.encode())


def _rows(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise ValueError(f"{path} is needed but not there; to get it: {MINI_IMAGENET_REPAIR}.")
    with path.open(newline="") as file:
        lines = [row for row in csv.reader(file) if row]
    if not lines or lines[0] != ["filename", "label"] or any(len(row) != 2 for row in lines):
        raise ValueError(f"{path} must begin with filename,label and hold two values a line; get it again.")
    return [(file, label) for file, label in lines[1:]]


def _last_of_each(labels: npt.NDArray[np.int64]) -> list[bool]:
    held_out = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        held_out[members[-max(1, len(members) // HELD_OUT) :]] = True
    return held_out.tolist()


def _divided(
    name: str,
    labelled: Sequence[tuple[Path, int]],
    in_test: Sequence[bool],
    form: tuple[int, str | None],
    validation: float,
    seed: int,
) -> Dataset:
    images = _read([path for path, _ in labelled], *form)
    labels, chosen = np.array([label for _, label in labelled], dtype=np.int64), np.array(in_test)
    kept, held_out = carve_validation(Train(images[~chosen], labels[~chosen]), validation, seed)
    return Dataset(name, kept, held_out, Test(images[chosen], labels[chosen]), int(labels.max()) + 1)


def _read(paths: Sequence[Path], size: int, colours: str | None) -> npt.NDArray[np.uint8]:
    """Read pictures as [N, size, size], or [N, 3, size, size] where colours are asked for."""
    from PIL import Image, UnidentifiedImageError  # here, so that whoever loads other data does not wait for it

    images = np.empty((len(paths), size, size, *((3,) if colours else ())), dtype=np.uint8)
    broken = []
    for place, path in enumerate(paths):
        try:
            with Image.open(path) as picture:
                images[place] = np.asarray(picture.convert(colours or "L").resize((size, size)))
        except (UnidentifiedImageError, OSError):
            broken.append(str(path))
    if broken:
        raise ValueError(f"{len(broken)} files are no pictures, so delete them: {', '.join(broken)}.")
    return np.ascontiguousarray(np.moveaxis(images, -1, 1)) if colours else images
