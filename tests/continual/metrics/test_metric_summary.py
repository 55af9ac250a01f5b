"""The flat dictionary: which matrix each name comes from, and reasons in place of numbers that do not exist."""

import json

import numpy as np
import pytest

from continual import metrics
from continual.metrics import AccuracyMatrices, summarise

AWARE = np.array([[0.9, 0.5, 0.5], [0.8, 0.9, 0.6], [0.7, 0.8, 0.9]])
AGNOSTIC = AWARE / 2
COUNTS = np.array([1, 2, 3])
BASELINE = np.array([0.5, 0.4, 0.3])


def build(aware=AWARE, agnostic=AGNOSTIC, counts=COUNTS, baseline=BASELINE):
    return AccuracyMatrices(aware, agnostic, counts, baseline, baseline / 2)


@pytest.mark.parametrize(
    ("mode", "own", "other", "suffix"),
    [
        ("task", AWARE, AGNOSTIC, "_task_agnostic"),
        ("domain", AGNOSTIC, AWARE, "_task_aware"),
        ("class", AGNOSTIC, AWARE, "_task_aware"),
    ],
)
def test_names_without_suffix_come_from_the_scenarios_own_matrix(mode, own, other, suffix):
    summary = summarise(build(), mode)
    for name in ("acc_final", "acc_learning", "acc_a", "bwt", "forgetting", "acc_inc_avg_taskmean", "wc_acc"):
        assert summary[name] == getattr(metrics, name)(own)
        assert summary[name + suffix] == getattr(metrics, name)(other)
    for name in ("acc_final_weighted", "acc_inc_avg_weighted"):
        assert summary[name] == getattr(metrics, name)(own, COUNTS)
        assert summary[name + suffix] == getattr(metrics, name)(other, COUNTS)


@pytest.mark.parametrize(
    ("mode", "given", "defined"),
    [
        ("task", None, False),
        ("class", None, False),
        ("domain", None, True),
        ("task", False, True),
        ("domain", True, False),
    ],
)
def test_forward_transfer_is_undefined_where_head_rows_are_untrained(mode, given, defined):
    summary = summarise(build(), mode, untrained_rows=given)
    own, baseline = (AWARE, BASELINE) if mode == "task" else (AGNOSTIC, BASELINE / 2)
    if defined:
        assert summary["fwt"] == metrics.fwt(own, baseline)
        assert "fwt" not in summary["undefined"]
    else:
        assert summary["fwt"] is None
        assert "untrained" in summary["undefined"]["fwt"]


def test_every_undefined_metric_is_null_with_a_reason_and_survives_strict_json():
    R = np.full((3, 3), np.nan)
    R[-1] = 0.5
    summary = summarise(build(R, R), "domain")
    assert summary["acc_final"] == summary["acc_final_weighted"] == 0.5
    nulls = {name for name, value in summary.items() if value is None}
    assert nulls == set(summary["undefined"])
    assert {"bwt", "forgetting", "acc_learning", "fwt", "bwt_task_aware"} <= nulls
    assert "not measured (diagonal)" in summary["undefined"]["acc_learning"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_one_task_says_that_two_are_needed():
    summary = summarise(AccuracyMatrices([[0.5]], [[0.5]], [3], [0.1], [0.1]), "domain")
    assert summary["undefined"]["bwt"] == summary["undefined"]["forgetting"] == "needs at least two tasks"
    assert summary["acc_final"] == 0.5


def test_an_unknown_mode_lists_the_choices():
    with pytest.raises(ValueError, match="task, domain, class"):
        summarise(build(), "online")
