"""Every mistake is named with its repair."""

import warnings

import pytest
import torch
from contracts.attack import answers, generator, pictures, smooth_network
from torch import nn

from continual.robustness import FGSM, Adversarial, Target, linf

LABELS = torch.zeros(12, dtype=torch.long)


def attack(model=None, images=None, labels=LABELS, threat=None, own=None):
    model = model if model is not None else smooth_network()
    images = images if images is not None else pictures()
    return FGSM()(model, images, labels, threat if threat is not None else linf(0.1), own or generator())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"images": torch.zeros(12, 2, 2, 2, dtype=torch.uint8)}, TypeError, r"uint8; write images\.float\(\) / 255"),
        ({"images": pictures() + 0.5}, ValueError, r"box \[0, 1\], but sample \d+ .*normalisation into the model"),
        ({"images": pictures() * float("nan")}, ValueError, "must be finite; sample 0 holds NaN"),
        ({"images": pictures().numpy()}, TypeError, "got a ndarray; use torch.as_tensor"),
        ({"images": pictures()[:0]}, ValueError, "At least one image"),
        ({"labels": torch.zeros(12)}, TypeError, r"whole class numbers .* use labels\.long"),
        ({"labels": LABELS[:3]}, ValueError, r"must be \[12\], one for each image, got \[3\]"),
        ({"labels": LABELS + 5}, ValueError, r"in 0\.\.4, the classes of this head, but sample 0 has the label 5"),
        ({"labels": LABELS - 1}, ValueError, "has the label -1"),
        ({"threat": 0.1}, TypeError, r"A threat model is needed, got 0\.1; make one with linf"),
        ({"own": "seed"}, TypeError, r"A torch\.Generator on the CPU is needed, got 'seed'"),
        ({"model": 3}, TypeError, "A callable from images to logits is needed, got 3"),
        ({"model": lambda x: x.flatten(1)[:, :1]}, ValueError, r"at least 2 classes .* nothing to attack"),
        ({"model": lambda x: x.mean()}, ValueError, r"logits \[\d+, C\]"),
        ({"model": lambda x: x.flatten(1).argmax(1)}, TypeError, "floating-point tensor of logits"),
        ({"model": lambda x: x.flatten(1) / 0}, ValueError, "Logits must be finite"),
        ({"model": lambda x: x.flatten(1) * float("nan")}, ValueError, "Logits must be finite"),
        ({"model": Target(smooth_network(), classes=[3, 9])}, ValueError, r"rows of the head, below 5, got \[3, 9\]"),
        ({"model": Target(smooth_network(), classes=[1, 3])}, ValueError, r"active classes \[1, 3\], but sample 0"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        attack(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": [3, 1]}, r"different rows of the head, ascending, got \[3, 1\]"),
        ({"classes": [3]}, "at least 2 different rows"),
        ({"gradient_draws": 0}, "gradient_draws and decision_draws must be at least 1"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Target(smooth_network(), **arguments)


def test_probabilities_are_warned_of_with_the_evidence():
    model = nn.Sequential(smooth_network(), nn.Softmax(1))
    with pytest.warns(UserWarning, match=r"probabilities, not logits: over 12 samples the smallest output is .* leave"):
        attack(model)


def test_logits_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack()


def test_undeclared_randomness_is_refused_and_declared_randomness_taken():
    def noisy(x):
        return x.flatten(1)[:, :3] + torch.rand(len(x), 3)

    with pytest.raises(ValueError, match=r"differently from call to call \(logits move by up to"):
        attack(noisy)
    assert attack(Target(noisy, stochastic=True)).accuracy <= 1


def test_dropout_of_a_network_in_training_mode_is_no_randomness():
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(8, 3)).double().train()
    assert attack(model).clean_accuracy <= 1
    assert model[1].training


def test_logits_that_turn_infinite_during_the_attack_are_refused():
    start = pictures()

    def brittle(x):
        moved = (x - start[: len(x)]).abs().flatten(1).amax(1, keepdim=True) > 0.05
        return x.flatten(1)[:, :3] + torch.where(moved, torch.inf, 0.0)

    with pytest.raises(ValueError, match="NaN or infinite logits on images that an attack tried"):
        attack(brittle, start, start.flatten(1)[:, :3].argmax(1))


def test_a_box_of_another_range_is_taken_when_it_is_named():
    model, images = smooth_network(), pictures() * 2 - 1
    found = attack(lambda x: model((x + 1) / 2), images, threat=linf(0.1, -1.0, 1.0))
    assert float(found.images.min()) < 0


def test_saved_images_are_scored_again_with_the_same_answer(tmp_path):
    model, images = smooth_network(dtype=torch.float32), pictures(dtype=torch.float32)
    labels = answers(model, images)
    found = attack(model, images, labels, linf(0.2))
    assert 0 < found.accuracy < 1
    kept = Adversarial.load(found.save(tmp_path / "deep" / "found.safetensors"))
    for field in ("images", "origin", "labels", "predictions", "clean_predictions"):
        assert torch.equal(getattr(kept, field), getattr(found, field))
    assert (kept.threat, kept.attack, kept.cost) == (found.threat, found.attack, found.cost)
    assert torch.equal(answers(model, kept.images), kept.predictions)
    assert kept.accuracy == found.accuracy


def test_a_file_of_something_else_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"images": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"holds no adversarial images; Adversarial\.save writes"):
        Adversarial.load(tmp_path / "other.safetensors")
