"""What a run measures beside its matrices: confusion, evaluations inside tasks, costs, reference runs."""

import json

import numpy as np
import pytest
import torch
from tiny_runs import (
    POISSON,
    StopAtStep,
    assert_same_run,
    launch,
    measured,
    records_of,
    same_tensors,
    weights_of,
)

from continual.costs import Costs
from continual.errors import UserError
from continual.metrics import AccuracyMatrices, with_references, write_references

SPLIT = ("scenario=split", "scenario.num_tasks=5", "scenario.mode=class", "epochs=1")


def confusion_of(folder):
    with np.load(folder / "confusion.npz", allow_pickle=False) as archive:
        return dict(archive)


def test_the_accuracies_follow_from_the_confusion(tmp_path):
    """Invariant 30, where every class belongs to one task: two classes a task."""
    result = launch(tmp_path, *SPLIT)
    counts, sizes = confusion_of(result.folder), result.matrices.counts
    for i in range(5):
        answers = counts["classes"][i]
        assert answers.sum() == sizes[: i + 1].sum(), "every sample of the seen tasks once"
        for j in range(i + 1):
            right = answers[2 * j, 2 * j] + answers[2 * j + 1, 2 * j + 1]
            assert right / sizes[j] == pytest.approx(result.matrices.task_agnostic[i, j], abs=1e-12)
            assert counts["tasks"][i, j].sum() == sizes[j]
            assert counts["tasks"][i, j, j] >= right


def test_tasks_that_share_classes_have_no_confusion_of_tasks(tmp_path):
    result = launch(tmp_path, "scenario.num_tasks=2", "epochs=1")
    counts = confusion_of(result.folder)
    assert set(counts) == {"classes"}
    weighted = np.trace(counts["classes"][1]) / counts["classes"][1].sum()
    assert weighted == pytest.approx(result.metrics["acc_final_weighted"], abs=1e-12)


@pytest.mark.parametrize("strategy", ["naive", "hlop", "hlop_online", "er", "agem", "ewc", "ncm"])
@pytest.mark.parametrize("randomness", [(), POISSON])
def test_looking_inside_tasks_changes_no_bit_of_the_run(strategy, randomness, tmp_path):
    """Invariant 26."""
    chosen = ("scenario.num_tasks=2", "epochs=2", f"strategy={strategy}", *randomness)
    blind = launch(tmp_path / "blind", *chosen)
    seeing = launch(tmp_path / "seeing", *chosen, "evaluate_every=3")
    for before, after in zip(weights_of(blind.folder), weights_of(seeing.folder), strict=True):
        assert same_tensors(before, after)
    for name in ("task_aware", "task_agnostic"):
        np.testing.assert_array_equal(getattr(blind.matrices, name), getattr(seeing.matrices, name))
    inside = [line for line in records_of(seeing.folder) if line["event"] == "within"]
    steps = seeing.metrics["optimizer_steps"]
    assert len(inside) == 2 * (steps // 2 // 3) > 0
    assert not [line for line in records_of(blind.folder) if line["event"] == "within"]
    assert inside[0]["task_agnostic"][1] is None, "only tasks seen so far"
    assert seeing.metrics["stability_gap"] is not None
    assert blind.metrics["stability_gap"] is None
    assert seeing.metrics["wc_acc"] <= blind.metrics["wc_acc"]


@pytest.mark.parametrize("rule", ["ottt", "ottt_online", "sltt", "eprop"])
def test_looking_between_the_ticks_of_a_batch_changes_no_bit(rule, tmp_path):
    """Invariant 26 where a rule holds traces on the synapses while the evaluation runs through them."""
    chosen = ("scenario.num_tasks=2", "epochs=1", "batch_size=50", "strategy=hlop", f"rule={rule}")
    blind = launch(tmp_path / "blind", *chosen)
    seeing = launch(tmp_path / "seeing", *chosen, "evaluate_every=1")
    assert len([line for line in records_of(seeing.folder) if line["event"] == "within"]) >= 8
    for before, after in zip(weights_of(blind.folder), weights_of(seeing.folder), strict=True):
        assert same_tensors(before, after)


def test_looking_inside_tasks_resumes_to_the_same_bits_and_lines(tmp_path):
    """Invariant 24 with evaluations inside tasks: stopped after some of them were written."""
    chosen = ("scenario.num_tasks=3", "epochs=2", "strategy=hlop", "evaluate_every=2")
    whole = launch(tmp_path / "whole", *chosen)
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "cut", *chosen, progress=StopAtStep(1, 5))
    assert [line for line in records_of(*(tmp_path / "cut").iterdir()) if line["event"] == "within"][-1]["task"] == 1
    assert_same_run(whole.folder, launch(tmp_path / "cut", *chosen).folder)


def test_steps_between_evaluations_must_be_counted_from_one(tmp_path):
    with pytest.raises(UserError, match="evaluate_every must be at least 1, got 0"):
        launch(tmp_path, "evaluate_every=0")


def test_the_ledger_counts_what_went_through_the_network(tmp_path):
    found = launch(tmp_path, "scenario.num_tasks=2", "epochs=3", "batch_size=32", "evaluate_future=false").metrics
    trained, scored = 2 * 3 * 200, (0 + 1 + 2) * 73
    assert found["samples_seen"] == found["backward_passes"] == trained
    assert found["optimizer_steps"] == 2 * 3 * 7
    assert found["forward_passes"] == trained + scored
    operations = 4.6e-12 * found["macs"] + 0.9e-12 * found["synaptic_operations"]
    assert found["energy_joules_estimate"] == pytest.approx(operations)


def test_a_rule_that_steps_at_every_tick_sees_a_sample_once(tmp_path):
    chosen = ("scenario.num_tasks=1", "epochs=1", "batch_size=50", "rule=ottt_online", "model.time_steps=3")
    found = launch(tmp_path, *chosen).metrics
    assert (found["samples_seen"], found["optimizer_steps"]) == (200, 3 * 4)


def test_a_phase_inside_another_stops_its_clock():
    costs, device = Costs(), torch.device("cpu")
    with costs.phase("train", device):
        with costs.phase("evaluate", device):
            sum(range(100_000))
        inner = costs.seconds["evaluate"]
    assert inner > 0
    report = costs.task_report()
    assert report["seconds_evaluate"] == inner
    assert costs.task_report()["seconds_evaluate"] == 0.0, "the next task starts anew"
    assert Costs.from_json(json.loads(json.dumps(costs.as_json()))).summary() == costs.summary()
    assert costs.reasons().get("peak_bytes_consolidate") == "the run had no such phase"


def test_references_are_the_diagonals_of_runs_that_differ_in_the_strategy_alone(tmp_path):
    runs = {name: launch(tmp_path, *SPLIT, f"strategy={name}") for name in ("naive", "alone", "cumulative_restart")}
    folders = {name: run.folder for name, run in runs.items()}
    other = launch(tmp_path, *SPLIT, "strategy=alone", "seed=1").folder
    found = write_references([*folders.values(), other])[folders["naive"]]
    R = AccuracyMatrices.load(folders["naive"] / "accuracy_matrix.npz").task_agnostic
    levels = {
        name: np.diag(AccuracyMatrices.load(folders[name] / "accuracy_matrix.npz").task_agnostic) for name in runs
    }
    assert found.plasticity == pytest.approx(float((np.diag(R) - levels["alone"]).mean()))
    assert found.intransigence == pytest.approx(float((levels["cumulative_restart"] - np.diag(R)).mean()))
    assert (found.alone, found.cumulative_restart) == (folders["alone"].name, folders["cumulative_restart"].name)
    written = json.loads((folders["naive"] / "references.json").read_text())
    assert written["plasticity"] == found.plasticity
    lonely = with_references([folders["naive"], other])[folders["naive"]]
    assert lonely.plasticity is None
    assert lonely.undefined["plasticity"]


def test_alone_trains_every_task_from_the_initial_weights(tmp_path):
    """The first task's row is that of naive; the second starts again, so it forgets everything before."""
    naive, alone = (launch(tmp_path, *SPLIT, f"strategy={name}") for name in ("naive", "alone"))
    assert same_tensors(weights_of(naive.folder)[0], weights_of(alone.folder)[0])
    assert not same_tensors(weights_of(naive.folder)[1], weights_of(alone.folder)[1])
    assert measured(alone.folder)["stored_bytes"] > 0
