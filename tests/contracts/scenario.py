"""What every scenario owes the runner; a member's test class inherits this."""

import numpy as np
import pytest
from tiny_runs import small_data

from continual.data import Test, Train, Validation, from_arrays

MODES = ["task", "domain", "class"]


class ScenarioContract:
    """Inherit and define `make`; `num_tasks` is one that ten classes allow."""

    num_tasks = 5

    def make(self, data, **options):
        raise NotImplementedError

    @pytest.mark.parametrize("mode", MODES)
    def test_tasks_stand_in_order_under_names_of_their_own(self, mode):
        sequence = self.make(small_data(), num_tasks=self.num_tasks, mode=mode)
        assert [task.index for task in sequence.tasks] == list(range(self.num_tasks))
        assert len(set(sequence.task_names)) == self.num_tasks
        assert sequence.mode == mode
        assert sequence.input_shape == (8, 8)

    @pytest.mark.parametrize("mode", MODES)
    def test_targets_are_rows_of_the_head_that_the_task_names(self, mode):
        sequence = self.make(small_data(), num_tasks=self.num_tasks, mode=mode)
        rows = [set(task.classes) for task in sequence.tasks]
        for task, own in zip(sequence.tasks, rows, strict=True):
            for part in task.parts:
                assert set(part.targets.tolist()) <= own
            assert len(task.label_names) == len(task.classes)
        assert set.union(*rows) == set(range(sequence.num_classes))
        if mode == "domain":
            assert all(own == rows[0] for own in rows)
        else:
            assert sum(map(len, rows)) == sequence.num_classes, "no row belongs to two tasks"

    @pytest.mark.parametrize("mode", MODES)
    def test_parts_keep_their_type_and_go_along(self, mode):
        sequence = self.make(small_data(0.25), num_tasks=self.num_tasks, mode=mode)
        for task in sequence.tasks:
            assert [type(part) for part in task.parts] == [Train, Validation, Test]
            assert len({part.inputs.dtype for part in task.parts}) == 1

    def test_no_train_sample_is_a_test_sample(self):
        for task in self.make(small_data(0.25), num_tasks=self.num_tasks).tasks:
            shown = [{sample.tobytes() for sample in part.inputs} for part in task.parts]
            assert not (shown[0] & shown[1] | shown[0] & shown[2] | shown[1] & shown[2])

    def test_built_twice_it_is_the_same_and_other_data_tell(self):
        sequence = self.make(small_data(), num_tasks=self.num_tasks)
        assert sequence.checksum == self.make(small_data(), num_tasks=self.num_tasks).checksum
        images, labels = small_data().train.inputs.copy(), small_data().train.targets
        images[0, 0, 0] = 1 - images[0, 0, 0]
        changed = from_arrays((images, labels), (images[:73], labels[:73]), num_classes=10)
        assert sequence.checksum != self.make(changed, num_tasks=self.num_tasks).checksum

    def test_the_source_is_not_touched(self):
        data = small_data()
        before = data.train.inputs.copy(), data.train.targets.copy()
        for task in self.make(data, num_tasks=self.num_tasks, mode="task").tasks:
            task.train.inputs.fill(0)
        np.testing.assert_array_equal(data.train.inputs, before[0])
        np.testing.assert_array_equal(data.train.targets, before[1])

    @pytest.mark.parametrize("mode", MODES)
    def test_one_task_is_a_sequence(self, mode):
        sequence = self.make(small_data(), num_tasks=1, mode=mode)
        assert len(sequence) == 1
        assert sequence.classes_seen(0) == tuple(range(10))

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"num_tasks": 0}, ValueError, "num_tasks must be at least 1"),
            ({"num_tasks": -2}, ValueError, "num_tasks must be at least 1"),
            ({"num_tasks": 2.0}, TypeError, "num_tasks must be an integer"),
            ({"num_tasks": 5, "mode": "online"}, ValueError, "mode must be one of task, domain, class"),
            ({"num_tasks": 5, "train_logits": "some"}, ValueError, "train_logits must be one of all, seen, current"),
        ],
    )
    def test_what_makes_no_sequence_is_refused(self, options, error, words):
        with pytest.raises(error, match=words):
            self.make(small_data(), **options)
