"""Scores: every sample once, from the same logits both ways, with nothing left moved (invariants 13, 16, 17, 18)."""

import numpy as np
import pytest
import torch
from tiny_runs import foreign_network, same_tensors, small_data

import continual.evaluation
from continual.evaluation import evaluate, part_of
from continual.scenarios import permuted, split
from neuro import Poisson


def no_task(model, inputs, task=None):
    return model(inputs)


def score(predict, model, sequence, seen, needs_task_id=False, seed=0):
    """Score all tasks' test parts."""
    return evaluate(predict, model, sequence, sequence.tasks, seen, "test", needs_task_id, seed)


def by_hand(model, sequence, seen):
    """One sample at a time, masks as Python loops."""
    aware, agnostic = [], []
    model.eval()
    for task in sequence.tasks:
        hits = [0, 0]
        for image, target in zip(task.test.inputs, task.test.targets, strict=True):
            with torch.no_grad():
                logits = model(torch.from_numpy(image[None]))[0].tolist()
            for way, rows in enumerate((task.classes, seen)):
                hits[way] += max(rows, key=lambda row: logits[row]) == target
        aware.append(hits[0] / len(task.test))
        agnostic.append(hits[1] / len(task.test))
    return aware, agnostic


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
@pytest.mark.parametrize("scenario", ["permuted", "split"])
def test_scores_equal_those_by_hand(scenario, mode):
    sequence = (permuted if scenario == "permuted" else split)(small_data(), num_tasks=2, mode=mode)
    model = foreign_network(num_classes=sequence.num_classes)
    seen = sequence.classes_seen(0)
    scores = score(no_task, model, sequence, seen)
    aware, agnostic = by_hand(model, sequence, seen)
    assert scores.task_aware.tolist() == aware
    assert scores.task_agnostic.tolist() == agnostic


@pytest.mark.parametrize("batch_size", [1, 10, 72, 73, 74, 500])
def test_every_sample_is_scored_once_whatever_the_batch(batch_size, monkeypatch):
    sequence = permuted(small_data(), num_tasks=2)
    model, shown = foreign_network(), []

    def counting(model, inputs, task=None):
        shown.extend(inputs.flatten(1).tolist())
        return model(inputs)

    monkeypatch.setattr(continual.evaluation, "BATCH_SIZE", batch_size)
    scores = score(counting, model, sequence, range(10))
    wanted = [row for task in sequence.tasks for row in task.test.inputs.reshape(73, -1).tolist()]
    assert shown == wanted
    assert scores.task_aware.tolist() == by_hand(model, sequence, range(10))[0]


def test_a_masked_score_is_never_below_the_unmasked_one():
    sequence = split(small_data(), num_tasks=5, mode="class")
    for seed in range(5):
        model = foreign_network(seed)
        for index in range(5):
            scores = score(no_task, model, sequence, sequence.classes_seen(index))
            assert (scores.task_aware >= scores.task_agnostic)[: index + 1].all()
            assert (scores.task_agnostic[index + 1 :] == 0).all(), "rows not seen yet cannot be chosen"


def test_the_agnostic_score_is_made_without_the_tasks_number():
    sequence = split(small_data(), num_tasks=5, mode="class")
    asked = []

    def leaks(model, inputs, task=None):
        """A cheat: knows the classes if it is told the task."""
        asked.append(task)
        logits = torch.zeros(len(inputs), 10)
        if task is not None:
            logits[:, list(sequence.tasks[task].classes)] = 1
        return logits

    honest = score(leaks, foreign_network(), sequence, range(10))
    assert set(asked) == {None}
    told = score(leaks, foreign_network(), sequence, range(10), needs_task_id=True)
    assert set(asked) == {None, 0, 1, 2, 3, 4}
    np.testing.assert_array_equal(told.task_agnostic, honest.task_agnostic)


def test_evaluation_leaves_modes_statistics_gradients_and_streams():
    sequence = permuted(small_data(), num_tasks=2)
    model, noise = foreign_network(), Poisson(seed=3)
    model.add_module("noise", noise)
    model.forward = lambda inputs: model[:6](noise(inputs.flatten(1), 1)[0])
    model.train()
    model[2].eval()
    model[1].weight.grad = torch.ones_like(model[1].weight)
    noise(torch.rand(1, 2), 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    torch.manual_seed(5)
    own, everybody = noise.generator.get_state().clone(), torch.get_rng_state().clone()

    def logits(seed):
        given = []
        score(
            lambda model, inputs, task: given.append(model(inputs)) or given[-1], model, sequence, range(10), seed=seed
        )
        return torch.cat(given)

    first, again, other = logits(11), logits(11), logits(12)
    assert same_tensors(model.state_dict(), before)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(model[1].weight.grad, torch.ones_like(model[1].weight))
    assert torch.equal(torch.get_rng_state(), everybody)
    assert noise.seed == 3
    assert torch.equal(noise.generator.get_state(), own)
    assert not first.requires_grad
    assert torch.equal(first, again)
    assert not torch.equal(first, other), "what is drawn comes from the seed given"


def test_predictions_do_not_depend_on_the_company(monkeypatch):
    sequence = permuted(small_data(), num_tasks=1)
    model = foreign_network(dropout=0.5)
    with torch.no_grad():
        model(torch.rand(50, 64))  # some norm statistics
    scores = []
    for size in (1, 73):
        monkeypatch.setattr(continual.evaluation, "BATCH_SIZE", size)
        scores.append(score(no_task, model, sequence, range(10)).task_aware[0])
    assert scores[0] == scores[1]


def test_validation_is_scored_where_there_is_one():
    data = small_data(0.25)
    sequence = permuted(data, num_tasks=1)
    assert part_of(sequence.tasks[0], "validation") is sequence.tasks[0].validation
    assert part_of(sequence.tasks[0], "test") is sequence.tasks[0].test
    with pytest.raises(ValueError, match="no validation part"):
        part_of(permuted(small_data(), num_tasks=1).tasks[0], "validation")


def test_only_the_tasks_asked_for_are_scored():
    sequence = permuted(small_data(), num_tasks=3)
    scores = evaluate(no_task, foreign_network(), sequence, sequence.tasks[:2], range(10), "test", False, 0)
    whole = score(no_task, foreign_network(), sequence, range(10))
    assert np.isnan(scores.task_aware[2])
    assert np.isnan(scores.task_agnostic[2])
    np.testing.assert_array_equal(scores.task_aware[:2], whole.task_aware[:2])
