"""What is undefined stays NaN, and the laws that tie the metrics together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual import metrics


@st.composite
def matrices(draw, minimum=1):
    num_tasks = draw(st.integers(minimum, 6))
    return draw(arrays(np.float64, (num_tasks, num_tasks), elements=st.floats(0.0, 1.0, width=32)))


def test_one_task_leaves_transfer_undefined_and_the_rest_defined():
    R = [[0.8]]
    assert all(math.isnan(value) for value in (metrics.bwt(R), metrics.fwt(R, [0.1]), metrics.forgetting(R)))
    assert metrics.forgetting_per_task(R).shape == (0,)
    assert metrics.acc_final(R) == metrics.acc_learning(R) == metrics.acc_a(R) == metrics.wc_acc(R) == 0.8


def test_missing_upper_triangle_hides_only_forward_transfer():
    R = np.array([[0.9, np.nan, np.nan], [0.7, 0.8, np.nan], [0.6, 0.7, 0.9]])
    assert math.isnan(metrics.fwt(R, np.full(3, 0.1)))
    assert metrics.bwt(R) == pytest.approx(-0.2)
    assert metrics.forgetting(R) == pytest.approx(0.2)
    assert metrics.acc_inc_avg_weighted(R, [1, 1, 1]) == pytest.approx((0.9 + 0.75 + 2.2 / 3) / 3)


def test_only_the_last_row_as_a_joint_run_has_it():
    R = np.full((3, 3), np.nan)
    R[-1] = [0.9, 0.8, 0.7]
    assert metrics.acc_final(R) == pytest.approx(0.8)
    assert metrics.acc_final_weighted(R, [2, 1, 1]) == pytest.approx(0.825)
    undefined = [metrics.bwt(R), metrics.forgetting(R), metrics.acc_learning(R), metrics.acc_a(R), metrics.wc_acc(R)]
    assert all(math.isnan(value) for value in undefined)


@given(matrices(minimum=2))
def test_forgetting_is_at_least_minus_backward_transfer_with_equality_at_a_diagonal_peak(R):
    per_task, drop = metrics.forgetting_per_task(R), (np.diagonal(R) - R[-1])[:-1]
    peak_is_diagonal = np.array([R[j:-1, j].max() == R[j, j] for j in range(len(R) - 1)])
    assert (per_task >= drop).all()
    np.testing.assert_array_equal(per_task == drop, peak_is_diagonal)
    assert metrics.forgetting(R) >= -metrics.bwt(R) - 1e-12


@given(matrices(minimum=2), st.randoms(use_true_random=False))
def test_permuting_the_columns_of_the_last_row_with_their_counts_moves_no_final_average(R, random):
    order = list(range(len(R)))
    random.shuffle(order)
    counts = np.arange(1, len(R) + 1)
    permuted = R[:, order]
    assert metrics.acc_final(permuted) == pytest.approx(metrics.acc_final(R))
    assert metrics.acc_final_weighted(permuted, counts[order]) == pytest.approx(metrics.acc_final_weighted(R, counts))


@given(matrices(), st.integers(1, 50))
def test_equal_counts_make_weighted_and_plain_averages_equal(R, count):
    counts = np.full(len(R), count)
    assert metrics.acc_final_weighted(R, counts) == pytest.approx(metrics.acc_final(R))
    assert metrics.acc_inc_avg_weighted(R, counts) == pytest.approx(metrics.acc_inc_avg_taskmean(R))


@given(matrices())
def test_acc_final_weighted_is_the_accuracy_of_the_pooled_confusion_counts(R):
    """Correct answers per task, counted and pooled, give the weighted figure: the matrix needs nothing else."""
    counts = np.arange(1, len(R) + 1) * 100
    correct = np.round(R[-1] * counts)
    exact = R.copy()
    exact[-1] = correct / counts
    assert metrics.acc_final_weighted(exact, counts) == pytest.approx(correct.sum() / counts.sum())


@given(matrices(minimum=2))
def test_the_upper_triangle_moves_nothing_but_forward_transfer(R):
    hidden = R.copy()
    hidden[np.triu_indices(len(R), 1)] = np.nan
    for name in ("acc_final", "acc_learning", "acc_a", "bwt", "forgetting", "acc_inc_avg_taskmean", "wc_acc"):
        assert getattr(metrics, name)(hidden) == getattr(metrics, name)(R)
    assert math.isnan(metrics.fwt(hidden, np.zeros(len(R))))


@given(matrices())
def test_worst_case_accuracy_is_the_published_weighting(R):
    num_tasks = len(R)
    lowest = metrics.min_acc(R)
    old = lowest[:-1].mean() if num_tasks > 1 else 0.0
    assert metrics.wc_acc(R) == pytest.approx(R[-1, -1] / num_tasks + (1 - 1 / num_tasks) * old)


@given(matrices(minimum=2))
def test_a_network_that_never_changes_has_no_transfer(R):
    constant = np.tile(R[0], (len(R), 1))
    assert metrics.bwt(constant) == metrics.forgetting(constant) == metrics.fwt(constant, R[0]) == 0.0


@pytest.mark.parametrize("R", [np.zeros((2, 3)), np.zeros(3), np.zeros((0, 0))])
def test_a_matrix_that_is_not_square_is_refused(R):
    with pytest.raises(ValueError, match="T x T"):
        metrics.acc_final(R)


@pytest.mark.parametrize(
    ("counts", "words"), [([3, 0], "at least one test sample"), ([3], "shape"), ([1.5, 2], "whole")]
)
def test_counts_that_count_nothing_are_refused(counts, words):
    with pytest.raises(ValueError, match=words):
        metrics.acc_final_weighted(np.full((2, 2), 0.5), counts)


def test_a_baseline_of_another_length_is_refused():
    with pytest.raises(ValueError, match="baseline must have shape"):
        metrics.fwt(np.zeros((2, 2)), [0.1, 0.1, 0.1])
