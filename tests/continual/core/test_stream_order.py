"""Order, labels and what a task hides."""

import numpy as np
import pytest
import torch
from tiny_runs import described, launch, records_of, same_tensors, small_data, weights_of

from continual.api import run_config
from continual.assembly import make_parts
from continual.config import RunConfig
from continual.data import from_arrays
from continual.evaluation import evaluate
from continual.metrics import AccuracyMatrices
from continual.run_folder import read_config, run_hash
from continual.scenarios import blurry, permuted, reordered, split

SPLIT = ("scenario=split", "scenario.num_tasks=5")


def initial(tmp_path, *overrides):
    """The weights a run begins with."""
    description = described(*overrides) | {"data": small_data(), "output": str(tmp_path)}
    return make_parts(RunConfig.from_dict(description))


def test_invariant_19_only_the_order_changes_with_its_seed(tmp_path):
    one, other = (initial(tmp_path, *SPLIT, f"order_seed={seed}") for seed in (1, 2))
    assert same_tensors(one.model.state_dict(), other.model.state_dict())
    assert one.sequence.task_names != other.sequence.task_names
    seeded = initial(tmp_path, *SPLIT, "order_seed=1", "seed=5")
    assert seeded.sequence.task_names == one.sequence.task_names, "c14: the order has a seed of its own"
    assert not same_tensors(one.model.state_dict(), seeded.model.state_dict())


def test_invariant_19_an_order_blind_model_has_the_columns_of_its_matrix_permuted():
    sequence = permuted(small_data(), 4)
    moved = reordered(sequence, 3)
    place = [sequence.task_names.index(name) for name in moved.task_names]
    assert place != [0, 1, 2, 3]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    def scores(which):
        found = evaluate(lambda m, x, t: m(x), model, which, which.tasks, which.classes_seen(3), "test", False, 0)
        return found.task_aware

    np.testing.assert_array_equal(scores(sequence)[place], scores(moved))
    assert len(set(scores(sequence))) > 1, "the tasks can be told apart"


def test_no_order_seed_gives_the_sequence_back_and_the_same_seed_the_same_order():
    sequence = permuted(small_data(), 4)
    assert reordered(sequence, None) is sequence
    assert reordered(sequence, 3).checksum == reordered(sequence, 3).checksum != reordered(sequence, 4).checksum
    for wrong, error in ((-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="seed must be"):
            reordered(sequence, wrong)


def test_a_reordered_blurry_sequence_still_knows_where_its_samples_came_from():
    moved = reordered(blurry(split(small_data()), 0.5), 3)
    for task in moved.tasks:
        for origin in task.origin_tasks:
            assert set(task.train.targets[task.origins == origin]) <= set(moved.tasks[origin].classes)


def test_c15_original_and_mapped_labels_are_kept_and_written_down(tmp_path):
    result = launch(tmp_path, "strategy=naive", *SPLIT, "order_seed=1")
    shown = records_of(result.folder)[0]["labels"]
    assert sorted(label for task in shown for label in task) == [str(digit) for digit in range(10)]
    assert sorted(row for task in shown for row in task.values()) == list(range(10))
    assert [list(task) for task in shown] != [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"], ["8", "9"]]
    data = small_data()
    sequence = initial(tmp_path, *SPLIT, "order_seed=1").sequence
    for task, labels in zip(sequence.tasks, shown, strict=True):
        assert task.labels == labels
        for label, row in labels.items():
            original = data.train.inputs[data.train.targets == int(label)]
            np.testing.assert_array_equal(task.train.inputs[task.train.targets == row], original)


def test_c17_train_and_test_of_a_task_share_one_class_order():
    for seed in range(3):
        data = small_data()
        for task in reordered(split(data, 5, order_seed=seed), seed).tasks:
            for label, row in task.labels.items():
                original = data.test.inputs[data.test.targets == int(label)]
                np.testing.assert_array_equal(task.test.inputs[task.test.targets == row], original)


def test_c18_rows_of_later_tasks_do_not_start_again_at_zero():
    sequence = reordered(split(small_data(), 5, "class"), 2)
    rows = [row for task in sequence.tasks for row in task.classes]
    assert sorted(rows) == list(range(10))


def test_c19_every_permuted_task_shows_a_probe_otherwise():
    tasks = reordered(permuted(small_data(), 5), 1).tasks
    assert len({task.train.inputs[0].tobytes() for task in tasks}) == 5


def test_invariant_20_every_argument_of_data_and_scenario_is_in_the_name_of_the_run(tmp_path):
    ways = [(), ("seed=1",), ("scenario.permute_first=false",), ("scenario.num_tasks=3",), ("order_seed=1",)]
    ways += [("stream=blurry",), ("stream=blurry", "stream.mixing=0.2"), ("data.validation=0.1",)]
    hashes = [run_hash(described("strategy=naive", *way)) for way in ways]
    assert len(set(hashes)) == len(ways)


def test_invariant_20_two_seeds_differ_in_data_and_nothing_is_remembered_between_builds():
    first, second = permuted(small_data(), 3, seed=0), permuted(small_data(), 3, seed=1)
    assert first.checksum != second.checksum
    cold = from_arrays(
        (small_data().train.inputs.copy(), small_data().train.targets),
        (small_data().test.inputs.copy(), small_data().test.targets),
        num_classes=10,
    )
    assert [t.train.inputs.tobytes() for t in permuted(cold, 3, seed=1).tasks] == [
        t.train.inputs.tobytes() for t in second.tasks
    ]


def test_c13_the_whole_run_is_reproduced_by_its_written_configuration(tmp_path):
    result = launch(tmp_path / "a", "strategy=hlop", *SPLIT, "order_seed=4")
    description = read_config(result.folder) | {"output": str(tmp_path / "b"), "data": small_data()}
    again = run_config(description)
    assert same_tensors(weights_of(result.folder)[-1], weights_of(again.folder)[-1])
    assert isinstance(again.matrices, AccuracyMatrices)
