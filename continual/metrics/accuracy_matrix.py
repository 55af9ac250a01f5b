"""The accuracy matrices of one run, with everything needed to recompute any metric from them.

``R[i, j]`` is the accuracy on the test set of task ``j`` after training on task ``i``; both indices count from 0. Two
matrices are kept because they answer two questions: ``task_aware`` masks the logits to the task's own classes, while
``task_agnostic`` takes the largest logit of the head. What was not measured is NaN and never 0, and the number of test
samples of every task travels along, so that weighted and plain averages are both recoverable from the file.

Source: the matrix is that of Lopez-Paz and Ranzato (2017, Gradient Episodic Memory, section 2). Deliberate differences:
the row of the untrained network is stored apart as ``baseline_*`` (it is not "after" any task), and counts are kept.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1

_MATRICES = ("task_aware", "task_agnostic")
_BASELINES = ("baseline_task_aware", "baseline_task_agnostic")


@dataclass(frozen=True, eq=False)
class AccuracyMatrices:
    """Hold the accuracies of T tasks after each of T tasks.

    Arrays are copied, checked and made read-only. Two objects compare by identity; compare their arrays instead.

    Attributes:
        task_aware: ``[T, T]`` float64 in [0, 1]; row i = after task i, logits masked to the task's classes; NaN = not
            measured.
        task_agnostic: ``[T, T]`` likewise, without the mask.
        counts: ``[T]`` int64, test samples per task, all above zero.
        baseline_task_aware: ``[T]`` accuracies of the untrained network of this run.
        baseline_task_agnostic: ``[T]`` likewise, without the mask.

    Example:
        >>> import numpy as np
        >>> R = np.array([[0.9, 0.1], [0.7, 0.8]])
        >>> matrices = AccuracyMatrices(R, R, np.array([10, 20]), np.array([0.1, 0.1]), np.array([0.1, 0.1]))
        >>> matrices.num_tasks
        2
    """

    task_aware: NDArray[np.float64]
    task_agnostic: NDArray[np.float64]
    counts: NDArray[np.int64]
    baseline_task_aware: NDArray[np.float64]
    baseline_task_agnostic: NDArray[np.float64]

    def __post_init__(self) -> None:
        num_tasks = np.asarray(self.task_aware).shape[0] if np.ndim(self.task_aware) else 0
        if num_tasks == 0:
            raise ValueError("task_aware must be a T x T matrix with T >= 1, but it is empty or a scalar.")
        for name in _MATRICES:
            self._freeze(name, _accuracies(name, getattr(self, name), (num_tasks, num_tasks)))
        for name in _BASELINES:
            self._freeze(name, _accuracies(name, getattr(self, name), (num_tasks,)))
        self._freeze("counts", checked_counts(self.counts, num_tasks))

    def _freeze(self, name: str, array: NDArray[Any]) -> None:
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    @property
    def num_tasks(self) -> int:
        """Return T."""
        return self.task_aware.shape[0]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the matrices to an ``.npz`` file, whole or not at all.

        The bytes go to a temporary file beside the target, which then takes the target's place in one step, so that a
        reader (or a killed run) never meets half a file.

        Args:
            path: Target file; its folder must exist.

        Returns:
            The path written.
        """
        target = Path(path)
        arrays = {name: getattr(self, name) for name in (*_MATRICES, "counts", *_BASELINES)}
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as stream:
                np.savez(stream, format_version=np.int64(FORMAT_VERSION), **arrays)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(0o644)  # mkstemp makes files private; a result is for everybody who sees the folder
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AccuracyMatrices":
        """Read matrices written by :meth:`save`.

        Args:
            path: An ``.npz`` file; pickled objects inside are refused.

        Returns:
            The matrices, checked.

        Raises:
            FileNotFoundError: When there is no such file.
            ValueError: When an array is missing, has a wrong shape or range, or the format is of another version.
        """
        with np.load(path, allow_pickle=False) as archive:
            missing = [
                name for name in ("format_version", *_MATRICES, "counts", *_BASELINES) if name not in archive.files
            ]
            if missing:
                raise ValueError(
                    f"{path} must hold the arrays {', '.join(missing)}, but it does not; run the task again."
                )
            version = int(archive["format_version"])
            if version != FORMAT_VERSION:
                raise ValueError(
                    f"{path} has format_version {version}, but this release reads {FORMAT_VERSION}; "
                    "read it with the release that wrote it."
                )
            return cls(**{name: archive[name] for name in (*_MATRICES, "counts", *_BASELINES)})


def _accuracies(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a float64 copy of accuracies after checking shape and range; NaN means not measured."""
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, but it has {array.shape}; give one entry per task.")
    outside = ~np.isnan(array) & ~((array >= 0.0) & (array <= 1.0))
    if outside.any():
        raise ValueError(
            f"{name} must hold accuracies in [0, 1] or NaN, but it holds {array[outside][0]}; divide percent by 100."
        )
    return array


def checked_counts(counts: Any, num_tasks: int) -> NDArray[np.int64]:
    """Return test-sample counts as int64 after checking them.

    Args:
        counts: ``[T]`` whole numbers above zero.
        num_tasks: T.

    Returns:
        An int64 copy.

    Raises:
        ValueError: When the shape is not ``[T]``, a count is not whole, or a task has no test sample.
    """
    given = np.asarray(counts)
    if given.shape != (num_tasks,):
        raise ValueError(f"counts must have shape ({num_tasks},), but it has {given.shape}; give one count per task.")
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        raise ValueError(f"counts must be whole numbers, but they are {given.tolist()}; give numbers of test samples.")
    if (whole <= 0).any():
        empty = int(np.flatnonzero(whole <= 0)[0])
        raise ValueError(
            f"every task needs at least one test sample, but task {empty} has {whole[empty]}; drop it or give it some."
        )
    return whole.copy()
