"""The references: joint trains once on everything, cumulative on all so far, naive_frozen freezes and no more."""

import numpy as np
import pytest
import torch
from tiny_runs import (
    NUM_TRAIN,
    POISSON,
    described,
    foreign_network,
    launch,
    records_of,
    same_tensors,
    small_data,
    weights_of,
)

from continual.assembly import make_model
from continual.config import RunConfig
from continual.strategies import Cumulative, Joint, Naive

THREE = ("scenario.num_tasks=3", "epochs=2")


class Counts:
    """Count how often each sample of each task is learned from; mixed into a strategy."""

    def __init__(self):
        self.counts = [{} for _ in range(3)]
        self.current = 0

    def before_task(self, task, optimizer):
        super().before_task(task, optimizer)
        self.current = task.index

    def mix(self, batch):
        tally = self.counts[self.current]
        for row, task in zip(batch.inputs, batch.task.tolist(), strict=True):
            key = task, row.numpy().tobytes()
            tally[key] = tally.get(key, 0) + 1
        return batch


def counted(base, tmp_path, **own):
    strategy = type("Counting", (Counts, base), {"name": "counting"})()
    result = launch(tmp_path, *THREE, own={"strategy": strategy, **own})
    return strategy.counts, result


def times_per_task(tally):
    """For each task, the set of how often its samples were seen, and how many samples there were."""
    found = {}
    for (task, _), times in tally.items():
        found.setdefault(task, []).append(times)
    return {task: (set(times), len(times)) for task, times in found.items()}


@pytest.fixture(scope="module", autouse=True)
def _distinct_samples():
    assert len({sample.tobytes() for sample in small_data().train.inputs}) == NUM_TRAIN


def test_naive_sees_its_own_task_alone(tmp_path):
    counts, _ = counted(Naive, tmp_path)
    assert [times_per_task(tally) for tally in counts] == [{task: ({2}, NUM_TRAIN)} for task in range(3)]


def test_cumulative_sees_every_sample_so_far_once_an_epoch(tmp_path):
    counts, _ = counted(Cumulative, tmp_path)
    for task, tally in enumerate(counts):
        assert times_per_task(tally) == {seen: ({2}, NUM_TRAIN) for seen in range(task + 1)}


def test_joint_trains_once_on_everything(tmp_path):
    counts, result = counted(Joint, tmp_path)
    assert counts[0] == counts[1] == {}
    assert times_per_task(counts[2]) == {task: ({2}, NUM_TRAIN) for task in range(3)}
    epochs = [(line["task"], line["epoch"]) for line in records_of(result.folder) if line["event"] == "epoch"]
    assert epochs == [(2, 0), (2, 1)]
    R = result.matrices.task_agnostic
    assert np.isnan(R[:2]).all()
    assert np.isfinite(R[2]).all()
    assert result.metrics["bwt"] is None
    assert "bwt" in result.metrics["undefined"]
    assert result.metrics["acc_final"] == pytest.approx(R[2].mean())
    weights = weights_of(result.folder)
    assert same_tensors(weights[0], weights[1])
    assert not same_tensors(weights[1], weights[2])


def test_joint_starts_from_the_initial_weights(tmp_path):
    joint = launch(tmp_path, *THREE, "strategy=joint").folder
    config = RunConfig.from_dict(described(*THREE, "strategy=joint"))
    fresh = make_model(config, small_data().input_shape, small_data().num_classes)
    assert same_tensors(fresh.state_dict(), weights_of(joint)[0])


@pytest.mark.parametrize(
    ("network", "mode"), [("spiking", "task"), ("spiking", "domain"), ("spiking", "class"), ("poisson", "domain")]
)
def test_naive_frozen_is_naive_on_a_network_without_anything_to_freeze(network, mode, tmp_path):
    """HLOP with subspaces of no rows changes no bit."""
    chosen = (*THREE, f"scenario.mode={mode}", *(POISSON if network == "poisson" else ()))
    naive, frozen = (launch(tmp_path, *chosen, f"strategy={name}") for name in ("naive", "naive_frozen"))
    pairs = zip(weights_of(naive.folder), weights_of(frozen.folder), strict=True)
    assert all(same_tensors(*pair) for pair in pairs)
    np.testing.assert_array_equal(naive.matrices.task_aware, frozen.matrices.task_aware)
    assert frozen.metrics["stored_bytes"] == frozen.metrics["learning_operations"] == 0


@pytest.mark.parametrize("optimizer", [(), ("optimizer=adam",), ("optimizer.momentum=0.9",)])
def test_naive_frozen_is_naive_under_other_optimisers_too(optimizer, tmp_path):
    naive, frozen = (launch(tmp_path, *THREE, *optimizer, f"strategy={name}") for name in ("naive", "naive_frozen"))
    assert same_tensors(weights_of(naive.folder)[-1], weights_of(frozen.folder)[-1])


def moved(folder):
    """Names of parameters and statistics that changed after task 1."""
    first, *later = weights_of(folder)
    return {name for name, tensor in first.items() for weights in later if not torch.equal(weights[name], tensor)}


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_naive_frozen_freezes_exactly_what_hlop_freezes(mode, tmp_path):
    def run(choice):
        model = foreign_network(num_classes=10 if mode == "domain" else 30)
        chosen = (*THREE, f"scenario.mode={mode}", "sizes.share=0.5", f"strategy={choice}")
        return launch(tmp_path, *chosen, own={"model": model})

    frozen, hlop, naive = (run(choice) for choice in ("naive_frozen", "hlop", "naive"))
    assert moved(frozen.folder) == moved(hlop.folder)
    for protected in (frozen, hlop):
        still = {name for name, parameter in protected.model.named_parameters() if not parameter.requires_grad}
        assert still == {"1.bias", "2.weight", "2.bias"}
        assert moved(protected.folder) == {"1.weight", "5.weight"} | ({"5.bias"} if mode != "domain" else set())
    assert moved(naive.folder) == set(naive.model.state_dict()), "the control of this comparison: all of it can move"
    assert not same_tensors(weights_of(frozen.folder)[-1], weights_of(hlop.folder)[-1])


def test_biases_stand_still_from_task_two_and_learn_before(tmp_path):
    result = launch(tmp_path, *THREE, "strategy=naive_frozen", "model=relu_mlp", "model.bias=true")
    first, second, third = weights_of(result.folder)
    untrained = launch(tmp_path, *THREE, "strategy=joint", "model=relu_mlp", "model.bias=true").folder
    for name in ("fc1.bias", "fc2.bias"):
        assert torch.equal(first[name], second[name])
        assert torch.equal(first[name], third[name])
        assert not torch.equal(first[name], weights_of(untrained)[0][name])
    assert not torch.equal(first["fc1.weight"], second["fc1.weight"])
