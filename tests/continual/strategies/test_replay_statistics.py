"""What a memory is for, on three seeds of real digits: bands, not equalities."""

from functools import lru_cache

import pytest

from continual.api import run_config
from continual.compose import compose

SEEDS = (0, 1, 2)
CLASSES = (
    "scenario=split",
    "scenario.num_tasks=5",
    "scenario.mode=class",
    "model=relu_mlp",
    "model.hidden=[100]",
    "epochs=4",
    "batch_size=32",
)
SPIKING = ("scenario.num_tasks=3", "model.hidden=[200]", "epochs=2", "optimizer.lr=0.5", "batch_size=32")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def final(tmp_path_factory):
    """Run a strategy on a setting with one seed, once; give the mean of a metric over seeds."""
    output = tmp_path_factory.mktemp("runs")

    @lru_cache
    def metrics(seed, setting, *chosen):
        description = compose(["debug=tiny", *setting, *chosen, f"seed={seed}", f"output={output}"])
        return run_config(description).metrics

    def mean(setting, *chosen, name="acc_final"):
        return sum(100 * metrics(seed, setting, *chosen)[name] for seed in SEEDS) / len(SEEDS)

    return mean


@pytest.mark.parametrize("form", ["er", "er_sum"])
def test_accuracy_rises_with_the_memory_and_approaches_cumulative(form, final):
    naive, cumulative = (final(CLASSES, f"strategy={name}") for name in ("naive", "cumulative"))
    sizes = (20, 100, 10_000)
    found = [final(CLASSES, f"strategy={form}", f"strategy.capacity={size}") for size in sizes]
    everything = (f"strategy={form}", "strategy.capacity=10000", "strategy.replay_size=128")
    often = final(
        CLASSES, *everything
    )  # four old samples a new one: at the last task as often as cumulative shows them
    print(f"{form}: {found} at {sizes}, {often} with larger draws, naive {naive}, cumulative {cumulative}")
    assert naive < found[0] < found[1] < found[2] < often
    assert often > cumulative - 3


def test_joint_is_above_a_large_memory_and_that_above_naive(final):
    joint, replay, naive = (
        final(CLASSES, *chosen)
        for chosen in (("strategy=joint",), ("strategy=er", "strategy.capacity=1000"), ("strategy=naive",))
    )
    print(f"joint {joint}, er {replay}, naive {naive}")
    assert joint + 2 >= replay > naive + 20


@pytest.mark.parametrize("strategy", ["er", "er_sum", "der", "derpp"])
def test_replay_keeps_what_naive_forgets_in_spiking_networks(strategy, final):
    chosen = (f"strategy={strategy}", "strategy.capacity=300")
    naive, ours = (final(SPIKING, *one, name="bwt") for one in (("strategy=naive",), chosen))
    print(f"{strategy}: bwt {ours}, naive {naive}")
    assert ours > naive + 5
    assert final(SPIKING, *chosen) > final(SPIKING, "strategy=naive")


def test_a_balanced_memory_serves_where_it_is_small(final):
    small = ("strategy=er", "strategy.capacity=20")
    balanced = (*small, "strategy.policy._target_=continual.memory_policies.ClassBalanced")
    one, other = final(CLASSES, *balanced), final(CLASSES, *small)
    print(f"class-balanced {one}, reservoir {other}")
    assert one > final(CLASSES, "strategy=naive")
    assert one > other - 3


def test_replay_adds_to_hlop(final):
    chosen = ("strategy=hlop_replay", "strategy.learning_rate=0.1", "strategy.epochs=5")
    naive, hlop, both = (final(SPIKING, *one) for one in (("strategy=naive",), ("strategy=hlop",), chosen))
    print(f"naive {naive}, hlop {hlop}, hlop_replay {both}")
    assert both > naive
    assert both > hlop - 1


def test_agem_forgets_less_than_naive(final):
    naive, ours = (final(SPIKING, f"strategy={name}", name="bwt") for name in ("naive", "agem"))
    print(f"agem bwt {ours}, naive {naive}")
    assert ours > naive
