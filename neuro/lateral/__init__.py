"""Lateral circuits: subspaces that learn what tasks use, and projections that keep learning out of them."""

from neuro.lateral.learning import Eigen, Hebbian, HebbianAccumulated, Learned, SubspaceLearning
from neuro.lateral.projection import (
    AnyProjector,
    LateralSpikes,
    Projector,
    SpikingProjector,
    projected_weight_gradient,
)
from neuro.lateral.protect import HeadRows, Protection, freeze_unprotected, last_linear, linear_in_gradient, protect
from neuro.lateral.sizes import EnergyShare, ListedSizes, NoRows, Sizes
from neuro.lateral.subspace import Consolidation, LateralSubspace
from neuro.lateral.taps import WeightSite, evaluating, modules_of, readable_sites, tapped, weight_sites

__all__ = [
    "AnyProjector",
    "Consolidation",
    "Eigen",
    "EnergyShare",
    "HeadRows",
    "Hebbian",
    "HebbianAccumulated",
    "LateralSpikes",
    "LateralSubspace",
    "Learned",
    "ListedSizes",
    "NoRows",
    "Projector",
    "Protection",
    "Sizes",
    "SpikingProjector",
    "SubspaceLearning",
    "WeightSite",
    "evaluating",
    "freeze_unprotected",
    "last_linear",
    "linear_in_gradient",
    "modules_of",
    "projected_weight_gradient",
    "protect",
    "readable_sites",
    "tapped",
    "weight_sites",
]
