"""Image sets of the Hugging Face hub, through its own package, which fetches and caches them.

The extra `hub` brings the package. Nothing is fetched unless this loader is asked for, and none of the tests fetches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.optional import optional_package


def hub(
    path: str,
    name: str | None = None,
    train: str = "train",
    test: str = "test",
    image: str = "image",
    label: str = "label",
    validation: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """Load an image set whose pictures have one size.

    Args:
        path: Name of the set on the hub, or a local folder.
        name: Configuration of the set, where it has several.
        train: Split that is learned from.
        test: Split that is scored.
        image: Column of the pictures.
        label: Column of the labels, whole numbers from 0.
        validation: Fraction of the train part that is carved out for selection, stratified.
        seed: Decides what is carved out.

    Returns:
        Images [N, H, W] (grey) or [N, 3, H, W] uint8, labels from 0.

    Raises:
        UserError: The package is not installed.
        ValueError: A column is missing, pictures differ in size, or labels are no classes.
    """
    package = optional_package("datasets", "hub")
    parts = [_arrays(package.load_dataset(path, name, split=part), image, label) for part in (train, test)]
    kept, held_out = carve_validation(Train(*parts[0]), validation, seed)
    num_classes = 1 + max(int(targets.max()) for _, targets in parts)
    return Dataset(path, kept, held_out, Test(*parts[1]), num_classes)


def _arrays(rows: Any, image: str, label: str) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    for column in (image, label):
        if column not in rows.column_names:
            raise ValueError(f"the set has the columns {', '.join(rows.column_names)}, and none is called {column}.")
    grey = all(picture.mode in ("L", "1") for picture in rows[image])
    pixels = [np.asarray(picture.convert("L" if grey else "RGB"), dtype=np.uint8) for picture in rows[image]]
    shapes = {array.shape for array in pixels}
    if len(shapes) > 1:
        raise ValueError(f"all pictures must have one size, but there are {len(shapes)}; scale them beforehand.")
    images = np.stack(pixels)
    return images if grey else np.ascontiguousarray(np.moveaxis(images, -1, 1)), np.asarray(rows[label], dtype=np.int64)
