"""Attacks: each a frozen dataclass, called with a network, images, labels, a threat and a generator."""

from continual.robustness.attacks.apgd import APGD, TargetedAPGD, checkpoints
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.boundary import Boundary
from continual.robustness.attacks.cw import CarliniWagner
from continual.robustness.attacks.ensemble import WorstCase, randomised, standard
from continual.robustness.attacks.fab import FAB
from continual.robustness.attacks.fgsm import FGSM
from continual.robustness.attacks.mi_fgsm import MIFGSM
from continual.robustness.attacks.noise import RandomNoise
from continual.robustness.attacks.pgd import PGD
from continual.robustness.attacks.square import Square
from continual.robustness.attacks.surrogates import (
    StraightThrough,
    Surrogated,
    ThroughRates,
    over_surrogates,
    spiking_standard,
    surrogate_family,
)
from continual.robustness.attacks.transfer import Transfer

__all__ = [
    "APGD",
    "FAB",
    "FGSM",
    "MIFGSM",
    "PGD",
    "Attack",
    "Boundary",
    "CarliniWagner",
    "RandomNoise",
    "Square",
    "StraightThrough",
    "Surrogated",
    "TargetedAPGD",
    "ThroughRates",
    "Transfer",
    "WorstCase",
    "checkpoints",
    "over_surrogates",
    "randomised",
    "spiking_standard",
    "standard",
    "surrogate_family",
]
