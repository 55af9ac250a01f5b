"""The hand-made matrix of the specification: every metric, and the wrong values that other code prints."""

import numpy as np
import pytest

from continual import metrics

BASELINE = np.array([0.10, 0.12, 0.08, 0.10])
COUNTS = np.array([1000, 500, 2000, 100])
R = np.array([[0.90, 0.15, 0.10, 0.12], [0.70, 0.80, 0.20, 0.14], [0.75, 0.60, 0.85, 0.25], [0.50, 0.65, 0.40, 0.95]])
JOINT = np.array([0.92, 0.86, 0.88, 0.96])
ALONE = np.array([0.90, 0.84, 0.86, 0.94])


@pytest.mark.parametrize(
    ("name", "arguments", "value", "wrong"),
    [
        ("acc_final", (R,), 0.625, [0.477778]),
        ("acc_final_weighted", (R, COUNTS), 0.477778, [0.625]),
        ("acc_inc_avg_taskmean", (R,), 0.752083, [0.724206]),
        ("acc_inc_avg_weighted", (R, COUNTS), 0.724206, [0.752083]),
        ("acc_a", (R,), 0.71, [0.625]),
        ("acc_learning", (R,), 0.875, [0.625]),
        ("bwt", (R,), -0.333333, [-0.25, -0.258333]),
        ("fwt", (R, BASELINE), 0.10, [0.075, 0.20, 0.16]),
        ("forgetting", (R,), 0.333333, [0.25, 0.45]),
        ("intransigence", (R, JOINT), 0.03, [-0.03]),
        ("plasticity", (R, ALONE), -0.01, [0.01]),
        ("wc_acc", (R,), 0.6125, [0.625]),
    ],
)
def test_scalar_metric_has_the_golden_value_and_none_of_the_common_wrong_ones(name, arguments, value, wrong):
    got = getattr(metrics, name)(*arguments)
    assert got == pytest.approx(value, abs=1e-6)
    assert all(abs(got - other) > 1e-3 for other in wrong)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("forgetting_per_task", (R,), [0.40, 0.15, 0.45]),
        ("intransigence_per_task", (R, JOINT), [0.02, 0.06, 0.03, 0.01]),
        ("transfer_independent", (R, ALONE), [0.00, -0.04, -0.01, 0.01]),
        ("min_acc", (R,), [0.50, 0.60, 0.40, 0.95]),
    ],
)
def test_metric_per_task_has_the_golden_values(name, arguments, value):
    np.testing.assert_allclose(getattr(metrics, name)(*arguments), value, atol=1e-9)


def test_the_wrong_values_really_come_from_the_other_definitions():
    """Keep the negative controls honest: they are what the other formulas give on this matrix."""
    drop = (R[-1] - np.diagonal(R))[:-1]
    assert drop.sum() / 4 == pytest.approx(-0.25)
    triangle = [R[i, j] - R[j, j] for i in range(4) for j in range(i)]
    assert np.mean(triangle) == pytest.approx(-0.258333, abs=1e-6)
    ahead = np.diagonal(R, offset=1)
    assert (ahead - BASELINE[1:]).sum() / 4 == pytest.approx(0.075)
    assert ahead.mean() == pytest.approx(0.20)
    assert R[np.triu_indices(4, 1)].mean() == pytest.approx(0.16)


def test_mean_over_seen_ends_at_acc_final_and_averages_to_the_incremental_accuracy():
    curve = metrics.mean_over_seen(R)
    np.testing.assert_allclose(curve, [0.90, 0.75, 0.733333, 0.625], atol=1e-6)
    assert curve.mean() == pytest.approx(metrics.acc_inc_avg_taskmean(R))
