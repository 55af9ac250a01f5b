"""Objectives in the runner: with strategies and rules, resumed, refused; labels withheld."""

import numpy as np
import pytest
import torch
from projection_runs import PlainRun, sequence_of
from tiny_runs import StopBeforeTask, assert_same_run, launch, measured, weights_of

from continual.data import Dataset, Test, Train
from continual.errors import UserError
from continual.objectives import MACER
from continual.scenarios import label_budget, permuted, split
from continual.seeding import stream
from continual.strategies import GPM
from neuro.lateral import GrowingShare

NOISE = ("gaussian", "stability", "macer", "smooth_adversarial")
ATTACKS = ("adversarial", "trades")
UNLABELLED = ("pass", "uat", "rst")
FEW = {"macer": ("objective.copies=2",), "rst": ("objective.teacher_epochs=1", "objective.steps=2")} | dict.fromkeys(
    ("smooth_adversarial", "adversarial", "trades", "pass", "uat"), ("objective.steps=2",)
)
BUDGET = {"num_labelled": 60, "num_unlabelled": 80}


def settings(name):
    return BUDGET if name in UNLABELLED else {}


QUICK = [("er", "relu_mlp"), ("hlop", "spiking_mlp")]
REST = [("naive", "relu_mlp"), ("hlop", "relu_mlp"), ("naive", "spiking_mlp"), ("er", "spiking_mlp")]


@pytest.mark.parametrize(
    ("strategy", "model"), [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in REST)]
)
@pytest.mark.parametrize("name", NOISE + ATTACKS + UNLABELLED)
def test_every_objective_trains_under_every_kind_of_strategy(tmp_path, name, strategy, model):
    overrides = (f"objective={name}", *FEW.get(name, ()), f"strategy={strategy}", f"model={model}")
    result = launch(tmp_path, *overrides, **settings(name))
    assert np.isfinite(result.metrics["acc_final"])
    before, after = weights_of(result.folder)[0], weights_of(result.folder)[-1]
    assert any(not torch.equal(before[key], after[key]) for key in before)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["ottt", "sltt", "dsr"])
@pytest.mark.parametrize("name", ["macer", "trades", "pass"])
def test_objectives_train_under_other_rules(tmp_path, name, rule):
    overrides = (f"objective={name}", *FEW[name], "strategy=hlop", f"rule={rule}")
    assert np.isfinite(launch(tmp_path, *overrides, **settings(name)).metrics["acc_final"])


@pytest.mark.parametrize("name", ["macer", "smooth_adversarial", "pass", "uat", "rst"])
def test_a_run_stopped_between_tasks_goes_on_with_the_same_numbers(tmp_path, name):
    overrides = (f"objective={name}", *FEW[name], "strategy=er", "model=relu_mlp", "epochs=2")
    whole = launch(tmp_path / "whole", *overrides, **settings(name))
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "cut", *overrides, progress=StopBeforeTask(1), **settings(name))
    assert_same_run(whole.folder, launch(tmp_path / "cut", *overrides, **settings(name)).folder)


def test_der_holds_one_copy_of_each_sample_to_its_logits(tmp_path):
    overrides = ("objective=gaussian", "objective.copies=3", "strategy=derpp", "model=relu_mlp")
    assert np.isfinite(launch(tmp_path, *overrides).metrics["acc_final"])


def test_a_projected_macer_update_is_orthogonal_to_what_the_old_task_used():
    random = np.random.default_rng(0)
    inputs = [np.zeros((60, 16), np.float32) for _ in range(2)]
    inputs[0][:, :5] = random.random((60, 5))
    inputs[1][:, :] = random.random((60, 16))
    sequence = sequence_of(*((part, part[:, :3].argmax(1).astype(np.int64)) for part in inputs))
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 12, bias=False), torch.nn.ReLU(), torch.nn.Linear(12, 3, bias=False)
    ).double()
    run = PlainRun(GPM(GrowingShare(1 - 1e-12)), model, sequence)
    run.learn(0)
    run.end(0)
    old, before = run.data(0).inputs, run.weights()
    objective, task, data = MACER(0.25, 4), sequence.tasks[1], run.data(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    run.strategy.before_task(task, optimizer)
    objective.begin_epoch(0, stream(0, "objective"))
    for batch in data.batches(10, stream(0, "order")):
        prepared = objective.prepare(model, batch)
        optimizer.zero_grad()
        objective.loss(model(prepared.inputs), prepared).backward()
        run.strategy.after_backward(model)
        optimizer.step()
        run.strategy.after_step(model)
    change = run.weights()["0.weight"] - before["0.weight"]
    assert float((change @ old.T).abs().max()) < 1e-10
    assert float((change @ data.inputs.T).abs().max()) > 1e-3


def test_no_strength_is_learning_from_noise_alone(tmp_path):
    shared = ("model=relu_mlp", "strategy=hlop")
    macer = launch(tmp_path, "objective=macer", "objective.copies=1", "objective.strength=0", *shared)
    noise = launch(tmp_path, "objective=gaussian", "objective.copies=1", *shared)
    for one, other in zip(weights_of(macer.folder), weights_of(noise.folder), strict=True):
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-3, atol=1e-5)


def test_an_attack_through_a_random_encoder_is_refused_at_the_start(tmp_path):
    poisson = ("model.encoder._target_=neuro.encoding.Poisson", "model.normalise={_target_:neuro.models.Normalise}")
    with pytest.raises(UserError, match="gradient of the answer by the input"):
        launch(tmp_path, "objective=trades", *poisson)


def test_withheld_labels_need_an_objective_and_a_strategy_that_do_without(tmp_path):
    with pytest.raises(UserError, match="cross_entropy learns from labelled samples alone"):
        launch(tmp_path, "objective=cross_entropy", **BUDGET)
    with pytest.raises(UserError, match=r"ewc.* reads the labels"):
        launch(tmp_path, "objective=pass", "strategy=ewc", **BUDGET)
    with pytest.raises(UserError, match="num_unlabelled=5 needs num_labelled"):
        launch(tmp_path, num_unlabelled=5)
    with pytest.raises(UserError, match="ask for fewer"):
        launch(tmp_path, "objective=pass", num_labelled=150, num_unlabelled=80)


def test_without_unlabelled_samples_a_label_budget_is_a_smaller_training_set(tmp_path):
    result = launch(tmp_path, "strategy=ewc", "model=relu_mlp", num_labelled=60, num_unlabelled=0)
    assert measured(result.folder)["samples_seen"] == 60 * 2


def data_of(num=100, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (num + 20, 4, 4), dtype=np.uint8)
    targets = np.arange(num + 20) % 4
    return Dataset("random", Train(images[:num], targets[:num]), None, Test(images[num:], targets[num:]), 4)


def test_a_budget_keeps_proportions_and_counts_and_moves_with_its_seed_alone():
    sequence = permuted(data_of(), num_tasks=2)
    found = label_budget(sequence, 20, 30)
    for task, whole in zip(found.tasks, sequence.tasks, strict=True):
        assert len(task.train) == 50
        assert int(task.withheld.sum()) == 30
        assert np.bincount(task.train.targets[~task.withheld]).tolist() == [5, 5, 5, 5]
        known = {image.tobytes() for image in whole.train.inputs}
        assert all(image.tobytes() in known for image in task.train.inputs)
        assert task.test is whole.test
    assert label_budget(sequence, 20, 30).checksum == found.checksum
    assert label_budget(sequence, 20, 30, seed=1).checksum != found.checksum
    assert label_budget(sequence) is sequence
    everything = label_budget(sequence, 20)
    assert len(everything.tasks[0].train) == 100


def test_a_budget_works_where_tasks_have_classes_of_their_own():
    found = label_budget(split(data_of(), num_tasks=2), 10, 5)
    assert [len(task.train) for task in found.tasks] == [15, 15]


def test_an_unlabelled_sample_of_the_test_part_is_refused():
    data = data_of()
    inputs = data.train.inputs.copy()
    inputs[:40] = data.test.inputs[0]
    leaking = Dataset("leaking", Train(inputs, data.train.targets), None, data.test, 4)
    with pytest.raises(ValueError, match="in its test part too"):
        label_budget(permuted(leaking, num_tasks=1), 20)


@pytest.mark.parametrize(("labelled", "unlabelled"), [(0, None), (-1, None), (5, -1)])
def test_budgets_out_of_range_are_refused(labelled, unlabelled):
    with pytest.raises(ValueError, match="num_labelled must be"):
        label_budget(permuted(data_of(), num_tasks=1), labelled, unlabelled)


def test_what_an_objective_costs_is_in_the_ledger(tmp_path):
    plain = measured(launch(tmp_path, "objective=cross_entropy", "model=relu_mlp", evaluate_future=False).folder)
    seen = plain["samples_seen"]
    for name, passes in (("macer", 2), ("smooth_adversarial", 2 * 3), ("trades", 4)):
        overrides = (f"objective={name}", *FEW[name], "model=relu_mlp")
        found = measured(launch(tmp_path, *overrides, evaluate_future=False).folder)
        assert found["samples_seen"] == seen
        assert found["backward_passes"] == passes * plain["backward_passes"]
        assert found["optimizer_steps"] == plain["optimizer_steps"]
