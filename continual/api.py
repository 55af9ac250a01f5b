"""The Python twin of the command: `run` a sequence, `load` what it left.

    import continual
    result = continual.run(["scenario.num_tasks=3", "epochs=1"], strategy=my_strategy, tasks=my_tasks, model=my_module)
    model = continual.load(result.folder, task=0)
"""

import json
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from continual.batches import as_tensors
from continual.checkpoint import FORMAT_VERSION, read_checkpoint, write_atomically
from continual.config import RunConfig, build
from continual.data import Dataset
from continual.errors import UserError
from continual.evaluation import Scores, part_of
from continual.metrics import AccuracyMatrices, summarise
from continual.progress import Silent
from continual.records import Records
from continual.run_folder import open_folder, read_config
from continual.runner import Parts, run_sequence, score
from continual.scenarios import TaskSequence
from continual.seeding import derive_seed, seeded
from continual.state import RunState, conditions
from continual.strategies import Setting
from neuro.lateral import last_linear
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


def run(
    overrides: Sequence[str] = (),
    *,
    tasks: TaskSequence | None = None,
    data: Dataset | None = None,
    model: nn.Module | None = None,
    strategy: Any = None,
    progress: Silent | None = None,
    **settings: Any,
) -> Result:
    """Run one strategy over a sequence of tasks.

    Args:
        overrides: as on the command line, on top of the default configuration.
        tasks: your own sequence, in place of data and scenario.
        data: your own data set, in place of the configured one.
        model: your own network; it is trained in place.
        strategy: your own object, or the name of a configured strategy.
        progress: is told what happens; silent by default.
        settings: any further key of `RunConfig`, such as epochs=3 or output="here".

    Returns:
        The finished run; a run that is already there is read, one that was interrupted goes on.

    Raises:
        UserError: if something does not fit, before anything is trained.
        Diverged: if the loss stops being finite.
    """
    from continual.compose import compose  # Hydra stays out of a script that never asks for a configuration

    chosen = [f"strategy={strategy}"] if isinstance(strategy, str) else []
    description = compose([*overrides, *chosen])
    description |= settings
    own: dict[str, Any] = {"scenario": tasks, "data": data, "model": model}
    own["strategy"] = None if isinstance(strategy, str) else strategy
    return run_config(description, {key: part for key, part in own.items() if part is not None}, progress)


def run_config(description: dict[str, Any], own: dict[str, Any] | None = None, progress: Silent | None = None) -> Result:
    """Run what a resolved configuration describes.

    Args:
        description: plain data, one key per field of `RunConfig`.
        own: objects that take the place of described parts.
        progress: is told what happens.
    """
    own, progress = own or {}, progress or Silent()
    config = RunConfig.from_dict(description | own)
    described = {entry.name: getattr(config, entry.name) for entry in fields(config)}
    described |= {key: describe(part) for key, part in own.items()}
    parts = make_parts(config)
    folder = open_folder(described, config.overwrite)
    if (folder / "metrics.json").exists():
        return read_result(folder)
    state, records = resume(parts, config, folder)
    progress.start_run(parts.strategy.name, len(parts.sequence.tasks), steps_per_task(parts))
    run_sequence(parts, state, folder, records, progress)
    progress.end_run()
    return finish(parts, state, folder, records)


def make_parts(config: RunConfig) -> Parts:
    """Build every part of a run and attach the strategy.

    Raises:
        UserError: if a part does not fit.
    """
    allow = config.allow
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    torch.set_flush_denormal(True)  # fading gradients are full of denormals, which are some ten times slower
    sequence = config.scenario
    if not isinstance(sequence, TaskSequence):
        data = build(config.data, "data", allow)
        sequence = build(config.scenario, "scenario", allow, dataset=data)
    with seeded(config.seed, "init"):
        shape = {"input_shape": sequence.input_shape, "num_classes": sequence.num_classes}
        model = build(config.model, "model", allow, **(shape if isinstance(config.model, dict) else {}))
    model = model.to(device_of(config.device), getattr(torch, config.dtype))
    strategy, rule = build(config.strategy, "strategy", allow), build(config.rule, "rule", allow)
    head = config.head if config.head is not None else last_linear(model)
    try:
        rule.check(model)
        for task in sequence.tasks:
            part_of(task, config.evaluate_on)
        strategy.attach(Setting(model, head, sequence, config.seed))
    except ValueError as problem:
        raise UserError(str(problem)) from problem
    if strategy.needs_task_id_in_test and sequence.mode != "task":
        raise UserError(f"{strategy.name} needs the task's number at test time, which mode={sequence.mode} withholds.")
    schedule = config.schedule
    return Parts(
        model,
        sequence,
        strategy,
        rule,
        build(config.objective, "objective", allow),
        lambda parameters: build(config.optimizer, "optimizer", allow, params=parameters),
        None if schedule is None else lambda optimizer: build(schedule, "schedule", allow, optimizer=optimizer),
        config.epochs,
        config.batch_size,
        config.seed,
        config.evaluate_on,
    )


def resume(parts: Parts, config: RunConfig, folder: Path) -> tuple[RunState, Records]:
    """Take up a run at its last task boundary, or start it.

    Raises:
        UserError: if the checkpoint was written under conditions that round differently.
    """
    checkpoint = read_checkpoint(folder / "checkpoint")
    if checkpoint is None:
        records = Records(folder / "records.jsonl")
        records.write("run_start", **describe_run(parts, config))
        return RunState.fresh(len(parts.sequence.tasks), score(parts, None)), records
    now = conditions(parts.model)
    changed = [f"{key} was {then}, is {now[key]}" for key, then in checkpoint.conditions.items() if now[key] != then]
    if changed and config.resume != "force":
        raise UserError(
            f"The run in {folder} was begun under conditions that round differently ({'; '.join(changed)}); "
            f"restore them, go on with resume=force, or start over with overwrite=true."
        )
    parts.model.load_state_dict(checkpoint.model)
    parts.strategy.load_state_dict(checkpoint.strategy)
    state = RunState.from_json(checkpoint.tasks_done, checkpoint.progress)
    return state, Records(folder / "records.jsonl", checkpoint.progress["records_length"])


def finish(parts: Parts, state: RunState, folder: Path, records: Records) -> Result:
    """Write matrices, metrics and an example of activity; then the report."""
    from continual.reports import write_report  # matplotlib is slow to import; a run needs it at its end only

    matrices = state.matrices(parts.sequence, parts.part)
    matrices.save(folder / "accuracy_matrix.npz")
    save_activity(parts, folder / "activity.npz")
    seconds = {f"seconds_{phase}": value for phase, value in state.seconds.items()}
    records.write("run_end", seconds=sum(state.seconds.values()))
    ended = [json.loads(line) for line in records.path.read_text().splitlines() if '"event": "task_end"' in line]
    layers = ended[-1]["layers"]
    metrics = {
        "format_version": FORMAT_VERSION,
        "strategy": parts.strategy.name,
        "mode": parts.sequence.mode,
        "evaluated_on": parts.part,
        "num_tasks": len(parts.sequence.tasks),
        **summarise(matrices, parts.sequence.mode),
        "synaptic_operations": sum(layer["synaptic_operations"] for layer in layers),
        "macs": sum(layer["macs"] for layer in layers),
        "learning_operations": parts.strategy.operations,
        "stored_bytes": parts.strategy.stored_bytes,
        **seconds,
        "seconds": sum(state.seconds.values()),
    }
    write_atomically(folder / "metrics.json", json.dumps(metrics, indent=1).encode())
    write_report(folder)
    return Result(folder, matrices, metrics, parts.model)


def read_result(folder: Path) -> Result:
    """Read a finished run."""
    metrics = json.loads((folder / "metrics.json").read_text())
    return Result(folder, AccuracyMatrices.load(folder / "accuracy_matrix.npz"), metrics, None)


def load(run_folder: str | Path, task: int | None = None, model: nn.Module | None = None) -> nn.Module:
    """Give back the network of a run as it was after a task.

    Args:
        run_folder: of the run.
        task: 0-based; None for the last one that is there.
        model: the network to fill, where the run was made with an object of your own.

    Returns:
        The network in evaluation mode, on the CPU.

    Raises:
        UserError: if the folder is not a run, has no such task, or was made with an object.
    """
    folder = Path(run_folder)
    config = RunConfig.from_dict(read_config(folder))
    saved = sorted((folder / "weights").glob("task_*.safetensors"))
    if not saved or (task is not None and not 0 <= task < len(saved)):
        raise UserError(f"{folder} holds the weights of {len(saved)} tasks (0 to {len(saved) - 1}), not of task {task}.")
    weights = load_file(saved[-1 if task is None else task])
    if model is None:
        model = _rebuild(config, folder)
    model.load_state_dict(weights)
    return model.eval()


def _rebuild(config: RunConfig, folder: Path) -> nn.Module:
    if "object" in config.model or "object" in config.scenario or "object" in (config.data or {}):
        raise UserError(f"The run in {folder} was made with objects of your own; pass the network: load(run, model=...).")
    sequence = build(config.scenario, "scenario", config.allow, dataset=build(config.data, "data", config.allow))
    shape = {"input_shape": sequence.input_shape, "num_classes": sequence.num_classes}
    return build(config.model, "model", config.allow, **shape)


def describe(part: Any) -> dict[str, Any]:
    """Describe an object of the user's so that two different ones have two run folders."""
    described: dict[str, Any] = {"object": f"{type(part).__module__}.{type(part).__qualname__}"}
    if isinstance(part, TaskSequence | Dataset):
        described |= {"name": part.name, "checksum": part.checksum}
    elif isinstance(part, nn.Module):
        total = sum(float(tensor.double().abs().sum()) for tensor in part.state_dict().values())
        described |= {"shape": str(part), "weights": total.hex()}
    else:
        described |= {key: repr(value) for key, value in sorted(vars(part).items()) if not key.startswith("_")}
    return described


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
        "num_tasks": len(parts.sequence.tasks),
        "task_names": [task.name for task in parts.sequence.tasks],
        "parameters": sum(parameter.numel() for parameter in parts.model.parameters()),
        "steps_per_task": steps_per_task(parts),
        "conditions": conditions(parts.model),
    }


def steps_per_task(parts: Parts) -> int:
    """Count the optimiser steps of the first task."""
    return parts.epochs * -(-len(parts.sequence.tasks[0].train) // parts.batch_size)


def device_of(name: str) -> torch.device:
    """Check that a device is there.

    Raises:
        UserError: if it is not, listing what is.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        there = ["cpu"] + ([str(torch.accelerator.current_accelerator())] if torch.accelerator.is_available() else [])
        raise UserError(f"device={name} is not available here; choose from {', '.join(there)}.") from problem
    return device


def save_activity(parts: Parts, path: Path) -> None:
    """Keep the spikes of one held-out sample of the first task, for the raster."""
    spiking = [name for name, neuron in neuron_layers(parts.model).items() if neuron.is_spiking]
    if not spiking:
        return
    split = part_of(parts.sequence.tasks[0], parts.part)
    reference = next(parts.model.parameters())
    inputs, targets = as_tensors(split.select(np.array([0])), reference.device, reference.dtype)  # pyright: ignore[reportAttributeAccessIssue]
    parts.model.eval()
    with torch.no_grad(), seeded(derive_seed(parts.seed, "raster")), record(parts.model, spiking) as probe:
        parts.model(inputs)
    arrays = {f"spikes/{name}": spikes[:, 0].flatten(1).to(torch.uint8).cpu().numpy() for name, spikes in probe.spikes.items()}
    picture = inputs[0].float().cpu().numpy()
    arrays |= {"image": picture.reshape(picture.shape[-2:]) if picture.ndim >= 2 and picture.size == picture.shape[-1] * picture.shape[-2] else np.atleast_2d(picture.reshape(-1))}
    np.savez(path, **arrays, label=int(targets[0]))


__all__ = ["Result", "Scores", "load", "run"]
