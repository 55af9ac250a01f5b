"""GPM and SGP against the papers' algorithms on whole matrices by SVD, and against HLOP, whose span they share."""

import pytest
import torch
from projection_runs import PlainRun, relu_network, three_tasks
from tiny_runs import launch, same_tensors, weights_of
from torch import nn

from continual.seeding import stream
from continual.strategies import GPM, HLOP, SGP
from continual.strategies.sgp import importance
from neuro.lateral import (
    Eigen,
    EnergyShare,
    GrowingShare,
    HebbianAccumulated,
    ListedSizes,
    ReleasedCount,
    SoftProjector,
)

LAYERS = ("0", "2")


def matrices_of(run, index, max_samples):
    """The columns before each weight, [features, samples], of the samples that the strategy draws."""
    inputs = run.data(index).inputs
    order = torch.randperm(len(inputs), generator=stream(run.seed, "consolidation", index, 0))[:max_samples]
    return {name: run.inputs_of(name, inputs[order]).T for name in LAYERS}


def slow_growth(basis, columns, share, strict=False):
    """The new directions: columns [features, k] of the left singular vectors that the paper adds to a basis."""
    total = float((torch.linalg.svdvals(columns) ** 2).sum())
    left = columns - basis @ basis.T @ columns
    vectors, values, _ = torch.linalg.svd(left, full_matrices=False)
    held, count = total - float((values**2).sum()), 0
    while held < share * total * (1 - 1e-12):
        held += float(values[count] ** 2)
        count += 1
    return vectors[:, : max(0, count - 1) if strict else count], values


def span(rows):
    return rows.T @ rows


@pytest.mark.parametrize("legacy", [False, True], ids=["inclusive", "released"])
@pytest.mark.parametrize(("share", "increment"), [(0.8, 0.05), ([0.7, 0.95], 0.0)], ids=["scalar", "per layer"])
def test_the_basis_is_that_of_the_papers_algorithm_over_three_tasks(share, increment, legacy):
    sizes = GrowingShare(share, increment)
    run = PlainRun(GPM(ReleasedCount(sizes) if legacy else sizes, 40), relu_network(), three_tasks())
    slow = {name: torch.zeros(width, 0).double() for name, width in zip(LAYERS, (16, 12), strict=True)}
    for index in range(3):
        run.learn(index)
        for place, (name, columns) in enumerate(matrices_of(run, index, 40).items()):
            wanted = (share[place] if isinstance(share, list) else share) + index * increment
            added, _ = slow_growth(slow[name], columns, wanted, strict=legacy and index == 0)
            slow[name] = torch.cat([slow[name], added], 1)
        run.end(index)
        for name, subspace in run.strategy._protection.subspaces.items():
            assert subspace.rank == slow[name].shape[1] > 0
            torch.testing.assert_close(span(subspace.basis), span(slow[name].T), rtol=0, atol=1e-7)
    assert run.strategy.name == ("gpm_legacy" if legacy else "gpm")


def test_gpm_is_hlop_with_eigen_and_an_energy_share_to_the_bit(tmp_path):
    ours = launch(tmp_path, "epochs=2", own={"strategy": GPM(GrowingShare(0.9), 50)})
    theirs = launch(tmp_path, "epochs=2", own={"strategy": HLOP(Eigen(), EnergyShare(0.9), 50, max_rows=None)})
    assert ours.folder != theirs.folder
    assert all(same_tensors(*p) for p in zip(weights_of(ours.folder), weights_of(theirs.folder), strict=True))


def test_hlop_at_equal_rank_learns_the_span_of_gpm():
    gpm = PlainRun(GPM(GrowingShare(0.9), None), relu_network(), three_tasks())
    gpm.learn(0)
    gpm.end(0)
    ranks = [layer.rank for layer in gpm.strategy.ranks()]
    hlop = PlainRun(HLOP(HebbianAccumulated(100), ListedSizes([ranks] * 3)), relu_network(), three_tasks())
    hlop.learn(0)
    hlop.end(0)
    assert same_tensors(gpm.weights(), hlop.weights())
    for name, subspace in gpm.strategy._protection.subspaces.items():
        other = hlop.strategy._protection.subspaces[name]
        assert 0 < subspace.rank < subspace.width
        torch.testing.assert_close(span(other.basis), span(subspace.basis), rtol=0, atol=1e-5)


def test_a_convolutions_columns_are_all_patches_of_the_drawn_samples(tmp_path):
    layers = [nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 4, 3, stride=2, bias=False), nn.ReLU(), nn.Flatten()]
    torch.manual_seed(0)
    model = nn.Sequential(*layers, nn.Linear(36, 10, bias=False))
    seen, strategy = [], GPM(GrowingShare(0.9), 30, 7)
    original = strategy.after_task

    def watching(task, data):
        learn = strategy._protection.subspaces["1"].learn
        strategy._protection.subspaces["1"].learn = lambda rows: (seen.append(rows.clone()), learn(rows))
        original(task, data)
        strategy._protection.subspaces["1"].learn = learn

    strategy.after_task = watching
    launch(tmp_path, "scenario.num_tasks=1", own={"strategy": strategy, "model": model})
    assert [len(rows) for rows in seen] == [7 * 9] * 4 + [2 * 9]


def test_learning_is_counted_with_its_passes(tmp_path):
    run = PlainRun(GPM(GrowingShare(0.9), 40), relu_network(), three_tasks())
    run.learn(0)
    assert run.strategy.operations == 0
    run.end(0)
    passes = 40 * (16 * 12 + 12 * 3)
    moments = 40 * (16**2 + 12**2)
    assert run.strategy.operations == passes + moments + 9 * (16**3 + 12**3)
    sgp = PlainRun(SGP(GrowingShare(0.9), max_samples=40), relu_network(), three_tasks())
    sgp.learn(0)
    sgp.end(0)
    assert sgp.strategy.operations == run.strategy.operations


# SGP


def slow_sgp(run, share, coefficient, max_samples):
    """Bases as columns and importances, by the paper's steps."""
    bases = {name: torch.zeros(width, 0).double() for name, width in zip(LAYERS, (16, 12), strict=True)}
    shares = {name: torch.zeros(0).double() for name in LAYERS}
    for index in range(3):
        run.learn(index)
        for name, columns in matrices_of(run, index, max_samples).items():
            added, values = slow_growth(bases[name], columns, share)
            old = (
                torch.stack([(row @ columns).norm() for row in bases[name].T]) if bases[name].shape[1] else shares[name]
            )
            strengths = torch.cat([old, values[: added.shape[1]]])
            now = (coefficient + 1) * strengths / (coefficient * strengths + strengths.max())
            before = torch.cat([shares[name], torch.zeros(added.shape[1]).double()])
            shares[name] = torch.minimum(before + now, torch.ones_like(now))
            bases[name] = torch.cat([bases[name], added], 1)
        run.end(index)
        yield bases, shares


@pytest.mark.parametrize("coefficient", [0.0, 3.0])
def test_soft_maps_are_those_of_the_papers_algorithm_over_three_tasks(coefficient):
    run = PlainRun(SGP(GrowingShare(0.85), coefficient, 40), relu_network(), three_tasks())
    for bases, shares in slow_sgp(run, 0.85, coefficient, 40):
        state = run.strategy.state_dict()
        for name in LAYERS:
            slow = bases[name] @ torch.diag(shares[name]) @ bases[name].T
            basis, held = state[f"basis.{name}"], state[f"importance.{name}"]
            assert held.shape == shares[name].shape
            assert 0 < held.min() <= held.max() <= 1
            torch.testing.assert_close(basis.T @ torch.diag(held) @ basis, slow, rtol=0, atol=1e-7)


def test_a_large_coefficient_is_gpm():
    runs = [
        PlainRun(strategy, relu_network(), three_tasks())
        for strategy in (SGP(GrowingShare(0.9), 1e12, 40), GPM(GrowingShare(0.9), 40))
    ]
    for run in runs:
        run.learn_all()
    for ours, theirs in zip(*(run.weights().values() for run in runs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


def test_importance_is_one_for_the_strongest_and_the_share_for_a_coefficient_of_zero():
    strengths = torch.tensor([4.0, 2.0, 1.0, 0.0])
    torch.testing.assert_close(importance(strengths, 0.0), torch.tensor([1.0, 0.5, 0.25, 0.0]))
    torch.testing.assert_close(importance(strengths, 3.0), torch.tensor([1.0, 0.8, 4 / 7, 0.0]))
    assert importance(torch.zeros(2), 0.0).tolist() == [0, 0]
    assert len(importance(torch.zeros(0), 1.0)) == 0


def test_soft_maps_learn_what_hard_ones_forbid():
    runs = [
        PlainRun(strategy, relu_network(), three_tasks())
        for strategy in (SGP(GrowingShare(0.9), 1.0, 40), GPM(GrowingShare(0.9), 40))
    ]
    inside = []
    for run in runs:
        run.learn(0)
        run.end(0)
        before, basis = run.weights()["0.weight"], run.strategy.state_dict()["basis.0"]
        run.learn(1)
        inside.append(float(((run.weights()["0.weight"] - before) @ basis.T).norm()))
    assert inside[1] < 1e-9
    assert inside[0] > 1e-3


def test_a_silent_layer_is_left_free():
    run = PlainRun(SGP(GrowingShare(0.9)), relu_network(), three_tasks())
    with torch.no_grad():
        run.model[0].weight.zero_()
    run.end(0)
    ranks = {layer.name: layer.rank for layer in run.strategy.ranks()}
    assert ranks["0"] > 0
    assert ranks["2"] == 0
    assert isinstance(run.guard().maps["0"], SoftProjector)
    assert "2" not in run.guard().maps


def test_stored_bytes_are_bases_importances_and_anchors():
    for optimiser, anchors in (("sgd", 0), ("adam", 8 * (2 * 12 * 3 + 16 * 12))):
        run = PlainRun(SGP(GrowingShare(0.9)), relu_network(), three_tasks())
        run.learn(0, optimiser)
        run.end(0)
        state = run.strategy.state_dict()
        held = sum(part.nbytes for name, part in state.items() if name != "counters")
        assert run.strategy.stored_bytes == held + anchors
    assert held > 0


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="coefficient must be finite and at least 0, got inf; for no bound use gpm"):
        SGP(coefficient=float("inf"))
    for wrong in ({"max_samples": 0}, {"batch_size": 0}, {"max_rows": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be at least 1, got 0"):
            SGP(**wrong)
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be at least 1, got 0"):
            GPM(**wrong)
    with pytest.raises(ValueError, match="share names 3 layers, the network has 2 to protect"):
        PlainRun(SGP(GrowingShare([0.9] * 3)), relu_network(), three_tasks())
