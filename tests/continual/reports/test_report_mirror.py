"""Mirrors: every number of the records once, an earlier mirror replaced, and the run's own files left as they are."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from fake_runs import write_fake_run

from continual.cli import main
from continual.errors import UserError
from continual.mirror import Point, mirror, points, read

RECORDS = [
    {"event": "run_start", "strategy": "naive"},
    {"event": "epoch", "task": 0, "epoch": 0, "loss": 2.0, "accuracy": 0.5, "learning_rate": 0.1, "seconds": 1.5},
    {"event": "within", "task": 0, "epoch": 0, "step": 5, "task_aware": [0.4, None], "task_agnostic": [None, None]},
    {
        "event": "task_end", "task": 0, "task_aware": [0.9, None], "task_agnostic": [0.8, None], "stored_bytes": 7,
        "layers": [{"name": "fc1", "rate": None, "macs": 12}], "subspaces": [{"name": "fc1", "rank": 3, "width": 9}],
    },
    {"event": "epoch", "task": 1, "epoch": 0, "loss": 1.0, "accuracy": None},
]  # fmt: skip


def run_folder(path, num_tasks=2):
    """Write a made-up run with the version of the format in its configuration, as the runner does."""
    folder = write_fake_run(path, num_tasks=num_tasks, spiking=False)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({"format_version": 1, **config}, sort_keys=False))
    return folder


def test_records_become_curves_and_what_is_null_has_no_point():
    assert list(points(RECORDS)) == [
        Point("train/loss", 1, 2.0),
        Point("train/accuracy", 1, 0.5),
        Point("train/learning_rate", 1, 0.1),
        Point("train/seconds", 1, 1.5),
        Point("train/loss", 2, 1.0),
        Point("within/task_aware/task_01", 1, 0.4),
        Point("task_aware/task_01", 1, 0.9),
        Point("task_agnostic/task_01", 1, 0.8),
        Point("cost/stored_bytes", 1, 7.0),
        Point("layers/fc1/macs", 1, 12.0),
        Point("subspaces/fc1/rank", 1, 3.0),
        Point("subspaces/fc1/width", 1, 9.0),
    ]


def test_a_run_that_has_not_finished_is_mirrored_as_far_as_it_is_recorded(tmp_path):
    folder = run_folder(tmp_path / "run")
    whole = read(folder)
    (folder / "metrics.json").unlink()
    lines = (folder / "records.jsonl").read_text().splitlines()
    (folder / "records.jsonl").write_text("\n".join(lines[:4]) + "\n")
    cut = read(folder)
    assert cut.points == whole.points[: len(cut.points)]
    assert 0 < len(cut.points) < len(whole.points)


class Writer:
    """A stand-in for TensorBoard's writer that leaves a file and remembers what it was told."""

    told: list = []  # noqa: RUF012  # emptied by the fixture

    def __init__(self, folder, purge_step):
        self.told.append(("purge", purge_step))
        from pathlib import Path

        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / f"events.out.tfevents.{len(self.told)}").write_text("events")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.told.append(("closed",))

    def add_text(self, name, text, step, walltime):
        self.told.append((name, text))

    def add_scalar(self, name, value, step, walltime):
        self.told.append((name, step, value))


@pytest.fixture
def fake_tensorboard(monkeypatch):
    Writer.told.clear()
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return Writer.told


def test_tensorboard_is_told_every_point_and_an_earlier_mirror_is_replaced(fake_tensorboard, tmp_path):
    folder = run_folder(tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert mirror(folder, "tensorboard") == folder / "tensorboard"
    told = list(fake_tensorboard)
    assert told[0] == ("purge", 0)
    assert "| strategy.name | hlop |" in told[1][1]
    assert told[2:-1] == [(point.name, point.step, point.value) for point in read(folder).points]
    mirror(folder, "tensorboard")
    assert len(list((folder / "tensorboard").iterdir())) == 1
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_mlflow_is_told_in_batches_with_names_it_takes_and_gets_a_file_of_its_own(monkeypatch, tmp_path):
    batches = []

    class Client:
        def __init__(self, tracking_uri):
            self.path = tracking_uri.removeprefix("sqlite:///")

        def create_experiment(self, name, artifact_location):
            return "1"

        def create_run(self, experiment, start_time, run_name):
            return SimpleNamespace(info=SimpleNamespace(run_id=run_name))

        def log_batch(self, run, metrics=(), params=()):
            batches.append((list(metrics), list(params)))

        def set_terminated(self, run, end_time):
            with open(self.path, "w") as file:
                file.write(run)

    mlflow, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    mlflow.MlflowClient = Client
    entities.Param = entities.Metric = lambda *values: values
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setattr("continual.mirror._POINTS_PER_BATCH", 7)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_SQLALCHEMYSTORE_POOLCLASS"):
        monkeypatch.setenv(name, "as the user has it")
    folder = run_folder(tmp_path / "run:1")
    assert mirror(folder, "mlflow", tmp_path / "out") == tmp_path / "out" / "run:1" / "mlflow.db"
    metrics = [metric for batch, _ in batches for metric in batch]
    assert max(len(batch) for batch, _ in batches) == 7
    assert [(name, value, step) for name, value, _, step in metrics] == [
        (point.name, point.value, point.step) for point in read(folder).points
    ]
    assert (tmp_path / "out" / "run:1" / "mlflow.db").read_text() == "run:1"


@pytest.mark.slow
def test_a_real_tensorboard_reads_back_every_point(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard is not installed: the extra tensorboard",
    )
    folder = run_folder(tmp_path / "run")
    mirror(folder, "tensorboard")
    events = accumulator.EventAccumulator(str(mirror(folder, "tensorboard")))
    events.Reload()
    found = {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
    expected = {(point.name, point.step): pytest.approx(point.value, rel=1e-6) for point in read(folder).points}
    assert found == expected  # TensorBoard keeps 32 bits


@pytest.mark.slow
def test_a_real_mlflow_reads_back_every_point(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: the extra mlflow")
    folder = run_folder(tmp_path / "run")
    mirror(folder, "mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{mirror(folder, 'mlflow')}")
    experiment = client.get_experiment_by_name("palimpsest").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.data.params["strategy.name"] == "hlop"
    recorded = read(folder)
    assert run.info.run_name == recorded.name
    found = {
        (metric.key, metric.step): metric.value
        for key in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, key)
    }
    assert found == {(point.name, point.step): point.value for point in recorded.points}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "needs at least one folder"),
        (["."], "needs --to tensorboard or --to mlflow"),
        ([".", "--to", "wandb"], "holds none"),
        (["run", "--to", "wandb"], "a mirror is for mlflow or tensorboard, got 'wandb'"),
        (["run", "--to", "mlflow"], "pip install 'palimpsest[mlflow]'"),
        (["run", "--to", "tensorboard"], "pip install 'palimpsest[tensorboard]'"),
        (["nowhere", "--to", "mlflow"], "nowhere must be the folder of a run"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_status_2(words, sentence, tmp_path, monkeypatch, capsys):
    if words[:1] == ["run"]:
        run_folder(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    for name in ("mlflow", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["mirror", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_a_folder_without_records_is_refused(tmp_path):
    folder = run_folder(tmp_path / "run")
    (folder / "records.jsonl").unlink()
    with pytest.raises(UserError, match="no records to mirror"):
        mirror(folder, "mlflow")


def test_the_command_mirrors_every_run_below_a_folder(fake_tensorboard, tmp_path, capsys):
    folders = [run_folder(tmp_path / "runs" / name) for name in ("a", "b")]
    assert main(["mirror", str(tmp_path / "runs"), "--to", "tensorboard"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(folder / "tensorboard") for folder in folders]
    assert json.loads((folders[0] / "metrics.json").read_text())["strategy"] == "hlop"
