"""What every projection strategy promises of the change that is applied."""

import sys

import numpy as np
import pytest
import torch
from projection_runs import (
    LINEAR_IN_GRADIENT,
    OPTIMISERS,
    PlainRun,
    linear_network,
    relu_network,
    samples,
    sequence_of,
    three_tasks,
)
from tiny_runs import POISSON, launch, same_tensors, weights_of

from continual.output_directions import EveryLogit
from continual.strategies import (
    GPM,
    HLOP,
    NSCL,
    OGD,
    SGP,
    FrobeniusScaled,
    Naive,
    NaiveFrozen,
    OWMOnline,
    OWMTaskEnd,
)
from neuro import Linear
from neuro.lateral import BatchMean, Eigen, GrowingShare, ListedSizes, NoRows, ReleasedCount

FAMILY = {
    "gpm": lambda: GPM(GrowingShare(0.9)),
    "gpm_legacy": lambda: GPM(ReleasedCount(GrowingShare(0.9))),
    "sgp": lambda: SGP(GrowingShare(0.9), 3.0),
    "owm_online": lambda: OWMOnline(damping=0.3),
    "owm_taskend": lambda: OWMTaskEnd(damping=0.3, batch_size=10),
    "nscl": lambda: NSCL(30.0),
    "nscl_legacy": lambda: NSCL(30.0, BatchMean(), FrobeniusScaled(), batch_size=10),
}
MODULE = {"gpm": "hlop", "gpm_legacy": "hlop", "owm_online": "owm", "owm_taskend": "owm", "nscl_legacy": "nscl"}


def worst_deviation(run):
    """Largest difference between what was applied and the map of what the optimiser wanted, relative to the latter."""
    worst = 0.0
    for applied, wanted, matrices in run.steps:
        assert matrices, "something is protected"
        for name, matrix in matrices.items():
            difference = applied[name] - wanted[name] @ matrix
            worst = max(worst, float(difference.norm() / wanted[name].norm()))
    return worst


@pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))
@pytest.mark.parametrize("member", sorted(FAMILY))
def test_invariant_09_what_is_applied_is_the_map_of_what_the_optimiser_wanted(member, optimiser):
    run = PlainRun(
        FAMILY[member](), relu_network(Linear if optimiser in LINEAR_IN_GRADIENT else torch.nn.Linear), three_tasks()
    )
    run.learn(0, optimiser)
    run.end(0)
    run.learn(1, optimiser)
    assert worst_deviation(run) < 1e-9
    assert len(run.steps[0][2]) == 2


@pytest.mark.parametrize("optimiser", ["decay", "adam", "adamw"])
@pytest.mark.parametrize("member", sorted(FAMILY))
def test_invariant_09_control_projecting_gradients_alone_fails_where_the_optimiser_is_not_linear(
    member, optimiser, monkeypatch
):
    module = sys.modules[f"continual.strategies.{MODULE.get(member, member)}"]
    decides = "linear_without_memory" if member == "owm_online" else "linear_in_gradient"
    monkeypatch.setattr(module, decides, lambda optimizer: True)
    run = PlainRun(FAMILY[member](), relu_network(), three_tasks())
    run.learn(0, optimiser)
    run.end(0)
    run.learn(1, optimiser)
    assert worst_deviation(run) > 1e-2


def test_invariant_09_control_online_a_momentum_of_projected_gradients_remembers_an_older_map(monkeypatch):
    monkeypatch.setattr(sys.modules["continual.strategies.owm"], "linear_without_memory", lambda optimizer: True)
    run = PlainRun(FAMILY["owm_online"](), relu_network(), three_tasks())
    run.learn(0, "momentum")
    assert worst_deviation(run) > 1e-2


@pytest.mark.parametrize("optimiser", ["momentum", "adamw"])
@pytest.mark.parametrize("member", ["gpm", "gpm_legacy", "nscl", "nscl_legacy"])
def test_invariant_09_hard_maps_leave_no_component_in_what_they_protect(member, optimiser):
    run = PlainRun(FAMILY[member](), relu_network(), three_tasks())
    for index in (0, 1):
        run.learn(index, optimiser)
        run.end(index)
    matrices, before = run.matrices(), run.weights()
    run.learn(2, optimiser)
    for name, matrix in matrices.items():
        energies, vectors = torch.linalg.eigh(matrix)
        protected = vectors[:, energies < 1e-9]
        change = run.weights()[name] - before[name]
        assert protected.shape[1] > 0
        assert float((change @ protected).norm() / change.norm()) < 1e-9
        assert float(change.norm()) > 1e-3


# A linear network, its first task in half of the pixels


SUBSPACE = {
    "gpm": (lambda: GPM(GrowingShare(0.99999), None), 1e-8),
    "hlop": (lambda: HLOP(Eigen(), ListedSizes([[8], [0]])), 1e-8),
    "sgp": (lambda: SGP(GrowingShare(0.99999), 1e12, None), 1e-8),
    "nscl": (lambda: NSCL(1.0), 1e-8),
    "ogd": (lambda: OGD(60, EveryLogit()), 1e-8),
    "owm_taskend": (lambda: OWMTaskEnd(damping=1e-9, batch_size=1), 1e-5),
    "owm_online": (lambda: OWMOnline(damping=1e-7), 1e-3),
}
"""With the largest change of an output that is allowed. OWM is soft: it leaves damping/energy of every change."""


def half_and_whole(strategy, optimiser):
    """The largest change of a logit of task 1 through task 2, and of the weights."""
    sequence = sequence_of(samples(0, range(8)), samples(1, range(15, -1, -1)))
    run = PlainRun(strategy, linear_network(), sequence, epochs=2, batch_size=6)
    run.learn(0, optimiser)
    run.end(0)
    before, inputs = run.model[0].weight.detach().clone(), run.data(0).inputs
    run.learn(1, optimiser)
    change = run.model[0].weight.detach() - before
    return float((inputs @ change.T).abs().max()), float(change.norm())


@pytest.mark.parametrize("optimiser", ["sgd", "decay", "adam"])
@pytest.mark.parametrize("member", sorted(SUBSPACE))
def test_invariant_08_a_linear_network_keeps_the_outputs_of_a_task_in_a_subspace(member, optimiser):
    make, tolerance = SUBSPACE[member]
    drift, learned = half_and_whole(make(), optimiser)
    assert drift < tolerance
    assert learned > 0.1


@pytest.mark.parametrize("optimiser", ["sgd", "decay", "adam"])
def test_invariant_08_control_the_outputs_of_an_unprotected_network_move(optimiser):
    drift, _ = half_and_whole(HLOP(Eigen(), NoRows()), optimiser)
    assert drift > 0.1


# Nothing held is naive


NOTHING = {
    "gpm": lambda: GPM(NoRows()),
    "sgp": lambda: SGP(NoRows()),
    "owm_online": lambda: OWMOnline(damping=float("inf")),
    "owm_taskend": lambda: OWMTaskEnd(damping=float("inf")),
    "ogd": lambda: OGD(0),
}
RUNS = [("spiking", ("optimizer=adam", "optimizer.lr=0.01")), ("poisson", POISSON)]


@pytest.mark.parametrize("overrides", [overrides for _, overrides in RUNS], ids=[name for name, _ in RUNS])
def test_invariant_03_a_strategy_that_holds_nothing_is_naive_to_the_bit(overrides, tmp_path):
    naive = launch(tmp_path / "naive", *overrides, own={"strategy": Naive()})
    for name, make in NOTHING.items():
        ours = launch(tmp_path / name, *overrides, own={"strategy": make()})
        pairs = list(zip(weights_of(naive.folder), weights_of(ours.folder), strict=True))
        assert len(pairs) == 2
        assert all(same_tensors(*pair) for pair in pairs), name
        assert naive.matrices.task_agnostic.tolist() == ours.matrices.task_agnostic.tolist()


@pytest.mark.parametrize("optimiser", ["momentum", "adamw"])
def test_what_is_frozen_beside_the_maps_is_what_naive_frozen_freezes(optimiser):
    still = {}
    for name, make in [*FAMILY.items(), ("naive_frozen", NaiveFrozen)]:
        run = PlainRun(make(), relu_network(num_classes=9, bias=True), three_tasks("task"))
        run.learn(0, optimiser)
        run.end(0)
        before = run.weights()
        run.learn(1, optimiser)
        moved = {name: (run.weights()[name] != value) for name, value in before.items()}
        still[name] = {
            name: change.flatten(1).any(1).tolist() if change.ndim > 1 else change.tolist()
            for name, change in moved.items()
        }
    assert still["naive_frozen"]["0.bias"] == [False] * 12
    assert still["naive_frozen"]["2.weight"] == [False] * 3 + [True] * 3 + [False] * 3
    assert all(rows == still["naive_frozen"] for rows in still.values())


# Bases


@pytest.mark.parametrize("make", [lambda share: GPM(GrowingShare(share)), lambda share: SGP(GrowingShare(share))])
def test_invariant_11_bases_are_orthonormal_grow_with_tasks_and_with_the_threshold(make):
    ranks = {}
    for share in (0.6, 0.8, 0.95, 0.9999):
        run, ranks[share] = PlainRun(make(share), relu_network(), three_tasks()), []
        for index in range(3):
            run.learn(index)
            run.end(index)
            bases = [part for name, part in run.strategy.state_dict().items() if name.startswith("basis")]
            for basis in bases:
                error = (basis @ basis.mT - torch.eye(len(basis)).double()).abs()
                assert error.numel() == 0 or float(error.max()) < 1e-6
            ranks[share].append([len(basis) for basis in bases])
            assert all(len(basis) <= basis.shape[1] for basis in bases)
            assert [layer.rank for layer in run.strategy.ranks()] == ranks[share][-1]
            assert all(layer.captured_energy >= share - 1e-6 for layer in run.strategy.ranks())
        assert np.diff(ranks[share], axis=0).min() >= 0
    first = np.array([per_task[0] for per_task in ranks.values()])
    assert np.diff(first, axis=0).min() >= 0
    assert (first[0] < first[-1]).all()
