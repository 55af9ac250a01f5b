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
from continual.robustness.guard import left_as_found, networks_behind
from continual.robustness.losses import DLR, CrossEntropyLoss, Margin, TargetedDLR, TargetedMargin
from continual.robustness.norms import L2, LInfinity, Norm
from continual.robustness.oracle import Oracle
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
    "Boundary",
    "CarliniWagner",
    "Cost",
    "CrossEntropyLoss",
    "LInfinity",
    "Margin",
    "Norm",
    "Oracle",
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
    "WorstCase",
    "l2",
    "left_as_found",
    "linf",
    "networks_behind",
    "over_surrogates",
    "randomised",
    "standard",
    "surrogate_family",
]
