"""Size rules: how many lateral neurons a layer gets, by list, by energy, or none."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro.lateral import EnergyShare, Learned, ListedSizes, NoRows
from neuro.lateral.sizes import Place


def place(task=0, layer=0, width=10, rank=0):
    return Place(task, layer, f"layer{layer}", width, rank)


def spectrum(energies, frozen=0.0, rest=0.0):
    energies = torch.tensor(energies, dtype=torch.float64)
    total = energies.sum() + frozen + rest
    return Learned(torch.eye(len(energies)), energies, torch.tensor(frozen, dtype=torch.float64), total)


def test_listed_sizes_are_those_of_the_list_cut_at_what_the_width_leaves():
    sizes = ListedSizes([[4, 2], [7, 0]])
    assert sizes.candidates(place(0, 0)) == 4
    assert sizes.candidates(place(0, 1)) == 2
    assert sizes.candidates(place(1, 0, rank=4)) == 6
    assert sizes.candidates(place(1, 1, rank=2)) == 0
    assert sizes.candidates(place(0, 0, rank=10)) == 0
    assert sizes.keep(place(), spectrum([3, 2, 1])) == 3


@pytest.mark.parametrize("bad", [[], [[1, 2], [3]], [[1, 2], []]])
def test_lists_of_different_lengths_or_none_are_refused(bad):
    with pytest.raises(ValueError, match="one list a task, all of one length"):
        ListedSizes(bad)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="fewer than 0 rows"):
        ListedSizes([[1, -2]])


def test_a_list_that_does_not_fit_the_network_is_refused_naming_the_repair():
    sizes = ListedSizes([[4, 2], [3, 30]])
    with pytest.raises(ValueError, match=r"name 2 layers, the network has 3.*\(a, b, c\).*give each list 3 numbers"):
        sizes.check(["a", "b", "c"], [10, 10, 10], 2)
    with pytest.raises(ValueError, match=r"3 tasks but sizes for 2; add a list"):
        sizes.check(["a", "b"], [10, 40], 3)
    with pytest.raises(ValueError, match=r"Task 2 asks for a subspace of 30 rows in layer 'b'.*at most 20"):
        sizes.check(["a", "b"], [10, 20], 2)
    sizes.check(["a", "b"], [10, 30], 1)
    sizes.check(["a", "b"], [10, 30], None)


def test_a_task_beyond_the_list_is_refused_in_words():
    with pytest.raises(ValueError, match="1"):
        ListedSizes([[4, 2]]).candidates(place(task=1))


@pytest.mark.parametrize(
    ("share", "frozen", "expected"),
    [
        (0.49, 0.0, 1),  # 8 of 16 is a half
        (0.5, 0.0, 1),  # reached exactly
        (0.51, 0.0, 2),
        (0.75, 0.0, 2),
        (0.76, 0.0, 3),
        (0.999, 0.0, 4),
        (0.5, 8.0, 1),  # 8 frozen of 24: 16 of 24 with one row
        (0.9, 8.0, 3),  # 8 + 8 + 4 + 2 = 22, and 24 · 0.9 = 21.6
        (0.3, 8.0, 0),  # the frozen rows reach it alone
    ],
)
def test_energy_share_keeps_the_smallest_number_that_reaches_the_share(share, frozen, expected):
    learned = spectrum([8.0, 4.0, 2.0, 2.0], frozen)
    assert EnergyShare(share).keep(place(), learned) == expected


def test_energy_share_keeps_all_when_the_candidates_cannot_reach_it():
    assert EnergyShare(0.95).keep(place(), spectrum([8.0, 4.0], rest=10.0)) == 2
    assert EnergyShare(0.95).keep(place(), spectrum([])) == 0
    assert EnergyShare(0.95).keep(place(), spectrum([0.0, 0.0])) == 0


@given(
    energies=st.lists(st.integers(0, 100), min_size=1, max_size=12),
    frozen=st.integers(0, 200),
    share=st.sampled_from([0.1, 0.25, 0.5, 0.9, 0.99]),
)
def test_energy_share_is_the_obvious_loop(energies, frozen, share):
    learned = spectrum(sorted(map(float, energies), reverse=True), float(frozen))
    wanted, expected = share * float(learned.total_energy), 0
    while frozen + float(learned.energies[:expected].sum()) < wanted:
        expected += 1
    assert EnergyShare(share).keep(place(), learned) == expected


def test_energy_share_candidates_are_what_is_left_or_the_bound():
    assert EnergyShare().candidates(place(rank=3)) == 7
    assert EnergyShare(at_most=0.5).candidates(place(rank=3)) == 5
    assert EnergyShare(at_most=0.5).candidates(place(rank=8)) == 2
    assert EnergyShare(at_most=0.01).candidates(place()) == 1
    assert EnergyShare().candidates(place(rank=10)) == 0
    assert EnergyShare(at_most=0.5, at_least=7).candidates(place()) == 7
    assert EnergyShare(at_most=0.5, at_least=99).candidates(place(rank=3)) == 7


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(ValueError, match=f"share must lie between 0 and 1, got {share}"):
        EnergyShare(share)


@pytest.mark.parametrize("at_most", [0.0, 1.1, float("nan")])
def test_a_bound_outside_its_range_is_refused(at_most):
    with pytest.raises(ValueError, match=rf"at_most must be in \(0, 1\], got {at_most}"):
        EnergyShare(0.9, at_most)


def test_no_candidates_at_least_is_refused():
    with pytest.raises(ValueError, match="at_least must be 1 or more, got 0"):
        EnergyShare(at_least=0)


def test_no_rows_means_none():
    assert NoRows().candidates(place()) == 0
    assert NoRows().keep(place(), spectrum([3.0, 2.0])) == 0


def test_rules_without_lists_fit_every_network():
    for sizes in (NoRows(), EnergyShare()):
        assert sizes.check(["a"], [3], 100) is None
