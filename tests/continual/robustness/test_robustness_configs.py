"""What the configurations describe can be run."""

from dataclasses import replace

import pytest
import torch
import yaml
from contracts.attack import answers, generator

from continual.compose import choices, config_folder
from continual.config import build
from continual.robustness import Evaluation, RobustnessReport, spiking_standard
from neuro.models import spiking_mlp


def described(choice):
    return build(yaml.safe_load((config_folder() / "robustness" / f"{choice}.yaml").read_text()), "robustness")


def small(part):
    """The same attack with as little work as it can do."""
    less = {"steps": 2, "queries": 5, "draws": 2, "searches": 2, "starts": 3, "noise_draws": 2, "num_targets": 1}
    changed = {name: number for name, number in less.items() if hasattr(part, name)}
    if hasattr(part, "attack"):
        changed["attack"] = small(part.attack)
    return replace(part, **changed)


ATTACKING = [choice for choice in choices("robustness") if choice != "smoothing"]
"""Smoothing certifies and attacks nothing; test_smoothing_report builds and runs it."""


@pytest.mark.parametrize("choice", ATTACKING)
def test_every_configuration_builds_and_runs_small(choice):
    evaluation = described(choice)
    assert isinstance(evaluation, Evaluation)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = spiking_mlp((8,), 4, [12], time_steps=3)
    images = torch.rand(20, 8, generator=generator())
    attacks = [small(attack) for attack in evaluation.attacks or spiking_standard()[:1]]
    battery = small(evaluation.battery) if evaluation.battery else None
    report = replace(evaluation, attacks=attacks, battery=battery, num_samples=6)(
        model, (images, answers(model, images))
    )
    assert isinstance(report, RobustnessReport)
    assert len(report.adversarial.labels) == 6
    assert len(report.rows) == len(attacks)
    assert (report.verdict is None) == (battery is None)
    assert len(report.curve) == 2 + len(evaluation.epsilons)


def test_an_evaluation_refuses_no_samples():
    with pytest.raises(ValueError, match="num_samples must be a whole number of at least 1, got 0"):
        replace(described("pgd20"), num_samples=0)
