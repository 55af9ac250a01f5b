"""One page about several runs: strategies beside each other, seeds averaged with their interval, costs in sight.

A mean over at least two seeds carries a 95 % t-interval; one seed carries none and says so. Where a strategy ran the
same seeds as the naive one, the differences are taken seed by seed.
"""

from collections.abc import Sequence
from pathlib import Path

from . import markup
from .atomic_file import write_atomically
from .comparison_figures import heatmaps_side_by_side, mean_accuracy_overlay
from .formatting import MISSING, count, with_interval
from .glossary import title_of
from .grouping import BASELINE_STRATEGY, Group, differing, read_groups, settings
from .markup import Illustration

QUALITY = (
    "acc_final",
    "acc_learning",
    "bwt",
    "forgetting",
    "fwt",
    "acc_final_weighted",
    "acc_inc_avg_taskmean",
    "acc_inc_avg_weighted",
)
COST = (
    "synaptic_operations",
    "macs",
    "learning_operations",
    "stored_bytes",
    "seconds_train",
    "seconds_consolidate",
    "seconds",
)
PAIRED = ("acc_final", "acc_learning", "bwt", "forgetting", "acc_inc_avg_taskmean")


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
    figures = []
    for illustration in illustrations(groups):
        drawn = markup.picture(illustration)
        if drawn is not None:
            html, png = drawn
            write_atomically(target.parent / "figures" / f"{illustration.name}.png", png)
            figures.append(html)
    first = groups[0].runs[0]
    parts = [
        markup.section("Quality", _quality(groups)),
        markup.section("What happened", f'<div class="figures">{"".join(figures)}</div>'),
        markup.section(f"Difference to {BASELINE_STRATEGY}, seed by seed", _paired(groups)),
        markup.section("Cost", _cost(groups)),
        markup.section("In what the runs differ", _settings(groups)),
        markup.section("What the numbers mean", markup.glossary([*QUALITY, *COST, "interval", "paired_difference"])),
        markup.section("Runs", _runs(groups)),
    ]
    num_runs = sum(len(group.runs) for group in groups)
    tasks = "1 task" if first.matrices.num_tasks == 1 else f"{first.matrices.num_tasks} tasks"
    lead = f"{tasks} · mode {first.mode} · {num_runs} runs of {len(groups)} strategies or settings"
    title = f"{', '.join(dict.fromkeys(group.strategy for group in groups))} on {first.scenario}"
    return write_atomically(target, markup.page(title, lead, "\n".join(parts)).encode("utf-8"))


def illustrations(groups: Sequence[Group]) -> list[Illustration]:
    """List the figures of a comparison.

    Args:
        groups: At least one.

    Returns:
        Figures to draw.
    """
    matrices = {group.name: group.matrices for group in groups}
    names = groups[0].runs[0].task_names
    listed = ", ".join(f"{group.name} {with_interval('acc_final', group.interval('acc_final'))}" for group in groups)
    return [
        Illustration(
            "comparison_mean_accuracy",
            lambda theme: mean_accuracy_overlay(matrices, theme),
            "Higher is better; bands: 95 % t-interval over seeds; dotted line: a strategy measured only at the end.",
            f"Mean accuracy over tasks seen per strategy; final accuracy: {listed}.",
        ),
        Illustration(
            "comparison_matrices",
            lambda theme: heatmaps_side_by_side(matrices, names, theme),
            "Mean over seeds, in percent: rows are after each task, columns the tasks tested; hatched: not measured.",
            "Accuracy matrix of every strategy side by side.",
        ),
    ]


def _quality(groups: Sequence[Group]) -> str:
    shown = [metric for metric in QUALITY if any(_is_there(group, metric) for group in groups)]
    rows = [
        (group.name, str(len(group.runs)), *(_bare(with_interval(metric, group.interval(metric))) for metric in shown))
        for group in groups
    ]
    warning = ""
    caption = "Percent, transfer and forgetting in points: mean over seeds ± half width of the 95 % t-interval."
    if any(len(group.runs) < 2 for group in groups):
        warning = markup.note("A row of one seed has no interval: small differences to it mean nothing.")
    return markup.table(("strategy", "seeds", *map(title_of, shown)), rows, caption) + warning


def _bare(text: str) -> str:
    """Leave out a unit that the caption gives for the whole table."""
    return text.replace("\u00a0%", "")


def _is_there(group: Group, metric: str) -> bool:
    return any(run.metrics.get(metric) is not None for run in group.runs)


def _paired(groups: Sequence[Group]) -> str:
    baselines = [group for group in groups if group.strategy == BASELINE_STRATEGY]
    others = [group for group in groups if group.strategy != BASELINE_STRATEGY]
    if len(baselines) != 1 or not others:
        found = "none" if not baselines else f"{len(baselines)} groups of it" if others else "nothing beside it"
        return markup.paragraph(
            f"Needs one group of runs of {BASELINE_STRATEGY} and another strategy; there is {found}."
        )
    rows = []
    for group in others:
        differences = [group.difference(metric, baselines[0]) for metric in PAIRED]
        pairs = next((difference.num_values for difference in differences if difference), 0)
        cells = (
            # A difference of accuracies is in points, whatever the accuracies themselves are printed in.
            MISSING if difference is None else with_interval("bwt", difference)
            for difference in differences
        )
        rows.append((group.name, str(pairs), *cells))
    caption = (
        f"Strategy less {BASELINE_STRATEGY} on the seeds both ran, in percentage points, with the 95 % t-interval."
    )
    return markup.table(("strategy", "common seeds", *map(title_of, PAIRED)), rows, caption)


def _cost(groups: Sequence[Group]) -> str:
    shown = [metric for metric in COST if any(_is_there(group, metric) for group in groups)]
    rows = []
    for group in groups:
        epochs = sum(len(run.epochs) for run in group.runs) / len(group.runs)
        rows.append((group.name, count(epochs), *(with_interval(metric, group.interval(metric)) for metric in shown)))
    note = (
        "This is the budget of each side. Whether and on which data hyper-parameters were tuned is not in the run "
        "folders: say so when you quote these numbers."
    )
    caption = "Epochs over all tasks; operations per test sample (learning: whole run); bytes kept; wall time."
    return markup.table(("strategy", "epochs", *map(title_of, shown)), rows, caption) + markup.note(note)


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
    rows = [(run.path.resolve().name, group.name, str(run.seed)) for group in groups for run in group.runs]
    return markup.details("Folders", markup.table(("folder", "strategy", "seed"), rows, "What was compared.", 3))
