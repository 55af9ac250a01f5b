"""`evaluate RUN`: the last network of a run, asked as the run asked it, and mistakes in one sentence."""

import json

import pytest
from tiny_runs import described, launch

from continual.api import run_config
from continual.cli import main
from continual.errors import UserError
from continual.evaluated_run import evaluate_run
from continual.robustness import Adversarial

FEW = ["robustness=pgd20", "robustness.pgd20.num_samples=20", "robustness.pgd20.threat.epsilon=0.1"]


@pytest.fixture
def run_folder(tmp_path):
    def made(*overrides, **settings):
        description = described("data=digits", "model=relu_mlp", "epochs=1", *overrides)
        return run_config(description | {"output": str(tmp_path / "runs")} | settings).folder

    return made


def test_every_task_gets_a_report_whose_clean_accuracy_is_the_runs(run_folder, capsys):
    folder = run_folder("strategy=naive")
    capsys.readouterr()
    assert main(["evaluate", str(folder), FEW[0], "robustness.pgd20.num_samples=null", FEW[2]]) == 0
    shown = capsys.readouterr().out
    final = json.loads((folder / "records.jsonl").read_text().splitlines()[-2])["task_agnostic"]
    for task, accuracy in enumerate(final):
        place = folder / "robustness" / "pgd20" / f"task_{task:02d}"
        found = json.loads((place / "robustness.json").read_text())
        assert found["clean_accuracy"] == pytest.approx(accuracy)
        assert found["robust_accuracy"] <= found["clean_accuracy"]
        assert (place / "figures" / "accuracy_against_epsilon.png").exists()
        assert (place / "figures" / "adversarial_images.png").exists()
        assert str(place) in shown
    stored = Adversarial.load(folder / "robustness" / "pgd20" / "task_00" / "adversarial.safetensors")
    assert float((stored.images - stored.origin).abs().max()) <= 0.1 + 1e-6


def test_a_run_is_certified_by_the_same_command_and_sigma_has_no_default(run_folder, capsys):
    folder = run_folder("strategy=naive")
    few = ["robustness=smoothing", "robustness.smoothing.rule.n=100", "robustness.smoothing.num_samples=5"]
    assert main(["evaluate", str(folder), *few, "robustness.smoothing.sigma=0.1"]) == 0
    assert "ACR" in capsys.readouterr().out
    for task in range(2):
        place = folder / "robustness" / "smoothing" / f"task_{task:02d}"
        assert json.loads((place / "certification.json").read_text())["samples"] == 5
    assert main(["evaluate", str(folder), *few]) == 2
    assert "sigma" in capsys.readouterr().err


def test_with_the_task_known_attacks_stay_among_its_rows(run_folder, tmp_path):
    folder = run_folder("strategy=hlop", "scenario=split", "scenario.mode=task", "scenario.num_tasks=5")
    reports = list(evaluate_run(folder, FEW, tmp_path / "elsewhere"))
    assert len(reports) == 5
    for task, found in enumerate(reports):
        rows = {2 * task, 2 * task + 1}
        assert set(found.report.adversarial.predictions.tolist()) <= rows
        assert found.folder == tmp_path / "elsewhere" / "pgd20" / f"task_{task:02d}"
    assert not (folder / "robustness").exists()


def test_a_strategy_that_predicts_with_its_own_memory_is_asked(run_folder):
    folder = run_folder("strategy=ncm")
    assert [found.report.clean_accuracy for found in evaluate_run(folder, FEW)]


def test_mistakes_end_in_one_sentence(run_folder, tmp_path, capsys):
    folder = run_folder("strategy=naive")
    for words, says in (
        ([], "needs a run folder"),
        ([str(folder)], "needs an evaluation"),
        ([str(folder), "robustness=pgd21"], "did you mean 'pgd20'"),
        ([str(folder), "epochs=3"], "the run is as it is"),
        ([str(tmp_path), "robustness=pgd20"], "is not the folder of a run"),
        ([str(folder), "robustness=pgd20", "robustness.pgd20.threat.epsilon=-1"], "epsilon must be at least 0"),
    ):
        capsys.readouterr()
        assert main(["evaluate", *words]) == 2
        message = capsys.readouterr().err
        assert says in message
        assert message.count("\n") == 1


def test_a_run_made_with_objects_is_pointed_to_python(tmp_path):
    folder = launch(tmp_path, "model=relu_mlp", "epochs=1").folder
    with pytest.raises(UserError, match="made with objects of your own"):
        evaluate_run(folder, FEW)
