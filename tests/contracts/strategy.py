"""What every strategy owes the runner; a member's test class inherits this and names its configuration."""

import copy

import pytest
import torch
from tiny_runs import (
    POISSON,
    StopAtStep,
    assert_same_run,
    described,
    foreign_network,
    launch,
    records_of,
    same_tensors,
    small_data,
    weights_of,
)
from torch import Tensor

from continual.batches import Batch, gather
from continual.config import build
from continual.objectives import CrossEntropy
from continual.scenarios import Task, permuted
from continual.seeding import stream
from continual.strategies import LayerRank, Setting
from neuro.lateral import last_linear
from neuro.learning import BPTT

CPU = torch.device("cpu")
MODES = ["task", "domain", "class"]


class StrategyContract:
    """Inherit and name the choice of `configs/strategy`.

    Attributes:
        choice: of the configuration.
        acts_from_task_two: whether a single task is learned as without any strategy.
        learns_later_tasks: whether weights move after the first task.
    """

    choice: str
    acts_from_task_two = True
    learns_later_tasks = True

    def make(self):
        return build(described(f"strategy={self.choice}")["strategy"], "strategy")

    def attached(self, model, mode="domain", num_tasks=3):
        strategy, sequence = self.make(), permuted(small_data(), num_tasks, mode)
        strategy.attach(Setting(model, last_linear(model), sequence, 0, BPTT(), CrossEntropy(), epochs=1, batch_size=8))
        return strategy, sequence

    def learn(self, strategy, model, sequence, task, checks=None):
        """One epoch of a task in a plain loop of its own; `checks` sees what the hooks gave."""
        given = checks if checks is not None else {}
        chosen = strategy.training_data(task, sequence.tasks[: task.index], sequence)
        given["training_data"] = chosen
        if not chosen:
            return
        data = gather(chosen, task, sequence, CPU, torch.float32)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        model.train()
        given["before_task"] = strategy.before_task(task, optimizer)
        for batch in data.batches(64, stream(0, "order", task.index, 0)):
            optimizer.zero_grad()
            mixed = given["mix"] = strategy.mix(batch)
            outputs = model(mixed.inputs)
            terms = given["terms"] = strategy.terms(outputs, mixed)
            loss = CrossEntropy().loss(outputs, mixed)
            torch.autograd.backward(loss if terms is None else loss + terms)
            given["after_backward"] = strategy.after_backward(model)
            optimizer.step()
            given["after_step"] = strategy.after_step(model)
        given["after_task"] = strategy.after_task(task, data)

    def test_hooks_give_what_the_runner_expects(self):
        num_classes = {"domain": 10, "task": 30, "class": 30}
        for mode in MODES:
            model = foreign_network(num_classes=num_classes[mode])
            strategy, sequence = self.attached(model, mode)
            for task in sequence.tasks:
                given = {}
                self.learn(strategy, model, sequence, task, given)
                assert all(isinstance(chosen, Task) for chosen in given["training_data"])
                assert all(chosen.index <= task.index for chosen in given["training_data"])
                if given["training_data"]:
                    assert isinstance(given["mix"], Batch)
                    terms = given["terms"]
                    assert terms is None or (isinstance(terms, Tensor) and terms.shape == ())
                    silent = ("before_task", "after_backward", "after_step", "after_task")
                    assert all(given[name] is None for name in silent)
                assert all(isinstance(layer, LayerRank) for layer in strategy.ranks())
                assert strategy.stored_bytes >= 0
                assert strategy.operations >= 0
            assert strategy.predict(model, torch.rand(4, 8, 8), 1).shape == (4, num_classes[mode])

    def test_has_a_name_and_says_what_it_needs(self):
        strategy = self.make()
        assert strategy.name == strategy.name.lower() != "strategy"
        for need in ("needs_boundaries", "needs_task_id_in_training", "needs_task_id_in_test"):
            assert isinstance(getattr(strategy, need), bool)

    def test_a_state_goes_through_a_checkpoint_and_works_on(self):
        model = foreign_network()
        strategy, sequence = self.attached(model)
        for task in sequence.tasks[:2]:
            self.learn(strategy, model, sequence, task)
        state = {name: tensor.clone() for name, tensor in strategy.state_dict().items()}
        assert all(isinstance(tensor, Tensor) for tensor in state.values())
        twin_model = foreign_network()
        twin, _ = self.attached(twin_model)
        twin_model.load_state_dict(copy.deepcopy(model.state_dict()))
        twin.load_state_dict(state)
        assert same_tensors(twin.state_dict(), state)
        assert twin.operations == strategy.operations
        before = twin_model.state_dict()["1.weight"].clone()
        for trained, network in ((strategy, model), (twin, twin_model)):
            with torch.random.fork_rng():
                torch.manual_seed(3)
                self.learn(trained, network, sequence, sequence.tasks[2])
        assert same_tensors(model.state_dict(), twin_model.state_dict())
        assert same_tensors(strategy.state_dict(), twin.state_dict())
        moved = not torch.equal(before, twin_model.state_dict()["1.weight"])
        assert moved == self.learns_later_tasks, "the third task was learned, by a strategy that learns it"

    def test_a_state_with_a_part_missing_or_left_over_is_refused(self):
        model = foreign_network()
        strategy, sequence = self.attached(model)
        self.learn(strategy, model, sequence, sequence.tasks[0])
        state = strategy.state_dict()
        for wrong in [{**state, "surplus": torch.zeros(1)}] + [
            {key: tensor for key, tensor in state.items() if key != gone} for gone in state
        ]:
            with pytest.raises(ValueError, match="state"):
                strategy.load_state_dict(wrong)

    @pytest.mark.parametrize("network", ["spiking", "foreign"])
    def test_a_single_task_is_learned_as_without_any_strategy(self, network, tmp_path):
        if not self.acts_from_task_two:
            pytest.skip(f"{self.choice} acts within the first task")

        def single(choice):
            own = {"model": foreign_network()} if network == "foreign" else {}
            return launch(tmp_path, "scenario.num_tasks=1", "epochs=2", f"strategy={choice}", own=own)

        naive, ours = single("naive"), single(self.choice)
        assert same_tensors(weights_of(naive.folder)[0], weights_of(ours.folder)[0])
        assert naive.matrices.task_aware.tolist() == ours.matrices.task_aware.tolist()
        assert naive.matrices.task_agnostic.tolist() == ours.matrices.task_agnostic.tolist()

    @pytest.mark.parametrize("mode", MODES)
    def test_predictions_need_no_task_unless_declared(self, mode):
        model = foreign_network(num_classes=10 if mode == "domain" else 30)
        strategy, sequence = self.attached(model, mode)
        for task in sequence.tasks:
            self.learn(strategy, model, sequence, task)
        if strategy.needs_task_id_in_test:
            pytest.skip(f"{self.choice} declares that it needs the task")
        model.eval()
        inputs = torch.from_numpy(sequence.tasks[1].test.inputs)
        withheld = strategy.predict(model, inputs, None)
        assert all(torch.equal(strategy.predict(model, inputs, task), withheld) for task in range(3))
        assert torch.equal(strategy.predict(model, inputs), withheld)

    def test_predicting_changes_nothing(self):
        model = foreign_network()
        strategy, sequence = self.attached(model)
        self.learn(strategy, model, sequence, sequence.tasks[0])
        model.eval()
        before, own = copy.deepcopy(model.state_dict()), copy.deepcopy(strategy.state_dict())
        with torch.no_grad():
            strategy.predict(model, torch.rand(5, 8, 8), 0)
        assert same_tensors(model.state_dict(), before)
        assert same_tensors(strategy.state_dict(), own)

    def test_consolidation_moves_neither_weights_nor_statistics_nor_streams(self):
        model = foreign_network()
        strategy, sequence = self.attached(model)
        task = sequence.tasks[0]
        self.learn(strategy, model, sequence, task)
        strategy.before_task(task, torch.optim.SGD(model.parameters(), lr=0.1))
        before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
        data, streams = gather([task], task, sequence, CPU, torch.float32), torch.get_rng_state()
        strategy.after_task(task, data)
        assert same_tensors(model.state_dict(), before)
        assert [module.training for module in model.modules()] == modes
        assert torch.equal(torch.get_rng_state(), streams)

    @pytest.mark.parametrize("network", [pytest.param("poisson", marks=pytest.mark.slow), "foreign"])
    def test_stopped_and_resumed_equals_never_stopped(self, network, tmp_path):
        chosen = (f"strategy={self.choice}", "scenario.mode=class", *(POISSON if network == "poisson" else ()))

        def own():
            return {"model": foreign_network(num_classes=20)} if network == "foreign" else {}

        whole = launch(tmp_path / "whole", *chosen, own=own())
        with pytest.raises(KeyboardInterrupt):
            launch(tmp_path / "cut", *chosen, own=own(), progress=StopAtStep(1, 2))
        assert_same_run(whole.folder, launch(tmp_path / "cut", *chosen, own=own()).folder)

    def test_what_it_keeps_and_spends_is_in_the_records(self, tmp_path):
        result = launch(tmp_path, f"strategy={self.choice}")
        last = [line for line in records_of(result.folder) if line["event"] == "task_end"][-1]
        assert last["stored_bytes"] == result.metrics["stored_bytes"]
        assert last["learning_operations"] == result.metrics["learning_operations"]
        assert result.metrics["strategy"] == self.make().name
