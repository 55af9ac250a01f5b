"""An online stream hides where tasks end, is seen once by one optimiser, and refuses whoever needs more."""

import pytest
import torch
from tiny_runs import described, foreign_network, launch, records_of, same_tensors, small_data, weights_of

from continual.api import run_config
from continual.assembly import make_parts
from continual.batches import gather
from continual.cli import main
from continual.compose import choices
from continual.config import RunConfig, build
from continual.errors import UserError
from continual.scenarios import online, permuted, split
from continual.strategies import Naive
from continual.strategies.strategy import Strategy

ONLINE = ("stream=online",)
FREE = {"naive", "er", "er_sum", "der", "derpp"}


@pytest.mark.parametrize("choice", choices("strategy"))
def test_a_strategy_that_needs_boundaries_is_refused_in_one_sentence_and_the_others_run(choice, tmp_path, capsys):
    strategy = build(described(f"strategy={choice}")["strategy"], "strategy")
    assert (not strategy.needs_boundaries) == (choice in FREE)
    if choice in FREE:
        assert launch(tmp_path, f"strategy={choice}", *ONLINE).matrices.num_tasks == 2
        return
    with pytest.raises(UserError, match=f"^{strategy.name} needs to be told where a task ends, which stream=online"):
        launch(tmp_path, f"strategy={choice}", *ONLINE)
    assert list(tmp_path.iterdir()) == []


def test_the_command_exits_with_2_and_one_sentence(tmp_path, capsys):
    assert main(["debug=tiny", "strategy=ewc", "stream=online", f"output={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "stream=online hides" in said


class AsksForTheTask(Strategy):
    """Needs the number in training."""

    name = "asks"
    needs_task_id_in_training = True


def test_a_need_of_the_tasks_number_in_training_is_refused_where_it_is_hidden(tmp_path):
    with pytest.raises(UserError, match="asks needs the task's number in training, which stream=online hides"):
        launch(tmp_path, "strategy=naive", *ONLINE, own={"strategy": AsksForTheTask()})
    assert launch(tmp_path, "strategy=naive", own={"strategy": AsksForTheTask()}).matrices.num_tasks == 2


@pytest.mark.parametrize("setting", ["epochs=2", "optimizer_state=reset"])
def test_it_is_seen_once_by_one_optimiser(setting, tmp_path):
    assert described(*ONLINE)["optimizer_state"] == "keep"
    with pytest.raises(UserError, match="add epochs=1 optimizer_state=keep"):
        run_config(described("strategy=naive", *ONLINE) | dict([_read(setting)]) | {"output": str(tmp_path)})


def _read(setting):
    key, _, value = setting.partition("=")
    return key, int(value) if value.isdigit() else value


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_no_sample_says_its_task(mode):
    sequence = online(split(small_data(), 5, mode))
    for task in sequence.tasks:
        data = gather([task], task, sequence, torch.device("cpu"), torch.float32)
        assert data.task.tolist() == [0] * len(data)


class Watches(Naive):
    """Notes what a batch tells."""

    def __init__(self):
        self.told = []

    def mix(self, batch):
        self.told.append((batch.task.unique().tolist(), len(batch.targets)))
        return batch


def test_every_sample_is_shown_once_and_without_its_task(tmp_path):
    watching = Watches()
    launch(tmp_path, "strategy=naive", *ONLINE, own={"strategy": watching})
    assert all(tasks == [0] for tasks, _ in watching.told)
    assert sum(count for _, count in watching.told) == 2 * 200


def test_the_run_is_the_one_with_known_boundaries_for_a_strategy_that_asks_for_none(tmp_path):
    known = launch(tmp_path, "strategy=naive", "optimizer.momentum=0.9", optimizer_state="keep")
    hidden = launch(tmp_path, "strategy=naive", "optimizer.momentum=0.9", *ONLINE)
    assert known.folder != hidden.folder
    assert same_tensors(weights_of(known.folder)[-1], weights_of(hidden.folder)[-1])
    assert [records_of(run.folder)[0]["boundaries"] for run in (known, hidden)] == ["known", "hidden"]


def test_an_own_sequence_may_hide_its_boundaries_too(tmp_path):
    sequence = online(permuted(small_data(), 2))
    own = {"scenario": sequence, "data": None, "model": foreign_network()}
    with pytest.raises(UserError, match="where a task ends"):
        launch(tmp_path, "strategy=ewc", own=own, optimizer_state="keep")
    assert launch(tmp_path, "strategy=naive", own=own, optimizer_state="keep").matrices.num_tasks == 2


def test_parts_know_that_the_optimiser_goes_on():
    assert make_parts(RunConfig.from_dict(described("strategy=er", *ONLINE))).keep_optimizer_state
    assert not make_parts(RunConfig.from_dict(described("strategy=er"))).keep_optimizer_state


def test_an_unknown_kind_of_boundaries_is_refused():
    sequence = permuted(small_data(), 2)
    with pytest.raises(ValueError, match="boundaries must be one of known, hidden"):
        type(sequence)("x", sequence.tasks, "domain", 10, boundaries="some")
