"""Evaluations inside tasks: hand tables."""

import numpy as np
import pytest

from continual.metrics import Within, min_acc, min_acc_within, stability_gap, summarise_within, wc_acc, wc_acc_within

R = np.array([[0.9, 0.1, 0.1], [0.8, 0.7, 0.1], [0.6, 0.65, 0.9]])
INSIDE = [
    Within(0, [0.5, np.nan, np.nan]),
    Within(1, [0.4, 0.3, np.nan]),
    Within(1, [0.7, 0.6, np.nan]),
    Within(2, [0.7, 0.2, 0.5]),
]


def test_the_lowest_accuracy_looks_inside_later_tasks_and_never_inside_its_own():
    assert min_acc_within(R, INSIDE) == pytest.approx([0.4, 0.2, 0.9])
    assert wc_acc_within(R, INSIDE) == pytest.approx((0.4 + 0.2 + 0.9) / 3)


def test_without_evaluations_it_is_that_of_the_ends():
    assert min_acc_within(R, []) == pytest.approx(min_acc(R))
    assert wc_acc_within(R, []) == pytest.approx(wc_acc(R))


def test_the_stability_gap_is_the_fall_below_what_a_task_began_with():
    falls = [0.9 - 0.4, 0.8 - 0.7, 0.7 - 0.2]
    assert stability_gap(R, INSIDE) == pytest.approx(sum(falls) / 3)


@pytest.mark.parametrize(("matrix", "evaluations"), [(R, INSIDE[:3]), (R, []), (np.array([[0.9]]), INSIDE[:1])])
def test_the_gap_is_undefined_where_a_later_task_was_not_looked_into(matrix, evaluations):
    assert np.isnan(stability_gap(matrix, evaluations))
    found = summarise_within(matrix, evaluations)
    assert found["stability_gap"] is None
    assert "evaluate_every" in found["undefined"]["stability_gap"]
    assert found["wc_acc"] == pytest.approx(wc_acc_within(matrix, evaluations))


def test_what_was_not_measured_is_none_and_says_why():
    missing = np.array([[0.9, np.nan], [np.nan, 0.8]])
    found = summarise_within(missing, [])
    assert found["min_acc"] == [None, 0.8]
    assert found["wc_acc"] is None
    assert set(found["undefined"]) == {"wc_acc", "stability_gap"}
