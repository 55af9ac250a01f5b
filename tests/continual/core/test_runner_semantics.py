"""What a run does to weights, random streams and files."""

import itertools
import json
import random

import numpy as np
import pytest
import torch
from tiny_runs import (
    NUM_TEST,
    NUM_TRAIN,
    POISSON,
    foreign_network,
    launch,
    records_of,
    same_tensors,
    small_data,
    weights_of,
)

import continual
from continual.data import Dataset, Test
from continual.metrics import AccuracyMatrices
from continual.objectives import masked_logits
from continual.scenarios import permuted, split
from continual.strategies import Naive


def test_the_run_folder_holds_what_other_code_relies_on(tmp_path):
    result = launch(tmp_path, "strategy=hlop", "epochs=2")
    folder = result.folder
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "config.yaml",
        "records.jsonl",
        "accuracy_matrix.npz",
        "confusion.npz",
        "metrics.json",
        "activity.npz",
        "weights/task_00.safetensors",
        "weights/task_01.safetensors",
        "checkpoint/state.json",
        "checkpoint/after_task_02.safetensors",
    }
    assert folder.parent == tmp_path
    assert len(folder.name.rpartition("-")[2]) == 8
    for name in ("metrics.json", "checkpoint/state.json"):
        assert json.loads((folder / name).read_text())["format_version"] == 1
    assert "format_version: 1" in (folder / "config.yaml").read_text()
    start, *_, end = records_of(folder)
    assert start["format_version"] == 1
    assert (start["event"], end["event"]) == ("run_start", "run_end")
    assert start["num_tasks"] == 2 == len(start["task_names"])
    stored = AccuracyMatrices.load(folder / "accuracy_matrix.npz")
    np.testing.assert_array_equal(stored.task_aware, result.matrices.task_aware)
    np.testing.assert_array_equal(stored.counts, [NUM_TEST, NUM_TEST])
    rows = [line["task_aware"] for line in records_of(folder) if line["event"] == "task_end"]
    np.testing.assert_array_equal(stored.task_aware, rows)


def test_metrics_are_functions_of_the_matrices(tmp_path):
    result = launch(tmp_path, "strategy=naive", "scenario.num_tasks=3", "scenario.mode=class")
    summary = continual.metrics.summarise(result.matrices, "class")
    undefined = summary.pop("undefined")
    assert {key: result.metrics[key] for key in summary} == summary
    assert undefined.items() <= result.metrics["undefined"].items()
    R = result.matrices.task_agnostic
    assert result.metrics["acc_final"] == pytest.approx(R[-1].mean())
    assert result.metrics["bwt"] == pytest.approx(((R[2, 0] - R[0, 0]) + (R[2, 1] - R[1, 1])) / 2)
    assert result.metrics["acc_learning"] == pytest.approx(np.diag(R).mean())


def test_every_epoch_sees_every_sample_once(tmp_path):
    seen = []

    class Watches(Naive):
        name = "watches"

        def mix(self, batch):
            seen.append((batch.inputs.flatten(1).double() @ torch.arange(1.0, 65, dtype=torch.float64)).tolist())
            return batch

    launch(tmp_path, "epochs=2", "batch_size=64", own={"strategy": Watches()})
    sizes = [len(batch) for batch in seen]
    assert sizes == [64, 64, 64, NUM_TRAIN - 192] * 4
    epochs = [sorted(itertools.chain(*seen[start : start + 4])) for start in range(0, 16, 4)]
    assert epochs[0] == epochs[1] != epochs[2] == epochs[3]
    assert seen[0] != seen[4], "the order is drawn again in every epoch"
    place = np.arange(1.0, 65)
    assert epochs[0] == pytest.approx(sorted(permuted(small_data(), 2).tasks[0].train.inputs.reshape(-1, 64) @ place))


@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_recorded_loss_and_accuracy_are_those_of_the_rows_that_compete(mode, tmp_path):
    losses, hits = [], []

    class Watches(Naive):
        name = "watches"

        def terms(self, outputs, batch):
            masked = masked_logits(outputs.detach(), batch.active)
            losses.append(float(torch.nn.functional.cross_entropy(masked, batch.targets)))
            hits.extend((masked.argmax(1) == batch.targets).tolist())

    chosen = ("scenario=split", "scenario.num_tasks=2", f"scenario.mode={mode}", "scenario.train_logits=current")
    result = launch(tmp_path, *chosen, "batch_size=500", own={"strategy": Watches()})
    epochs = [line for line in records_of(result.folder) if line["event"] == "epoch"]
    assert [line["loss"] for line in epochs] == pytest.approx(losses, rel=1e-6)
    half = len(split(small_data(), num_tasks=2).tasks[0].train)
    wanted = [sum(hits[:half]) / half, sum(hits[half:]) / (len(hits) - half)]
    assert [line["accuracy"] for line in epochs] == pytest.approx(wanted)


def test_the_hooks_come_in_the_order_of_the_contract(tmp_path):
    calls = []

    def hooked(name):
        original = getattr(Naive, name)

        def method(self, *arguments, **keywords):
            calls.append(name)
            return original(self, *arguments, **keywords)

        return method

    names = ("attach", "before_task", "training_data", "mix", "terms", "after_backward", "after_step", "after_task")
    Watches = type("Watches", (Naive,), {name: hooked(name) for name in names})
    launch(tmp_path, "batch_size=100", "scenario.num_tasks=1", own={"strategy": Watches()})
    step = ["mix", "terms", "after_backward", "after_step"]
    assert calls in (
        ["attach", "training_data", "before_task", *step, *step, "after_task"],
        ["attach", "before_task", "training_data", *step, *step, "after_task"],
    )


@pytest.mark.parametrize("network", ["spiking", "poisson", "foreign"])
def test_a_run_leaves_the_global_random_streams_as_they_were(network, tmp_path):
    own = {"model": foreign_network()} if network == "foreign" else {}
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002  # the very global stream that must not move
    random.seed(7)
    before = torch.get_rng_state().clone(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    launch(tmp_path, "strategy=hlop", *(POISSON if network == "poisson" else ()), own=own)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_the_global_random_streams_do_not_move_a_run(tmp_path):
    torch.manual_seed(1)
    one = launch(tmp_path / "a", "strategy=hlop", own={"model": foreign_network()}).folder
    torch.manual_seed(2)
    other = launch(tmp_path / "b", "strategy=hlop", own={"model": foreign_network()}).folder
    assert same_tensors(weights_of(one)[-1], weights_of(other)[-1])


def test_gradients_left_over_in_an_own_network_do_nothing(tmp_path):
    clean, used = foreign_network(), foreign_network()
    for parameter in used.parameters():
        parameter.grad = torch.ones_like(parameter)
    one, other = (
        launch(tmp_path / name, "strategy=naive", own={"model": model}) for name, model in (("a", clean), ("b", used))
    )
    assert one.folder.name == other.folder.name
    np.testing.assert_array_equal(one.matrices.baseline_task_aware, other.matrices.baseline_task_aware)
    assert same_tensors(weights_of(one.folder)[0], weights_of(other.folder)[0])


@pytest.mark.parametrize("strategy", ["cumulative", "joint", "hlop", "hlop_hebbian"])
def test_no_test_part_is_ever_learned_from(strategy, tmp_path):
    data = small_data()
    blank = Test(np.zeros_like(data.test.inputs), data.test.targets[::-1].copy())
    blanked = Dataset(data.name, data.train, None, blank, 10)
    one = launch(tmp_path / "a", f"strategy={strategy}")
    other = launch(tmp_path / "b", f"strategy={strategy}", own={"data": blanked})
    assert all(same_tensors(*pair) for pair in zip(weights_of(one.folder), weights_of(other.folder), strict=True))
    assert one.metrics["acc_final"] != other.metrics["acc_final"]


def test_selection_scores_the_validation_part_and_nothing_else(tmp_path):
    data = small_data(0.25)
    one = launch(tmp_path, "strategy=naive", "evaluate_on=validation", own={"data": data})
    blank = Dataset(data.name, data.train, data.validation, Test(data.test.inputs * 0, data.test.targets), 10)
    other = launch(tmp_path / "b", "strategy=naive", "evaluate_on=validation", own={"data": blank})
    assert one.matrices.counts.tolist() == [50, 50]
    np.testing.assert_array_equal(one.matrices.task_aware, other.matrices.task_aware)
    assert one.metrics["evaluated_on"] == "validation"


def test_evaluating_twice_does_not_move_training(tmp_path, monkeypatch):
    import continual.runner

    once = {network: launch(tmp_path / f"once {network}", *chosen, own=own()).folder for network, chosen, own in NETS}
    original = continual.runner.evaluate

    def twice(*arguments, **keywords):
        original(*arguments, **keywords)
        return original(*arguments, **keywords)

    monkeypatch.setattr(continual.runner, "evaluate", twice)
    for network, chosen, own in NETS:
        folder = launch(tmp_path / f"twice {network}", *chosen, own=own()).folder
        assert records_of(folder) == records_of(once[network])
        assert same_tensors(weights_of(folder)[-1], weights_of(once[network])[-1])


NETS = [
    ("poisson", ("strategy=hlop", *POISSON), dict),
    ("foreign", ("strategy=hlop",), lambda: {"model": foreign_network()}),
]


def test_future_tasks_are_scored_or_left_out_on_request(tmp_path):
    full = launch(tmp_path, "strategy=naive", "scenario.num_tasks=3")
    half = launch(tmp_path, "strategy=naive", "scenario.num_tasks=3", "evaluate_future=false")
    above = np.triu_indices(3, 1)
    assert np.isfinite(full.matrices.task_aware).all()
    assert np.isnan(half.matrices.task_aware[above]).all()
    np.testing.assert_array_equal(np.tril(half.matrices.task_aware), np.tril(full.matrices.task_aware))
    assert half.metrics["fwt"] is None
    assert "fwt" in half.metrics["undefined"]
    assert full.metrics["fwt"] is not None


# From Python: one's own parts


def accuracies(model, tasks, num_classes):
    """Score a model by hand, masked to each task's rows."""
    found = []
    for task in tasks:
        rows = torch.zeros(num_classes, dtype=torch.bool)
        rows[list(task.classes)] = True
        with torch.no_grad():
            logits = model(torch.from_numpy(task.test.inputs))
        found.append(float((masked_logits(logits, rows).argmax(1).numpy() == task.test.targets).mean()))
    return found


@pytest.fixture
def own_tasks():
    return split(small_data(), num_tasks=5, mode="task")


def test_own_tasks_network_and_strategy(own_tasks, tmp_path):
    class Remembers(Naive):
        name = "remembers"

        def __init__(self):
            self.tasks = 0

        def after_task(self, task, data):
            self.tasks += 1

    strategy, model = Remembers(), foreign_network()
    output = str(tmp_path)
    result = continual.run(
        ["epochs=2", "optimizer.lr=0.5"], tasks=own_tasks, model=model, strategy=strategy, output=output
    )
    assert strategy.tasks == 5
    assert result.model is model
    assert result.metrics["strategy"] == "remembers"
    assert result.metrics["mode"] == "task"
    assert result.matrices.task_aware[-1].tolist() == accuracies(model.eval(), own_tasks.tasks, 10)


def test_load_gives_the_network_back_as_it_was_after_each_task(own_tasks, tmp_path):
    result = continual.run(
        ["epochs=2", "optimizer.lr=0.5"],
        tasks=own_tasks,
        model=foreign_network(),
        strategy="naive",
        output=str(tmp_path),
    )
    assert len({row.tobytes() for row in result.matrices.task_aware}) == 5, "the rows tell the tasks apart"
    for task in range(5):
        model = continual.load(result.folder, task=task, model=foreign_network(seed=9))
        assert not model.training
        assert accuracies(model, own_tasks.tasks, 10) == result.matrices.task_aware[task].tolist()
    last = continual.load(result.folder, model=foreign_network(seed=9))
    assert accuracies(last, own_tasks.tasks, 10) == result.matrices.task_aware[-1].tolist()


def test_load_refuses_what_it_cannot_give(own_tasks, tmp_path):
    from continual.errors import UserError

    result = continual.run(
        ["epochs=1"], tasks=own_tasks, model=foreign_network(), strategy="naive", output=str(tmp_path)
    )
    with pytest.raises(UserError, match="model="):
        continual.load(result.folder)
    for task in (5, -1):
        with pytest.raises(UserError, match=f"not of task {task}"):
            continual.load(result.folder, task=task, model=foreign_network())
    with pytest.raises(UserError, match=r"config\.yaml"):
        continual.load(tmp_path / "nowhere")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_load_builds_the_configured_network_itself(dtype, tmp_path):
    overrides = ["debug=tiny", "strategy=hlop", f"dtype={dtype}", f"output={tmp_path}", "epochs=2", "optimizer.lr=0.5"]
    result = continual.run(overrides)
    assert result.model is not None
    model = continual.load(result.folder)
    assert {str(parameter.dtype) for parameter in model.parameters()} == {f"torch.{dtype}"}
    assert same_tensors(model.state_dict(), weights_of(result.folder)[-1])
    assert same_tensors(model.state_dict(), result.model.state_dict())


def test_a_finished_run_is_read_and_not_trained_again(tmp_path, monkeypatch):
    import continual.api

    first = launch(tmp_path, "strategy=naive")
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.name != "config.yaml"}

    def forbidden(*arguments):
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr(continual.api, "run_sequence", forbidden)
        again = launch(tmp_path, "strategy=naive")
        assert again.model is None
        assert again.metrics == first.metrics
        np.testing.assert_array_equal(again.matrices.task_aware, first.matrices.task_aware)
        assert {path: path.stat().st_mtime_ns for path in before if path.is_file()} == {
            path: when for path, when in before.items() if path.is_file()
        }
        with pytest.raises(AssertionError, match="trained again"):
            launch(tmp_path, "strategy=naive", overwrite=True)
    assert launch(tmp_path, "strategy=naive", overwrite=True).model is not None


@pytest.mark.parametrize("part", ["rule", "objective"])
def test_other_own_parts_from_python(part, tmp_path):
    """`RunConfig` promises an object from Python for each part."""
    from continual.objectives import CrossEntropy
    from neuro.learning import BPTT

    objects = {"rule": BPTT(), "objective": CrossEntropy(0.1)}
    result = continual.run(
        ["debug=tiny", "strategy=naive", "data=digits"], output=str(tmp_path), **{part: objects[part]}
    )
    assert result.metrics["num_tasks"] == 2


def test_a_path_is_an_output_too(tmp_path):
    result = continual.run(["debug=tiny", "strategy=naive", "model.hidden=[4]"], output=tmp_path)
    assert result.folder.parent == tmp_path


def test_a_list_of_tasks_is_a_sequence_too(own_tasks, tmp_path):
    """Any list of tasks made from arrays can be passed."""
    result = continual.run(
        ["epochs=1"], tasks=list(own_tasks.tasks), model=foreign_network(), strategy="naive", output=str(tmp_path)
    )
    assert result.matrices.num_tasks == 5


@pytest.mark.parametrize("strategy", ["naive", "hlop"])
def test_every_precision_runs(strategy, tmp_path):
    for dtype in ("float64", "bfloat16"):
        result = launch(tmp_path, f"strategy={strategy}", dtype=dtype)
        assert {str(parameter.dtype) for parameter in result.model.parameters()} == {f"torch.{dtype}"}
