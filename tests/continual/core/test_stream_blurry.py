"""A blurry stream exchanges exactly the stated share of train samples and touches nothing else."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import launch, same_tensors, small_data, weights_of

from continual.batches import gather, training_rows
from continual.data import Test, Train
from continual.scenarios import Task, TaskSequence, blurry, permuted, split
from continual.scenarios.blurry import exchange, exchanged_counts
from continual.strategies import Joint

MODES = ["task", "domain", "class"]


def own_tasks(*sizes):
    """Tasks of numbered samples: the input of a sample says its task and its place in it."""
    tasks = []
    for index, size in enumerate(sizes):
        inputs = np.stack([np.full(size, index), np.arange(size) % 256], 1).astype(np.uint8)
        rows = (2 * index, 2 * index + 1)
        targets = np.arange(size) % 2 + 2 * index
        part = (inputs, targets.astype(np.int64))
        tasks.append(Task(index, f"task {index}", Train(*part), None, Test(*part), rows))
    return TaskSequence("own", tuple(tasks), "task", 2 * len(sizes))


def samples(tasks):
    return sorted(
        (*row, int(target))
        for task in tasks
        for row, target in zip(task.train.inputs.tolist(), task.train.targets, strict=True)
    )


def test_no_mixing_is_the_same_sequence():
    sequence = split(small_data())
    assert blurry(sequence, 0.0) is sequence


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=6), mixing=st.floats(0.01, 1.0), seed=st.integers(0, 2**32)
)
def test_law_sizes_and_samples_stay_and_the_stated_share_of_each_task_comes_from_others(sizes, mixing, seed):
    sequence = own_tasks(*sizes)
    mixed = blurry(sequence, mixing, seed)
    counts = exchanged_counts(sizes, mixing)
    assert samples(mixed.tasks) == samples(sequence.tasks)
    for before, after, count in zip(sequence.tasks, mixed.tasks, counts, strict=True):
        assert len(after.train) == len(before.train)
        assert after.test is before.test
        np.testing.assert_array_equal(after.train.inputs[:, 0], after.origins)
        assert (after.origins != after.index).sum() == count


def test_each_task_exchanges_its_share_by_a_hand_table():
    assert exchanged_counts([10, 20, 30], 0.5).tolist() == [5, 10, 15]
    assert exchanged_counts([10, 10, 10], 1.0).tolist() == [10, 10, 10]
    assert exchanged_counts([100, 4, 6], 0.5).tolist() == [5, 2, 3], "the first gives what the others can take"


@pytest.mark.parametrize("num_tasks", [2, 3, 4, 7])
def test_guests_come_from_every_other_task_alike(num_tasks):
    found = np.zeros((num_tasks, num_tasks))
    for seed in range(50):
        sources = exchange(np.full(num_tasks, 30), np.random.default_rng(seed))
        assert sorted(sources) == list(range(30 * num_tasks))
        np.add.at(found, (np.repeat(np.arange(num_tasks), 30), sources // 30), 1)
    assert (np.diag(found) == 0).all()
    expected, others = 30 * 50 / (num_tasks - 1), found[~np.eye(num_tasks, dtype=bool)]
    assert np.abs(others - expected).max() < 5 * np.sqrt(expected), "five standard deviations of a count"


def test_seed_and_share_move_it_and_the_checksum_sees_it():
    sequence = own_tasks(30, 30)
    sums = [sequence.checksum] + [blurry(sequence, m, s).checksum for m, s in ((0.2, 0), (0.2, 1), (0.3, 0))]
    assert len(set(sums)) == 4
    assert blurry(sequence, 0.2, 0).checksum == sums[1]
    assert samples(sequence.tasks) == samples(own_tasks(30, 30).tasks), "the source is not touched"


def test_where_the_task_is_known_a_guest_competes_among_its_own_rows_and_says_its_task():
    mixed = blurry(own_tasks(20, 20, 20), 0.5)
    data = gather([mixed.tasks[1]], mixed.tasks[1], mixed, torch.device("cpu"), torch.float32)
    for task, row, active in zip(data.task.tolist(), data.targets.tolist(), data.active, strict=True):
        assert active.nonzero().flatten().tolist() == [2 * task, 2 * task + 1]
        assert row in (2 * task, 2 * task + 1)
    assert set(data.task.tolist()) == {0, 1, 2}
    assert training_rows(mixed, mixed.tasks[1]).all()


@pytest.mark.parametrize(("train_logits", "rows"), [("all", range(6)), ("seen", [0, 1, 2]), ("current", [0, 1, 2])])
def test_in_class_mode_rows_of_guests_are_seen(train_logits, rows):
    first, second, third = own_tasks(4, 4, 4).tasks
    guest = Train(second.train.inputs[:1], second.train.targets[:1])
    mixed = Task(0, "mixed", guest, None, first.test, (0, 1), origins=np.array([1]))
    sequence = TaskSequence("x", (mixed, second, third), "class", 6, train_logits)
    assert training_rows(sequence, mixed).nonzero().flatten().tolist() == list(rows)
    assert sequence.classes_seen(0) == (0, 1, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strategy", ["naive", "hlop", "er", "ewc", "lwf", "agem", "gpm", "si", "cumulative"])
def test_every_kind_of_strategy_runs_in_every_mode(strategy, mode, tmp_path):
    stream = ("stream=blurry", "stream.mixing=0.3")
    result = launch(tmp_path, f"strategy={strategy}", "scenario=split", f"scenario.mode={mode}", *stream)
    assert 0 <= result.metrics["acc_final"] <= 1


def test_a_stream_without_mixing_trains_to_the_same_bits(tmp_path):
    plain = launch(tmp_path, "strategy=hlop", "scenario=split")
    same = launch(tmp_path, "strategy=hlop", "scenario=split", "stream=blurry", "stream.mixing=0")
    other = launch(tmp_path, "strategy=hlop", "scenario=split", "stream=blurry", "stream.mixing=0.3")
    assert plain.folder != same.folder
    assert same_tensors(weights_of(plain.folder)[-1], weights_of(same.folder)[-1])
    assert not same_tensors(weights_of(plain.folder)[-1], weights_of(other.folder)[-1])


def test_joint_training_sees_the_same_samples_however_blurry():
    sequence = permuted(small_data(), 2)
    mixed = blurry(sequence, 0.4)
    for stream in (sequence, mixed):
        chosen = Joint().training_data(stream.tasks[-1], stream.tasks[:-1], stream)
        assert sum(len(task.train) for task in chosen) == 400
    shown = [sorted(s.tobytes() for task in stream.tasks for s in task.train.inputs) for stream in (sequence, mixed)]
    assert shown[0] == shown[1]


def test_what_cannot_be_mixed_is_refused():
    sequence = own_tasks(5, 5)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="mixing must be a share"):
            blurry(sequence, share)
    with pytest.raises(ValueError, match="needs two tasks"):
        blurry(own_tasks(5), 0.5)
    with pytest.raises(ValueError, match="exchanged samples already"):
        blurry(blurry(sequence, 0.5), 0.5)


def test_origins_that_do_not_fit_are_refused():
    first, second = own_tasks(2, 2).tasks
    with pytest.raises(ValueError, match="one task for each of its 2 train samples"):
        Task(0, "a", first.train, None, first.test, (0, 1), origins=np.array([0]))
    with pytest.raises(ValueError, match="must lie in its classes"):
        Task(0, "a", second.train, None, first.test, (0, 1), origins=np.array([0, 1]))
    far = Task(0, "a", second.train, None, first.test, (0, 1), origins=np.array([5, 5]))
    with pytest.raises(ValueError, match=r"must lie in 0\.\.1, but 5 occurs"):
        TaskSequence("x", (far, second), "task", 4)
    wrong = Task(0, "a", Train(first.train.inputs, first.train.targets), None, first.test, (0, 1), (), np.array([1, 1]))
    with pytest.raises(ValueError, match="that came from 'task 1' must have its labels"):
        TaskSequence("x", (wrong, second), "task", 4)
