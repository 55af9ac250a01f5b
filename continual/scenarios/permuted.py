"""Permuted images: each task shows the same images with their pixels in another fixed random order.

Task k sees x[p_k], with p_k a permutation of the H W pixel positions drawn from the seed and k alone, so task k is
the same whatever the number of tasks. All channels and all parts of a task share p_k. The tasks are equally hard for
a network without locality and hold no common input features, which makes forgetting easy to see.

Sources: Goodfellow, Mirza, Xiao, Courville and Bengio (2013); Kirkpatrick et al. (2017). Papers differ on whether the
first task is permuted too; `permute_first` chooses, and only task 0 changes with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Dataset
from continual.data.stratify import named_generator
from continual.scenarios.task import Mode, TaskSequence, TrainLogits, check_num_tasks
from continual.scenarios.transformed import Transform, transformed_sequence


def permuted(
    dataset: Dataset,
    num_tasks: int = 5,
    mode: Mode = "domain",
    seed: int = 0,
    permute_first: bool = True,
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make a sequence of pixel-permuted copies of a dataset.

    Args:
        dataset: Images [N, H, W] or [N, C, H, W], or vectors [N, F]; C classes.
        num_tasks: T, at least 1. Each task holds a copy of the data, uint8 where the data is.
        mode: "domain" (one set of C rows for all tasks), "task" or "class" (C rows a task, T C in all).
        seed: Decides the permutations.
        permute_first: Whether task 0 is permuted too, or shows the images as they are.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Returns:
        The sequence.

    Raises:
        ValueError: Fewer than one task, or an unknown mode or `train_logits`.
    """
    check_num_tasks(num_tasks)
    num_pixels = int(np.prod(dataset.input_shape[-2:]))
    transforms: list[tuple[str, Transform]] = []
    for index in range(num_tasks):
        plain = index == 0 and not permute_first
        order = np.arange(num_pixels) if plain else pixel_permutation(seed, index, num_pixels)
        transforms.append((f"permutation {index}" if not plain else "unpermuted", _permuter(order)))
    return transformed_sequence(dataset, f"permuted {dataset.name}", transforms, mode, train_logits)


def pixel_permutation(seed: int, index: int, num_pixels: int) -> npt.NDArray[np.int64]:
    """Return the permutation of task `index`: position i of its images shows pixel p[i] of the original.

    Args:
        seed: Root seed, 0 or more.
        index: The task, from 0.
        num_pixels: H W.
    """
    return named_generator(seed, "permutation", index).permutation(num_pixels)


def permute_pixels(inputs: np.ndarray, order: npt.NDArray[np.int64]) -> np.ndarray:
    """Put the pixels of all samples into the given order, the same one in all channels.

    Args:
        inputs: [N, H, W], [N, C, H, W] or [N, F].
        order: [H W] or [F], a permutation of the positions, counted row by row.

    Returns:
        A new array of the same shape and dtype.
    """
    leading = inputs.shape[:-2] if inputs.ndim > 2 else inputs.shape[:1]
    return inputs.reshape(*leading, -1).take(order, axis=-1).reshape(inputs.shape)


def _permuter(order: npt.NDArray[np.int64]) -> Transform:
    return lambda inputs: permute_pixels(inputs, order)
