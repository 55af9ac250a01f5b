"""Tasks that break loops: a single sample, none, classes that come twice, old samples beside new rows alone."""

import numpy as np
import pytest
import torch
from tiny_runs import described, launch, measured, records_of, small_data
from torch import randperm

from continual.assembly import make_parts
from continual.batches import gather
from continual.compose import choices
from continual.config import RunConfig
from continual.data import Test, Train
from continual.errors import UserError
from continual.metrics import bwt
from continual.progress import Silent
from continual.scenarios import Task, TaskSequence, permuted, split
from continual.seeding import stream
from continual.strategies import Strategy

RELU = ("model=relu_mlp", "epochs=1")
PRESETS = [f"gpm_{name.removesuffix('_gpm')}" for name in choices("experiment") if name.endswith("_gpm")]
STRATEGIES = [name for name in choices("strategy") if name not in PRESETS]


def sequence_of(mode, rows, sizes):
    """Tasks of two digits each, their train parts cut to so many samples."""
    train, test = small_data().train, small_data().test
    tasks = []
    for index, (own, size) in enumerate(zip(rows, sizes, strict=True)):
        labels = (2 * index, 2 * index + 1)
        kept = np.flatnonzero(np.isin(train.targets, labels))[:size]
        scored = np.flatnonzero(np.isin(test.targets, labels))
        as_rows = np.array(own, dtype=np.int64)
        tasks.append(
            Task(
                index,
                f"task {index}",
                Train(train.inputs[kept], as_rows[train.targets[kept] - labels[0]]),
                None,
                Test(test.inputs[scored], as_rows[test.targets[scored] - labels[0]]),
                own,
            )
        )
    return TaskSequence("awkward", tuple(tasks), mode, 1 + max(max(own) for own in rows))


def run(tmp_path, strategy, sequence, *overrides):
    return launch(tmp_path, *RELU, f"strategy={strategy}", *overrides, own={"scenario": sequence, "data": None})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_task_of_one_sample_is_learned_from_by_every_strategy(tmp_path, strategy):
    if strategy == "hlop_spiking":
        pytest.skip("spiking lateral neurons learn from spikes, and this network is a ReLU one")
    result = run(tmp_path, strategy, sequence_of("domain", ((0, 1), (0, 1), (0, 1)), (40, 1, 40)))
    assert np.isfinite(result.metrics["acc_final"])


@pytest.mark.parametrize("mode", ["task", "class"])
@pytest.mark.parametrize("strategy", ["naive", "ewc", "lwf", "er", "derpp", "agem", "gpm", "ogd", "hlop", "cumulative"])
def test_a_class_may_come_in_two_tasks_and_keeps_its_row(tmp_path, strategy, mode):
    sequence = sequence_of(mode, ((0, 1), (1, 2)), (40, 40))
    assert sequence.classes_seen(1) == (0, 1, 2)
    assert sequence.head_rows_shared_before(1) == (1,)
    result = run(tmp_path, strategy, sequence)
    assert np.isfinite(result.metrics["acc_final"])
    assert result.matrices.counts.tolist() == [len(task.test) for task in sequence.tasks]


def test_a_task_without_samples_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="train inputs must be a non-empty array"):
        sequence_of("domain", ((0, 1), (0, 1)), (40, 0))


@pytest.mark.parametrize("strategy", ["cumulative", "joint", "cumulative_restart"])
def test_old_samples_compete_among_their_own_rows_where_only_the_current_ones_do(tmp_path, strategy):
    sequence = split(small_data(), num_tasks=5, mode="class", train_logits="current")
    result = run(tmp_path, strategy, sequence)
    losses = [line["loss"] for line in records_of(result.folder) if line["event"] == "epoch"]
    assert losses
    assert all(np.isfinite(loss) for loss in losses)


def test_one_task_alone_has_no_transfer_and_says_why(tmp_path):
    result = run(tmp_path, "hlop", sequence_of("domain", ((0, 1),), (40,)))
    metrics = measured(result.folder)
    assert metrics["bwt"] is None
    assert metrics["undefined"]["bwt"] == "needs at least two tasks"


@pytest.mark.parametrize("strategy", ["er", "derpp", "agem", "gdumb"])
def test_a_buffer_larger_than_the_stream_holds_all_of_it(tmp_path, strategy):
    result = run(tmp_path, strategy, sequence_of("domain", ((0, 1), (0, 1)), (20, 20)), "strategy.capacity=5000")
    sample = 64 * 4  # floats, as the digits are stored
    assert 40 * sample <= measured(result.folder)["stored_bytes"] < 40 * (sample + 200)


def test_a_strategy_that_needs_the_task_is_refused_before_the_first_step(tmp_path):
    class Needy(Strategy):
        name = "needy"
        needs_task_id_in_test = True

    with pytest.raises(UserError, match="needy needs the task's number at test time"):
        launch(tmp_path, *RELU, own={"strategy": Needy()})
    assert not list(tmp_path.iterdir())


def test_the_baseline_of_forward_transfer_is_the_untouched_network_and_two_strategies_differ(tmp_path):
    """Measured just before each task, on weights that the task before has trained, it would make transfer about 0."""
    sequence = permuted(small_data(), num_tasks=3)
    results = [run(tmp_path / name, name, sequence, "epochs=4", "optimizer.lr=0.5") for name in ("naive", "gpm", "er")]
    baselines = [result.matrices.baseline_task_agnostic for result in results]
    for other in baselines[1:]:
        np.testing.assert_array_equal(baselines[0], other)
    before_task = [result.matrices.task_agnostic[index, index + 1] for result in results for index in range(2)]
    assert len({round(value, 6) for value in before_task}) > 2
    fwt = [result.metrics["fwt"] for result in results]
    assert len(set(fwt)) > 1
    for result, value in zip(results, fwt, strict=True):
        R, baseline = result.matrices.task_agnostic, result.matrices.baseline_task_agnostic
        assert value == pytest.approx(np.mean([R[j - 1, j] - baseline[j] for j in range(1, 3)]))
        assert bwt(R) == pytest.approx(result.metrics["bwt"])


def test_the_number_of_tasks_does_not_move_the_baseline_of_the_first_ones(tmp_path):
    """The head has all its rows from the start, so nothing grows under the baseline."""
    few, many = (run(tmp_path / str(n), "naive", permuted(small_data(), num_tasks=n)) for n in (2, 3))
    np.testing.assert_array_equal(few.matrices.baseline_task_agnostic, many.matrices.baseline_task_agnostic[:2])


def test_tasks_of_equal_size_are_visited_in_orders_of_their_own():
    """A loader that is given the same seed anew for every task shows equal-sized tasks in one order."""
    orders = [randperm(200, generator=stream(0, "order", task, epoch)) for task in range(3) for epoch in range(2)]
    assert len({tuple(order.tolist()) for order in orders}) == 6
    again = randperm(200, generator=stream(0, "order", 1, 0))
    assert again.tolist() == orders[2].tolist()


@pytest.mark.parametrize("strategy", ["hlop", "gpm", "sgp", "owm_taskend", "owm_online", "nscl"])
def test_projection_names_what_it_cannot_protect_and_the_layers_that_nothing_reached(tmp_path, strategy):
    class Telling(Silent):
        def __init__(self):
            self.heard = []

        def notice(self, text):
            self.heard.append(text)

    sequence, progress = sequence_of("domain", ((0, 1), (0, 1)), (40, 40)), Telling()
    launch(
        tmp_path,
        *RELU,
        "model.bias=true",
        f"strategy={strategy}",
        "evaluate_future=false",
        own={"scenario": sequence, "data": None},
        progress=progress,
    )
    (named,) = [text for text in progress.heard if "stand still from the second task on" in text]
    assert "fc1.bias" in named
    assert "weight" not in named


@pytest.mark.parametrize("strategy", ["sgp", "nscl"])
def test_a_layer_that_nothing_reached_is_named(strategy):
    data = small_data()
    dark = Train(np.zeros_like(data.train.inputs[:20]), data.train.targets[:20])
    task = Task(0, "dark", dark, None, Test(data.test.inputs, data.test.targets), tuple(range(10)))
    sequence = TaskSequence("dark", (task,), "domain", 10)
    described_run = launch_parts(strategy, sequence)
    assert any("Nothing reached layer 'fc1'" in text for text in described_run.strategy.notices())


def launch_parts(strategy, sequence):
    """The parts of a run whose only task was consolidated without training."""
    config = RunConfig.from_dict(described(*RELU, f"strategy={strategy}") | {"scenario": sequence, "data": None})
    parts = make_parts(config)
    task = sequence.tasks[0]
    parts.model[0] = torch.nn.Identity()  # without it a dark pixel is not 0
    optimizer = parts.make_optimizer(list(parts.model.parameters()))
    parts.strategy.before_task(task, optimizer)
    reference = next(parts.model.parameters())
    parts.strategy.after_task(task, gather([task], task, sequence, reference.device, reference.dtype))
    return parts


def test_the_constants_of_the_energy_estimate_can_be_set_and_stand_beside_it(tmp_path):
    usual = measured(launch(tmp_path, *RELU, "strategy=naive").folder)
    own = measured(launch(tmp_path, *RELU, "strategy=naive", energy={"per_mac": 1.0}).folder)
    assert usual["energy_picojoules_per_mac"] == 4.6
    assert own["energy_picojoules_per_mac"] == 1.0
    assert own["energy_joules_estimate"] == pytest.approx(own["macs"] * 1e-12)
    for wrong in ({"per_mac": -1}, {"per_multiplication": 1.0}, 3):
        with pytest.raises(UserError, match="energy"):
            launch(tmp_path, *RELU, energy=wrong)
