"""One call for a user's own network, and a report that can be checked."""

import json

import numpy as np
import pytest
import torch
from contracts.attack import answers, generator, norm_network, pictures, smooth_network

from continual.data import digits
from continual.robustness import (
    APGD,
    FAB,
    FGSM,
    Adversarial,
    Battery,
    Margin,
    Square,
    Target,
    WorstCase,
    evaluate,
    linf,
)
from neuro.models import cnn, spiking_mlp

ATTACKS = [FGSM(), APGD(steps=8, loss=Margin()), FAB(steps=5), Square(queries=30)]
THREAT = linf(0.08)


def small_report(**changes):
    model, images = smooth_network(), pictures(30)
    arguments = {"attacks": ATTACKS, "batch_size": 7, "seed": 3} | changes
    return model, images, evaluate(model, (images, answers(model, images)), THREAT, **arguments)


def test_robust_accuracy_is_that_of_the_stored_images_scored_again(tmp_path):
    model, _, report = small_report()
    kept = Adversarial.load(report.save(tmp_path / "out") / "adversarial.safetensors")
    rescored = float((answers(model, kept.images) == kept.labels).double().mean())
    assert report.robust_accuracy == rescored == kept.accuracy
    assert report.rows[-1].left == round(30 * report.robust_accuracy)


def test_batches_decide_nothing_and_the_worst_case_attack_is_the_same():
    model, images, report = small_report()
    _, _, whole = small_report(batch_size=30)
    assert torch.equal(report.adversarial.success, whole.adversarial.success)
    own = WorstCase(ATTACKS)(model, images, answers(model, images), THREAT, generator(3))
    assert torch.equal(own.success, report.adversarial.success)


def test_each_attack_sees_what_the_others_left():
    _, _, report = small_report()
    attacked = [row.attacked for row in report.rows]
    left = [row.left for row in report.rows]
    assert attacked == [30, *left[:-1]]
    assert left == sorted(left, reverse=True)
    assert report.rows[3].cost.backward_passes == 0
    assert report.adversarial.cost.forward_passes == sum(row.cost.forward_passes for row in report.rows)


def test_clean_errors_count_as_robust_errors():
    model, images = smooth_network(), pictures(20)
    labels = answers(model, images)
    labels[:5] = (labels[:5] + 1) % 5
    report = evaluate(model, (images, labels), linf(1e-9), [FGSM()])
    assert report.clean_accuracy == report.robust_accuracy == 0.75
    assert report.interval[0] < 0.75 < report.interval[1]


def test_the_curve_falls_and_holds_the_clean_accuracy_and_the_threat():
    _, _, report = small_report(epsilons=(0.02, 0.2, 0.08))
    assert [point.epsilon for point in report.curve] == [0.0, 0.02, 0.08, 0.2]
    accuracies = [point.accuracy for point in report.curve]
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] == report.clean_accuracy
    assert accuracies[2] == report.robust_accuracy


def test_radius_zero_is_the_clean_accuracy():
    model, images = smooth_network(), pictures(20)
    labels = answers(model, images)
    labels[:3] = (labels[:3] + 1) % 5
    report = evaluate(model, (images, labels), linf(0.0), ATTACKS)
    assert report.robust_accuracy == report.clean_accuracy == 0.85
    assert torch.equal(report.adversarial.images, images)
    assert len(report.curve) == 1


def test_the_network_comes_back_in_training_mode_with_its_statistics():
    model = norm_network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    images = torch.rand(9, 2, 2, 2, generator=generator())
    evaluate(model, (images, torch.zeros(9).long()), THREAT, ATTACKS, battery=Battery(3, 5, 3), batch_size=4)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_default_attacks_suit_the_head():
    model, images = smooth_network(2), pictures(3)
    report = evaluate(model, (images, answers(model, images)), linf(1.0))
    names = [row.attack.partition("(")[0] for row in report.rows]
    assert names == ["APGD", "TargetedAPGD", "FAB", "Square"]
    assert "TargetedMargin" in report.rows[1].attack


def test_arrays_splits_and_sliced_heads_are_taken():
    data = digits().test
    model = spiking_mlp((8, 8), 10, [12], time_steps=2)
    part = type(data)(data.inputs[:12], data.targets[:12])
    first = evaluate(model, part, linf(0.1), [FGSM()])
    second = evaluate(model, (part.inputs, part.targets), linf(0.1), [FGSM()])
    assert torch.equal(first.adversarial.images, second.adversarial.images)
    rows = [2, 5]
    labels = np.array(rows * 6)
    sliced = evaluate(Target(model, classes=rows), (part.inputs, labels), linf(0.1), [FGSM()])
    assert set(sliced.adversarial.predictions.tolist()) <= set(rows)
    assert torch.equal(sliced.adversarial.labels, torch.from_numpy(labels))


def test_spiking_networks_are_evaluated_twice_alike():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = cnn((1, 8, 8), 4, [4, 4], time_steps=3)
    images = torch.rand(8, 1, 8, 8, generator=generator())
    labels = answers(model.eval(), images)
    first, second = (evaluate(model.train(), (images, labels), linf(0.1), ATTACKS) for _ in range(2))
    assert torch.equal(first.adversarial.images, second.adversarial.images)
    assert first.robust_accuracy == second.robust_accuracy


def test_a_report_is_written_as_text_json_and_pictures(tmp_path):
    _, _, report = small_report(epsilons=(0.2,), battery=Battery(steps=20, queries=50, noise_draws=5))
    folder = report.save(tmp_path / "out")
    plain = json.loads((folder / "robustness.json").read_text())
    assert plain["robust_accuracy"] == report.robust_accuracy
    assert plain["threat"] == {"norm": "linf", "epsilon": 0.08, "lower": 0.0, "upper": 1.0}
    assert plain["attacks"][3]["cost"]["zero_gradients"] is None
    assert plain["verdict"]["status"] == report.verdict.status
    assert set(plain["versions"]) == {"palimpsest", "torch", "python"}
    pictured = {path.name: path.read_bytes()[:4] for path in (folder / "figures").iterdir()}
    assert pictured == dict.fromkeys(
        ("accuracy_against_epsilon.png", "attacks.png", "adversarial_images.png"), b"\x89PNG"
    )
    table = report.table()
    assert f"worst case {report.robust_accuracy:.3f}" in table
    assert "verdict: " in table
    assert all(row.attack[:20] in table for row in report.rows)


def test_a_report_without_a_battery_says_that_nothing_vouches_for_it():
    _, _, report = small_report()
    assert report.verdict is None
    assert "verdict: not asked" in report.table()
    assert report.as_dict()["verdict"] is None


def test_flat_inputs_have_a_report_without_pictures_of_them(tmp_path):
    model = smooth_network()
    images = torch.rand(6, 8, generator=generator(), dtype=torch.float64)
    folder = evaluate(model, (images, answers(model, images)), THREAT, [FGSM()]).save(tmp_path)
    assert not (folder / "figures" / "adversarial_images.png").exists()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            (torch.zeros(3, 2, 2, 2, dtype=torch.uint8), torch.zeros(3).long()),
            TypeError,
            r"write images\.float\(\) / 255",
        ),
        ((torch.full((3, 2, 2, 2), 2.0), torch.zeros(3).long()), ValueError, "box"),
        ((torch.zeros(3, 2, 2, 2), torch.zeros(2).long()), ValueError, "one for each image"),
        ((np.zeros((0, 2)), np.zeros(0, int)), ValueError, "At least one image"),
    ],
)
def test_bad_data_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        evaluate(smooth_network(), data, THREAT)
