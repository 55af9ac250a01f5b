"""Reading run folders: what is there, what may be missing, and what is refused."""

import json

import numpy as np
import pytest

from continual.reports import read_run


def rewrite(folder, change):
    """Apply a function to every record of a run folder; None drops the record."""
    path = folder / "records.jsonl"
    records = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("\n".join(json.dumps(record) for record in records if record is not None) + "\n")


def test_a_run_is_read_as_it_was_written(fake_run):
    run = read_run(fake_run(strategy="hlop", seed=3, num_tasks=4))
    assert (run.strategy, run.scenario, run.mode, run.seed) == ("hlop", "permuted_digits", "domain", 3)
    assert run.task_names == tuple(f"permutation {j}" for j in range(1, 5))
    assert [record["task"] for record in run.task_ends] == [0, 1, 2, 3]
    assert len(run.epochs) == 16
    assert run.activity is not None
    assert run.activity.spikes["hidden.0"].shape == (20, 800)
    np.testing.assert_array_equal(run.accuracies, run.matrices.task_agnostic)


def test_the_mode_task_is_judged_by_the_task_aware_matrix(fake_run):
    run = read_run(fake_run(mode="task"))
    assert run.accuracies is run.matrices.task_aware
    assert run.baseline is run.matrices.baseline_task_aware
    assert run.baseline[0] != run.matrices.baseline_task_agnostic[0]


@pytest.mark.parametrize("name", ["config.yaml", "records.jsonl", "accuracy_matrix.npz", "metrics.json"])
def test_a_folder_that_lacks_a_file_is_refused_by_its_name(fake_run, name):
    folder = fake_run()
    (folder / name).unlink()
    with pytest.raises(ValueError, match=name):
        read_run(folder)


def test_a_cut_line_is_named_by_its_number(fake_run):
    folder = fake_run()
    with (folder / "records.jsonl").open("a") as stream:
        stream.write('{"event": "epo')
    lines = len((folder / "records.jsonl").read_text().splitlines())
    with pytest.raises(ValueError, match=f"line {lines} "):
        read_run(folder)


def test_the_later_of_two_records_of_one_epoch_stands_and_order_is_restored(fake_run):
    folder = fake_run(num_tasks=2)
    text = (folder / "records.jsonl").read_text()
    again = json.dumps({"event": "epoch", "task": 0, "epoch": 0, "loss": 99.0, "accuracy": 0.0})
    (folder / "records.jsonl").write_text(text + again + "\n")
    run = read_run(folder)
    assert len(run.epochs) == 8
    assert run.epochs[0]["loss"] == 99.0


def test_fields_a_run_did_not_write_are_absent_and_names_are_made_up(fake_run):
    folder = fake_run(num_tasks=2)
    rewrite(folder, lambda record: None if record["event"] == "run_start" else record)
    (folder / "activity.npz").unlink()
    run = read_run(folder)
    assert run.task_names == ("task 1", "task 2")
    assert run.activity is None
    assert run.seed == 0
    assert run.scenario == "permuted_digits"


def test_a_folder_that_does_not_say_its_mode_is_refused(fake_run):
    folder = fake_run()
    rewrite(folder, lambda record: {key: value for key, value in record.items() if key != "mode"})
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["mode"]
    (folder / "metrics.json").write_text(json.dumps(metrics))
    with pytest.raises(ValueError, match="mode must be one of"):
        read_run(folder)
