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
    spiking_standard,
    standard,
    surrogate_family,
)
from continual.robustness.corruptions import CORRUPTIONS, CorruptionReport, corrupt, corruption_accuracy
from continual.robustness.defective import Defects, independent_mask, make_defective, shared_mask
from continual.robustness.evaluate import Evaluation, evaluate
from continual.robustness.guard import left_as_found, networks_behind
from continual.robustness.losses import DLR, CrossEntropyLoss, Margin, TargetedDLR, TargetedMargin
from continual.robustness.norms import L2, LInfinity, Norm
from continual.robustness.oracle import Oracle
from continual.robustness.patch_shuffle import patch_shuffle, patch_shuffle_accuracy
from continual.robustness.report import AttackRow, Point, RobustnessReport
from continual.robustness.risks import Risks, risks
from continual.robustness.sanity import Battery, Check, Verdict
from continual.robustness.scoring import predict, rescore
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Target
from continual.robustness.threat import ThreatModel, l2, linf

__all__ = [
    "APGD",
    "CORRUPTIONS",
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
    "CorruptionReport",
    "Cost",
    "CrossEntropyLoss",
    "Defects",
    "Evaluation",
    "LInfinity",
    "Margin",
    "Norm",
    "Oracle",
    "Point",
    "RandomNoise",
    "Risks",
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
    "corrupt",
    "corruption_accuracy",
    "evaluate",
    "independent_mask",
    "l2",
    "left_as_found",
    "linf",
    "make_defective",
    "networks_behind",
    "over_surrogates",
    "patch_shuffle",
    "patch_shuffle_accuracy",
    "predict",
    "randomised",
    "rescore",
    "risks",
    "shared_mask",
    "spiking_standard",
    "standard",
    "surrogate_family",
]
