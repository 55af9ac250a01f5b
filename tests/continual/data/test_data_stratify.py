import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.data import stratified_split
from continual.data.stratify import named_generator


@given(
    counts=st.lists(st.integers(5, 40), min_size=1, max_size=6),
    share=st.floats(0.25, 0.75),
    seed=st.integers(0, 2**40),
)
def test_is_a_partition_with_every_class_within_one_of_its_share(counts, share, seed):
    targets = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    num_held_out = round(share * len(targets))
    kept, held_out = stratified_split(targets, num_held_out, seed)
    assert len(held_out) == num_held_out
    assert sorted([*kept, *held_out]) == list(range(len(targets)))
    exact = np.array(counts) * num_held_out / len(targets)
    assert (np.abs(np.bincount(targets[held_out], minlength=len(counts)) - exact) < 1).all()


def test_is_exact_where_the_shares_are_whole():
    targets = np.repeat(np.arange(10), 500)
    kept, held_out = stratified_split(targets, 1000, seed=0)
    assert np.bincount(targets[held_out]).tolist() == [100] * 10
    assert np.bincount(targets[kept]).tolist() == [400] * 10


def test_matches_a_hand_table_of_largest_remainders():
    # 7, 5 and 4 of 16, 6 held out: shares 2.625, 1.875, 1.5 -> 2, 1, 1 and two more for the remainders .875 and .625
    targets = np.repeat([0, 1, 2], [7, 5, 4])
    assert np.bincount(targets[stratified_split(targets, 6, seed=1)[1]]).tolist() == [3, 2, 1]


def test_is_shuffled_and_moves_with_the_seed_and_the_stream_only():
    targets = np.repeat(np.arange(4), 25)
    first = stratified_split(targets, 20, seed=0)
    np.testing.assert_array_equal(first[1], stratified_split(targets, 20, seed=0)[1])
    for other in (stratified_split(targets, 20, seed=1), stratified_split(targets, 20, seed=0, stream="validation")):
        assert set(other[1]) != set(first[1])
    assert (np.diff(targets[first[0]]) < 0).any()


@pytest.mark.parametrize("num_held_out", [-1, 0, 1, 5, 6])
def test_refuses_to_leave_a_class_empty_on_one_side(num_held_out):
    with pytest.raises(ValueError, match="every class a sample on both sides"):
        stratified_split(np.array([0, 0, 0, 1, 1, 1]), num_held_out, seed=0)


def test_streams_of_one_seed_differ_and_index_zero_is_no_alias_of_none():
    draws = [
        named_generator(7, "a").integers(2**60),
        named_generator(7, "a", 0).integers(2**60),
        named_generator(7, "a", 1).integers(2**60),
        named_generator(7, "b").integers(2**60),
        named_generator(8, "a").integers(2**60),
        named_generator(7 + 2**32, "a").integers(2**60),
    ]
    assert len(set(draws)) == len(draws)


def test_refuses_seeds_that_are_no_seeds():
    with pytest.raises(ValueError, match="0 or more"):
        named_generator(-1, "a")
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError, match="integer"):
            named_generator(wrong, "a")
