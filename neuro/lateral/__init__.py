"""Lateral circuits: subspaces that learn what tasks use, and projections that keep learning out of them."""

from neuro.lateral.freezing import (
    HeadRows,
    freeze_statistics,
    freeze_unprotected,
    last_linear,
    unprotected_parameters,
)
from neuro.lateral.guard import ProjectsRows, WeightGuard, linear_in_gradient
from neuro.lateral.learning import Eigen, Hebbian, HebbianAccumulated, Learned, SubspaceLearning, leading_rows
from neuro.lateral.moments import BatchMean, EveryRow, Moment, RowSource, second_moments
from neuro.lateral.projection import (
    AnyProjector,
    DenseProjector,
    LateralSpikes,
    Projector,
    SoftProjector,
    SpikingProjector,
    projected_weight_gradient,
    smaller_projector,
)
from neuro.lateral.protect import Protection, protect
from neuro.lateral.sizes import EnergyShare, ListedSizes, NoRows, Place, Sizes
from neuro.lateral.subspace import Consolidation, LateralSubspace
from neuro.lateral.taps import (
    WeightSite,
    evaluating,
    modules_of,
    presynaptic_inputs,
    readable_sites,
    tapped,
    weight_sites,
)
from neuro.lateral.thresholds import GrowingShare, ReleasedCount

__all__ = [
    "AnyProjector",
    "BatchMean",
    "Consolidation",
    "DenseProjector",
    "Eigen",
    "EnergyShare",
    "EveryRow",
    "GrowingShare",
    "HeadRows",
    "Hebbian",
    "HebbianAccumulated",
    "LateralSpikes",
    "LateralSubspace",
    "Learned",
    "ListedSizes",
    "Moment",
    "NoRows",
    "Place",
    "Projector",
    "ProjectsRows",
    "Protection",
    "ReleasedCount",
    "RowSource",
    "Sizes",
    "SoftProjector",
    "SpikingProjector",
    "SubspaceLearning",
    "WeightGuard",
    "WeightSite",
    "evaluating",
    "freeze_statistics",
    "freeze_unprotected",
    "last_linear",
    "leading_rows",
    "linear_in_gradient",
    "modules_of",
    "presynaptic_inputs",
    "projected_weight_gradient",
    "protect",
    "readable_sites",
    "second_moments",
    "smaller_projector",
    "tapped",
    "unprotected_parameters",
    "weight_sites",
]
