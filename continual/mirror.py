"""Copies of a run's records for TensorBoard and MLflow.

The records of the run folder are the one source; a mirror is a function of them. A run knows nothing of any tracker:
mirroring reads what is recorded so far, during a run or long after it, and writes the whole mirror again in place of an
earlier one, so that after a resume no point of a lost stretch is left. Epochs count over all tasks, tasks from 1.

TensorBoard gets an event folder, MLflow an SQLite file of its own for each run, for neither its file store nor a shared
database bears many writers on a cluster's disk. MLflow's telemetry is switched off.
"""

import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from continual.errors import UserError
from continual.optional import optional_package
from continual.reports.grouping import flat
from continual.reports.run_folder import latest, read_records
from continual.run_folder import read_config

_MATRICES = ("task_aware", "task_agnostic")
_POINTS_PER_BATCH, _SETTINGS_PER_BATCH = 1000, 100  # MLflow refuses more in one call
_LONGEST_SETTING = 6000


class Point(NamedTuple):
    """One number of a curve.

    Attributes:
        name: Of the curve, parts parted by slashes.
        step: Epoch, evaluation or task, each counted from 1 over the whole run.
        value: Finite.
    """

    name: str
    step: int
    value: float


class Recorded(NamedTuple):
    """What a mirror shows of a run.

    Attributes:
        name: Of the run's folder.
        settings: Dotted key of the configuration to its value as text.
        points: In the order recorded.
        milliseconds: When the records were last written, since 1970.
    """

    name: str
    settings: Mapping[str, str]
    points: tuple[Point, ...]
    milliseconds: int


def mirror(run_folder: Path, tracker: str, output: Path | None = None) -> Path:
    """Copy the records of a run, finished or not, for a tracker.

    Args:
        run_folder: Of the run.
        tracker: ``tensorboard`` or ``mlflow``.
        output: Folder for the mirrors, with a folder for each run; None puts the mirror into the run's own folder.

    Returns:
        The folder of events, or the SQLite file.

    Raises:
        UserError: When the folder is no run, has no records, or the tracker is unknown or not installed.
    """
    if tracker not in TRACKERS:
        raise UserError(f"a mirror is for {' or '.join(TRACKERS)}, got {tracker!r}.")
    recorded = read(Path(run_folder))
    folder = Path(run_folder) if output is None else Path(output) / recorded.name
    folder.mkdir(parents=True, exist_ok=True)
    return TRACKERS[tracker](recorded, folder)


def read(run_folder: Path) -> Recorded:
    """Read what a mirror shows.

    Args:
        run_folder: Of the run.

    Returns:
        Its settings and points.

    Raises:
        UserError: When the folder is no run or has no records.
    """
    config, path = read_config(run_folder), run_folder / "records.jsonl"
    if not path.is_file():
        raise UserError(f"{run_folder} has no records to mirror; run it first.")
    settings = {key: str(value) for key, value in flat(config).items()}
    written = int(1000 * path.stat().st_mtime)
    return Recorded(run_folder.resolve().name, settings, tuple(points(read_records(path))), written)


def points(records: Sequence[dict[str, Any]]) -> Iterator[Point]:
    """Turn records into curves.

    Args:
        records: Lines of ``records.jsonl``.

    Yields:
        Loss and accuracy by epoch, accuracies within tasks by evaluation, accuracies, costs and layers by task; what is
        null has no point.
    """
    for number, record in enumerate(latest(records, "epoch", ("task", "epoch")), start=1):
        yield from _numbers("train", number, {key: record[key] for key in record if key not in ("task", "epoch")})
    for number, record in enumerate(latest(records, "within", ("task", "epoch", "step")), start=1):
        yield from _accuracies("within/", number, record)
    for record in latest(records, "task_end", ("task",)):
        number = int(record["task"]) + 1
        yield from _accuracies("", number, record)
        yield from _numbers("cost", number, {key: record[key] for key in record if key != "task"})
        for group in ("layers", "subspaces"):
            for entry in record.get(group) or ():
                yield from _numbers(f"{group}/{entry['name']}", number, entry)


def to_tensorboard(recorded: Recorded, folder: Path) -> Path:
    """Write a run as TensorBoard events, into ``tensorboard`` in a folder, in place of what was mirrored before.

    Args:
        recorded: What to write.
        folder: That exists.

    Returns:
        The folder of events.

    Raises:
        UserError: When TensorBoard is not installed.
    """
    optional_package("tensorboard", "tensorboard")
    writer_class = optional_package("torch.utils.tensorboard", "tensorboard").SummaryWriter
    target = folder / "tensorboard"
    for old in target.glob("events.out.tfevents.*"):
        old.unlink()
    seconds = recorded.milliseconds / 1000
    with writer_class(str(target), purge_step=0) as writer:  # a server that read the old events drops them
        table = "\n".join(f"| {key} | {value} |" for key, value in recorded.settings.items())
        writer.add_text("settings", f"| key | value |\n| :-- | :-- |\n{table}", 0, walltime=seconds)
        for point in recorded.points:
            writer.add_scalar(point.name, point.value, point.step, walltime=seconds)
    return target


def to_mlflow(recorded: Recorded, folder: Path) -> Path:
    """Write a run as MLflow's SQLite file, ``mlflow.db`` in a folder, in place of what was mirrored before.

    Args:
        recorded: What to write.
        folder: That exists.

    Returns:
        The file; ``mlflow ui --backend-store-uri sqlite:///FILE`` shows it.

    Raises:
        UserError: When MLflow is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")  # or a file stays open for each run
    mlflow = optional_package("mlflow", "mlflow")
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # or each new file is told of twice
    handle, name = tempfile.mkstemp(dir=folder, prefix=".mlflow.", suffix=".draft")  # MLflow remembers names of files
    os.close(handle)
    draft = Path(name)
    try:
        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{draft.resolve()}")
        _log(client, recorded, (folder / "mlflow_artifacts").resolve().as_uri())
        draft.chmod(0o644)  # mkstemp makes files private
        return draft.replace(folder / "mlflow.db")
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _log(client: Any, recorded: Recorded, artifacts: str) -> None:
    """Tell an MLflow client everything, in batches as large as it takes."""
    entities = optional_package("mlflow.entities", "mlflow")
    written = recorded.milliseconds
    experiment = client.create_experiment("palimpsest", artifact_location=artifacts)
    run = client.create_run(experiment, start_time=written, run_name=recorded.name).info.run_id
    settings = [entities.Param(_key(key), value[:_LONGEST_SETTING]) for key, value in recorded.settings.items()]
    numbers = [entities.Metric(_key(point.name), point.value, written, point.step) for point in recorded.points]
    for start in range(0, len(settings), _SETTINGS_PER_BATCH):
        client.log_batch(run, params=settings[start : start + _SETTINGS_PER_BATCH])
    for start in range(0, len(numbers), _POINTS_PER_BATCH):
        client.log_batch(run, metrics=numbers[start : start + _POINTS_PER_BATCH])
    client.set_terminated(run, end_time=written)


TRACKERS: dict[str, Callable[[Recorded, Path], Path]] = {"mlflow": to_mlflow, "tensorboard": to_tensorboard}


def _accuracies(prefix: str, step: int, record: Mapping[str, Any]) -> Iterator[Point]:
    for matrix in _MATRICES:
        values = {f"task_{j + 1:02d}": value for j, value in enumerate(record.get(matrix) or ())}
        yield from _numbers(f"{prefix}{matrix}", step, values)


def _numbers(prefix: str, step: int, values: Mapping[str, Any]) -> Iterator[Point]:
    """Give a point for each single number among values."""
    for key, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield Point(f"{prefix}/{key}", step, float(value))


def _key(name: str) -> str:
    """Make a name of the characters that MLflow takes."""
    return re.sub(r"[^\w\-./ ]", "_", name)
