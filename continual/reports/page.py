"""One page about one run: what it measured, what it cost, and how every number is defined.

The page is written from the files of the run folder alone and stands alone: figures are inside it, there is no script
and nothing is loaded from anywhere. Backward transfer is never shown without learning accuracy beside it; operations
are counts first, energy an estimate from them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from continual.metrics import forgetting_per_task, own_matrix

from . import markup
from .accuracy_figures import accuracy_heatmap, accuracy_over_time
from .atomic_file import write_atomically
from .confusion_figure import confusion_figure
from .cost_section import cost_section
from .formatting import MISSING, count, duration, formatter, percent, points
from .glossary import title_of
from .layer_figures import layer_activity
from .markup import Illustration, Tile
from .raster_figure import spike_raster
from .reference_section import reference_section
from .robust_section import robust_section
from .run_folder import RunFolder, read_run
from .training_figure import training_curves
from .within_figure import accuracy_within_tasks

_LAYER_COLUMNS = (
    "layer",
    "firing rate",
    "silent",
    "saturated",
    "synaptic operations",
    "MACs",
    "rank",
    "width",
    "share",
    "captured energy",
)
_LAYER_CAPTION = "Operations per test sample; silent and saturated: share of neurons that never, or always, spike."
_NOT_NUMBERS = ("undefined", "mode", "strategy", "format_version", "num_tasks", "verified", "published_source")


def write_report(run_folder: Path) -> Path:
    """Write ``figures/*.png`` and ``report.html`` into a run folder.

    Args:
        run_folder: With ``config.yaml``, ``records.jsonl``, ``accuracy_matrix.npz``, ``metrics.json`` and, for spiking
            networks, ``activity.npz``.

    Returns:
        The path of ``report.html``.

    Raises:
        ValueError: When a needed file is missing or damaged.
    """
    run = read_run(Path(run_folder))
    body = "\n".join(_sections(run, markup.pictures(illustrations(run), run.path / "figures")))
    html = markup.page(f"{run.strategy} on {run.scenario}", _lead(run), body)
    return write_atomically(run.path / "report.html", html.encode("utf-8"))


def illustrations(run: RunFolder) -> list[Illustration]:
    """List the figures of a run in the order of the page.

    Args:
        run: The run.

    Returns:
        Figures to draw; one draws None where the run recorded nothing for it.
    """
    R, names, activity, confusion = run.accuracies, run.task_names, run.activity, run.confusion
    found = [
        Illustration(
            "accuracy_matrix",
            lambda theme: accuracy_heatmap(R, names, theme, run.baseline),
            "Read down a column to see a task fade; outlined: just learnt. Percent correct; hatched: not measured.",
            f"Accuracy on each of {len(R)} tasks after training on each; the numbers are in a table below.",
            wide=False,
        ),
        Illustration(
            "accuracy_over_time",
            lambda theme: accuracy_over_time(R, names, theme),
            "A falling thin line is a task being forgotten; the bold line is the mean over the tasks seen so far.",
            f"Accuracy of each task over the sequence; the mean ends at {percent(run.metrics.get('acc_final'))}.",
            wide=False,
        ),
        Illustration(
            "accuracy_within_tasks",
            lambda theme: accuracy_within_tasks(R, run.within, own_matrix(run.mode), names, theme),
            "Bands are tasks, dots their ends. A curve that dips early in a band and comes back is the stability gap.",
            f"Accuracy of each task at {len(run.within)} evaluations within tasks and at their ends.",
        ),
        Illustration(
            "layer_activity",
            lambda theme: layer_activity(run.task_ends, theme),
            "A rate near zero is a silent layer; a row near full rank has little room left to learn in.",
            "Firing rate of each layer and rank of each protected subspace over tasks; the last are tabled below.",
        ),
        Illustration(
            "training_curves",
            lambda theme: training_curves(run.epochs, theme),
            "Each stretch is one task: a loss that stays high is a task that was not learnt in the first place.",
            f"Training loss and accuracy over {len(run.epochs)} epochs with the boundaries between tasks.",
        ),
    ]
    if activity is not None:
        caption = "Every tick is a spike caused by the image at the left: rows are neurons, time runs to the right."
        alternative = f"Spike raster of {len(activity.spikes)} hidden layers for one test image."
        found.insert(
            -1, Illustration("spike_raster", lambda theme: spike_raster(activity, theme), caption, alternative)
        )
    if confusion is not None:
        caption = "After the last task: numbers are counts of test samples, shades their share of the row."
        alternative = "Which class, and which task's classes, the network answers with, by what was true."
        drawn = Illustration("confusion", lambda theme: confusion_figure(confusion, names, theme), caption, alternative)
        found.insert(3, drawn)
    return found


def _lead(run: RunFolder) -> str:
    seed = MISSING if run.seed is None else str(run.seed)
    judged = {
        "task": "the task of a test sample is given",
        "domain": "one set of classes for all tasks",
        "class": "the task of a test sample is not given",
    }[run.mode]
    tasks = "1 task" if run.matrices.num_tasks == 1 else f"{run.matrices.num_tasks} tasks"
    state = "" if run.end else " · not finished"
    return f"{tasks} · mode {run.mode} ({judged}) · seed {seed} · {run.path.resolve().name}{state}"


def _sections(run: RunFolder, figures: str) -> Iterator[str]:
    """Yield the parts of the page from top to bottom."""
    metrics = run.metrics
    yield f'<section aria-label="Headline numbers">{markup.tiles(_tiles(metrics))}</section>'
    yield markup.section("What happened", figures)
    yield markup.section("Tasks", _task_table(run))
    layers = _layer_rows(run)
    if layers:
        yield markup.section("Layers, after the last task", markup.table(_LAYER_COLUMNS, layers, _LAYER_CAPTION))
    yield markup.section("Robustness", robust_section(run))
    yield markup.section("Against what was published", _published(metrics))
    yield markup.section("Against reference runs", reference_section(run))
    yield markup.section("Cost", cost_section(run))
    yield markup.section("Every number", markup.details("All metrics of this run", _all_metrics(metrics)))
    printed = [*metrics, *("intransigence", "plasticity") * bool(run.references)]
    printed = [name.removesuffix("_task_aware").removesuffix("_task_agnostic") for name in printed]
    extra = ["rate"] * bool(layers) + ["rank", "captured_energy"] * any(row[6] != MISSING for row in layers)
    yield markup.section("What the numbers mean", markup.glossary([*printed, *extra, "task_aware"]))
    yield markup.section("How to repeat it", _provenance(run))


def _tiles(metrics: Mapping[str, Any]) -> list[Tile]:
    def reason(name: str, otherwise: str) -> str:
        return str((metrics.get("undefined") or {}).get(name, otherwise))

    return [
        Tile(
            (("final accuracy", percent(metrics.get("acc_final"))),),
            reason("acc_final", "mean over tasks, at the end"),
        ),
        Tile(
            (
                ("learning accuracy", percent(metrics.get("acc_learning"))),
                ("backward transfer", points(metrics.get("bwt"))),
            ),
            reason("bwt", "just learnt, and what later tasks did to it (points)"),
        ),
        Tile((("forgetting", points(metrics.get("forgetting"))),), reason("forgetting", "points below the best")),
        Tile((("synaptic operations", count(metrics.get("synaptic_operations"))),), "per test sample, mean"),
        Tile((("time", duration(metrics.get("seconds"))),), "of the whole run"),
    ]


def _task_table(run: RunFolder) -> str:
    R = run.accuracies
    learnt, last = np.diagonal(R), R[-1]
    fading = [*forgetting_per_task(R), None]
    rows = [
        (
            f"{j + 1}  {name}",
            str(run.matrices.counts[j]),
            percent(run.baseline[j]),
            percent(learnt[j]),
            percent(last[j]),
            points(last[j] - learnt[j]) if j < len(R) - 1 else MISSING,
            points(fading[j]),
            percent(run.matrices.task_aware[-1, j]),
            percent(run.matrices.task_agnostic[-1, j]),
        )
        for j, name in enumerate(run.task_names)
    ]
    head = ("task", "test samples", "untrained", "just learnt", "at the end", "change", "forgetting")
    head = (*head, "end, task aware", "end, task agnostic")
    matrix = markup.table(
        ("after task", *(str(j + 1) for j in range(len(R)))),
        [("none", *map(percent, run.baseline)), *((str(i + 1), *map(percent, row)) for i, row in enumerate(R))],
        "Accuracy on each task (columns) after training on each (rows).",
    )
    caption = "Accuracy on test data; change and forgetting in percentage points."
    return markup.table(head, rows, caption) + markup.details("The accuracy matrix as a table", matrix)


def _layer_rows(run: RunFolder) -> list[tuple[str, ...]]:
    """Join the last records of layers and of subspaces by name."""
    if not run.task_ends:
        return []
    last = run.task_ends[-1]
    layers = {str(entry["name"]): entry for entry in last.get("layers") or ()}
    subspaces = {str(entry["name"]): entry for entry in last.get("subspaces") or ()}
    rows = []
    for name in dict.fromkeys([*layers, *subspaces]):
        layer, subspace = layers.get(name, {}), subspaces.get(name, {})
        rank, width = subspace.get("rank"), subspace.get("width")
        rows.append(
            (
                name,
                percent(layer.get("rate"), 2),
                percent(layer.get("silent")),
                percent(layer.get("saturated")),
                count(layer.get("synaptic_operations")),
                count(layer.get("macs")),
                MISSING if rank is None else str(rank),
                MISSING if width is None else str(width),
                percent(rank / width) if rank is not None and width else MISSING,
                percent(subspace.get("captured_energy"), 2),
            )
        )
    return rows


def _all_metrics(metrics: Mapping[str, Any]) -> str:
    undefined = metrics.get("undefined") or {}
    rows = []
    for name, value in metrics.items():
        if name in _NOT_NUMBERS:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        shown = formatter(name)(value) if is_number or value is None else str(value)
        rows.append((name, title_of(name), str(undefined.get(name, "")), "" if value is None else str(value), shown))
    head = ("name in metrics.json", "what", "undefined because", "value", "rounded")
    return markup.table(head, rows, "Contents of metrics.json.", text_columns=3)


def _published(metrics: Mapping[str, Any]) -> str:
    """Set a preset's run beside the number it is to reproduce; empty for any other run."""
    if "verified" not in metrics:
        return ""
    rows = [
        ("published", f"{metrics['published_acc_final']:.2f}", f"{metrics['published_bwt']:+.2f}"),
        ("this run", percent(metrics.get("acc_final")), points(metrics.get("bwt"))),
    ]
    says = "verified by this run" if metrics["verified"] else f"not verified: {metrics.get('unverified_because')}"
    caption = f"{metrics['published_source']}; percent and points. One run stands beside a mean of several."
    return markup.table(("result", "final accuracy", "backward transfer"), rows, caption) + markup.note(f"{says}.")


def _labels(run: RunFolder) -> str:
    """Say which row of the head each label of the data became."""
    mapping = run.start.get("labels")
    if not isinstance(mapping, list):
        return ""
    rows = [
        (f"{index + 1}  {name}", ", ".join(f"{label} → {row}" for label, row in (labels or {}).items()))
        for index, (name, labels) in enumerate(zip(run.task_names, mapping, strict=False))
    ]
    return markup.details(
        "Labels and rows of the head",
        markup.table(("task", "label in the data → row"), rows, "As recorded at the start.", text_columns=2),
    )


def _provenance(run: RunFolder) -> str:
    known = ("event", "versions", "conditions", "task_names", "labels")
    facts = [(key, str(value)) for key, value in run.start.items() if key not in known]
    machine = [
        (str(name), str(value))
        for group in ("versions", "conditions")
        for name, value in (run.start.get(group) or {}).items()
    ]
    versions = markup.table(("what", "version or setting"), machine, "As recorded at the start.", text_columns=2)
    return _labels(run) + "".join(
        (
            markup.details("Resolved configuration", markup.preformatted(run.config_text)),
            markup.details(
                "The run", markup.table(("field", "value"), facts, "As recorded at its start.", text_columns=2)
            ),
            markup.details(
                "Versions and machine", versions if machine else markup.paragraph("The run recorded neither.")
            ),
        )
    )
