"""Tasks along a grouping of classes, in every mode."""

from dataclasses import replace

import numpy as np
import pytest

from continual.data import Dataset, Test, Train
from continual.scenarios import superclasses

GROUPS = ((0, 3), (1, 4), (2, 5))


def data(groups=GROUPS):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (60, 4, 4), dtype=np.uint8), np.arange(60) % 6
    return Dataset("six", Train(images[:36], labels[:36]), None, Test(images[36:], labels[36:]), 6, groups=groups)


@pytest.mark.parametrize("mode", ["task", "class"])
def test_a_task_holds_a_group(mode):
    sequence = superclasses(data(), mode=mode)
    assert [task.label_names for task in sequence.tasks] == [("0", "3"), ("1", "4"), ("2", "5")]
    assert [task.classes for task in sequence.tasks] == [(0, 1), (2, 3), (4, 5)]
    assert sequence.num_classes == 6
    assert sum(len(task.train) for task in sequence.tasks) == 36


def test_with_shared_rows_a_task_holds_one_class_of_every_group_and_asks_for_the_group():
    sequence = superclasses(data(), mode="domain")
    assert [task.label_names for task in sequence.tasks] == [("0", "1", "2"), ("3", "4", "5")]
    assert all(task.classes == (0, 1, 2) for task in sequence.tasks)
    second, whole = sequence.tasks[1], data().train
    for image, row in zip(second.train.inputs, second.train.targets, strict=True):
        (place,) = [i for i, other in enumerate(whole.inputs) if np.array_equal(other, image)]
        assert whole.targets[place] == 3 + row


def test_only_the_first_tasks_on_demand():
    assert len(superclasses(data(), num_tasks=2)) == 2
    assert superclasses(data(), num_tasks=2).num_classes == 4


@pytest.mark.parametrize(
    ("groups", "mode", "message"),
    [((), "task", "has no superclasses"), (((0, 1), (1, 2)), "task", "class 1 is listed twice"),
     (((0, 6),), "task", "6 is listed"), (((0, 1), (2,)), "domain", "as many classes"),
     (((0,), ()), "task", "no superclasses")],
)  # fmt: skip
def test_groupings_that_are_none_are_refused(groups, mode, message):
    with pytest.raises(ValueError, match=message):
        superclasses(replace(data(()), groups=groups), mode=mode)


@pytest.mark.parametrize("number", [0, 4])
def test_more_tasks_than_groups_are_refused(number):
    with pytest.raises(ValueError, match=r"1..3"):
        superclasses(data(), num_tasks=number)
