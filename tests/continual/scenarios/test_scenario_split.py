import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.data import from_arrays, mnist5k
from continual.scenarios import split
from continual.scenarios.split import class_order


def numbered(num_classes=10, validation=0.0, **options):
    """Make samples that say who they are: 4 a class, pixel 0 the sample's number, pixel 1 its label."""
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(num_classes), 4))
    images = np.stack([np.arange(len(labels)), labels], axis=1).astype(np.uint8).reshape(-1, 1, 2)
    return from_arrays((images, labels), (images[::-1], labels[::-1]), validation=validation, **options)


HAND_TABLE = {
    "task": (10, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]),
    "class": (10, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]),
    "domain": (2, [(0, 1)] * 5),
}


@pytest.mark.parametrize("mode", HAND_TABLE)
def test_rows_match_the_hand_table(mode):
    sequence = split(numbered(), mode=mode)
    num_rows, classes = HAND_TABLE[mode]
    assert sequence.num_classes == num_rows
    assert [task.classes for task in sequence.tasks] == classes
    assert [task.label_names for task in sequence.tasks] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9")]
    shared = [sequence.head_rows_shared_before(index) for index in range(5)]
    assert shared == [()] + ([(0, 1)] * 4 if mode == "domain" else [()] * 4)


@given(
    num_classes=st.sampled_from([6, 8, 12]),
    num_tasks=st.sampled_from([1, 2]),
    mode=st.sampled_from(["task", "domain", "class"]),
    order_seed=st.none() | st.integers(0, 2**40),
    validation=st.sampled_from([0.0, 0.25]),
)
def test_every_sample_is_in_exactly_one_task_under_its_own_name(num_classes, num_tasks, mode, order_seed, validation):
    dataset = numbered(num_classes, validation)
    sequence = split(dataset, num_tasks, mode, order_seed)
    for position, original in enumerate(dataset.parts):
        parts = [task.parts[position] for task in sequence.tasks]
        shown = np.concatenate([part.inputs[:, 0, 0] for part in parts])
        assert sorted(shown) == sorted(original.inputs[:, 0, 0])
        for task, part in zip(sequence.tasks, parts, strict=True):
            assert type(part) is type(original)
            name_of = dict(zip(task.classes, task.label_names, strict=True))
            assert [name_of[row] for row in part.targets] == [str(label) for label in part.inputs[:, 0, 1]]
    names = [name for task in sequence.tasks for name in task.label_names]
    assert names == [str(label) for label in class_order(num_classes, order_seed)]


def test_train_and_test_see_the_same_classes():
    for task in split(numbered(validation=0.25), mode="class", order_seed=3).tasks:
        assert [sorted(set(part.targets)) for part in task.parts] == [list(task.classes)] * 3


def test_order_seed_moves_the_order_only():
    drawn, again, other = (split(numbered(), order_seed=seed) for seed in (1, 1, 2))
    assert drawn.checksum == again.checksum
    assert drawn.task_names != other.task_names
    assert [task.classes for task in drawn.tasks] == [task.classes for task in other.tasks]
    assert class_order(10, None).tolist() == list(range(10))


def test_real_digits_are_split_exactly_and_disjointly():
    sequence = split(mnist5k(validation=0.1), mode="class")
    images = [[{image.tobytes() for image in part.inputs} for part in task.parts] for task in sequence.tasks]
    assert [[len(part) for part in task] for task in images] == [[720, 80, 200]] * 5
    assert len(set.union(*(part for task in images for part in task))) == 5000
    for task in sequence.tasks:
        assert np.bincount(task.test.targets)[list(task.classes)].tolist() == [100, 100]


def test_one_task_holds_all():
    sequence = split(numbered(), num_tasks=1, mode="class")
    np.testing.assert_array_equal(sequence.tasks[0].train.targets, numbered().train.targets)


def test_names_the_numbers_that_divide():
    with pytest.raises(ValueError, match=r"divide the 10 classes of arrays, but it is 3; use one of 1, 2, 5, 10\."):
        split(numbered(), num_tasks=3)


def test_refuses_a_part_without_a_class():
    images = np.zeros((8, 2, 2), np.uint8)
    dataset = from_arrays((images, np.arange(8) % 4), (images, np.arange(8) % 3), num_classes=4)
    with pytest.raises(ValueError, match="test part of arrays has none of class 3"):
        split(dataset, num_tasks=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_tasks": 0}, ValueError, "at least 1"),
        ({"num_tasks": "5"}, TypeError, "integer"),
        ({"mode": "instance"}, ValueError, "mode must be one of task, domain, class"),
        ({"train_logits": "none"}, ValueError, "train_logits must be one of all, seen, current"),
        ({"order_seed": -2}, ValueError, "seed must be 0 or more"),
    ],
)
def test_refuses_what_makes_no_sequence(options, error, message):
    with pytest.raises(error, match=message):
        split(numbered(), **options)
