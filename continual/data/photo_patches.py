"""Photo-patch-10: small patches of ten photographs that come with scikit-image and scikit-learn; which photo is it?

Real pixels in the shape of CIFAR (3x32x32) or of MNIST (28x28, grey), without a download. A photograph is cut into
blocks of 96x96 pixels and every block goes whole to train or to test, a quarter of a photo's blocks to test, so no
pixel is in both; a block gives up to nine patches. Patches without contrast (a black corner, a clear sky in grey) are
left out; of the rest, each photo gives at most 150 to learn from and 50 to score. This is no object recognition: colour
and texture of one photograph are enough.

Sources: `skimage.data` (astronaut and Hubble by NASA, rocket by SpaceX: public domain; coffee, chelsea, retina: CC0;
ihc and motorcycle: see its own notes), `sklearn.datasets` (china and flower: CC BY 2.0). The cut into patches is ours.
"""

from __future__ import annotations

import numpy as np

from continual.data.arrays import Dataset, Test, Train, carve_validation
from continual.data.files import PackagedFile
from continual.data.patches import IMAGES_REPAIR, cut_patches, read_picture
from continual.data.stratify import named_generator

SKLEARN_REPAIR = "pip install --force-reinstall --no-deps scikit-learn"
PHOTO_FILES = (
    *(
        PackagedFile("skimage", f"data/{name}", sha256, IMAGES_REPAIR)
        for name, sha256 in (
            ("astronaut.png", "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
            ("coffee.png", "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7"),
            ("chelsea.png", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb"),
            ("rocket.jpg", "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c"),
            ("hubble_deep_field.jpg", "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4"),
            ("retina.jpg", "38a07f36f27f095e818aea7b96d34202c05176d30253c66733f2e00379e9e0e6"),
            ("ihc.png", "f8dd1aa387ddd1f49d8ad13b50921b237df8e9b262606d258770687b0ef93cef"),
            ("motorcycle_left.png", "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179"),
        )
    ),
    PackagedFile(
        "sklearn",
        "datasets/images/china.jpg",
        "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        SKLEARN_REPAIR,
    ),
    PackagedFile(
        "sklearn",
        "datasets/images/flower.jpg",
        "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
        SKLEARN_REPAIR,
    ),
)
BLOCK = 96
TRAIN_PER_PHOTO, TEST_PER_PHOTO = 150, 50
MIN_CONTRAST = 2.0
"""Smallest standard deviation, in grey levels, of the values of a patch that is used."""


def photo_patches(grey: bool = False, seed: int = 0, validation: float = 0.0) -> Dataset:
    """Load patches of ten photographs; the label is the photo's place in `PHOTO_FILES`.

    Args:
        grey: Grey patches of 28x28, as MNIST's, instead of colour ones of 32x32, as CIFAR's.
        seed: Decides which blocks are scored, which patches are kept, and the order.
        validation: Fraction of the train part that is carved out for selection, stratified. Its patches have their
            neighbours in train, so it scores higher than the test part does.

    Returns:
        Images [N, 3, 32, 32] or [N, 28, 28] uint8, labels 0..9; small or plain photos give fewer than 150 and 50.

    Raises:
        ValueError: scikit-image or a file is missing, truncated or altered.
    """
    learned, scored = [], []
    for label, file in enumerate(PHOTO_FILES):
        train, test = split_blocks(read_picture(file, grey), 28 if grey else 32, seed, label)
        learned.append(train)
        scored.append(test)
    whole = Train(*_labelled(learned, seed, "photo train order"))
    kept, held_out = carve_validation(whole, validation, seed)
    scored_part = Test(*_labelled(scored, seed, "photo test order"))
    return Dataset("photo_patches", kept, held_out, scored_part, len(PHOTO_FILES))


def split_blocks(picture: np.ndarray, size: int, seed: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a photograph into train and test patches that come from different blocks.

    Args:
        picture: [H, W] or [3, H, W] uint8, at least two blocks of 96x96.
        size: Side S of a patch in pixels, 1..96.
        seed: Decides which blocks are scored, and which patches are kept.
        index: The photo's number; each has draws of its own.

    Returns:
        Train patches [N, ..., S, S] (at most 150) and test patches (at most 50), all with contrast.
    """
    per_sample = (*picture.shape[:-2], size, size)
    blocks = cut_patches(picture, BLOCK).reshape(-1, *picture.shape[:-2], BLOCK, BLOCK)
    grid = cut_patches(blocks, size)  # [rows, columns, blocks, ...]
    patches = grid.reshape(-1, len(blocks), *per_sample)
    block_of = np.tile(np.arange(len(blocks)), len(patches))
    patches = patches.reshape(-1, *per_sample)
    usable = patches.reshape(len(patches), -1).std(axis=1) >= MIN_CONTRAST
    patches, block_of = patches[usable], block_of[usable]

    generator = named_generator(seed, "photo blocks", index)
    drawn = generator.permutation(np.unique(block_of))
    in_test = np.isin(block_of, drawn[: max(1, round(len(drawn) / 4))])
    train = generator.permutation(np.flatnonzero(~in_test))[:TRAIN_PER_PHOTO]
    test = generator.permutation(np.flatnonzero(in_test))[:TEST_PER_PHOTO]
    return patches[train], patches[test]


def _labelled(patches: list[np.ndarray], seed: int, stream: str) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(len(patches), dtype=np.int64), [len(one) for one in patches])
    order = named_generator(seed, stream).permutation(len(labels))
    return np.concatenate(patches)[order], labels[order]
