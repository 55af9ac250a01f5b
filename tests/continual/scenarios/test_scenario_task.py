import numpy as np
import pytest

from continual.data import Test, Train, Validation
from continual.scenarios import Task, TaskSequence


def part(kind, labels, shape=(2, 2), dtype=np.uint8):
    return kind(np.zeros((len(labels), *shape), dtype), np.array(labels, dtype=np.int64))


def task(index, classes, name=None, **options):
    labels = [row for row in classes for _ in range(2)]
    return Task(
        index, name or f"task {index}", part(Train, labels, **options), None, part(Test, labels, **options), classes
    )


def test_rows_seen_and_shared_match_a_hand_table():
    sequence = TaskSequence("blurry", (task(0, (3, 1)), task(1, (1, 0)), task(2, (2,)), task(3, (3, 2))), "class", 5)
    assert [sequence.classes_seen(index) for index in range(4)] == [(1, 3), (0, 1, 3), (0, 1, 2, 3), (0, 1, 2, 3)]
    assert [sequence.head_rows_shared_before(index) for index in range(4)] == [(), (1,), (), (2, 3)]
    assert sequence.input_shape == (2, 2)
    assert sequence.task_names == ("task 0", "task 1", "task 2", "task 3")
    assert sequence.train_logits == "seen"
    assert len(sequence) == 4


def test_one_task_is_a_sequence():
    sequence = TaskSequence("single", (task(0, (0, 1)),), "domain", 2)
    assert sequence.classes_seen(0) == (0, 1)
    assert sequence.head_rows_shared_before(0) == ()


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_an_index_outside_the_sequence_is_refused(index):
    sequence = TaskSequence("single", (task(0, (0, 1)),), "domain", 2)
    with pytest.raises(IndexError, match=r"must lie in 0\.\.0"):
        sequence.classes_seen(index)
    with pytest.raises(IndexError, match=r"must lie in 0\.\.0"):
        sequence.head_rows_shared_before(index)


def test_label_names_default_to_the_rows_and_must_match_them():
    assert task(0, (4, 2)).label_names == ("4", "2")
    with pytest.raises(ValueError, match="one label name for each of its 2 classes, but 1 came"):
        Task(0, "a", part(Train, [0, 1]), None, part(Test, [0, 1]), (0, 1), ("zero",))


@pytest.mark.parametrize("classes", [(), (0, 0), (-1, 0)])
def test_classes_that_are_no_rows_are_refused(classes):
    with pytest.raises(ValueError, match="at least one head row, each 0 or more and listed once"):
        Task(0, "a", part(Train, [0]), None, part(Test, [0]), classes)


@pytest.mark.parametrize("wrong", ["train", "validation", "test"])
def test_a_target_outside_the_classes_is_refused_and_its_part_named(wrong):
    labels = {"train": [0, 1], "validation": [0, 1], "test": [0, 1], wrong: [0, 7]}
    with pytest.raises(ValueError, match=rf"{wrong} targets of task 'a' .* label 7"):
        Task(
            0,
            "a",
            part(Train, labels["train"]),
            part(Validation, labels["validation"]),
            part(Test, labels["test"]),
            (0, 1),
        )


def test_a_test_part_cannot_be_selected_on():
    with pytest.raises(TypeError, match="validation part must be a Validation, but it is a Test"):
        Task(0, "a", part(Train, [0]), part(Test, [0]), part(Test, [0]), (0,))


REFUSED = {
    "no tasks": ((), {}, "at least one task"),
    "unknown mode": ((task(0, (0,)),), {"mode": "instance"}, "mode must be one of task, domain, class"),
    "unknown logits": ((task(0, (0,)),), {"train_logits": "every"}, "one of all, seen, current"),
    "row outside the head": ((task(0, (0, 3)),), {}, "raise num_classes to at least 4"),
    "indices out of step": ((task(1, (0,)),), {}, "must have index 0"),
    "one name twice": ((task(0, (0,), "a"), task(1, (0,), "a")), {}, "names must differ"),
    "other shape": ((task(0, (0,)), task(1, (0,), shape=(3, 3))), {}, "one shape and dtype"),
    "other dtype": ((task(0, (0,)), task(1, (0,), dtype=np.float32)), {}, "one shape and dtype"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sequence_that_cannot_run_is_refused(case):
    tasks, options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        TaskSequence("x", tasks, **{"mode": "class", "num_classes": 3} | options)


def test_checksum_sees_data_order_mode_rows_and_names():
    first, second = task(0, (0, 1)), task(1, (2, 3))
    changed = Task(1, "task 1", second.train, None, part(Test, [2, 2, 3, 2]), (2, 3))
    renamed = Task(1, "task 1", second.train, None, second.test, (2, 3), ("cat", "dog"))
    checksums = [
        TaskSequence("x", (first, second), "class", 4).checksum,
        TaskSequence("x", (first, second), "task", 4).checksum,
        TaskSequence("x", (first, second), "class", 5).checksum,
        TaskSequence("x", (first, second), "class", 4, "all").checksum,
        TaskSequence("x", (first, changed), "class", 4).checksum,
        TaskSequence("x", (first, renamed), "class", 4).checksum,
        TaskSequence("x", (first,), "class", 4).checksum,
    ]
    assert len(set(checksums)) == len(checksums)
    assert TaskSequence("x", (first, second), "class", 4).checksum == checksums[0]
