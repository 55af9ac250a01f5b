"""What a run leaves: its first record, matrices, metrics, an example of activity, the report."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from continual.batches import as_tensors
from continual.checkpoint import FORMAT_VERSION, write_atomically
from continual.config import RunConfig
from continual.energy import constants_from, energy_report
from continual.errors import UserError
from continual.evaluation import part_of
from continual.metrics import AccuracyMatrices, Within, own_matrix, summarise, summarise_within
from continual.published import judged
from continual.records import Records
from continual.run_folder import read_config
from continual.runner import Parts, steps_per_task
from continual.seeding import apart
from continual.state import RunState, conditions
from neuro.probes import neuron_layers, record


class Result(NamedTuple):
    """A finished run.

    Attributes:
        folder: where everything is.
        matrices: accuracy after each task on each task.
        metrics: what `metrics.json` holds.
        model: the network after the last task; None if the run was finished before and only read.
    """

    folder: Path
    matrices: AccuracyMatrices
    metrics: dict[str, Any]
    model: nn.Module | None


def describe_run(parts: Parts, config: RunConfig) -> dict[str, Any]:
    """Give the first line of the records."""
    return {
        "format_version": FORMAT_VERSION,
        "strategy": parts.strategy.name,
        "experiment": config.name,
        "seed": config.seed,
        "mode": parts.sequence.mode,
        "scenario": parts.sequence.name,
        "data_checksum": parts.sequence.checksum,
        "input_shape": list(parts.sequence.input_shape),
        "num_classes": parts.sequence.num_classes,
        "num_tasks": len(parts.sequence.tasks),
        "task_names": [task.name for task in parts.sequence.tasks],
        "labels": [task.labels for task in parts.sequence.tasks],
        "boundaries": parts.sequence.boundaries,
        "order_seed": config.order_seed,
        "parameters": sum(parameter.numel() for parameter in parts.model.parameters()),
        "steps_per_task": steps_per_task(parts),
        "conditions": conditions(parts.model),
    }


def finish(parts: Parts, state: RunState, folder: Path, records: Records) -> Result:
    """Write matrices, metrics and an example of activity; then the report."""
    matrices = state.matrices(parts.sequence, parts.part)
    matrices.save(folder / "accuracy_matrix.npz")
    if state.robust.matrices:
        state.robust.save(folder / "robust_matrices.npz")
    save_activity(parts, folder / "activity.npz")
    costs = state.costs.summary()
    records.write("run_end", seconds=costs["seconds"])
    lines = [json.loads(line) for line in records.path.read_text().splitlines()]
    ended = [line for line in lines if line["event"] == "task_end"]
    layers = ended[-1]["layers"]
    operations = {key: sum(layer[key] for layer in layers) for key in ("synaptic_operations", "macs")}
    summary = summarise(matrices, parts.sequence.mode)
    inside = [line for line in lines if line["event"] == "within"]
    for key in ("task_aware", "task_agnostic"):
        suffix = "" if key == own_matrix(parts.sequence.mode) else f"_{key}"
        evaluations = [Within(line["task"], line[key]) for line in inside]
        found = summarise_within(getattr(matrices, key), evaluations)
        summary["undefined"] |= {name + suffix: reason for name, reason in found.pop("undefined").items()}
        summary |= {name + suffix: value for name, value in found.items()}
    summary["undefined"] |= state.costs.reasons()
    config = read_config(folder)
    summary |= against_published(config, summary)
    metrics = {
        "format_version": FORMAT_VERSION,
        "strategy": parts.strategy.name,
        "mode": parts.sequence.mode,
        "evaluated_on": parts.part,
        "num_tasks": len(parts.sequence.tasks),
        **summary,
        **state.robust.summary(),
        **operations,
        **energy_report(**operations, constants=constants_from(config["energy"])),
        "learning_operations": ended[-1]["learning_operations"],
        "stored_bytes": ended[-1]["stored_bytes"],
        **costs,
    }
    write_atomically(folder / "metrics.json", json.dumps(metrics, indent=1).encode())
    draw_report(folder)
    return Result(folder, matrices, metrics, parts.model)


def against_published(config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Compare with the number that the run's preset is to reproduce; nothing for a run of no preset."""
    if not config.get("published"):
        return {}
    from continual.compose import compose  # Hydra stays out of runs that need it not

    try:
        preset = compose([f"experiment={config['name']}"])
    except UserError:
        preset = {}
    return judged(config, preset, metrics)


def draw_report(folder: Path) -> None:
    """Write the page and figures of a finished run."""
    from continual import reports  # matplotlib is slow to import; a run needs it at its end only

    reports.write_report(folder)


def read_result(folder: Path) -> Result:
    """Read a finished run; its report is drawn if that was cut short."""
    if not (folder / "report.html").exists():
        draw_report(folder)
    metrics = json.loads((folder / "metrics.json").read_text())
    return Result(folder, AccuracyMatrices.load(folder / "accuracy_matrix.npz"), metrics, None)


def save_activity(parts: Parts, path: Path) -> None:
    """Keep the spikes of one held-out sample of the first task, for the raster."""
    spiking = [name for name, neuron in neuron_layers(parts.model).items() if neuron.is_spiking]
    if not spiking:
        return
    split = part_of(parts.sequence.tasks[0], parts.part)
    reference = next(parts.model.parameters())
    inputs, targets = as_tensors(split.select(np.array([0])), reference.device, reference.dtype)  # pyright: ignore[reportAttributeAccessIssue]
    parts.model.eval()
    with torch.no_grad(), apart(parts.model, parts.seed, "raster"), record(parts.model, spiking) as probe:
        parts.model(inputs)
    arrays = {
        f"spikes/{name}": spikes[:, 0].flatten(1).to(torch.uint8).cpu().numpy() for name, spikes in probe.spikes.items()
    }
    arrays["image"] = as_picture(inputs[0].float().cpu().numpy())
    np.savez(path, allow_pickle=False, label=int(targets[0]), **arrays)


def as_picture(sample: np.ndarray) -> np.ndarray:
    """Give a sample as [H, W]: an image's channels averaged, anything flat as one row."""
    return sample.reshape(-1, *sample.shape[-2:]).mean(0) if sample.ndim >= 2 else sample.reshape(1, -1)
