"""Attacks and honest evaluation, for any callable from pixels to logits."""

from continual.robustness.adversarial import Adversarial, Cost
from continual.robustness.attacks import (
    APGD,
    FAB,
    FGSM,
    MIFGSM,
    PGD,
    Attack,
    Boundary,
    CarliniWagner,
    RandomNoise,
    Square,
    StraightThrough,
    Surrogated,
    TargetedAPGD,
    ThroughRates,
    Transfer,
    WorstCase,
    over_surrogates,
    randomised,
    standard,
    surrogate_family,
)
from continual.robustness.evaluate import evaluate
from continual.robustness.guard import left_as_found, networks_behind
from continual.robustness.losses import DLR, CrossEntropyLoss, Margin, TargetedDLR, TargetedMargin
from continual.robustness.norms import L2, LInfinity, Norm
from continual.robustness.oracle import Oracle
from continual.robustness.report import AttackRow, Point, RobustnessReport
from continual.robustness.sanity import Battery, Check, Verdict
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Target
from continual.robustness.threat import ThreatModel, l2, linf

__all__ = [
    "APGD",
    "DLR",
    "FAB",
    "FGSM",
    "L2",
    "MIFGSM",
    "PGD",
    "Adversarial",
    "Attack",
    "AttackRow",
    "Battery",
    "Boundary",
    "CarliniWagner",
    "Check",
    "Cost",
    "CrossEntropyLoss",
    "LInfinity",
    "Margin",
    "Norm",
    "Oracle",
    "Point",
    "RandomNoise",
    "RobustnessReport",
    "SampleStreams",
    "Square",
    "StraightThrough",
    "Surrogated",
    "Target",
    "TargetedAPGD",
    "TargetedDLR",
    "TargetedMargin",
    "ThreatModel",
    "ThroughRates",
    "Transfer",
    "Verdict",
    "WorstCase",
    "evaluate",
    "l2",
    "left_as_found",
    "linf",
    "networks_behind",
    "over_surrogates",
    "randomised",
    "standard",
    "surrogate_family",
]
