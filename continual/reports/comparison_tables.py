"""What a comparison says in numbers, as plain tables that a page, Markdown and LaTeX print alike.

A mean over at least two runs (seeds times orders) carries the half width of its 95 % t-interval, one run carries none.
Differences are taken pair by pair on equal seeds, so that what a seed makes easy or hard for both sides drops out.
Backward transfer never stands without learning accuracy beside it: a network that learns nothing forgets nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .formatting import MISSING, count, with_interval
from .glossary import title_of
from .grouping import BASELINE_STRATEGY, Group

QUALITY = (
    "acc_final",
    "acc_learning",
    "bwt",
    "forgetting",
    "fwt",
    "intransigence",
    "plasticity",
    "wc_acc",
    "stability_gap",
    "acc_final_weighted",
    "acc_inc_avg_taskmean",
    "acc_inc_avg_weighted",
)
COST = (
    "synaptic_operations",
    "macs",
    "energy_joules_estimate",
    "learning_operations",
    "stored_bytes",
    "peak_bytes_train",
    "samples_seen",
    "optimizer_steps",
    "forward_passes",
    "backward_passes",
    "seconds_train",
    "seconds_consolidate",
    "seconds",
)
PAIRED = ("acc_final", "acc_learning", "bwt", "forgetting", "acc_inc_avg_taskmean")


class Tabular(NamedTuple):
    """A table of finished text.

    Attributes:
        head: Titles of the columns.
        rows: Cells; the first of each row is its title.
        caption: What it holds, in which unit.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str


def quality(groups: Sequence[Group]) -> Tabular:
    """Table accuracies, transfer and forgetting.

    Args:
        groups: At least one.

    Returns:
        One row a group; a metric that no run has is left out.
    """
    shown = [metric for metric in QUALITY if any(group.has(metric) for group in groups)]
    if "bwt" in shown and "acc_learning" not in shown:
        shown.insert(shown.index("bwt"), "acc_learning")
    rows = (
        (group.name, str(len(group.runs)), *(_bare(with_interval(metric, group.interval(metric))) for metric in shown))
        for group in groups
    )
    caption = (
        "Percent; transfer, forgetting, intransigence, plasticity and gaps in points: mean over the runs (seeds × "
        "orders of tasks) ± half width of the 95 % t-interval."
    )
    return Tabular(("strategy", "runs", *map(title_of, shown)), tuple(rows), caption)


def to_baseline(groups: Sequence[Group]) -> Tabular | None:
    """Table what each strategy gains over the unprotected network, pair by pair.

    Args:
        groups: At least one.

    Returns:
        One row a strategy; None unless there is one group of the naive strategy and another one.
    """
    baselines = [group for group in groups if group.strategy == BASELINE_STRATEGY]
    others = [group for group in groups if group.strategy != BASELINE_STRATEGY]
    if len(baselines) != 1 or not others:
        return None
    rows = []
    for group in others:
        differences = [group.difference(metric, baselines[0]) for metric in PAIRED]
        pairs = next((difference.num_values for difference in differences if difference), 0)
        # A difference of accuracies is in points, whatever the accuracies themselves are printed in.
        cells = (MISSING if difference is None else with_interval("bwt", difference) for difference in differences)
        rows.append((group.name, str(pairs), *cells))
    caption = (
        f"Strategy less {BASELINE_STRATEGY} on the seeds both ran, in percentage points, with the 95 % t-interval; "
        "one that holds zero does not tell the two apart."
    )
    return Tabular(("strategy", "pairs", *map(title_of, PAIRED)), tuple(rows), caption)


def each_to_each(groups: Sequence[Group], metric: str = "acc_final") -> Tabular:
    """Table the paired difference between every two groups.

    Args:
        groups: At least one.
        metric: As in ``metrics.json``, a share in [0, 1].

    Returns:
        One row and one column a group.
    """

    def cell(row: Group, column: Group) -> str:
        difference = None if row is column else row.difference(metric, column)
        return MISSING if difference is None else with_interval("bwt", difference)

    caption = (
        f"{title_of(metric).capitalize()}: row less column on equal seeds, in points, with the 95 % t-interval of each "
        f"pair alone; among many pairs some intervals miss zero by chance (one in twenty)."
    )
    rows = tuple((row.name, *(cell(row, column) for column in groups)) for row in groups)
    return Tabular(("row less column", *(group.name for group in groups)), rows, caption)


def cost(groups: Sequence[Group]) -> Tabular:
    """Table the budget of each side.

    Args:
        groups: At least one.

    Returns:
        One row a group; a cost that no run recorded is left out.
    """
    shown = [metric for metric in COST if any(group.has(metric) for group in groups)]
    rows = []
    for group in groups:
        epochs = sum(len(run.epochs) for run in group.runs) / len(group.runs)
        rows.append((group.name, count(epochs), *(with_interval(metric, group.interval(metric)) for metric in shown)))
    caption = (
        "Epochs over all tasks; operations per test sample (learning: whole run), energy an estimate from them; bytes "
        "kept by the strategy; wall time."
    )
    return Tabular(("strategy", "epochs", *map(title_of, shown)), tuple(rows), caption)


def _bare(text: str) -> str:
    """Leave out a unit that the caption gives for the whole table."""
    return text.replace("\u00a0%", "")
