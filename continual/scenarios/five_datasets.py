"""The published five datasets, from the user's own files: CIFAR-10, MNIST, SVHN, Fashion-MNIST, notMNIST.

Every picture is brought to 3x32x32 (grey sets are padded and repeat their channel). Order and sets are those of
Ebrahimi et al. (2020) as GPM runs them (Saha, Garg, Roy 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from continual.data.arrays import Dataset
from continual.data.cifar import cifar10
from continual.data.idx import fashion_mnist, mnist
from continual.data.image_folders import notmnist
from continual.data.svhn import svhn
from continual.scenarios.domain_sequence import domain_sequence
from continual.scenarios.task import Mode, TaskSequence, TrainLogits, check_num_tasks

FOLDERS = ("cifar10", "mnist", "svhn", "fashion-mnist", "notmnist")


def five_datasets(
    dataset: Dataset | None = None,
    num_tasks: int = 5,
    mode: Mode = "task",
    root: str | Path = "data",
    validation: float = 0.0,
    samples_per_task: int | None = None,
    seed: int = 0,
    train_logits: TrainLogits = "seen",
) -> TaskSequence:
    """Make the sequence of five data sets, or the beginning of it.

    Args:
        dataset: Ignored; a scenario is handed the configured data, and this one brings its own.
        num_tasks: How many of the five, from the first.
        mode: "task" or "class" (50 rows), or "domain" (10 shared rows).
        root: Folder with `cifar10/`, `mnist/`, `svhn/`, `fashion-mnist/`, `notmnist/` in their official layouts.
        validation: Fraction of each train part that is carved out for selection, stratified.
        samples_per_task: Most train samples a task keeps; None keeps all.
        seed: Decides cuts and draws.
        train_logits: Rows that compete in the training loss: "all", "seen" or "current".

    Raises:
        ValueError: A file is missing or damaged, or a setting is out of range.
    """
    check_num_tasks(num_tasks)
    if num_tasks > 5:
        raise ValueError(f"five_datasets has 5 tasks, but num_tasks is {num_tasks}; use 1..5.")
    loaders: tuple[Callable[..., Dataset], ...] = (cifar10, mnist, svhn, fashion_mnist, notmnist)
    chosen = zip(loaders[:num_tasks], FOLDERS, strict=False)
    datasets = [load(Path(root) / folder, validation=validation, seed=seed) for load, folder in chosen]
    return domain_sequence(datasets, mode, (3, 32, 32), samples_per_task, seed, train_logits, "five-datasets")
