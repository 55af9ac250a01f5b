"""`optimizer_state`: lost or kept where a task ends, whole in the checkpoint."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import (
    StopBeforeTask,
    assert_same_run,
    described,
    launch,
    same_tensors,
    small_data,
    weights_of,
)
from torch import nn

from continual.api import run_config
from continual.batches import gather
from continual.errors import UserError
from continual.objectives import CrossEntropy
from continual.optimizer_state import remembered, take_over
from continual.scenarios import permuted
from continual.seeding import stream

MOMENTUM = ("optimizer.momentum=0.9", "optimizer.lr=0.05")
KEPT = {"optimizer_state": "keep"}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


def by_hand(keep, make):
    """Two tasks in a plain loop, with one optimiser or one a task."""
    model, sequence = network(), permuted(small_data(), 2)
    optimizer = make(model.parameters())
    for task in sequence.tasks:
        if not keep:
            optimizer = make(model.parameters())
        data = gather([task], task, sequence, torch.device("cpu"), torch.float32)
        for batch in data.batches(64, stream(0, "order", task.index, 0)):
            optimizer.zero_grad()
            CrossEntropy().loss(model(batch.inputs), batch).backward()
            optimizer.step()
    return model.state_dict()


OPTIMISERS = {
    "momentum": (MOMENTUM, lambda p: torch.optim.SGD(p, 0.05, 0.9)),
    "adam": (("optimizer=adam", "optimizer.lr=0.01"), lambda p: torch.optim.Adam(p, 0.01)),
}


@pytest.mark.parametrize("kept", ["keep", "reset"])
@pytest.mark.parametrize("kind", OPTIMISERS)
def test_kept_is_one_optimiser_for_all_tasks_and_reset_one_a_task(kind, kept, tmp_path):
    overrides, make = OPTIMISERS[kind]
    run = launch(tmp_path, "strategy=naive", *overrides, own={"model": network()}, optimizer_state=kept)
    assert same_tensors(weights_of(run.folder)[-1], by_hand(kept == "keep", make))
    assert not same_tensors(by_hand(True, make), by_hand(False, make))


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("strategy", ["naive", "hlop", "er"])
def test_stopped_at_a_boundary_and_resumed_equals_never_stopped(strategy, kind, tmp_path):
    overrides = (f"strategy={strategy}", "scenario.num_tasks=3", *OPTIMISERS[kind][0])
    whole = launch(tmp_path / "whole", *overrides, **KEPT)
    for task in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            launch(tmp_path / "cut", *overrides, progress=StopBeforeTask(task), **KEPT)
    assert_same_run(whole.folder, launch(tmp_path / "cut", *overrides, **KEPT).folder)


def test_the_checkpoint_holds_every_quantity_without_pickle(tmp_path):
    run = launch(tmp_path, "strategy=naive", "optimizer=adam", own={"model": network()}, **KEPT)
    (path,) = (run.folder / "checkpoint").glob("*.safetensors")
    held = {name for name in load_file(path) if name.startswith("optimizer/")}
    parameters = ("1.weight", "1.bias", "3.weight", "3.bias")
    assert held == {f"optimizer/{p}/{q}" for p in parameters for q in ("step", "exp_avg", "exp_avg_sq")}
    assert json.loads((run.folder / "checkpoint" / "state.json").read_text())["optimizer"] == {}


class Counts(torch.optim.SGD):
    """Remembers a plain number."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["count"] = self.state[parameter].get("count", 0) + 1
        return super().step(closure)


def test_plain_numbers_and_nothing_go_through_too():
    model = network()
    optimizer = Counts(model.parameters(), 0.1, 0.9)
    for _ in range(3):
        model(torch.rand(4, 64)).sum().backward()
        optimizer.step()
    memory = remembered(optimizer, model)
    assert memory["1.weight/count"] == 3
    other = Counts(model.parameters(), 0.1, 0.9)
    take_over(other, model, memory)
    again = remembered(other, model)
    assert again.keys() == memory.keys()
    assert all(torch.equal(torch.as_tensor(again[key]), torch.as_tensor(memory[key])) for key in memory)


def test_parameters_that_no_longer_train_are_left_out_and_new_ones_begin_afresh():
    model = network()
    optimizer = torch.optim.SGD(model[1].parameters(), 0.1, 0.9)
    model(torch.rand(4, 64)).sum().backward()
    optimizer.step()
    later = torch.optim.SGD([model[1].weight, model[3].weight], 0.1, 0.9)
    take_over(later, model, remembered(optimizer, model))
    assert set(remembered(later, model)) == {"1.weight/momentum_buffer"}


def test_the_learning_rate_starts_as_configured():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9)
    model(torch.rand(4, 64)).sum().backward()
    optimizer.step()
    later = torch.optim.SGD(model.parameters(), 0.7, 0.9)
    take_over(later, model, remembered(optimizer, model))
    assert later.param_groups[0]["lr"] == 0.7


def test_what_cannot_be_kept_is_refused():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 64)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with pytest.raises(ValueError, match=r"LBFGS remembers '\w+', a list"):
        remembered(optimizer, model)


def test_spiking_lateral_neurons_are_refused_at_the_start_where_momentum_is_kept(tmp_path):
    with pytest.raises(UserError, match="starts afresh with each task"):
        launch(tmp_path, "strategy=hlop_spiking", *MOMENTUM, **KEPT)
    assert list(tmp_path.iterdir()) == []
    launch(tmp_path, "strategy=hlop_spiking", "optimizer.momentum=0.0", **KEPT)


def test_an_unknown_policy_is_refused():
    with pytest.raises(UserError, match="optimizer_state must be one of 'reset', 'keep'"):
        run_config(described("strategy=naive") | {"optimizer_state": "some"})
