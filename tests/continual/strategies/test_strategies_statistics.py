"""What strategies are for, on three seeds of real digits: bands, not equalities."""

from functools import lru_cache

import pytest

from continual.api import run_config
from continual.compose import compose

SEEDS = (0, 1, 2)
PERMUTED = ("scenario.num_tasks=3", "model.hidden=[200,200]", "epochs=2", "optimizer.lr=0.5", "batch_size=32")
CLASSES = ("scenario=split", "scenario.num_tasks=5", "scenario.mode=class", "model.hidden=[100,100]", "epochs=4")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Run a strategy on a setting with one seed, once."""
    output = tmp_path_factory.mktemp("runs")

    @lru_cache
    def measured(strategy, setting, seed):
        description = compose(["debug=tiny", *setting, f"strategy={strategy}", f"seed={seed}", f"output={output}"])
        return run_config(description).metrics

    return measured


def per_seed(metrics, strategy, setting, name):
    return [100 * metrics(strategy, setting, seed)[name] for seed in SEEDS]


def mean(values):
    return sum(values) / len(values)


@pytest.mark.parametrize("strategy", ["hlop", "hlop_hebbian", "hlop_eigen"])
def test_hlop_keeps_what_naive_forgets(strategy, metrics):
    naive = per_seed(metrics, "naive", PERMUTED, "bwt")
    ours = per_seed(metrics, strategy, PERMUTED, "bwt")
    print(f"{strategy}: bwt {ours}, naive {naive}")
    assert all(value < -10 for value in naive), naive
    assert mean(ours) > -3, ours
    assert all(protected > forgotten for protected, forgotten in zip(ours, naive, strict=True))


@pytest.mark.parametrize("strategy", ["hlop", "hlop_hebbian", "hlop_eigen"])
def test_hlop_ends_above_naive_and_still_learns(strategy, metrics):
    naive, ours = (per_seed(metrics, name, PERMUTED, "acc_final") for name in ("naive", strategy))
    assert all(one > other for one, other in zip(ours, naive, strict=True)), (ours, naive)
    learned = per_seed(metrics, strategy, PERMUTED, "acc_learning")
    assert mean(learned) > mean(per_seed(metrics, "naive", PERMUTED, "acc_learning")) - 5, learned


def test_freezing_alone_protects_nothing_here(metrics):
    """The control: this network has no biases, so the whole gain is the projection's."""
    assert per_seed(metrics, "naive_frozen", PERMUTED, "bwt") == per_seed(metrics, "naive", PERMUTED, "bwt")


def test_in_class_mode_joint_and_cumulative_are_above_naive(metrics):
    naive, joint, cumulative = (
        per_seed(metrics, name, CLASSES, "acc_final") for name in ("naive", "joint", "cumulative")
    )
    print(f"naive {naive}, joint {joint}, cumulative {cumulative}")
    assert all(upper >= lower for upper, lower in zip(joint, naive, strict=True))
    assert all(upper >= lower for upper, lower in zip(cumulative, naive, strict=True))
    assert mean(naive) < 40, "only the last of five tasks survives unprotected training"
    assert mean(joint) > 60


def test_before_training_the_network_guesses(metrics, tmp_path):
    import numpy as np

    description = compose(["debug=tiny", *PERMUTED, "strategy=joint", f"output={tmp_path}"])
    matrices = run_config(description).matrices
    assert float(np.mean(matrices.baseline_task_agnostic)) < 0.3
