"""Defects that users reported of other tools, and that are not to be found here; those with a home in a contract or in
another file of this folder are not repeated."""

import numpy as np
import pytest
import torch
from contracts.attack import answers, generator, pictures, smooth_network
from torch import nn

from continual.robustness import (
    FGSM,
    PGD,
    Adversarial,
    CarliniWagner,
    Margin,
    Target,
    WorstCase,
    l2,
    linf,
    predict,
    rescore,
)
from neuro.models import Normalise


def test_inputs_that_were_normalised_outside_the_model_are_refused_and_inside_they_are_fine():
    """There the ball was silently several times too large."""
    model, images = smooth_network(), pictures()
    labels = answers(model, images)
    normalised = (images - 0.5) / 0.25
    with pytest.raises(ValueError, match="put the normalisation into the model"):
        PGD()(model, normalised, labels, linf(0.1), generator())
    inside = nn.Sequential(Normalise(0.5, 0.25), model)
    found = PGD(steps=5, restarts=1)(inside, images, labels, linf(0.1), generator())
    assert float((found.images - images).abs().max()) <= 0.1 * (1 + 1e-6)


def test_rounding_of_a_normalisation_that_was_undone_is_not_refused():
    images = torch.zeros(4, 2, 2, 2) - 3e-8
    model = smooth_network(dtype=torch.float32)
    found = FGSM()(model, images, torch.zeros(4, dtype=torch.long), linf(0.1), generator())
    assert float(found.images.min()) >= 0
    with pytest.raises(ValueError, match="box"):
        FGSM()(model, images - 1e-5, torch.zeros(4, dtype=torch.long), linf(0.1), generator())


def test_several_attacks_are_not_averaged():
    model, images = smooth_network(), pictures(40)
    labels = answers(model, images)
    members = [FGSM(), FGSM(loss=Margin()), FGSM(loss=lambda z, y: z[:, 0])]
    alone = [member(model, images, labels, linf(0.1), generator()) for member in members]
    worst = WorstCase(members)(model, images, labels, linf(0.1), generator())
    mean = float(np.mean([found.accuracy for found in alone]))
    assert worst.accuracy < mean, "a test in which the mean is the minimum shows nothing"
    assert worst.accuracy == float((~torch.stack([found.success for found in alone]).any(0)).double().mean())


def test_a_lucky_draw_of_a_stochastic_defence_is_not_a_success():
    """Right 8 times of 10 whatever the image is: over many draws no attack has done anything."""

    def defence(x):
        right = (torch.rand(len(x)) < 0.8).to(x.dtype)
        return torch.stack([right, 1 - right], 1) * 4 - 1 + 0 * x.flatten(1)[:, :2]

    images, labels = pictures(50), torch.zeros(50, dtype=torch.long)
    found = PGD(steps=20)(Target(defence, stochastic=True, decision_draws=51), images, labels, linf(0.1), generator())
    assert found.accuracy == 1


def test_every_success_is_wrong_when_it_is_asked_again_and_nothing_else_is():
    model, images = smooth_network(dtype=torch.float32), pictures(30, dtype=torch.float32)
    labels = answers(model, images)
    for attack in (PGD(steps=5), CarliniWagner(steps=30, searches=3, learning_rate=0.05)):
        found = attack(model, images, labels, l2(0.4), generator())
        assert torch.equal(found.success, predict(model, found.images) != labels)
        assert rescore(model, found) == found.accuracy


def test_one_object_is_given_back_and_it_keeps_the_budget():
    """Where raw, clipped and success came as three, taking the first ignored the radius."""
    model, images = smooth_network(), pictures()
    found = CarliniWagner(steps=20, searches=2)(model, images, answers(model, images), l2(1e-3), generator())
    assert isinstance(found, Adversarial)
    assert float(found.lengths.max()) <= 1e-3 * (1 + 1e-6)


def test_an_attack_with_a_budget_spends_it():
    """A minimal perturbation is what a minimal attack is for; gradient ascent goes to the edge of the ball."""
    model, images = smooth_network(), 0.3 + 0.4 * pictures()
    found = FGSM()(model, images, answers(model, images), linf(0.02), generator())
    torch.testing.assert_close(found.lengths, torch.full((12,), 0.02, dtype=torch.float64), rtol=1e-9, atol=0)


def test_probabilities_weaken_the_attack_which_is_why_they_are_warned_of():
    model, images = smooth_network(), pictures(40)
    with torch.no_grad():
        model[3].weight.mul_(3)
    labels = answers(model, images)
    soft = nn.Sequential(model, nn.Softmax(1))
    plain = PGD(steps=5, restarts=1)(model, images, labels, linf(0.08), generator())
    with pytest.warns(UserWarning, match="probabilities, not logits"):
        weak = PGD(steps=5, restarts=1)(soft, images, labels, linf(0.08), generator())
    assert plain.cost.zero_gradients == 0
    assert weak.accuracy >= plain.accuracy


def test_nothing_is_quantised_on_the_way_to_the_disk(tmp_path):
    model = smooth_network()
    images = torch.full((1, 2, 2, 2), 0.999, dtype=torch.float64)
    found = FGSM()(model, images, answers(model, images), linf(1e-4), generator())
    assert torch.equal(Adversarial.load(found.save(tmp_path / "a")).images, found.images)
    assert found.images.dtype == torch.float64


def test_the_margin_of_negative_logits_is_not_zero():
    logits = torch.tensor([[-5.0, -7.0, -9.0]])
    assert float(Margin()(logits, torch.tensor([0]))) == -2


def test_carlini_and_wagner_stop_for_each_sample_alone():
    """An easy neighbour does not end the search for a hard one."""
    model, images = smooth_network(), pictures(8)
    labels = answers(model, images)
    attack = CarliniWagner(steps=30, searches=4, learning_rate=0.05)
    together = attack(model, images, labels, l2(2.0), generator())
    for sample in range(8):
        alone = attack(model, images[sample : sample + 1], labels[sample : sample + 1], l2(2.0), generator())
        torch.testing.assert_close(alone.lengths, together.lengths[sample : sample + 1], rtol=1e-6, atol=1e-9)
