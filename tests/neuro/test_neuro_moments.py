"""Second moments and batch means of presynaptic rows, and GPM's thresholds, against row-by-row references."""

import pytest
import torch
from neuro_oracles import orthonormal, rows_with_moment
from slow_patches import slow_rows
from torch import nn

from neuro import LIF, Conv2d
from neuro.lateral import (
    BatchMean,
    EnergyShare,
    EveryRow,
    GrowingShare,
    Place,
    ReleasedCount,
    leading_rows,
    second_moments,
    tapped,
    weight_sites,
)
from neuro.models import spiking_mlp


def convolutional():
    torch.manual_seed(0)
    return nn.Sequential(Conv2d(4, 6, 2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))


def seen_by(model, inputs, names):
    found = {}
    modules = dict(model.named_modules())
    with tapped({name: modules[name] for name in names}, lambda name, seen: found.setdefault(name, seen)):
        model.eval()(inputs)
    return found


def test_the_moment_of_every_row_is_the_sum_of_outer_products():
    model, images = convolutional(), torch.rand(7, 4, 3, 3)
    found = second_moments(model, weight_sites(model), images.split(3), EveryRow())
    seen = seen_by(model, images, ["0", "3"])
    rows = {f"0[{group}]": slow_rows(model[0], images, group) for group in (0, 1)} | {"3": seen["3"]}
    for name, expected in rows.items():
        total = sum(torch.outer(row, row) for row in expected.double())
        torch.testing.assert_close(found[name].total, total)
        assert found[name].total.dtype == torch.float64
        assert found[name].num_rows == len(expected)
        torch.testing.assert_close(found[name].mean, total / len(expected))


def test_batch_means_are_one_row_a_position_and_one_a_tick():
    model, images = convolutional(), torch.rand(5, 4, 3, 3)
    sites = {site.name: site for site in weight_sites(model)}
    patches = slow_rows(model[0], images, 1).reshape(5, 4, 8)
    torch.testing.assert_close(BatchMean()(sites["0[1]"], images, 5), patches.mean(0))
    hidden = seen_by(model, images, ["3"])["3"]
    torch.testing.assert_close(BatchMean()(sites["3"], hidden, 5), hidden.mean(0, keepdim=True))
    spiking = spiking_mlp([6], 2, hidden=[5], neuron=LIF(threshold=0.2), time_steps=4)
    spikes = seen_by(spiking, torch.rand(3, 6), ["network.head"])["network.head"]
    assert spikes.shape == (12, 5)
    assert spikes.sum() > 0
    head = next(site for site in weight_sites(spiking) if site.name == "network.head")
    torch.testing.assert_close(BatchMean()(head, spikes, 3), spikes.reshape(4, 3, 5).mean(1))


def test_the_pass_leaves_modes_and_statistics_alone_and_repeats_with_its_generator():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2)).train()
    statistics, inputs = model[1].running_mean.clone(), torch.rand(40, 6)
    found = [
        second_moments(
            model, weight_sites(model), inputs.split(20), EveryRow(8), None, torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(model[1].running_mean, statistics)
    assert all(module.training for module in model.modules())
    assert found[0]["0"].num_rows == 16
    assert torch.equal(found[0]["3"].total, found[1]["3"].total)
    assert not torch.equal(found[0]["3"].total, found[2]["3"].total)


def test_activities_that_are_not_finite_are_refused_with_the_layers_name():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    nn.init.constant_(model[0].weight, float("inf"))
    with pytest.raises(ValueError, match=r"Layer '1'.*diverged"):
        second_moments(model, weight_sites(model), [torch.ones(3, 2)], EveryRow())
    with pytest.raises(ValueError, match="max_rows must be at least 1, got 0"):
        EveryRow(0)


# Thresholds


SPECTRUM = [8.0, 4.0, 2.0, 1.0, 1.0]  # cumulative shares 1/2, 3/4, 7/8, 15/16, 1


def learned(frozen=0):
    rows, axes = rows_with_moment(SPECTRUM)
    moment = rows.mT @ rows / len(rows)
    return leading_rows(moment, axes[:frozen], 5 - frozen)


def place(task=0, layer=0, rank=0):
    return Place(task, layer, "fc", 5, rank)


@pytest.mark.parametrize(("share", "inclusive"), [(0.3, 1), (0.6, 2), (0.8, 3), (0.9, 4), (0.99, 5)])
def test_the_inclusive_count_reaches_the_share_and_the_released_one_stops_before(share, inclusive):
    assert GrowingShare(share).keep(place(), learned()) == inclusive
    assert ReleasedCount(GrowingShare(share)).keep(place(), learned()) == inclusive - 1
    assert EnergyShare(share).keep(place(), learned()) == inclusive


@pytest.mark.parametrize(("share", "added"), [(0.3, 0), (0.7, 0), (0.8, 1), (0.9, 2), (0.99, 3)])
def test_later_tasks_count_what_old_rows_hold_and_include_the_crossing_row_both_ways(share, added):
    for sizes in (GrowingShare(share), ReleasedCount(GrowingShare(share))):
        assert sizes.keep(place(task=1, rank=2), learned(frozen=2)) == added
        assert sizes.candidates(place(task=1, rank=2)) == 3


def test_a_share_per_layer_rises_with_the_tasks_up_to_everything():
    sizes = GrowingShare([0.5, 0.9], 0.003)
    assert sizes.share_of(place(task=0, layer=1)) == 0.9
    assert sizes.share_of(place(task=10, layer=0)) == pytest.approx(0.53)
    assert sizes.share_of(place(task=1000, layer=0)) == 1
    assert sizes.keep(place(task=1000), learned()) == 5
    ranks = [GrowingShare(0.3, 0.1).keep(place(task=task), learned()) for task in range(8)]
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


def test_shares_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"share names 2 layers, the network has 3 to protect \(a, b, c\)"):
        ReleasedCount(GrowingShare([0.5, 0.6])).check(["a", "b", "c"], [5, 5, 5], 3)
    GrowingShare(0.5).check(["a", "b", "c"], [5, 5, 5], None)
    for wrong in (0, 1, [0.5, 1.5], []):
        with pytest.raises(ValueError, match="share must lie between 0 and 1"):
            GrowingShare(wrong)
    with pytest.raises(ValueError, match="increment must be in"):
        GrowingShare(0.5, -0.1)


def test_the_leading_rows_beside_frozen_ones_are_those_of_the_deflated_moment():
    rows, _ = rows_with_moment(SPECTRUM)
    frozen, moment = orthonormal(2, 5, seed=7), rows.mT @ rows / 5
    away = torch.eye(5, dtype=torch.float64) - frozen.mT @ frozen
    energies, vectors = torch.linalg.eigh(away @ moment @ away)
    found = leading_rows(moment, frozen, 2)
    torch.testing.assert_close(found.energies, energies.flip(0)[:2])
    torch.testing.assert_close(found.rows.mT @ found.rows, vectors[:, -2:] @ vectors[:, -2:].mT)
    torch.testing.assert_close(found.frozen_energy, (frozen @ moment @ frozen.mT).trace())
