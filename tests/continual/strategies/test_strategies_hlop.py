"""HLOP's guarantee on what is really applied: the update of a later task has no component in a frozen subspace."""

import numpy as np
import pytest
import torch
from tiny_runs import foreign_network, launch, records_of, same_tensors, weights_of
from torch import nn

import continual
import continual.strategies.hlop
from continual.data import Test, Train
from continual.scenarios import Task, TaskSequence
from continual.strategies import HLOP
from neuro.lateral import Eigen, EnergyShare, Hebbian, HebbianAccumulated, ListedSizes, NoRows

OPTIMISERS = {
    "sgd": (),
    "momentum": ("optimizer.momentum=0.9", "optimizer.lr=0.1"),
    "weight decay": ("optimizer.weight_decay=0.01",),
    "adam": ("optimizer=adam", "optimizer.lr=0.01"),
    "adam with decay": ("optimizer=adam", "optimizer.lr=0.01", "optimizer.weight_decay=0.01"),
}


class Remembers(HLOP):
    """Keep weights and bases as they were at each task's end."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.name = "remembers"
        self._kept = []

    def after_task(self, task, data):
        super().after_task(task, data)
        protection = self._protection
        weights = {site.name: site.weight.detach().clone() for site in protection.sites}
        bases = {name: subspace.basis.clone() for name, subspace in protection.subspaces.items()}
        self._kept.append((weights, bases))

    def leaks(self, task):
        """Per layer, the share of the update of `task` that lies in the rows frozen before it, and its size."""
        (before, bases), (after, _) = self._kept[task - 1], self._kept[task]
        found = {}
        for name, basis in bases.items():
            change = (after[name] - before[name]).double()
            found[name] = float((change @ basis.double().mT).norm() / change.norm())
        return found


def remembered(tmp_path, *overrides, sizes=None, learning=None, own=None, **settings):
    strategy = Remembers(learning or HebbianAccumulated(), sizes or EnergyShare(0.8))
    result = launch(tmp_path, "epochs=2", *overrides, own={"strategy": strategy, **(own or {})}, **settings)
    return strategy, result


@pytest.mark.parametrize(
    ("model", "optimiser"),
    [*(("relu_mlp", optimiser) for optimiser in OPTIMISERS), ("spiking_mlp", "sgd"), ("spiking_mlp", "adam")],
)
def test_the_applied_update_keeps_out_of_the_subspace(model, optimiser, tmp_path):
    strategy, _ = remembered(tmp_path, f"model={model}", *OPTIMISERS[optimiser], "scenario.num_tasks=3")
    for task in (1, 2):
        leaks = strategy.leaks(task)
        assert len(leaks) == 3
        assert max(leaks.values()) < 1e-5, leaks


@pytest.mark.parametrize("optimiser", ["adam", "weight decay", "adam with decay"])
def test_projecting_the_gradient_alone_fails_where_the_optimiser_is_not_linear(optimiser, tmp_path, monkeypatch):
    """The negative control of the test above."""
    monkeypatch.setattr(continual.strategies.hlop, "linear_in_gradient", lambda optimizer: True)
    strategy, _ = remembered(tmp_path, "model=relu_mlp", *OPTIMISERS[optimiser])
    assert max(strategy.leaks(1).values()) > 1e-3


def test_without_rows_the_update_goes_everywhere(tmp_path):
    """Another negative control: measured against HLOP's bases, an unprotected run leaks."""
    bases = remembered(tmp_path, "model=relu_mlp")[0]._kept[0][1]
    first, second = weights_of(launch(tmp_path, "epochs=2", "model=relu_mlp", "strategy=naive").folder)
    change = second["fc1.weight"] - first["fc1.weight"]
    assert float((change @ bases["fc1"].mT).norm() / change.norm()) > 0.1


@pytest.mark.parametrize("learning", [Hebbian(), HebbianAccumulated(), Eigen()])
def test_bases_are_orthonormal_grow_and_never_exceed_the_width(learning, tmp_path):
    strategy, result = remembered(tmp_path, "scenario.num_tasks=4", learning=learning, sizes=EnergyShare(0.9))
    ranks = []
    for _, bases in strategy._kept:
        for basis in bases.values():
            error = (basis.double() @ basis.double().mT - torch.eye(len(basis), dtype=torch.float64)).abs()
            assert error.numel() == 0 or float(error.max()) < 1e-5
            assert len(basis) <= basis.shape[1]
        ranks.append([len(basis) for basis in bases.values()])
    assert (np.diff(ranks, axis=0) >= 0).all()
    ends = [line for line in records_of(result.folder) if line["event"] == "task_end"]
    assert [[layer["rank"] for layer in line["subspaces"]] for line in ends] == ranks
    for earlier, later in zip(strategy._kept, strategy._kept[1:], strict=False):
        for name, basis in earlier[1].items():
            assert torch.equal(later[1][name][: len(basis)], basis), "frozen rows never change"


@pytest.mark.parametrize("learning", [Hebbian(), HebbianAccumulated(), Eigen()])
def test_a_silent_layer_is_survived(learning, tmp_path):
    """A threshold that no neuron reaches: nothing stands before the deeper weights, so nothing is frozen there."""
    strategy, _ = remembered(tmp_path, "model.neuron.threshold=1000", learning=learning)
    ranks = [len(basis) for basis in strategy._kept[-1][1].values()]
    assert ranks[0] > 0
    assert ranks[1:] == [0, 0]
    silent = [note.split("'")[1] for note in strategy.notices() if "learned no direction" in note]
    assert silent == list(strategy._kept[-1][1])[1:]


def rank_limited(seed, pixels, num=60, num_classes=3):
    random = np.random.default_rng(seed)
    inputs = np.zeros((num, 16), np.float32)
    inputs[:, pixels] = random.random((num, len(pixels)), dtype=np.float32)
    targets = inputs[:, pixels[:num_classes]].argmax(1).astype(np.int64)
    return inputs, targets


def linear_toy():
    """Task 1 lives in the first eight pixels, task 2 in all sixteen; one shared linear head."""
    tasks = []
    for index, pixels in enumerate((range(8), range(15, -1, -1))):
        part = rank_limited(index, list(pixels))
        tasks.append(Task(index, f"task {index}", Train(*part), None, Test(*part), (0, 1, 2)))
    return TaskSequence("toy", tuple(tasks), "domain", 3)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_linear_network_forgets_nothing_when_the_subspace_holds_the_task(optimiser, tmp_path):
    sequence = linear_toy()
    inputs = torch.from_numpy(sequence.tasks[0].test.inputs).double()

    def drift(strategy):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(16, 3, bias=False))
        own = {"scenario": sequence, "model": model, "strategy": strategy}
        overrides = ("epochs=5", "dtype=float64", *OPTIMISERS[optimiser])
        result = launch(tmp_path, *overrides, own=own)
        before, after = (weights["0.weight"] for weights in weights_of(result.folder))
        R = result.matrices.task_aware
        return float((inputs @ (after - before).T).abs().max()), R[1, 0] - R[0, 0], float((after - before).norm())

    logits, bwt, learned = drift(HLOP(Eigen(), ListedSizes([[8], [0]])))
    assert logits < 1e-5
    assert bwt == 0
    assert learned > 0.1
    unprotected, _, _ = drift(HLOP(Eigen(), NoRows()))
    assert unprotected > 0.1


def test_a_full_subspace_freezes_a_layer_to_the_bit(tmp_path):
    parts = [rank_limited(seed, list(range(16))) for seed in (0, 1)]
    tasks = tuple(
        Task(index, f"task {index}", Train(*part), None, Test(*part), (0, 1, 2)) for index, part in enumerate(parts)
    )
    for optimiser in OPTIMISERS.values():
        own = {
            "scenario": TaskSequence("toy", tasks, "domain", 3),
            "model": nn.Sequential(nn.Linear(16, 3, bias=False)),
            "strategy": HLOP(Eigen(), ListedSizes([[16], [0]])),
        }
        result = launch(tmp_path, "epochs=2", *optimiser, own=own)
        assert same_tensors(*weights_of(result.folder))


@pytest.mark.parametrize("optimiser", ["sgd", "adam with decay"])
def test_old_heads_answer_old_features_with_the_same_bits(optimiser, tmp_path):
    """In task mode the rows of old tasks stand still."""
    model = foreign_network()
    chosen = ("scenario=split", "scenario.num_tasks=5", *OPTIMISERS[optimiser], "strategy=hlop")
    weights = weights_of(launch(tmp_path, *chosen, own={"model": model}).folder)
    features = torch.rand(20, 12, generator=torch.Generator().manual_seed(0))
    for task in range(5):
        own = slice(2 * task, 2 * task + 2)
        kept = features @ weights[task]["5.weight"][own].T + weights[task]["5.bias"][own]
        for later in range(task + 1, 5):
            now = features @ weights[later]["5.weight"][own].T + weights[later]["5.bias"][own]
            assert torch.equal(now, kept)
        if task:
            change = weights[task]["5.weight"][own] - weights[task - 1]["5.weight"][own]
            assert change.abs().max() > 0, "the rows of the task itself learn"


@pytest.mark.parametrize("optimiser", ["sgd", "adam with decay"])
@pytest.mark.parametrize("train_logits", ["seen", "all", "current"])
def test_in_class_mode_the_shared_rows_alone_are_projected(train_logits, optimiser, tmp_path):
    strategy, result = remembered(
        tmp_path,
        "scenario=split",
        "scenario.num_tasks=5",
        "scenario.mode=class",
        f"scenario.train_logits={train_logits}",
        "model=relu_mlp",
        *OPTIMISERS[optimiser],
    )
    weights = weights_of(result.folder)
    for task in range(1, 5):
        change = weights[task]["head.weight"] - weights[task - 1]["head.weight"]
        old, own, future = change[: 2 * task], change[2 * task : 2 * task + 2], change[2 * task + 2 :]
        if train_logits == "current":
            assert "head" not in strategy._kept[task][1]
            assert (old == 0).all()
            assert (future == 0).all()
            assert own.abs().max() > 0
            continue
        basis = strategy._kept[task - 1][1]["head"]
        assert float((old @ basis.mT).norm()) <= 1e-5 * float(change.norm())
        leak_of_own = float((own @ basis.mT).norm() / own.norm())
        if train_logits == "seen":
            assert leak_of_own > 0.1, "rows of the task's own are free"
            assert (future == 0).all()
        else:
            assert leak_of_own < 1e-4, "rows that compete from the start are shared by all"


def test_stored_bytes_are_those_of_the_tensors(tmp_path):
    for optimiser in ("sgd", "adam"):
        strategy, result = remembered(tmp_path, *OPTIMISERS[optimiser])
        protection = strategy._protection
        held = {id(tensor): tensor.nbytes for tensor in protection._anchors.values()}
        for subspace in protection.subspaces.values():
            held[id(subspace.basis)] = subspace.basis.nbytes
            if subspace.projector is not None:
                held[id(subspace.projector.directions)] = subspace.projector.directions.nbytes
        assert result.metrics["stored_bytes"] == sum(held.values()) > 0


def test_it_learns_from_as_many_samples_as_it_is_told(tmp_path, monkeypatch):
    shown = []
    original = continual.strategies.hlop.Protection.end_task

    def counting(self, inputs, **keywords):
        batches = list(inputs)
        shown.append([len(batch) for batch in batches])
        assert keywords["num_batches"] == len(batches)
        return original(self, batches, **keywords)

    monkeypatch.setattr(continual.strategies.hlop.Protection, "end_task", counting)
    launch(tmp_path, own={"strategy": HLOP(max_samples=50, batch_size=40, passes=2)})
    assert shown == [[40, 10, 40, 10]] * 2
    shown.clear()
    launch(tmp_path, own={"strategy": HLOP(batch_size=150)})
    assert shown == [[150, 50]] * 2


@pytest.mark.parametrize("name", ["max_samples", "batch_size", "passes", "last_epochs", "max_rows"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        HLOP(**{name: 0})


def test_a_network_that_cannot_be_protected_is_refused_at_the_start(tmp_path):
    cube, flat = nn.Unflatten(1, (1, 1, 8)), nn.Flatten()
    convolution = nn.Sequential(cube, nn.Conv3d(1, 2, (1, 3, 3)), flat, nn.Linear(72, 10))
    with pytest.raises(continual.errors.UserError, match=r"'1' \(Conv3d\)"):
        launch(tmp_path / "runs", "strategy=hlop", own={"model": convolution})
    assert not (tmp_path / "runs").exists()
    assert launch(tmp_path, "strategy=naive", own={"model": convolution}).metrics["num_tasks"] == 2
