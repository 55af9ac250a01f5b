"""A fork shares its parent's history to the bit, names its parent, and goes on differently only where it is told to."""

import json

import numpy as np
import pytest
import torch
from tiny_runs import described, launch, measured, records_of, same_tensors, weights_of

from continual.api import run_config
from continual.cli import main
from continual.errors import UserError
from continual.forking import fork

SHAPE = ("model=relu_mlp", "scenario.num_tasks=3", "epochs=2")


def parent_of(tmp_path, *overrides, **settings):
    """Described by configuration alone, as a fork needs it."""
    description = described("data=digits", *SHAPE, *overrides)
    return run_config(description | {"output": str(tmp_path), "keep_checkpoints": "all"} | settings)


@pytest.mark.parametrize("strategy", ["naive", "hlop", "er", "ewc", "lwf"])
def test_with_nothing_changed_it_ends_as_its_parent_did(tmp_path, strategy):
    gentle = ("optimizer.lr=0.05",) if strategy == "ewc" else ()
    parent = parent_of(tmp_path, f"strategy={strategy}", *gentle)
    forked = fork(parent.folder, 0)
    assert forked.folder != parent.folder
    for one, other in zip(weights_of(parent.folder), weights_of(forked.folder), strict=True):
        assert same_tensors(one, other)
    assert measured(parent.folder) == measured(forked.folder)
    own = [line for line in records_of(forked.folder) if line["event"] != "fork"]
    assert own == records_of(parent.folder)
    with np.load(parent.folder / "confusion.npz") as one, np.load(forked.folder / "confusion.npz") as other:
        assert all(np.array_equal(one[name], other[name]) for name in one.files)


def test_with_a_value_changed_it_shares_the_history_up_to_the_task_and_records_its_parent(tmp_path):
    parent = parent_of(tmp_path, "strategy=gpm")
    forked = fork(parent.folder, 1, ["optimizer.lr=0.01"])
    ours, theirs = weights_of(forked.folder), weights_of(parent.folder)
    assert same_tensors(ours[0], theirs[0])
    assert same_tensors(ours[1], theirs[1])
    assert any(not torch.equal(ours[2][name], theirs[2][name]) for name in ours[2])
    np.testing.assert_array_equal(forked.matrices.task_agnostic[:2], parent.matrices.task_agnostic[:2])
    (event,) = [line for line in records_of(forked.folder) if line["event"] == "fork"]
    assert event == {"event": "fork", "parent": parent.folder.name, "task": 1}
    assert f"run: {parent.folder.name}" in (forked.folder / "config.yaml").read_text()
    rates = [line["learning_rate"] for line in records_of(forked.folder) if line["event"] == "epoch"]
    assert rates[-2:] == [0.01, 0.01]
    assert rates[0] != 0.01


def test_the_same_fork_twice_is_read_and_another_value_has_another_folder(tmp_path):
    parent = parent_of(tmp_path, "strategy=naive")
    once, again, other = (fork(parent.folder, 0, [f"optimizer.lr={lr}"]) for lr in (0.1, 0.1, 0.2))
    assert once.folder == again.folder != other.folder


def test_keeping_checkpoints_moves_no_bit_and_no_folder(tmp_path):
    kept = parent_of(tmp_path / "kept", "strategy=er")
    plain = parent_of(tmp_path / "plain", "strategy=er", keep_checkpoints="latest")
    assert kept.folder.name == plain.folder.name
    assert measured(kept.folder) == measured(plain.folder)
    assert len(list((kept.folder / "checkpoint").glob("*.safetensors"))) == 3
    assert len(list((plain.folder / "checkpoint").glob("*.safetensors"))) == 1


def test_the_last_boundary_is_always_kept(tmp_path):
    parent = parent_of(tmp_path, "strategy=naive", keep_checkpoints="latest")
    assert fork(parent.folder, 2).metrics["acc_final"] == parent.metrics["acc_final"]
    with pytest.raises(UserError, match="keeps no checkpoint of the boundary after task 1; run it with keep"):
        fork(parent.folder, 1)


@pytest.mark.parametrize(
    ("override", "message"),
    [("optimizer.lrr=1", "did you mean 'lr'"), ("epochs", "fork changes values"), ("seed=3", "shared history"),
     ("scenario.num_tasks=4", "shared history"), ("model.hidden=[3]", "shared history"), ("epochs=none", "epochs")],
)  # fmt: skip
def test_what_cannot_be_changed_is_refused_in_a_sentence(tmp_path, override, message):
    parent = parent_of(tmp_path, "strategy=naive")
    with pytest.raises(UserError, match=message):
        fork(parent.folder, 1, [override])


def test_a_run_made_with_objects_is_refused(tmp_path):
    parent = launch(tmp_path, *SHAPE, keep_checkpoints="all")
    with pytest.raises(UserError, match="made with objects of your own"):
        fork(parent.folder, 0)


def test_the_command_forks_and_refuses_with_one_sentence(tmp_path, capsys):
    parent = parent_of(tmp_path, "strategy=naive", "epochs=1")
    capsys.readouterr()
    assert main(["fork", str(parent.folder), "optimizer.lr=0.05"]) == 2
    assert "fork needs a run folder and --task" in capsys.readouterr().err
    assert main(["fork", str(parent.folder), "--task", "7"]) == 2
    assert "keeps no checkpoint" in capsys.readouterr().err
    folders = {path.name for path in tmp_path.iterdir()}
    assert folders == {parent.folder.name}
    state = json.loads((parent.folder / "checkpoint" / "after_task_01.json").read_text())
    assert state["tasks_done"] == 1
