"""One page about several runs: strategies beside each other, means over seeds and orders, intervals, costs in sight.

Grouping says which runs repeat each other (:mod:`.grouping`), the tables say what they measured
(:mod:`.comparison_tables`), the figures what happened on the way; this file puts them on one page.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import comparison_tables, markup
from .atomic_file import write_atomically
from .comparison_figures import heatmaps_side_by_side, mean_accuracy_overlay
from .comparison_tables import COST, QUALITY, Tabular
from .formatting import MISSING, data_size, percent, points, with_interval
from .grouping import BASELINE_STRATEGY, Group, differing, read_groups, seeds_of, settings
from .markup import Illustration
from .rank_figure import rank_growth, share_of_width
from .tradeoff_figures import Standing, tradeoffs


def compare(run_folders: Sequence[Path], output: Path) -> Path:
    """Write a comparison of finished runs that solved the same tasks.

    Args:
        run_folders: Of different strategies, settings or seeds.
        output: An ``.html`` file, or a folder that gets ``comparison.html``; figures go to ``figures`` beside it.

    Returns:
        The path of the page.

    Raises:
        ValueError: When a run is not finished, one is given twice, or the tasks differ; the sentence names the keys.
    """
    groups = read_groups(run_folders)
    output = Path(output)
    target = output if output.suffix == ".html" else output / "comparison.html"
    figures = markup.pictures(illustrations(groups), target.parent / "figures")
    first = groups[0].runs[0]
    parts = [
        markup.section("Quality", _table(comparison_tables.quality(groups)) + _warning(groups)),
        markup.section("What happened", figures),
        markup.section("Differences, seed by seed", _differences(groups)),
        markup.section("Cost", _cost(groups)),
        markup.section("In what the runs differ", _settings(groups)),
        markup.section("What the numbers mean", markup.glossary([*QUALITY, *COST, "interval", "paired_difference"])),
        markup.section("Runs", _runs(groups)),
    ]
    num_runs = sum(len(group.runs) for group in groups)
    tasks = "1 task" if first.matrices.num_tasks == 1 else f"{first.matrices.num_tasks} tasks"
    lead = f"{tasks} · mode {first.mode} · {num_runs} runs of {len(groups)} strategies or settings"
    title = f"{_listed([group.strategy for group in groups])} on {first.scenario}"
    return write_atomically(target, markup.page(title, lead, "\n".join(parts)).encode("utf-8"))


def illustrations(groups: Sequence[Group]) -> list[Illustration]:
    """List the figures of a comparison.

    Args:
        groups: At least one.

    Returns:
        Figures to draw; one draws None where the runs recorded nothing for it.
    """
    matrices = {group.name: group.matrices for group in groups}
    first = groups[0].runs[0]
    num_tasks = first.matrices.num_tasks
    standings = [
        Standing(group.name, *map(group.interval, ("acc_learning", "bwt", "acc_final", "stored_bytes")))
        for group in groups
    ]
    ranks = {group.name: np.array([share_of_width(run.task_ends, num_tasks) for run in group.runs]) for group in groups}
    finals = ", ".join(f"{group.name} {with_interval('acc_final', group.interval('acc_final'))}" for group in groups)
    placed = "; ".join(
        f"{standing.name}: learning {percent(standing.acc_learning.mean)}, backward {points(standing.bwt.mean)}, final "
        f"{percent(standing.acc_final.mean)}, stored {data_size(standing.stored_bytes.mean)}"
        for standing in standings
    )
    return [
        Illustration(
            "comparison_mean_accuracy",
            lambda theme: mean_accuracy_overlay(matrices, theme),
            "Higher is better; bands: 95 % t-interval over the runs; dotted line: a strategy measured only at the end.",
            f"Mean accuracy over tasks seen per strategy; final accuracy: {finals}.",
        ),
        Illustration(
            "comparison_tradeoffs",
            lambda theme: tradeoffs(standings, num_tasks, theme),
            "Left: to the right learns more, upwards forgets less. Right: upwards is better, to the left is cheaper. "
            "Crosses: 95 % t-interval over the runs.",
            f"Stability against plasticity, and accuracy against stored bytes. {placed}.",
        ),
        Illustration(
            "comparison_rank_growth",
            lambda theme: rank_growth(ranks, theme),
            "Ranks of all protected weights over their widths; what is left of 100 % is room to learn in.",
            "Protected share of the input directions over the tasks, for each strategy that protects a subspace.",
        ),
        Illustration(
            "comparison_matrices",
            lambda theme: heatmaps_side_by_side(matrices, first.task_names, theme),
            "Mean over the runs, in percent: rows are after each task, columns tasks tested; hatched: not measured.",
            "Accuracy matrix of every strategy side by side.",
        ),
    ]


def _listed(names: Sequence[str], most: int = 6) -> str:
    """List names once each, and count those beyond the first few."""
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(distinct[:most])
    return shown if len(distinct) <= most else f"{shown} and {len(distinct) - most} more"


def _table(content: Tabular) -> str:
    return markup.table(content.head, content.rows, content.caption)


def _warning(groups: Sequence[Group]) -> str:
    if all(len(group.runs) > 1 for group in groups):
        return ""
    return markup.note("A row of one run has no interval: small differences to it mean nothing.")


def _differences(groups: Sequence[Group]) -> str:
    gains = comparison_tables.to_baseline(groups)
    if gains is None:
        baselines = [group for group in groups if group.strategy == BASELINE_STRATEGY]
        found = (
            "none" if not baselines else f"{len(baselines)} groups of it" if len(groups) > 1 else "nothing beside it"
        )
        needs = f"Needs one group of runs of {BASELINE_STRATEGY} and another strategy; there is {found}."
        gained = markup.paragraph(needs)
    else:
        gained = _table(gains)
    if len(groups) < 2:
        return gained
    pairs = comparison_tables.each_to_each(groups)
    return gained + markup.details("Each strategy less each other, final accuracy", _table(pairs))


def _cost(groups: Sequence[Group]) -> str:
    note = (
        "This is the budget of each side. Whether and on which data hyper-parameters were tuned is not in the run "
        "folders: say so when you quote these numbers."
    )
    return _table(comparison_tables.cost(groups)) + markup.note(note)


def _settings(groups: Sequence[Group]) -> str:
    firsts = [group.runs[0] for group in groups]
    keys = [key for key in differing(firsts) if key != "strategy name"]
    if not keys:
        return markup.paragraph("In nothing but the strategy's name and the seed.")
    all_settings = [settings(run) for run in firsts]
    rows = [(key, *(one.get(key, MISSING) for one in all_settings)) for key in keys]
    head = ("setting", *(group.name for group in groups))
    return markup.table(head, rows, "Settings that are not the same in all rows, seeds apart.", text_columns=len(head))


def _runs(groups: Sequence[Group]) -> str:
    rows = [
        (
            run.path.resolve().name,
            group.name,
            ", ".join(f"{key or 'seed'} {seed.lstrip('0') or '0'}" for key, seed in seeds_of(run)),
        )
        for group in groups
        for run in group.runs
    ]
    return markup.details("Folders", markup.table(("folder", "strategy", "seeds"), rows, "What was compared.", 3))
