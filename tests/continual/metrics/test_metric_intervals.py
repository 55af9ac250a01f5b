"""Means and intervals against scipy and against a hand table."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from continual.metrics import mean_and_interval, paired_difference

samples = st.lists(st.floats(-1.0, 1.0, width=32), min_size=2, max_size=12).filter(lambda values: np.std(values) > 1e-6)


@given(samples, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_interval_agrees_with_scipy(values, confidence):
    interval = mean_and_interval(values, confidence)
    low, high = stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert interval.num_values == len(values)


def test_hand_table():
    """Three values 1, 2, 3: s = 1, t(0.975, 2) = 4.302653, half width 4.302653 / sqrt(3)."""
    interval = mean_and_interval([1.0, 2.0, 3.0])
    assert interval.mean == 2.0
    assert interval.half_width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert interval.half_width != pytest.approx(1.96 / math.sqrt(3), rel=0.1)  # a normal quantile would be too narrow


def test_one_value_has_a_mean_and_no_interval():
    interval = mean_and_interval([0.7])
    assert interval.mean == 0.7
    assert math.isnan(interval.half_width)


def test_a_missing_value_makes_the_mean_missing():
    assert math.isnan(mean_and_interval([0.5, np.nan]).mean)


@given(samples)
def test_a_shift_common_to_both_sides_leaves_no_spread_in_the_paired_difference(values):
    difference = paired_difference(np.array(values) + 0.25, values)
    assert difference.mean == pytest.approx(0.25)
    assert difference.half_width == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mean_and_interval([]), "at least one number"),
        (lambda: mean_and_interval([[1.0, 2.0]]), "at least one number"),
        (lambda: mean_and_interval([1.0], confidence=95), "between 0 and 1"),
        (lambda: paired_difference([1.0, 2.0], [1.0]), "as many on both sides"),
    ],
)
def test_what_is_no_sample_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
