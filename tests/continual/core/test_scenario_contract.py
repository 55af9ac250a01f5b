"""Every scenario keeps the contract, and says rightly which rows compete in training."""

import pytest
import torch
from contracts.scenario import ScenarioContract
from tiny_runs import small_data

from continual.batches import gather, training_rows
from continual.scenarios import permuted, rotated, split


class TestPermuted(ScenarioContract):
    def make(self, data, **options):
        return permuted(data, **options)


class TestRotated(ScenarioContract):
    def make(self, data, **options):
        return rotated(data, **options)


class TestSplit(ScenarioContract):
    def make(self, data, **options):
        return split(data, **options)


ROWS = {
    ("task", "seen"): [{0, 1}, {2, 3}, {4, 5}],
    ("task", "all"): [{0, 1}, {2, 3}, {4, 5}],
    ("domain", "current"): [{0, 1}, {0, 1}, {0, 1}],
    ("class", "current"): [{0, 1}, {2, 3}, {4, 5}],
    ("class", "seen"): [{0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5}],
    ("class", "all"): [set(range(10))] * 3,
}


@pytest.mark.parametrize(("mode", "train_logits"), ROWS)
def test_the_rows_that_compete_match_a_hand_table(mode, train_logits):
    sequence = split(small_data(), num_tasks=5, mode=mode, train_logits=train_logits)
    found = [set(training_rows(sequence, task).nonzero().flatten().tolist()) for task in sequence.tasks[:3]]
    assert found == ROWS[mode, train_logits]


@pytest.mark.parametrize("mode", ["task", "class", "domain"])
def test_samples_of_old_tasks_compete_among_their_own_rows_where_the_task_is_known(mode):
    sequence = split(small_data(), num_tasks=5, mode=mode)
    data = gather(sequence.tasks[:3], sequence.tasks[2], sequence, torch.device("cpu"), torch.float32)
    assert len(data) == sum(len(task.train) for task in sequence.tasks[:3])
    assert data.inputs.max() <= 1
    if mode == "task":
        assert data.active.shape == (len(data), 10)
        for task in range(3):
            rows = ROWS["task", "seen"][task]
            assert {tuple(mask.nonzero().flatten().tolist()) for mask in data.active[data.task == task]} == {
                tuple(rows)
            }
    else:
        assert data.active.shape == (sequence.num_classes,)


def test_a_batch_holds_a_sample_with_its_own_target_task_and_rows():
    sequence = split(small_data(), num_tasks=5, mode="task")
    data = gather(sequence.tasks, sequence.tasks[4], sequence, torch.device("cpu"), torch.float64)
    whole = {tuple(row.tolist()): int(t) for row, t in zip(data.inputs.flatten(1), data.targets, strict=True)}
    seen = 0
    for batch in data.batches(64, torch.Generator().manual_seed(0)):
        for row, target, active, task in zip(
            batch.inputs.flatten(1), batch.targets, batch.active, batch.task, strict=True
        ):
            assert whole[tuple(row.tolist())] == int(target)
            assert int(task) == int(target) // 2
            assert active.nonzero().flatten().tolist() == [2 * int(task), 2 * int(task) + 1]
            seen += 1
    assert seen == len(data)
