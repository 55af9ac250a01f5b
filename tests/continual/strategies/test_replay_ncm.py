"""Nearest class mean: the means by hand, and a network that stands still to the bit."""

import numpy as np
import pytest
import torch
from tiny_runs import described, foreign_network, launch, records_of, same_tensors, small_data, weights_of

from continual.assembly import make_model
from continual.config import RunConfig
from continual.objectives import CrossEntropy
from continual.scenarios import permuted
from continual.strategies import NCM, Setting
from continual.strategies.ncm import features
from neuro.learning import BPTT

THREE = ("scenario.num_tasks=3",)


class Sees(NCM):
    """Keep the network to look at it afterwards."""

    def attach(self, setting):
        super().attach(setting)
        self._model = setting.model


@pytest.mark.parametrize(
    ("network", "mode"), [("relu", "domain"), ("relu", "task"), ("foreign", "class"), ("spiking", "task")]
)
def test_it_predicts_the_class_whose_mean_is_nearest(network, mode, tmp_path):
    strategy = Sees()
    own = {"model": foreign_network(num_classes=10 if mode == "domain" else 30)} if network == "foreign" else {}
    kind = () if network != "relu" else ("model=relu_mlp",)
    result = launch(tmp_path, *THREE, *kind, f"scenario.mode={mode}", own={"strategy": strategy, **own})
    sequence, model = permuted(small_data(), 3, mode), result.model.eval()
    head = strategy._setting.head

    def answers(inputs):
        with torch.no_grad():
            if network == "spiking":
                return model.network[: len(model.network) - 1](model.encode(torch.from_numpy(inputs))).mean(0)
            return torch.nn.Sequential(*list(model)[:-1])(torch.from_numpy(inputs))

    train = torch.cat([answers(task.train.inputs) for task in sequence.tasks]).double()
    targets = torch.cat([torch.from_numpy(task.train.targets) for task in sequence.tasks])
    means = torch.stack([train[targets == row].mean(0) for row in range(sequence.num_classes)])
    inputs = sequence.tasks[1].test.inputs
    with torch.no_grad():
        torch.testing.assert_close(features(model, head, torch.from_numpy(inputs)), answers(inputs))
        found = strategy.predict(model, torch.from_numpy(inputs))
    wanted = -(answers(inputs).double()[:, None] - means).square().sum(2)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-4)
    rows = list(sequence.tasks[1].classes)
    hits = (wanted[:, rows].argmax(1) + rows[0]).numpy() == sequence.tasks[1].test.targets
    assert result.matrices.task_aware[2, 1] == pytest.approx(hits.mean())


@pytest.mark.parametrize(
    "optimizer",
    [
        (),
        ("optimizer.momentum=0.9", "optimizer.weight_decay=0.01"),
        ("optimizer=adam", "optimizer.weight_decay=0.01"),
        ("rule=ottt_online",),
    ],
)
def test_the_network_learns_the_first_task_alone(optimizer, tmp_path):
    first, second, third = weights_of(launch(tmp_path, *THREE, *optimizer, "strategy=ncm").folder)
    assert same_tensors(first, second)
    assert same_tensors(first, third)
    naive = weights_of(launch(tmp_path, *THREE, *optimizer, "strategy=naive").folder)
    assert same_tensors(first, naive[0]), "and that as without any strategy"
    assert not same_tensors(naive[0], naive[1])


def test_norm_statistics_stand_still_too(tmp_path):
    weights = weights_of(launch(tmp_path, *THREE, "strategy=ncm", own={"model": foreign_network()}).folder)
    assert same_tensors(weights[0], weights[2])


def test_untrained_the_network_never_moves(tmp_path):
    result = launch(tmp_path, *THREE, "strategy=ncm", "strategy.learn_first_task=false")
    config = RunConfig.from_dict(described(*THREE, "strategy=ncm"))
    fresh = make_model(config, small_data().input_shape, small_data().num_classes)
    assert all(same_tensors(weights, fresh.state_dict()) for weights in weights_of(result.folder))
    assert result.metrics["strategy"] == "ncm_untrained"


def test_random_features_tell_digits_apart_better_than_chance(tmp_path):
    chosen = ("scenario=split", "scenario.num_tasks=5", "scenario.mode=class", "model=relu_mlp", "model.hidden=[200]")
    result = launch(tmp_path, *chosen, "strategy=ncm", "strategy.learn_first_task=false")
    assert result.metrics["acc_final"] > 0.6


def test_in_class_mode_old_classes_are_forgotten_by_nothing(tmp_path):
    """Task-aware accuracy on a finished task never changes: its means and the network stand still."""
    chosen = (*THREE, "scenario.mode=class", "epochs=2")
    R = launch(tmp_path, *chosen, "strategy=ncm").matrices.task_aware
    for task in range(3):
        np.testing.assert_array_equal(R[task:, task], R[task, task])
    naive = launch(tmp_path, *chosen, "strategy=naive").matrices.task_aware
    assert naive[2, 0] != naive[0, 0]


def test_before_anything_is_learned_no_class_is_known():
    strategy, model = NCM(), foreign_network()
    strategy.attach(Setting(model, "5", permuted(small_data(), 2), 0, BPTT(), CrossEntropy(), epochs=1, batch_size=8))
    assert (strategy.predict(model.eval(), torch.rand(3, 8, 8)) == float("-inf")).all()
    with pytest.raises(ValueError, match="state of ncm needs exactly"):
        strategy.load_state_dict(strategy.state_dict() | {"sums": torch.zeros(10, 3)})


def test_bytes_and_operations_are_those_of_the_means(tmp_path):
    result = launch(tmp_path, *THREE, "model=relu_mlp", "strategy=ncm")
    assert result.metrics["stored_bytes"] == 10 * 12 * 4 + 10 * 8
    weights = sum(tensor.numel() for tensor in weights_of(result.folder)[0].values())
    ends = [line["learning_operations"] for line in records_of(result.folder) if line["event"] == "task_end"]
    assert ends == [200 * weights, 400 * weights, 600 * weights]


@pytest.mark.parametrize("chosen", [("rule=dsr",), ("rule=eprop",), ("model=spiking_cnn", "model.channels=[4,4]")])
def test_rules_and_convolutions(chosen, tmp_path):
    assert launch(tmp_path, *chosen, "strategy=ncm").matrices.num_tasks == 2
