"""GDumb: what the memory holds, and that nothing else is learned from."""

import numpy as np
import pytest
import torch
from tiny_runs import NUM_TRAIN, foreign_network, launch, same_tensors, small_data, weights_of

from continual.objectives import CrossEntropy
from continual.scenarios import permuted, split
from continual.strategies import GDumb, Joint, Setting
from neuro.learning import BPTT

CHOSEN = ("scenario.num_tasks=3", "model=relu_mlp")


class Watches(GDumb):
    """Note what it trains on."""

    def attach(self, setting):
        super().attach(setting)
        self._given = []

    def training_data(self, task, history, sequence):
        chosen = super().training_data(task, history, sequence)
        self._given.append(chosen)
        return chosen


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_classes_are_balanced_and_nothing_comes_back(mode, tmp_path):
    strategy = Watches(60)
    result = launch(tmp_path, *CHOSEN, f"scenario.mode={mode}", own={"strategy": strategy})
    sequence, before = permuted(small_data(), 3, mode), set()
    for index, given in enumerate(strategy._given):
        targets = np.concatenate([task.train.targets for task in given])
        counts = np.bincount(targets)
        counts = counts[counts > 0]
        assert len(targets) == 60
        assert len(counts) == (10 if mode == "domain" else 10 * (index + 1))
        assert counts.max() - counts.min() <= 1
        rows = {(task.index, row.tobytes()) for task in given for row in task.train.inputs}
        now = {(index, row.tobytes()) for row in sequence.tasks[index].train.inputs}
        assert rows <= before | now, "what the memory has dropped is gone"
        before = rows
    per_sample = 64 * 4 + 8 + sequence.num_classes + 8 + 8
    weights = sum(tensor.nbytes for tensor in weights_of(result.folder)[0].values())
    assert result.metrics["stored_bytes"] == 60 * per_sample + 8 + weights


def test_it_starts_again_from_the_initial_weights(tmp_path):
    """With room for all, the last task is joint training to the bit, norm statistics included."""
    everything = launch(tmp_path, *CHOSEN, own={"strategy": GDumb(10_000), "model": foreign_network()})
    joint = launch(tmp_path, *CHOSEN, own={"strategy": Joint(), "model": foreign_network()})
    assert same_tensors(weights_of(everything.folder)[2], weights_of(joint.folder)[2])
    assert not same_tensors(weights_of(everything.folder)[1], weights_of(joint.folder)[2])


def test_a_memory_so_small_that_a_task_is_left_out():
    sequence = split(small_data(), 5, "class")
    strategy = GDumb(3)
    strategy.attach(Setting(foreign_network(), "5", sequence, 0, BPTT(), CrossEntropy(), epochs=1, batch_size=8))
    given = strategy.training_data(sequence.tasks[4], sequence.tasks[:4], sequence)
    assert sum(len(task.train) for task in given) == 3
    assert len(given) <= 3
    assert all(len(task.train) for task in given)


def test_bytes_bound_the_samples(tmp_path):
    strategy = Watches(capacity=None, capacity_bytes=10_000)
    launch(tmp_path, *CHOSEN, own={"strategy": strategy})
    held = sum(len(task.train) for task in strategy._given[-1])
    assert held == (10_000 - 8) // (64 * 4 + 8 + 10 + 8 + 8)
    assert held < NUM_TRAIN


@pytest.mark.parametrize("bounds", [{"capacity": 0}, {"capacity": None, "capacity_bytes": 0}])
def test_a_memory_of_nothing_is_refused(bounds):
    with pytest.raises(ValueError, match="must be above 0"):
        GDumb(**bounds)


def test_other_samples_are_held_with_another_seed(tmp_path):
    held = []
    for seed in (0, 1, 0):
        strategy = Watches(30)
        launch(tmp_path / str(len(held)), *CHOSEN, own={"strategy": strategy}, seed=seed)
        held.append(torch.cat([torch.from_numpy(task.train.inputs) for task in strategy._given[0]]))
    assert torch.equal(held[0], held[2])
    assert not torch.equal(held[0], held[1])
