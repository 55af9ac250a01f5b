"""Randomised smoothing: predict, certify with a fixed sample or sequentially, and show what was found."""

from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.certificates import Certificates, Row, guaranteed_accuracy
from continual.robustness.smoothing.certify import certify
from continual.robustness.smoothing.clopper_pearson import clopper_pearson_lower, clopper_pearson_upper
from continual.robustness.smoothing.evaluation import Smoothing
from continual.robustness.smoothing.file import load_certificates, save_certificates
from continual.robustness.smoothing.goals import AboveRadii, AllDraws, Goal, WithinTolerance
from continual.robustness.smoothing.mixture import mixture_lower, mixture_upper, two_sided_lower
from continual.robustness.smoothing.predict import smoothed_predict
from continual.robustness.smoothing.report import CertificationReport
from continual.robustness.smoothing.rules import FixedSample, Looks, MixtureSequence, Rule

__all__ = [
    "AboveRadii",
    "AllDraws",
    "Budget",
    "Certificates",
    "CertificationReport",
    "FixedSample",
    "Goal",
    "Looks",
    "MixtureSequence",
    "Row",
    "Rule",
    "Smoothing",
    "WithinTolerance",
    "certify",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "guaranteed_accuracy",
    "load_certificates",
    "mixture_lower",
    "mixture_upper",
    "save_certificates",
    "smoothed_predict",
    "two_sided_lower",
]
