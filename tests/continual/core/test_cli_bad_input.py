"""A user's mistake ends in exit status 2 and one sentence, with nothing written and nothing overwritten."""

import gzip

import numpy as np
import pytest
import torch
import yaml
from tiny_runs import foreign_network, launch

import continual
from continual.cli import main
from continual.data import Dataset, Test, Train, from_arrays
from continual.errors import DivergedError, UserError
from continual.scenarios import Task
from continual.strategies import Naive

TINY = ("debug=tiny", "strategy=naive")


def contents(folder):
    """Every file below a folder with its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(capsys, *arguments):
    """Run a command that must fail; give its one sentence."""
    status = main(list(arguments))
    captured = capsys.readouterr()
    assert status == 2, captured
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if line.strip()]
    assert len(lines) == 1, f"one line on standard error, not: {captured.err}"
    assert lines[0].startswith("continual: ")
    return lines[0]


MISTAKES = {
    "unknown strategy": (["debug=tiny", "strategy=hlopp"], ["hlopp", "hlop", "naive"]),
    "unknown strategy in a list": (["debug=tiny", "strategies=[naive,hlopp]"], ["hlopp", "naive"]),
    "unknown choice": (["debug=tiny", "data=mnost5k"], ["mnost5k", "mnist5k"]),
    "misspelt key": ([*TINY, "epochz=3"], ["epochz"]),
    "misspelt key below": ([*TINY, "model.neuron.tauu=3"], ["tauu"]),
    "misspelt key, added": ([*TINY, "+epochz=3"], ["epochz", "did you mean 'epochs'"]),
    "misspelt key below, added": ([*TINY, "+model.neuron.tauu=3"], ["model.neuron", "did you mean 'tau'"]),
    "time constant too small": ([*TINY, "model.neuron.tau=-1"], ["model.neuron", "tau", "at least 1", "-1"]),
    "time constant not a number": ([*TINY, "model.neuron.tau=nan"], ["tau", "at least 1"]),
    "time constant a word": ([*TINY, "model.neuron.tau=abc"], ["model.neuron.tau", "a number", "abc"]),
    "threshold of zero": ([*TINY, "model.neuron.threshold=0"], ["threshold", "above 0"]),
    "no time steps": ([*TINY, "model.time_steps=0"], ["time_steps", "at least 1"]),
    "subspace larger than its layer": (
        ["data=digits", "strategy=hlop", "sizes=paper_permuted_mnist", "model.hidden=[50,50]"],
        ["80 rows", "fc1", "64", "at most"],
    ),
    "zero tasks": ([*TINY, "scenario.num_tasks=0"], ["num_tasks", "at least 1"]),
    "tasks a word": ([*TINY, "scenario.num_tasks=three"], ["num_tasks", "whole number", "three"]),
    "split does not divide": ([*TINY, "scenario=split", "scenario.num_tasks=3"], ["num_tasks", "3", "1, 2, 5, 10"]),
    "unknown mode": ([*TINY, "scenario.mode=domian"], ["scenario.mode", "domian", "domain"]),
    "missing data": ([*TINY, "data=mnist", "data.root=nowhere"], ["nowhere", "needed but not there"]),
    "missing heldout data": ([*TINY, "data=mnist5k_heldout", "data.root=nowhere"], ["nowhere", "run:"]),
    "no such device": ([*TINY, "device=gpu7"], ["device=gpu7", "cpu"]),
    "no threads": ([*TINY, "threads=0"], ["threads", "at least 1"]),
    "no epochs": ([*TINY, "epochs=0"], ["epochs", "at least 1"]),
    "half an epoch": ([*TINY, "epochs=1.5"], ["epochs", "whole number", "1.5"]),
    "empty batches": ([*TINY, "batch_size=0"], ["batch_size", "at least 1"]),
    "unknown precision": ([*TINY, "dtype=float99"], ["dtype", "float99", "float32"]),
    "negative seed": ([*TINY, "seed=-1"], ["seed", "0 or more", "-1"]),
    "no validation part": ([*TINY, "evaluate_on=validation"], ["validation", "data.validation="]),
    "validation too large": ([*TINY, "data.validation=1.5"], ["validation", "1.5"]),
    "foreign target": ([*TINY, "model._target_=os.system"], ["model._target_", "os.system", "allow=[yourpackage]"]),
    "target does not exist": ([*TINY, "rule._target_=neuro.learning.BPT"], ["rule._target_", "BPT"]),
    "hidden not a list": ([*TINY, "model.hidden=16"], ["model.hidden", "list", "16"]),
    "hidden of zero": ([*TINY, "model.hidden=[0]"], ["model", "at least 1"]),
    "unbalanced bracket": ([*TINY, "model.hidden=[16,"], ["model.hidden=[16,"]),
    "allow not a list": ([*TINY, "allow=mine"], ["allow", "list", "mine"]),
    "strategies not a list": (["debug=tiny", "strategies=naive"], ["strategies=[naive,hlop]"]),
    "no strategies": (["debug=tiny", "strategies=[]"], ["strategies", "at least one"]),
    "head does not exist": (["debug=tiny", "strategy=hlop", "head=nope"], ["nope", "head"]),
    "share out of range": (["debug=tiny", "strategy=hlop", "sizes.share=2"], ["share", "between 0 and 1"]),
    "unknown word": (["trian"], ["trian", "report", "list"]),
    "unknown word among overrides": ([*TINY, "fast"], ["fast", "epochs=3"]),
    "missing configuration folder": (["--config-dir", "nowhere", *TINY], ["--config-dir", "nowhere"]),
    "unknown resume": ([*TINY, "resume=never"], ["resume", "never", "auto"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_writes_nothing(mistake, capsys, tmp_path):
    arguments, words = MISTAKES[mistake]
    output = tmp_path / "runs"
    sentence = refused(capsys, *arguments, f"output={output}")
    assert [word for word in words if word not in sentence] == []
    assert not output.exists()


@pytest.mark.parametrize(
    ("group", "removed"),
    [(group, f"{group}=null") for group in ("data", "scenario", "model", "strategy", "rule", "objective", "optimizer")],
)
def test_a_part_cannot_be_left_out(group, removed, capsys, tmp_path):
    overrides = ["debug=tiny"] + ([] if group == "strategy" else ["strategy=naive"])
    assert group in refused(capsys, *overrides, removed, f"output={tmp_path / 'runs'}")
    assert not (tmp_path / "runs").exists()


def test_a_misspelt_key_is_told_what_it_may_have_meant(capsys):
    assert "epochs" in refused(capsys, *TINY, "epochz=3")
    assert "'tau'" in refused(capsys, *TINY, "model.neuron.tauu=3")


@pytest.mark.parametrize("target", ["rule._target_=neuro.learning.bptt", "model.neuron._target_=neuro.neurons.lif"])
def test_a_target_that_is_a_module_is_refused(target, capsys, tmp_path):
    assert target.partition("=")[2] in refused(capsys, *TINY, target, f"output={tmp_path / 'runs'}")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ("optimizer.lr=-1", "lr"),
        ("optimizer.lr=abc", "optimizer.lr"),
        ("optimizer.momentum=-0.5", "momentum"),
        ("optimizer._target_=torch.optim.Adam", "momentum"),
        ("schedule.factor=-1", "factor"),
    ],
)
def test_a_wrong_optimiser_is_refused_before_anything_is_written(wrong, word, capsys, tmp_path):
    output = tmp_path / "runs"
    sentence = refused(capsys, *TINY, wrong, f"output={output}")
    assert word in sentence.lower() or "learning rate" in sentence.lower()
    assert not output.exists()


def test_a_schedule_that_fails_later_is_no_traceback(capsys, tmp_path):
    refused(capsys, *TINY, "schedule=step", "schedule.step_size=0", f"output={tmp_path / 'runs'}")


def test_the_second_strategy_is_checked_before_the_first_is_trained(capsys, tmp_path):
    """The default command runs naive first; a subspace that does not fit must not cost its whole training."""
    output = tmp_path / "runs"
    tiny = ["data=digits", "scenario.num_tasks=2", "epochs=1", "model.hidden=[50,50]"]
    sentence = refused(capsys, *tiny, "sizes=paper_permuted_mnist", f"output={output}")
    assert "80 rows" in sentence
    assert not output.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(capsys, tmp_path):
    sentence = refused(capsys, *TINY, "device=cuda", f"output={tmp_path / 'runs'}")
    assert "device=cuda" in sentence
    assert "cpu" in sentence


@pytest.mark.parametrize("option", ["--bogus", "--cgf"])
def test_an_unknown_option_exits_with_2_and_names_it(option, capsys):
    assert option in refused(capsys, option)


def test_options_may_stand_between_overrides(capsys):
    assert main(["debug=tiny", "--cfg", "strategy=naive"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["strategy"]["_target_"] == "continual.strategies.Naive"


# Words that name nothing


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "modell"], ["modell", "model", "strategy"]),
        (["data", "mnist"], ["no arguments", "mnist"]),
        (["report"], ["run folder"]),
    ],
)
def test_a_wrong_argument_of_a_command(arguments, words, capsys):
    sentence = refused(capsys, *arguments)
    assert [word for word in words if word not in sentence] == []


def test_a_report_of_something_else(capsys, tmp_path, real_reports):
    for folder in (tmp_path, tmp_path / "nowhere"):
        sentence = refused(capsys, "report", str(folder))
        assert str(folder) in sentence
    assert "config.yaml" in refused(capsys, "report", str(tmp_path), str(tmp_path / "other"))
    assert list(tmp_path.iterdir()) == []


# The output folder


def test_output_where_a_file_stands(capsys, tmp_path):
    (tmp_path / "runs").write_text("mine")
    assert "another output" in refused(capsys, *TINY, f"output={tmp_path / 'runs'}")
    assert (tmp_path / "runs").read_text() == "mine"


def test_a_file_in_the_place_of_the_run_folder(capsys, tmp_path):
    folder = launch(tmp_path / "first", "strategy=naive").folder
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / folder.name).write_text("mine")
    with pytest.raises(UserError, match="another output"):
        launch(tmp_path / "second", "strategy=naive")
    assert (tmp_path / "second" / folder.name).read_text() == "mine"


def test_output_that_is_itself_a_run(tmp_path):
    folder = launch(tmp_path, "strategy=naive").folder
    before = contents(tmp_path)
    with pytest.raises(UserError, match="itself the folder of a run"):
        launch(folder, "strategy=naive", "seed=1")
    assert contents(tmp_path) == before


def test_a_run_folder_with_something_else_in_it(tmp_path):
    folder = launch(tmp_path / "first", "strategy=naive").folder
    other = tmp_path / "second" / folder.name
    other.mkdir(parents=True)
    (other / "thesis.tex").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="not a run of ours"):
            launch(tmp_path / "second", "strategy=naive", overwrite=overwrite)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_a_run_folder_that_holds_another_run(tmp_path):
    first = launch(tmp_path, "strategy=naive", "seed=1").folder
    second = launch(tmp_path, "strategy=naive").folder
    (second / "config.yaml").write_bytes((first / "config.yaml").read_bytes())
    before = contents(tmp_path)
    with pytest.raises(UserError, match="another run"):
        launch(tmp_path, "strategy=naive")
    assert contents(tmp_path) == before


def test_a_name_cannot_lead_out_of_the_output_folder(capsys, tmp_path):
    refused(capsys, *TINY, "name=../escaped", f"output={tmp_path / 'runs'}")
    assert list(tmp_path.iterdir()) == []


# Data


def test_a_truncated_data_file(capsys, tmp_path):
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    header = {3: (0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 8, 0, 0, 0, 8), 1: (0, 0, 8, 1, 0, 0, 0, 20)}
    for name in names:
        axes = 3 if "images" in name else 1
        body = bytes(20 * 64) if axes == 3 else bytes(range(10)) * 2
        (tmp_path / name).write_bytes(bytes(header[axes]) + body)
    command = [*TINY, "data=mnist", f"data.root={tmp_path}", f"output={tmp_path / 'runs'}"]
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes()[:-5])
    sentence = refused(capsys, *command)
    assert names[0] in sentence
    assert "truncated" in sentence
    (tmp_path / names[0]).unlink()
    (tmp_path / f"{names[0]}.gz").write_bytes(gzip.compress(bytes(header[3]) + bytes(20 * 64))[:-9])
    assert "truncated" in refused(capsys, *command)
    (tmp_path / f"{names[0]}.gz").write_bytes(gzip.compress(bytes(header[3]) + bytes(20 * 64)))
    assert main(command) == 0, "whole again, the same command runs"


def test_labels_out_of_range_and_nan_are_refused_at_the_door():
    images, labels = np.zeros((20, 8, 8), np.float32), np.arange(20) % 4
    with pytest.raises(ValueError, match=r"below num_classes=3.*label 3"):
        from_arrays((images, labels), (images, labels), num_classes=3)
    with pytest.raises(ValueError, match="negative"):
        from_arrays((images, labels - 1), (images, labels))
    broken = images.copy()
    broken[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*\(3, 2, 1\)"):
        from_arrays((broken, labels), (images, labels))
    part = (images, labels.astype(np.int64))
    with pytest.raises(ValueError, match="num_classes=2"):
        continual.run(data=Dataset("mine", Train(*part), None, Test(*part), 2))
    with pytest.raises(ValueError, match="lie in its classes"):
        Task(0, "first", Train(*part), None, Test(*part), (0, 1))


# From Python


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochz": 3}, "did you mean 'epochs'"),
        ({"epochs": "three"}, "whole number"),
        ({"strategy": "hlopp"}, "hlop"),
        ({"tasks": [1, 2]}, "tasks"),
        ({"data": (1, 2)}, "data"),
        ({"model": "relu_mlp"}, "model"),
        ({"strategy": dict}, "strategy"),
    ],
)
def test_a_mistake_in_python_is_a_user_error(settings, words, tmp_path):
    with pytest.raises(UserError, match=words):
        continual.run(["debug=tiny"], **({"strategy": "naive", "output": str(tmp_path / "runs")} | settings))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("fault", ["inputs", "outputs"])
def test_a_network_that_does_not_fit_the_data_is_refused_before_anything_is_written(fault, tmp_path):
    model = foreign_network() if fault == "inputs" else foreign_network(num_classes=7)
    if fault == "inputs":
        model[1] = torch.nn.Linear(63, 12)
    with pytest.raises(UserError, match="model"):
        launch(tmp_path / "runs", "strategy=naive", own={"model": model})
    assert not (tmp_path / "runs").exists()


def test_a_network_with_tied_weights_trains_or_is_refused_at_the_start(tmp_path):
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)
    )
    model[3].weight = model[1].weight
    try:
        folder = launch(tmp_path / "runs", "strategy=naive", own={"model": model}).folder
    except UserError:
        assert not (tmp_path / "runs").exists()
    else:
        assert continual.load(folder, model=model) is model


def test_an_own_network_may_hold_half_precision(tmp_path):
    result = launch(tmp_path, "strategy=naive", own={"model": foreign_network().bfloat16()}, dtype="bfloat16")
    assert result.metrics["num_tasks"] == 2


def test_only_strategies_that_need_the_task_are_refused_where_it_is_hidden(tmp_path):
    class Asks(Naive):
        name = "asks"
        needs_task_id_in_test = True

    with pytest.raises(UserError, match="mode=domain withholds"):
        launch(tmp_path / "runs", own={"strategy": Asks()})
    assert not (tmp_path / "runs").exists()
    assert launch(tmp_path, "scenario.mode=task", own={"strategy": Asks()}).metrics["strategy"] == "asks"


# A loss that is not finite


def test_a_loss_that_turns_nan_names_step_layer_and_checkpoint(capsys, tmp_path):
    command = ["debug=tiny", "strategy=naive", "model=relu_mlp", f"output={tmp_path}", "optimizer.lr=1e30"]
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    sentence = captured.err.splitlines()[-1]
    assert sentence.startswith("continual: ")
    assert "loss" in sentence
    assert "nan" in sentence
    assert "Traceback" not in captured.err
    assert "task 1 (permutation 0), epoch 1, step 2" in sentence
    assert "layer that is not finite is 'fc" in sentence
    assert "no task was finished before" in sentence
    assert not list(tmp_path.glob("*/metrics.json"))


def diverging(tmp_path, layer):
    """A run that is finite in task 1 and not in task 2, because a layer is spoiled in between."""

    class Spoils(Naive):
        name = "spoils"

        def before_task(self, task, optimizer):
            if task.index == 1:
                parameters = dict(self._model.named_parameters())
                parameters[layer].data[0, 0] = float("nan")

        def attach(self, setting):
            self._model = setting.model

    return launch(tmp_path, own={"strategy": Spoils(), "model": foreign_network()})


def test_the_last_good_checkpoint_is_named_and_stays(tmp_path):
    with pytest.raises(DivergedError, match=r"task 2 .*epoch 1, step 1") as stopped:
        diverging(tmp_path, "5.weight")
    (folder,) = tmp_path.iterdir()
    assert "'5'" in str(stopped.value)
    assert str(folder / "checkpoint") in str(stopped.value)
    assert [path.name for path in (folder / "weights").iterdir()] == ["task_00.safetensors"]


def test_weights_that_overflow_in_the_last_step_are_no_good_checkpoint(tmp_path):
    """One giant step an epoch: its loss is finite, what it leaves is not."""
    with pytest.raises(DivergedError, match="layer that is not finite is 'fc"):
        launch(tmp_path, "strategy=naive", "model=relu_mlp", "optimizer.lr=1e38", "batch_size=2000")
    assert not list(tmp_path.glob("*/checkpoint/state.json"))


def test_diverged_activity_does_not_crash_the_consolidation(tmp_path):
    with pytest.raises(DivergedError):
        launch(tmp_path, "strategy=hlop", "model=relu_mlp", "optimizer.lr=1e30", "batch_size=2000")
