"""Read a run folder: the files the runner left are the only source of every number in a report.

The records are read as they were appended; when a task or an epoch occurs twice, the later line stands. Fields a run
did not write are absent, not zero, and the reports say so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import yaml
from numpy.typing import NDArray

from continual.metrics import AccuracyMatrices, own_matrix

REQUIRED_FILES = ("config.yaml", "records.jsonl", "accuracy_matrix.npz", "metrics.json")


@dataclass(frozen=True, eq=False)
class Activity:
    """Spikes of every hidden layer for one test image at the end of a run.

    Attributes:
        spikes: Layer name to ``[T, N]`` zeros and ones (T time steps, N neurons).
        image: ``[H, W]`` or ``[H, W, C]`` in [0, 1], or None.
        label: Class of the image, or None.
    """

    spikes: Mapping[str, NDArray[np.uint8]]
    image: NDArray[np.float64] | None
    label: int | None


@dataclass(frozen=True, eq=False)
class Confusion:
    """Raw counts of answers on the test parts that were scored, after every task.

    Attributes:
        classes: ``[T, C, C]`` counts: after task i, true class, predicted class.
        tasks: ``[T, T, T]`` counts: after task i, true task, task of the predicted class; None where tasks share
            classes.
    """

    classes: NDArray[np.int64]
    tasks: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class RunFolder:
    """Everything the reports read of one run.

    Attributes:
        path: The folder.
        config: The resolved configuration.
        config_text: The same as written.
        metrics: Contents of ``metrics.json``.
        matrices: The accuracy matrices.
        start: The record of the run's start.
        epochs: Records of epochs in order of task and epoch.
        task_ends: Records of task ends in order of task.
        within: Records of evaluations within tasks in order of task and step; empty where there were none.
        end: The record of the run's end; None when the run has not finished.
        activity: Recorded spikes; None for a network without any.
        confusion: Counts of answers; None where they were not kept.
        references: Contents of ``references.json``; empty where no reference run was compared with.
    """

    path: Path
    config: Mapping[str, Any]
    config_text: str
    metrics: Mapping[str, Any]
    matrices: AccuracyMatrices
    start: Mapping[str, Any]
    epochs: tuple[Mapping[str, Any], ...]
    task_ends: tuple[Mapping[str, Any], ...]
    within: tuple[Mapping[str, Any], ...]
    end: Mapping[str, Any] | None
    activity: Activity | None
    confusion: Confusion | None
    references: Mapping[str, Any]

    @property
    def strategy(self) -> str:
        """Return the name of the strategy."""
        return str(self.metrics.get("strategy") or self.start.get("strategy") or "strategy not recorded")

    @property
    def mode(self) -> str:
        """Return ``task``, ``domain`` or ``class``."""
        return str(self.metrics.get("mode") or self.start.get("mode"))

    @property
    def scenario(self) -> str:
        """Return a name for the sequence of tasks, from whichever place the run wrote it to."""
        choice = self.config.get("scenario")
        if isinstance(choice, Mapping):
            choice = choice.get("name") or str(choice.get("_target_", "")).rpartition(".")[2]
        return str(self.start.get("scenario") or choice or self.start.get("experiment") or "scenario not recorded")

    @property
    def seed(self) -> int | None:
        """Return the seed of the run."""
        return self.start.get("seed", self.config.get("seed"))

    @property
    def task_names(self) -> tuple[str, ...]:
        """Return one name per task, made up from its number where the run gave none."""
        names = self.start.get("task_names") or ()
        num_tasks = self.matrices.num_tasks
        return tuple(str(names[j]) if j < len(names) else f"task {j + 1}" for j in range(num_tasks))

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Return the ``[T, T]`` matrix the scenario is judged by."""
        return getattr(self.matrices, own_matrix(self.mode))

    @property
    def baseline(self) -> NDArray[np.float64]:
        """Return the ``[T]`` accuracies of the untrained network in the same mode."""
        return getattr(self.matrices, f"baseline_{own_matrix(self.mode)}")

    def number(self, name: str) -> float | None:
        """Return a metric of the run, or what reference runs say about it.

        Args:
            name: As in ``metrics.json`` or ``references.json``.

        Returns:
            Its value; None where it is undefined, was not recorded or is not a single number.
        """
        value = self.metrics.get(name, self.references.get(name))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number else None


def read_run(folder: Path) -> RunFolder:
    """Read a run folder.

    Args:
        folder: As written by the runner.

    Returns:
        Its contents.

    Raises:
        ValueError: When a file is missing or cannot be read as what it should be; the sentence names it.
    """
    folder = Path(folder)
    missing = [name for name in REQUIRED_FILES if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} must be the folder of a finished run, but it lacks {', '.join(missing)}.")
    try:
        return _read(folder)
    except (yaml.YAMLError, BadZipFile, KeyError, TypeError, EOFError) as error:
        raise ValueError(f"{folder} holds a damaged file ({type(error).__name__}: {error}); run it again.") from error


def _read(folder: Path) -> RunFolder:
    config_text = (folder / "config.yaml").read_text(encoding="utf-8")
    records = read_records(folder / "records.jsonl")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    references = folder / "references.json"
    start = _last(records, "run_start") or {}
    if not is_zipfile(folder / "accuracy_matrix.npz"):
        raise ValueError(f"{folder / 'accuracy_matrix.npz'} must be a zip archive of arrays, but it is damaged.")
    own_matrix(str(metrics.get("mode") or start.get("mode")))  # refuses a folder that does not say how it is judged
    return RunFolder(
        path=folder,
        config=_read_config(config_text, folder),
        config_text=config_text,
        metrics=metrics,
        matrices=AccuracyMatrices.load(folder / "accuracy_matrix.npz"),
        start=start,
        epochs=latest(records, "epoch", ("task", "epoch")),
        task_ends=latest(records, "task_end", ("task",)),
        within=latest(records, "within", ("task", "epoch", "step")),
        end=_last(records, "run_end"),
        activity=_read_activity(folder / "activity.npz"),
        confusion=_read_confusion(folder / "confusion.npz"),
        references=json.loads(references.read_text(encoding="utf-8")) if references.is_file() else {},
    )


def _read_config(text: str, folder: Path) -> Mapping[str, Any]:
    config = yaml.safe_load(text) or {}
    if not isinstance(config, Mapping):
        raise ValueError(f"{folder / 'config.yaml'} must hold keys and values, but it holds a {type(config).__name__}.")
    return config


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the records of a run, finished or not.

    Args:
        path: Of ``records.jsonl``.

    Returns:
        One dictionary a line.

    Raises:
        ValueError: When a line is cut or damaged.
    """
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path} must hold one JSON object a line, but line {number} is cut or damaged; resume the run."
            ) from error
    return records


def _last(records: list[dict[str, Any]], event: str) -> Mapping[str, Any] | None:
    found = [record for record in records if record.get("event") == event]
    return found[-1] if found else None


def latest(records: Sequence[Mapping[str, Any]], event: str, keys: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """Return the records of an event in order of their keys, the later line standing for a repeated one.

    Args:
        records: Of a run.
        event: Of those to keep.
        keys: Whole numbers that every record of the event has.
    """
    found = {tuple(int(record[key]) for key in keys): record for record in records if record.get("event") == event}
    return tuple(found[key] for key in sorted(found))


def _read_activity(path: Path) -> Activity | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as archive:
        spikes = {name.removeprefix("spikes/"): archive[name] for name in archive.files if name.startswith("spikes/")}
        image = np.asarray(archive["image"], dtype=np.float64) if "image" in archive.files else None
        label = int(archive["label"]) if "label" in archive.files else None
    return Activity(spikes, image, label) if spikes else None


def _read_confusion(path: Path) -> Confusion | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return Confusion(archive["classes"], archive["tasks"] if "tasks" in archive.files else None)
