"""Cut photographs that lie inside installed packages into square patches.

A picture is read from the package's file after its checksum was compared, so the package is neither imported nor asked
to download anything. Pillow decodes it. PNG files give the same pixels everywhere; a JPEG decoder may round differently
from version to version, so the pixels of the JPEG photographs (and the checksum of a dataset made of them) are the same
for one version of Pillow, not for all.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from continual.data.files import PackagedFile

IMAGES_REPAIR = (
    "pip install 'palimpsest[images]' (over an altered copy: pip install --force-reinstall --no-deps scikit-image)"
)


def read_picture(file: PackagedFile, grey: bool) -> npt.NDArray[np.uint8]:
    """Read one picture.

    Args:
        file: Where it lies.
        grey: Whether to reduce it to brightness (0.299 R + 0.587 G + 0.114 B, rounded by Pillow).

    Returns:
        [H, W] when grey, [3, H, W] otherwise.

    Raises:
        ValueError: The package or the file is missing, truncated or altered.
    """
    from PIL import Image  # here, so that whoever loads other data does not wait for it

    with Image.open(io.BytesIO(file.read())) as picture:
        pixels = np.array(picture.convert("L" if grey else "RGB"))
    return pixels if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def cut_patches(pictures: np.ndarray, size: int) -> np.ndarray:
    """Cut pictures into a grid of square patches that touch and do not overlap, dropping what is left at the end.

    Args:
        pictures: [..., H, W], both at least `size`.
        size: Side of a patch in pixels, S.

    Returns:
        [H // S, W // S, ..., S, S]: rows of patches from the top, columns from the left.

    Raises:
        ValueError: The size is below 1, or larger than a picture.
    """
    height, width = pictures.shape[-2:]
    if not 1 <= size <= min(height, width):
        raise ValueError(f"a patch must have a side of 1..{min(height, width)} pixels, but it is {size}.")
    rows, columns = height // size, width // size
    whole = pictures[..., : rows * size, : columns * size]
    grid = whole.reshape(*pictures.shape[:-2], rows, size, columns, size)
    return np.moveaxis(grid, (-4, -2), (0, 1))
