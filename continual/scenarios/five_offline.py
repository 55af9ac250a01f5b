"""Five real image sets in a row, all of them from packages: nothing is downloaded at run time.

    1 the dataset that is passed, MNIST-5k in the configuration      10 classes
    2 optdigits, 8x8 enlarged by 3 and padded                         10 (scikit-learn)
    3 textures-3: brick, grass, gravel                                 3 (scikit-image)
    4 photo-patch-10: which photograph is it?                         10 (scikit-image, scikit-learn)
    5 Fashion-MNIST, 5,000 train and 1,000 test pictures of it        10 (Debian)

They stand in the order of how hard they are to get: the first two need nothing beyond this package, four need the extra
`images`, five the files of Fashion-MNIST. This is **not** the published five-datasets sequence (CIFAR-10, MNIST, SVHN,
notMNIST, Fashion-MNIST; Ebrahimi et al. 2020): no number made here may be compared with one made there. Tasks 3 and 4
are made of few photographs and say whether those are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from continual.data.arrays import Dataset
from continual.data.digits import digits
from continual.data.idx import FASHION_REPAIR, FILES, fashion_mnist, find_idx
from continual.data.photo_patches import photo_patches
from continual.data.textures import textures
from continual.scenarios.domain_sequence import domain_sequence
from continual.scenarios.task import Mode, TaskSequence, TrainLogits, check_num_tasks

NAME = "five-offline"
FASHION_TRAIN, FASHION_TEST = 5000, 1000


def five_offline(
    dataset: Dataset,
    num_tasks: int = 5,
    mode: Mode = "task",
    fashion_root: str | Path = "data/fashion-mnist",
    image_shape: Sequence[int] = (1, 28, 28),
    samples_per_task: int | None = 1000,
    seed: int = 0,
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make the sequence five-offline, or the beginning of it.

    Args:
        dataset: The first task, MNIST-5k by the configuration. Where it has a validation part, the others get one of
            the same share. With another dataset the sequence says so in its name.
        num_tasks: How many of the five, 1..5, from the first.
        mode: "task" or "class" (43 rows in all), or "domain" (10 rows shared by all).
        fashion_root: Folder of Fashion-MNIST's four files; only looked at when the fifth task is asked for.
        image_shape: (C, H, W): one channel of at least 28x28, or three of at least 32x32, where the photographs are in
            colour and the grey sets repeat their channel.
        samples_per_task: Most train samples a task keeps; None keeps all.
        seed: Decides cuts and draws.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Returns:
        The sequence.

    Raises:
        TypeError: `num_tasks` is no integer.
        ValueError: A package or file is missing or altered, or a setting is out of range.
    """
    check_num_tasks(num_tasks)
    if num_tasks > 5:
        raise ValueError(f"five_offline has 5 tasks, but num_tasks is {num_tasks}; use 1..5.")
    if num_tasks == 5:
        _check_fashion(Path(fashion_root))  # before the others are loaded
    validation = 0.0
    if dataset.validation is not None:
        validation = len(dataset.validation) / (len(dataset.validation) + len(dataset.train))
    grey = tuple(image_shape)[:1] == (1,)
    loaders: list[Callable[[], Dataset]] = [
        lambda: dataset,
        lambda: digits(seed, validation),
        lambda: textures(28 if grey else 32, seed, validation),
        lambda: photo_patches(grey, seed, validation),
        lambda: fashion_mnist(fashion_root, validation, seed, FASHION_TRAIN, FASHION_TEST),
    ]
    datasets = [load() for load in loaders[:num_tasks]]
    name = NAME if dataset.name == "mnist5k" else f"{NAME} after {dataset.name}"
    return domain_sequence(datasets, mode, image_shape, samples_per_task, seed, train_logits, name)


def _check_fashion(root: Path) -> None:
    if any(find_idx(root, file) is None for file in FILES):
        raise ValueError(
            f"the fifth task of five-offline is Fashion-MNIST, and fashion_root={root} lacks a file of it; use "
            f"num_tasks=4, or to get it: {FASHION_REPAIR.replace('root=', 'fashion_root=')}"
        )
