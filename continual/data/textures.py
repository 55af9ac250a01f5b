"""Textures-3: patches of three photographed surfaces (brick, grass, gravel) that come with scikit-image.

Each surface is one grey photograph of 512x512 pixels. Patches are cut without overlap: those of the upper three
quarters are learned from, those of the lower quarter are scored, so no pixel is in both. All patches of a class show
one surface under one light, so the scores say whether these photographs are told apart, not whether textures are.

Source: scikit-image's `skimage.data`; all three photographs are CC0. The cut into patches is ours.
"""

from __future__ import annotations

import numpy as np

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import PackagedFile
from continual.data.patches import IMAGES_REPAIR, cut_patches, read_picture
from continual.data.stratify import named_generator

TEXTURE_FILES = tuple(
    PackagedFile("skimage", f"data/{name}.png", sha256, IMAGES_REPAIR)
    for name, sha256 in (
        ("brick", "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf"),
        ("grass", "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89"),
        ("gravel", "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12"),
    )
)
TRAIN_ROWS = 384
"""Pixel rows from the top, of 512, that are learned from."""


def textures(size: int = 28, seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load patches of brick (label 0), grass (1) and gravel (2).

    Args:
        size: Side of a patch in pixels, 8..128; 28 gives 702 train and 216 test patches, 32 gives 576 and 192.
        seed: Decides the order, and what is carved out; the cut into train and test is always the same.
        validation: Fraction of the train part that is carved out for selection, stratified. Its patches have their
            neighbours in train, so it scores higher than the test part does.

    Returns:
        Grey images [N, size, size] uint8, labels 0..2, equally many of each.

    Raises:
        ValueError: scikit-image or a file is missing, truncated or altered, or the size is out of range.
    """
    if not 8 <= size <= 128:
        raise ValueError(f"size must lie in 8..128 pixels, so that both regions hold whole patches, but it is {size}.")
    pictures = np.stack([read_picture(file, grey=True) for file in TEXTURE_FILES])
    learned = _labelled(pictures[:, :TRAIN_ROWS], size, seed, "texture train order")
    scored = _labelled(pictures[:, TRAIN_ROWS:], size, seed, "texture test order")
    train, held_out = carve_validation(Train(*learned), validation, seed)
    return Dataset("textures", train, held_out, Test(*scored), len(TEXTURE_FILES))


def _labelled(region: np.ndarray, size: int, seed: int, stream: str) -> tuple[np.ndarray, np.ndarray]:
    """Cut the same region of every surface [C, H, W] into shuffled patches [N, S, S] with labels [N]."""
    patches = cut_patches(region, size).reshape(-1, len(region), size, size)
    labels = np.tile(np.arange(len(region), dtype=np.int64), len(patches))
    order = named_generator(seed, stream).permutation(len(labels))
    return patches.reshape(-1, size, size)[order], labels[order]
