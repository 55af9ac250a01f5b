"""Labelled arrays that cannot be mixed up: train, validation and test are three different types.

A `Split` is one array of inputs and one of labels, checked once when it is made, so that nothing behind it has to
ask again whether the data holds a NaN or a label is out of range. Training, selection and measurement each name the
subclass they take; early stopping that is handed a `Test` fails with a TypeError instead of quietly choosing on test
data. `from_arrays` turns anybody's own arrays into a `Dataset`, and refuses what it cannot take with the repair in the
message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from continual.data.checks import check_below, check_inputs, check_no_gaps, check_targets
from continual.data.stratify import stratified_split


@dataclass(frozen=True, eq=False)
class Split:
    """Hold inputs and labels of one part of a dataset.

    Args:
        inputs: [N, ...] uint8 in 0..255, or float32 in [0, 1]. Images are [N, H, W] or [N, C, H, W].
        targets: [N] int64 class labels, 0 or more.

    Raises:
        TypeError: An array is missing or has another dtype.
        ValueError: Lengths differ, nothing is there, a value is not finite or out of range, or a label is negative.
    """

    inputs: np.ndarray
    targets: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        part = type(self).__name__.lower()
        check_inputs(self.inputs, part)
        check_targets(self.targets, part)
        if len(self.inputs) != len(self.targets):
            raise ValueError(
                f"{part} inputs and targets must have the same length, but there are {len(self.inputs)} inputs and "
                f"{len(self.targets)} targets; pass one label for every sample."
            )

    def __len__(self) -> int:
        return len(self.targets)

    def select(self, indices: npt.NDArray[np.int64]) -> Self:
        """Return the samples at `indices`, in that order, as a copy of the same type."""
        return type(self)(self.inputs[indices], self.targets[indices])


class Train(Split):
    """Samples that weights, memories and consolidation may learn from."""


class Validation(Split):
    """Samples that selection (early stopping, tuning) may look at."""


class Test(Split):
    """Samples that are scored and nothing else."""

    __test__ = False  # pytest collects classes of this name otherwise


@dataclass(frozen=True, eq=False)
class Dataset:
    """Bundle the parts of one dataset.

    Args:
        name: How reports call it.
        train: What is learned from.
        validation: What selection looks at, or None.
        test: What is scored.
        num_classes: Number of labels; every target is below it.
        checksum: SHA-256 over all parts, computed when left empty.
        groups: Classes that belong together, such as superclasses; empty where the data says nothing.

    Raises:
        TypeError: A part has another part's type, for example a `Test` where a `Train` belongs.
        ValueError: A label is not below `num_classes`, or samples of two parts differ in shape or dtype.
    """

    name: str
    train: Train
    validation: Validation | None
    test: Test
    num_classes: int
    checksum: str = ""
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        check_parts(self.train, self.validation, self.test)
        for part in self.parts:
            check_below(part.targets, self.num_classes, type(part).__name__.lower())
        if not self.checksum:
            object.__setattr__(self, "checksum", checksum_of(self.parts))

    @property
    def parts(self) -> tuple[Split, ...]:
        """Train, validation where there is one, and test."""
        return tuple(part for part in (self.train, self.validation, self.test) if part is not None)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.train.inputs.shape[1:]


def from_arrays(
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    *,
    name: str = "arrays",
    validation: float = 0.0,
    seed: int = 0,
    num_classes: int | None = None,
) -> Dataset:
    """Make a dataset of your own arrays or tensors; they are copied.

    Args:
        train: (inputs [N, ...], labels [N]); inputs are uint8 in 0..255 or floats in [0, 1], labels are
            integers from 0.
        test: The same for the samples that are only scored.
        name: How reports call it.
        validation: Fraction of `train` that is carved out for selection, stratified by class; 0 carves nothing.
        seed: Decides which samples are carved out.
        num_classes: Number of classes. None reads it off the labels, and then every class must occur in `train`.

    Returns:
        The checked dataset.

    Raises:
        TypeError: Something is not an array, or has a dtype that cannot be read as images or labels.
        ValueError: The values cannot be used as they are; the sentence says how to repair them.

    Example:
        >>> images = np.zeros((20, 8, 8), np.uint8)
        >>> labels = np.arange(20) % 2
        >>> from_arrays((images, labels), (images, labels)).num_classes
        2
    """
    learned = Train(_as_inputs(train, "train"), _as_targets(train, "train"))
    scored = Test(_as_inputs(test, "test"), _as_targets(test, "test"))
    if num_classes is None:
        num_classes = int(max(learned.targets.max(), scored.targets.max())) + 1
        check_no_gaps(learned.targets, num_classes)
    else:
        check_below(learned.targets, num_classes, "train")
    kept, held_out = carve_validation(learned, validation, seed)
    return Dataset(name, kept, held_out, scored, num_classes)


def carve_validation(train: Train, fraction: float, seed: int) -> tuple[Train, Validation | None]:
    """Move a stratified fraction of the train part into a validation part.

    Args:
        train: What to carve from.
        fraction: Share that goes to validation, 0 <= fraction < 1; 0 leaves `train` as it is.
        seed: Decides which samples go.

    Returns:
        The rest of the train part, and the validation part (None when `fraction` is 0).

    Raises:
        ValueError: The fraction is out of range, or leaves a class without a sample on one side.
    """
    if not 0.0 <= fraction < 1.0:
        raise ValueError(f"validation must be a fraction from 0 up to but not including 1, but it is {fraction}.")
    if fraction == 0.0:
        return train, None
    kept, held_out = stratified_split(train.targets, round(fraction * len(train)), seed, stream="validation")
    return train.select(kept), Validation(train.inputs[held_out], train.targets[held_out])


def checksum_of(parts: tuple[Split, ...]) -> str:
    """Return the SHA-256, in hexadecimal, over kind, dtype, shape and bytes of all parts."""
    digest = hashlib.sha256()
    for part in parts:
        for array in (part.inputs, part.targets):
            digest.update(f"{type(part).__name__} {array.dtype.str} {array.shape};".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()


def check_parts(train: Train, validation: Validation | None, test: Test) -> None:
    """Raise unless each part has its own type and all samples have one shape and dtype.

    Raises:
        TypeError: A part has another part's type.
        ValueError: Shapes or dtypes of samples differ.
    """
    for part, kind in ((train, Train), (validation, Validation), (test, Test)):
        if not isinstance(part, kind) and not (part is None and kind is Validation):
            raise TypeError(
                f"the {kind.__name__.lower()} part must be a {kind.__name__}, but it is a {type(part).__name__}; "
                f"wrap its arrays in {kind.__name__}(inputs, targets) if those samples may really be used so."
            )
    for part in (validation, test):
        if part is None:
            continue
        wanted, came = (train.inputs.shape[1:], train.inputs.dtype), (part.inputs.shape[1:], part.inputs.dtype)
        if wanted != came:
            raise ValueError(
                f"all parts must hold samples of one shape and dtype, but train has {wanted[0]} {wanted[1]} and "
                f"{type(part).__name__.lower()} has {came[0]} {came[1]}; bring both to the same form first."
            )


def _as_array(pair: tuple[Any, Any], position: int, part: str) -> np.ndarray:
    """Copy the array or tensor at `position` of a pair into numpy, C order."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{part} must be a pair (inputs, targets), but a {type(pair).__name__} came.")
    value = pair[position]
    if hasattr(value, "detach"):  # a torch tensor; asked by name so that plain arrays do not pull torch in
        value = value.detach().cpu().numpy()
    return np.array(value, order="C")


def _as_inputs(pair: tuple[Any, Any], part: str) -> np.ndarray:
    inputs = _as_array(pair, 0, part)
    if inputs.dtype.kind == "f":
        return inputs.astype(np.float32, copy=False)
    return inputs


def _as_targets(pair: tuple[Any, Any], part: str) -> npt.NDArray[np.int64]:
    targets = _as_array(pair, 1, part)
    if targets.ndim == 2:
        raise ValueError(
            f"{part} targets must be one label for every sample, shape [N], but their shape is {targets.shape}; "
            f"use targets.argmax(1) if they are one-hot, targets.ravel() if they are a column."
        )
    if targets.size and targets.dtype.kind not in "iu":
        raise TypeError(
            f"{part} targets must be integers, but their dtype is {targets.dtype}; use targets.astype(int) if they are "
            f"whole numbers, or numpy.unique(targets, return_inverse=True)[1] if they are names."
        )
    return targets.astype(np.int64, copy=False)
