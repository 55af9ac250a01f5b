"""Robustness as matrices over the sequence: what is measured when, resumed, and asked of whom."""

import numpy as np
import pytest
import torch
from tiny_runs import StopBeforeTask, assert_same_run, launch, measured, records_of, weights_of

from continual.compose import compose
from continual.errors import UserError
from continual.robust_matrices import RobustMatrices, joined
from continual.robustness import PGD, Evaluation, FixedSample, Smoothing, linf, risks

PGD3 = Evaluation(linf(0.1), [PGD(3, restarts=1)], num_samples=30)
OTHER = Evaluation(linf(0.02), [PGD(3, restarts=1)], num_samples=30)
RELU = ("model=relu_mlp", "scenario.num_tasks=3", "epochs=2")


def matrices(folder):
    with np.load(folder / "robust_matrices.npz") as stored:
        return {name: stored[name] for name in stored.files}


def test_the_diagonal_and_the_last_row_are_measured_of_every_measurement(tmp_path):
    result = launch(tmp_path, *RELU, robustness={"pgd": PGD3, "weak": OTHER})
    found = matrices(result.folder)
    assert set(found) == {"robust_pgd", "stable_pgd", "robust_weak", "stable_weak"}
    wanted = np.eye(3, dtype=bool) | (np.arange(3) == 2)[:, None]
    for matrix in found.values():
        assert np.array_equal(np.isfinite(matrix), wanted)
    assert (found["robust_pgd"][wanted] <= found["robust_weak"][wanted]).all()
    assert (found["robust_pgd"][wanted] <= found["stable_pgd"][wanted]).all()
    matrix, metrics = found["robust_pgd"], measured(result.folder)
    assert metrics["robust_final_pgd"] == pytest.approx(matrix[2].mean())
    assert metrics["robust_bwt_pgd"] == pytest.approx(np.mean([matrix[2, j] - matrix[j, j] for j in range(2)]))


def test_all_tasks_so_far_are_measured_on_demand(tmp_path):
    result = launch(tmp_path, *RELU, robustness={"pgd": PGD3}, robustness_every_task=True)
    assert np.array_equal(np.isfinite(matrices(result.folder)["robust_pgd"]), np.tri(3, dtype=bool))


def test_measuring_moves_no_weight_and_no_accuracy(tmp_path):
    plain = launch(tmp_path / "plain", *RELU, "strategy=er")
    watched = launch(tmp_path / "watched", *RELU, "strategy=er", robustness={"pgd": PGD3})
    for one, other in zip(weights_of(plain.folder), weights_of(watched.folder), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert np.array_equal(plain.matrices.task_agnostic, watched.matrices.task_agnostic, equal_nan=True)
    assert "robustness" not in records_of(plain.folder)[-2]


def test_a_run_stopped_between_tasks_goes_on_with_the_same_matrices(tmp_path):
    settings = {"robustness": {"pgd": PGD3}, "robustness_every_task": True}
    whole = launch(tmp_path / "whole", *RELU, **settings)
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "cut", *RELU, progress=StopBeforeTask(2), **settings)
    cut = launch(tmp_path / "cut", *RELU, **settings)
    assert_same_run(whole.folder, cut.folder)
    one, other = matrices(whole.folder), matrices(cut.folder)
    assert all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


@pytest.mark.parametrize("mode", ["task", "class"])
def test_with_the_task_known_an_attack_stays_among_its_rows_and_else_reaches_all_seen(tmp_path, mode):
    seen = []

    class Watching:
        def measure(self, target, images, labels):
            seen.append((sorted(set(labels.tolist())), list(target.classes), tuple(target.ask(images[:2]).shape)))
            return {"robust": 0.5}

    split = ("scenario=split", f"scenario.mode={mode}", "scenario.num_tasks=5", "model=relu_mlp", "epochs=1")
    launch(tmp_path, *split, robustness={"watching": Watching()})
    for step, (own, rows, shape) in enumerate(seen[:5]):
        assert rows == (own if mode == "task" else list(range(2 * step + 2)))
        assert shape == (2, len(rows))
    assert len(seen) == 9


def test_a_spiking_network_with_a_random_encoder_is_asked_as_one_that_answers_at_random(tmp_path):
    seen = []

    class Watching:
        def measure(self, target, images, labels):
            seen.append(target.stochastic)
            return {"robust": 0.5}

    poisson = ("model.encoder._target_=neuro.encoding.Poisson", "model.normalise={_target_:neuro.models.Normalise}")
    launch(tmp_path / "poisson", "epochs=1", *poisson, robustness={"watching": Watching()})
    launch(tmp_path / "current", "epochs=1", robustness={"watching": Watching()})
    assert seen[:3] == [True] * 3
    assert seen[3:] == [False] * 3


def test_the_three_risks_obey_their_bounds_and_stability_asks_for_no_label():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    images, labels = torch.rand(200, 6), torch.randint(0, 3, (200,))
    evaluation = Evaluation(linf(0.2), [PGD(5, restarts=1)])
    found = risks(evaluation, model, images, labels)
    assert max(found.standard, found.stability) <= found.robust <= found.standard + found.stability + 1e-12
    other = risks(evaluation, model, images, (labels + 1) % 3)
    assert other.stability == found.stability
    assert other.standard != found.standard
    answers = model(images).argmax(1)
    assert risks(evaluation, model, images, answers).robust == found.stability
    assert found.standard == pytest.approx(float((answers != labels).double().mean()))
    both = evaluation(model, (images, labels))
    assert 1 - both.robust_accuracy == pytest.approx(found.robust, abs=0.01)


def test_certificates_are_matrices_too(tmp_path):
    smoothing = Smoothing(0.1, FixedSample(100), radii=(0.0, 0.05), n0=20, num_samples=20)
    result = launch(tmp_path, *RELU, "objective=gaussian", "objective.sigma=0.1", robustness={"smoothing": smoothing})
    found, metrics = matrices(result.folder), measured(result.folder)
    assert set(found) == {"certified_smoothing_r0", "certified_smoothing_r0.05", "acr_smoothing"}
    assert metrics["certified_final_smoothing_r0.05"] == pytest.approx(found["certified_smoothing_r0.05"][2].mean())
    assert metrics["certified_bwt_smoothing_r0"] is not None
    wanted = np.isfinite(found["acr_smoothing"])
    assert (found["certified_smoothing_r0.05"][wanted] <= found["certified_smoothing_r0"][wanted]).all()


def test_names_put_the_detail_last():
    assert joined("robust", "pgd20") == "robust_pgd20"
    assert joined("certified_r0.5", "smoothing") == "certified_smoothing_r0.5"


def test_matrices_survive_the_checkpoint():
    found = RobustMatrices(2)
    found.store(0, 0, "pgd", {"robust": 0.5})
    found.store(1, 1, "pgd", {"robust": 0.25, "stable": 0.75})
    again = RobustMatrices.from_json(2, found.as_json())
    assert all(np.array_equal(again.matrices[name], found.matrices[name], equal_nan=True) for name in found.matrices)
    assert found.summary() == {
        "robust_final_pgd": None, "robust_bwt_pgd": None, "stable_final_pgd": None, "stable_bwt_pgd": None
    }  # fmt: skip


def test_several_evaluations_are_chosen_by_name_on_the_command_line():
    found = compose(["robustness=[pgd20,spiking_linf]", "robustness.pgd20.num_samples=7"])["robustness"]
    assert set(found) == {"pgd20", "spiking_linf"}
    assert found["pgd20"]["num_samples"] == 7
    assert compose(["robustness=pgd20"])["robustness"].keys() == {"pgd20"}
    assert compose([])["robustness"] == {}
    with pytest.raises(UserError, match="There is no robustness 'pgd21'; did you mean 'pgd20'"):
        compose(["robustness=pgd21"])


@pytest.mark.parametrize("given", [3, {"pgd": 3}, {"pgd": linf(0.1)}])
def test_what_cannot_measure_is_refused(tmp_path, given):
    with pytest.raises(UserError, match="robustness"):
        launch(tmp_path, *RELU, robustness=given)
