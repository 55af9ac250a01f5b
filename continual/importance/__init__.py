"""How much each parameter matters for what was learned: estimators of a weight per parameter."""

from continual.importance.batch_mean import BatchMeanLegacy
from continual.importance.estimator import Estimate, Importance, ScorePass, Weights, no_weights, precision_of
from continual.importance.fisher import Argmax, Empirical, Exact, Sampled
from continual.importance.outputs import OutputSensitivity

__all__ = [
    "Argmax",
    "BatchMeanLegacy",
    "Empirical",
    "Estimate",
    "Exact",
    "Importance",
    "OutputSensitivity",
    "Sampled",
    "ScorePass",
    "Weights",
    "no_weights",
    "precision_of",
]
