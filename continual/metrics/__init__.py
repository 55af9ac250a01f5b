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
from .within_tasks import Within, min_acc_within, stability_gap, summarise_within, wc_acc_within

__all__ = [
    "AccuracyMatrices",
    "Interval",
    "Mode",
    "References",
    "Within",
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
    "min_acc_within",
    "own_matrix",
    "paired_difference",
    "plasticity",
    "stability_gap",
    "summarise",
    "summarise_within",
    "transfer_independent",
    "wc_acc",
    "wc_acc_within",
    "with_references",
    "write_references",
]
