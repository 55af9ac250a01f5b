"""HLOP with replay: protection while a task is learned, none while old samples are replayed, and again afterwards."""

import itertools

import numpy as np
import pytest
import torch
from tiny_runs import foreign_network, launch, same_tensors, small_data, weights_of

from continual.errors import DivergedError
from continual.scenarios import permuted
from continual.strategies import HLOP, HLOPReplay
from neuro.lateral import EnergyShare, HebbianAccumulated

THREE = ("scenario.num_tasks=3", "epochs=2")
OPTIMISERS = {
    "sgd": (),
    "momentum": ("optimizer.momentum=0.9", "optimizer.lr=0.1"),
    "adam": ("optimizer=adam", "optimizer.lr=0.01"),
}


class Remembers(HLOPReplay):
    """Keep weights and bases before and after each replay."""

    def __init__(self, **keywords):
        super().__init__(HLOP(HebbianAccumulated(), EnergyShare(0.8)), **keywords)
        self._seen = []

    def snapshot(self):
        protection = self.hlop._protection
        weights = {site.name: site.weight.detach().clone() for site in protection.sites}
        return weights, {name: subspace.basis.clone() for name, subspace in protection.subspaces.items()}

    def before_task(self, task, optimizer):
        super().before_task(task, optimizer)
        self._seen.append({"start": self.snapshot()})

    def _replay(self, task):
        self._seen[-1]["learned"] = self.snapshot()
        super()._replay(task)

    def after_task(self, task, data):
        super().after_task(task, data)
        self._seen[-1].setdefault("learned", self.snapshot())
        self._seen[-1]["end"] = self.snapshot()

    def share_inside(self, task, start, end):
        """Per layer the share of a change of weights that lies in the rows frozen when the task began."""
        before, bases = self._seen[task][start]
        after, _ = self._seen[task][end]
        bases = self._seen[task]["start"][1]
        found = {}
        for name, basis in bases.items():
            change = (after[name] - before[name]).double()
            found[name] = float((change @ basis.double().mT).norm() / change.norm())
        return found


@pytest.mark.parametrize(
    ("model", "optimiser"),
    [*(("relu_mlp", optimiser) for optimiser in OPTIMISERS), ("spiking_mlp", "sgd"), ("spiking_mlp", "adam")],
)
def test_learning_is_protected_and_replay_is_not(model, optimiser, tmp_path):
    strategy = Remembers(epochs=2, learning_rate=0.1)
    chosen = ("scenario.num_tasks=3", f"model={model}", *OPTIMISERS[optimiser])
    launch(tmp_path, *chosen, own={"strategy": strategy})
    for task in (1, 2):
        assert max(strategy.share_inside(task, "start", "learned").values()) < 1e-5, "also after a replay"
        replayed = strategy.share_inside(task, "learned", "end")
        assert min(replayed.values()) > 0.01, replayed
        assert same_tensors(strategy._seen[task]["learned"][1], strategy._seen[task]["end"][1]), "no subspace learns"
    assert same_tensors(strategy._seen[0]["learned"][0], strategy._seen[0]["end"][0]), "nothing after the first task"


def test_without_samples_it_is_hlop_to_the_bit(tmp_path):
    three = ("scenario.num_tasks=3", "model=relu_mlp")
    ours = launch(tmp_path, *three, "strategy=hlop_replay", "strategy.per_class=0")
    plain = launch(tmp_path, *three, "strategy=hlop")
    for one, other in zip(weights_of(ours.folder), weights_of(plain.folder), strict=True):
        assert same_tensors(one, other)
    assert ours.metrics["stored_bytes"] == plain.metrics["stored_bytes"]
    assert ours.metrics["learning_operations"] == plain.metrics["learning_operations"]
    replayed = launch(tmp_path, *three, "strategy=hlop_replay")
    first, second, third = (
        same_tensors(*pair) for pair in zip(weights_of(replayed.folder), weights_of(plain.folder), strict=True)
    )
    assert (first, second, third) == (True, False, False)


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_the_first_samples_of_each_class_of_each_task_are_kept(mode, tmp_path):
    strategy = HLOPReplay(per_class=3)
    launch(tmp_path, "scenario.num_tasks=3", f"scenario.mode={mode}", "model=relu_mlp", own={"strategy": strategy})
    columns, sequence = strategy._memory.columns, permuted(small_data(), 3, mode)
    assert len(strategy._memory) == 3 * 3 * 10
    for task in sequence.tasks:
        mine = columns["task"] == task.index
        for row in task.classes:
            wanted = task.train.inputs[task.train.targets == row][:3]
            found = columns["inputs"][mine & (columns["targets"] == row)].numpy()
            np.testing.assert_array_equal(found, wanted)


def test_every_kept_sample_is_replayed_once_an_epoch(tmp_path, monkeypatch):
    shown = []
    strategy = HLOPReplay(per_class=2, epochs=3, batch_size=16, momentum=0.5)

    def attach(setting):
        HLOPReplay.attach(strategy, setting)
        take = strategy._memory.take

        def taking(chosen):
            shown.append(chosen.tolist())
            return take(chosen)

        monkeypatch.setattr(strategy._memory, "take", taking)

    monkeypatch.setattr(strategy, "attach", attach)
    launch(tmp_path, "scenario.num_tasks=2", own={"strategy": strategy})
    assert [len(batch) for batch in shown] == [16, 16, 8] * 3
    epochs = [list(itertools.chain(*shown[start : start + 3])) for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(40)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_what_hlop_freezes_stays_frozen_and_modes_come_back(tmp_path):
    def run(strategy):
        model = foreign_network()
        return weights_of(launch(tmp_path, *THREE, own={"model": model, "strategy": strategy}).folder)

    first, *later = run(HLOPReplay(learning_rate=0.1, epochs=3))
    for weights in later:
        moved = {name for name in first if not torch.equal(first[name], weights[name])}
        assert moved == {"1.weight", "5.weight", "5.bias"}, "the head's bias moves in replay alone"


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_bytes_and_operations_are_those_of_both(optimiser, tmp_path):
    chosen = ("scenario.num_tasks=2", "model=relu_mlp", *OPTIMISERS[optimiser])
    strategy = HLOPReplay(per_class=4, epochs=2)
    result = launch(tmp_path, *chosen, own={"strategy": strategy})
    plain = launch(tmp_path, *chosen, own={"strategy": HLOP()})
    memory = sum(part.nbytes for part in strategy._memory.state_dict().values())
    own = strategy.hlop.stored_bytes
    assert result.metrics["stored_bytes"] == own + memory
    assert own == plain.metrics["stored_bytes"]
    weights = sum(tensor.numel() for tensor in weights_of(result.folder)[0].values())
    assert result.metrics["learning_operations"] == plain.metrics["learning_operations"] + 3 * 2 * 80 * weights


def test_replay_that_diverges_is_told(tmp_path):
    with pytest.raises(DivergedError, match=r"replay after task 2 .*strategy\.learning_rate"):
        launch(tmp_path, "model=relu_mlp", own={"strategy": HLOPReplay(learning_rate=1e30, epochs=3)})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"per_class": -1}, "per_class must be 0 or more"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0"),
        ({"momentum": 1.0}, r"momentum in \[0, 1\)"),
    ],
)
def test_numbers_out_of_range_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        HLOPReplay(**keywords)


@pytest.mark.parametrize(
    "chosen", [("rule=ottt_online",), ("rule=dsr",), ("rule=eprop",), ("model=spiking_cnn", "model.channels=[4,4]")]
)
def test_rules_and_convolutions(chosen, tmp_path):
    assert launch(tmp_path, *chosen, "strategy=hlop_replay").matrices.num_tasks == 2
