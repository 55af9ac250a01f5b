"""Objectives, one a file: what is minimised."""

from continual.objectives.adversarial import Adversarial
from continual.objectives.cross_entropy import CrossEntropy, masked_logits
from continual.objectives.gaussian import Gaussian
from continual.objectives.macer import MACER
from continual.objectives.objective import Objective, begin_epoch, check_input_gradient, cost_of
from continual.objectives.self_training import SelfTraining
from continual.objectives.smooth_adversarial import SmoothAdversarial
from continual.objectives.stability import Stability
from continual.objectives.trades import TRADES
from continual.objectives.unlabelled import PASS, UAT

__all__ = [
    "MACER",
    "PASS",
    "TRADES",
    "UAT",
    "Adversarial",
    "CrossEntropy",
    "Gaussian",
    "Objective",
    "SelfTraining",
    "SmoothAdversarial",
    "Stability",
    "begin_epoch",
    "check_input_gradient",
    "cost_of",
    "masked_logits",
]
