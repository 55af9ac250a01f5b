"""Accuracy matrices and every metric that is a function of them.

>>> from continual.metrics import bwt
>>> round(bwt([[0.9, 0.1], [0.7, 0.8]]), 3)
-0.2
"""

from .accuracy_matrix import AccuracyMatrices
from .references import References, with_references, write_references
from .statistics import Interval, mean_and_interval, paired_difference
from .summary import Mode, own_matrix, summarise
from .transfer import (
    acc_a,
    acc_final,
    acc_final_weighted,
    acc_inc_avg_taskmean,
    acc_inc_avg_weighted,
    acc_learning,
    bwt,
    forgetting,
    forgetting_per_task,
    fwt,
    intransigence,
    intransigence_per_task,
    mean_over_seen,
    min_acc,
    plasticity,
    transfer_independent,
    wc_acc,
)

__all__ = [
    "AccuracyMatrices",
    "Interval",
    "Mode",
    "References",
    "acc_a",
    "acc_final",
    "acc_final_weighted",
    "acc_inc_avg_taskmean",
    "acc_inc_avg_weighted",
    "acc_learning",
    "bwt",
    "forgetting",
    "forgetting_per_task",
    "fwt",
    "intransigence",
    "intransigence_per_task",
    "mean_and_interval",
    "mean_over_seen",
    "min_acc",
    "own_matrix",
    "paired_difference",
    "plasticity",
    "summarise",
    "transfer_independent",
    "wc_acc",
    "with_references",
    "write_references",
]
