"""A run stopped anywhere goes on to the very bits of one that was not."""

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import (
    POISSON,
    STRATEGIES,
    StopAtStep,
    StopBeforeTask,
    assert_same_run,
    foreign_network,
    launch,
    records_of,
    same_tensors,
    weights_of,
)

import continual.reports
from continual.checkpoint import write_tensors
from continual.errors import UserError
from continual.strategies import HLOP, Naive

THREE = ("scenario.num_tasks=3", "epochs=2")


def stopped(output, *overrides, progress=None, **settings):
    """Start a run that its progress object interrupts."""
    with pytest.raises(KeyboardInterrupt):
        launch(output, *overrides, progress=progress, **settings)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_stopped_in_mid_task_and_run_again_equals_never_stopped(strategy, tmp_path):
    whole = launch(tmp_path / "whole", *THREE, f"strategy={strategy}")
    middle = 2 if strategy == "joint" else 1
    stopped(tmp_path / "cut", *THREE, f"strategy={strategy}", progress=StopAtStep(middle, 3))
    (folder,) = (tmp_path / "cut").iterdir()
    assert not (folder / "metrics.json").exists()
    assert len(weights_of(folder)) == middle
    resumed = launch(tmp_path / "cut", *THREE, f"strategy={strategy}")
    assert resumed.folder == folder
    assert_same_run(whole.folder, folder)


@pytest.mark.parametrize("strategy", ["naive", "joint", "hlop"])
@pytest.mark.parametrize("network", ["poisson", "foreign"])
def test_randomness_inside_the_network_resumes_too(network, strategy, tmp_path):
    chosen = (*THREE, f"strategy={strategy}", *(POISSON if network == "poisson" else ()))

    def own():
        return {"model": foreign_network()} if network == "foreign" else {}

    whole = launch(tmp_path / "whole", *chosen, own=own())
    stopped(tmp_path / "cut", *chosen, progress=StopBeforeTask(1), own=own())
    stopped(tmp_path / "cut", *chosen, progress=StopAtStep(2, 2), own=own())
    resumed = launch(tmp_path / "cut", *chosen, own=own())
    assert_same_run(whole.folder, resumed.folder)


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_other_optimisers_resume_too(optimizer, tmp_path):
    chosen = (
        *THREE,
        "strategy=hlop",
        "scenario.mode=task",
        *(("optimizer=adam",) if optimizer == "adam" else ("optimizer.momentum=0.9", "optimizer.weight_decay=0.001")),
    )
    whole = launch(tmp_path / "whole", *chosen)
    stopped(tmp_path / "cut", *chosen, progress=StopAtStep(1, 3))
    stopped(tmp_path / "cut", *chosen, progress=StopAtStep(2, 1))
    assert_same_run(whole.folder, launch(tmp_path / "cut", *chosen).folder)


@pytest.fixture(scope="module")
def whole_adam(tmp_path_factory):
    """An uninterrupted HLOP run with an optimiser whose update is projected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continual.reports, "write_report", lambda folder: folder / "report.html")
        return launch(tmp_path_factory.mktemp("whole"), *THREE, "strategy=hlop", "optimizer=adam").folder


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("continual.strategies.HLOP.after_task", 2),
        ("neuro.lateral.LateralSubspace.consolidate", 5),
        ("continual.runner.evaluate", 3),
        ("continual.runner.measure", 2),
        ("continual.runner.write_tensors", 2),
        ("continual.runner.write_checkpoint", 1),
        ("continual.runner.write_checkpoint", 3),
        ("continual.checkpoint.write_atomically", 3),
        ("continual.checkpoint.write_atomically", 6),
        ("continual.records.Records.write", 1),
        ("continual.records.Records.write", 5),
        ("continual.run_folder.write_atomically", 1),
        ("continual.api.finish", 1),
        ("continual.outcome.save_activity", 1),
        ("continual.outcome.write_atomically", 1),
    ],
)
def test_stopped_inside_any_phase(place, call, tmp_path, monkeypatch, whole_adam):
    owner_name, _, attribute = place.rpartition(".")
    try:
        owner = importlib.import_module(owner_name)
    except ModuleNotFoundError:
        module, _, name = owner_name.rpartition(".")
        owner = getattr(importlib.import_module(module), name)
    original, calls = getattr(owner, attribute), []

    def interrupting(*arguments, **keywords):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*arguments, **keywords)

    chosen = (*THREE, "strategy=hlop", "optimizer=adam")
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, interrupting)
        stopped(tmp_path / "cut", *chosen)
    assert_same_run(whole_adam, launch(tmp_path / "cut", *chosen).folder)


def test_a_report_that_was_not_written_is_written_by_the_next_call(tmp_path, monkeypatch):
    def interrupted(folder):
        raise KeyboardInterrupt

    def drawn(folder):
        (folder / "report.html").write_text("drawn")
        return folder / "report.html"

    with monkeypatch.context() as patch:
        patch.setattr(continual.reports, "write_report", interrupted)
        stopped(tmp_path, "strategy=naive")
    monkeypatch.setattr(continual.reports, "write_report", drawn)
    folder = launch(tmp_path, "strategy=naive").folder
    assert (folder / "report.html").exists()


def test_same_seed_same_bits_other_seed_other_bits(tmp_path):
    first, again = (launch(tmp_path / name, "strategy=hlop").folder for name in ("a", "b"))
    assert_same_run(first, again)
    other = launch(tmp_path / "a", "strategy=hlop", "seed=1").folder
    assert other != first
    assert not same_tensors(weights_of(first)[0], weights_of(other)[0])
    assert records_of(first) != records_of(other)


def test_other_weights_of_an_own_network_are_another_run(tmp_path):
    one = launch(tmp_path, "strategy=naive", own={"model": foreign_network(0)}).folder
    other = launch(tmp_path, "strategy=naive", own={"model": foreign_network(1)}).folder
    again = launch(tmp_path, "strategy=naive", own={"model": foreign_network(0)}).folder
    assert one == again != other


def test_the_same_own_strategy_is_the_same_run(tmp_path):
    first = launch(tmp_path, own={"strategy": HLOP(max_samples=50)}).folder
    again = launch(tmp_path, own={"strategy": HLOP(max_samples=50)}).folder
    other = launch(tmp_path, own={"strategy": HLOP(max_samples=60)}).folder
    assert first == again != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1.0]), np.array([2.0])),
        ({1, 2}, {1, 3}),
        (Path("a"), Path("b")),
        (torch.tensor([1.0]), torch.tensor([2.0])),
        ({"a": 1}, {"a": 2}),
        (b"a", b"b"),
    ],
)
def test_an_own_strategy_that_holds_something_else_is_another_run(one, other, tmp_path):
    class Holds(Naive):
        name = "holds"

        def __init__(self, held):
            self.held = held

    folders = [launch(tmp_path, own={"strategy": Holds(held)}).folder for held in (one, other, one)]
    assert folders[0] != folders[1]
    assert folders[0] == folders[2]


def test_records_hold_every_event_once(tmp_path):
    stopped(tmp_path, *THREE, "strategy=naive", progress=StopAtStep(1, 6))
    lines = records_of(launch(tmp_path, *THREE, "strategy=naive").folder)
    events = [(line["event"], line.get("task"), line.get("epoch")) for line in lines]
    per_task = [[("epoch", task, 0), ("epoch", task, 1), ("task_end", task, None)] for task in range(3)]
    assert events == [("run_start", None, None), *itertools.chain(*per_task), ("run_end", None, None)]


def test_an_interrupted_task_leaves_no_trace_that_counts(tmp_path):
    stopped(tmp_path, *THREE, "strategy=naive", progress=StopAtStep(1, 6))
    (folder,) = tmp_path.iterdir()
    state = json.loads((folder / "checkpoint" / "state.json").read_text())
    assert state["tasks_done"] == 1
    length = state["progress"]["records_length"]
    tail = (folder / "records.jsonl").read_bytes()[length:]
    assert b'"task": 1' in tail, "an epoch of the interrupted task was recorded already"
    kept = (folder / "records.jsonl").read_bytes()[:length].decode().splitlines()
    assert json.loads(kept[-1])["event"] == "task_end"


# Checkpoints that must be refused


@pytest.fixture
def cut(tmp_path):
    """A run that stands at its first task boundary."""
    stopped(tmp_path, *THREE, "strategy=hlop", progress=StopAtStep(1, 1))
    (folder,) = tmp_path.iterdir()
    return folder


def again(folder, **settings):
    return launch(folder.parent, *THREE, "strategy=hlop", **settings)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "json cut", "json without a key", "other format"])
def test_a_damaged_checkpoint_is_refused_and_left_alone(damage, cut):
    state_path = cut / "checkpoint" / "state.json"
    (tensors,) = (cut / "checkpoint").glob("*.safetensors")
    state = json.loads(state_path.read_text())
    if damage == "flipped":
        flip(tensors)
    elif damage == "cut":
        tensors.write_bytes(tensors.read_bytes()[:-8])
    elif damage == "gone":
        tensors.unlink()
    elif damage == "json cut":
        state_path.write_text(state_path.read_text()[:-20])
    elif damage == "json without a key":
        state.pop("sha256")
        state_path.write_text(json.dumps(state))
    else:
        state["format_version"] = 99
        state_path.write_text(json.dumps(state))
    before = {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="overwrite=true"):
        again(cut)
    assert {path: path.read_bytes() for path in before} == before
    assert again(cut, overwrite=True).metrics["num_tasks"] == 3


def test_records_shorter_than_the_checkpoint_knows_are_refused(cut):
    records = cut / "records.jsonl"
    records.write_bytes(records.read_bytes()[:40])
    with pytest.raises(UserError, match="records"):
        again(cut)
    assert b"\0" not in records.read_bytes()


def test_a_state_with_a_part_missing_or_left_over_is_refused(cut):
    (path,) = (cut / "checkpoint").glob("*.safetensors")
    tensors = load_file(path)
    basis = next(name for name in tensors if name.startswith("strategy/basis"))
    for changed in (
        {name: tensor for name, tensor in tensors.items() if name != basis},
        tensors | {"strategy/surplus": torch.zeros(1)},
        {name: tensor for name, tensor in tensors.items() if not name.endswith("head.weight")},
        tensors | {"model/surplus": torch.zeros(1)},
    ):
        state = json.loads((cut / "checkpoint" / "state.json").read_text())
        state["sha256"] = write_tensors(path, changed)
        (cut / "checkpoint" / "state.json").write_text(json.dumps(state))
        with pytest.raises((ValueError, RuntimeError)):
            again(cut)


def test_changed_conditions_are_refused_unless_forced(cut, monkeypatch):
    before = {path: path.read_bytes() for path in cut.rglob("*") if path.is_file()}
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(UserError, match=r"threads was 1, is 2.*resume=force.*overwrite=true"):
        again(cut)
    assert {path: path.read_bytes() for path in before} == before
    assert again(cut, resume="force").metrics["num_tasks"] == 3


def test_a_finished_run_keeps_the_configuration_it_was_made_with(tmp_path):
    folder = launch(tmp_path, "strategy=naive", threads=1).folder
    before = (folder / "config.yaml").read_bytes()
    assert launch(tmp_path, "strategy=naive", resume="force").folder == folder
    assert (folder / "config.yaml").read_bytes() == before


def test_device_threads_and_output_do_not_change_the_name(tmp_path):
    one = launch(tmp_path / "a", "strategy=naive").folder
    other = launch(tmp_path / "b", "strategy=naive", threads=1, device="cpu", resume="force").folder
    assert one.name == other.name
    assert launch(tmp_path / "b", "strategy=naive", "epochs=2").folder.name != one.name
