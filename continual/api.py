"""The Python twin of the command: `run` a sequence, `load` what it left.

import continual
result = continual.run(["scenario.num_tasks=3", "epochs=1"], strategy=my_strategy, tasks=my_tasks, model=my_module)
model = continual.load(result.folder, task=0)
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from continual.assembly import make_model, make_parts
from continual.checkpoint import read_checkpoint
from continual.config import RunConfig
from continual.data import Dataset
from continual.errors import UserError
from continual.numerics import numerics
from continual.outcome import Result, describe_run, finish, read_result
from continual.progress import Silent
from continual.records import Records
from continual.run_folder import open_folder, read_config
from continual.runner import Parts, run_sequence, score, steps_per_task
from continual.scenarios import Task, TaskSequence
from continual.state import RunState, conditions


def run(
    overrides: Sequence[str] = (),
    *,
    tasks: TaskSequence | Sequence[Task] | None = None,
    data: Dataset | None = None,
    model: nn.Module | None = None,
    strategy: Any = None,
    progress: Silent | None = None,
    **settings: Any,
) -> Result:
    """Run one strategy over a sequence of tasks.

    Args:
        overrides: as on the command line, on top of the default configuration.
        tasks: your own sequence, or a list of tasks, in place of data and scenario.
        data: your own data set, in place of the configured one.
        model: your own network; it is trained in place.
        strategy: your own object, or the name of a configured strategy.
        progress: is told what happens; silent by default.
        settings: any further key of `RunConfig`, such as epochs=3, output="here" or an objective of your own.

    Returns:
        The finished run; a run that is already there is read, one that was interrupted goes on.

    Raises:
        UserError: if something does not fit, before anything is trained.
        DivergedError: if the loss stops being finite.
    """
    from continual.compose import compose  # Hydra stays out of a script that never asks for a configuration

    chosen = [f"strategy={strategy}"] if isinstance(strategy, str) else []
    description = compose([*overrides, *chosen]) | settings
    own = {"scenario": tasks, "data": data, "model": model, "strategy": None if chosen else strategy}
    description |= {key: part for key, part in own.items() if part is not None}
    if tasks is not None:
        description["scenario"], description["data"] = as_sequence(tasks), None
    return run_config(description, progress)


def run_config(description: dict[str, Any], progress: Silent | None = None) -> Result:
    """Run what a resolved configuration describes.

    Args:
        description: one key per field of `RunConfig`: plain data, or objects in place of described parts.
        progress: is told what happens.
    """
    progress = progress or Silent()
    config = RunConfig.from_dict(description)
    described = {key: describe(part) for key, part in config.as_dict().items()}
    with numerics(config.threads):
        parts = make_parts(config)
        folder = open_folder(described, config.overwrite)
        if (folder / "metrics.json").exists():
            return read_result(folder)
        state, records = resume(parts, config, folder)
        progress.start_run(parts.strategy.name, len(parts.sequence.tasks), steps_per_task(parts))
        run_sequence(parts, state, folder, records, progress)
        progress.end_run()
        return finish(parts, state, folder, records)


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
    path, known = folder / "records.jsonl", checkpoint.progress["records_length"]
    if not path.exists() or path.stat().st_size < known:
        raise UserError(f"{path} is shorter than its checkpoint knows (the records were cut); use overwrite=true.")
    parts.model.load_state_dict(checkpoint.model)
    parts.strategy.load_state_dict(checkpoint.strategy)
    state = RunState.from_json(checkpoint.tasks_done, checkpoint.progress)
    state.optimizer = checkpoint.optimizer
    return state, Records(path, known)


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
        raise UserError(
            f"{folder} holds the weights of {len(saved)} tasks (0 to {len(saved) - 1}), not of task {task}."
        )
    weights = load_file(saved[-1 if task is None else task])
    if model is None:
        if "object" in config.model:
            raise UserError(f"The run in {folder} was made with a network of your own; pass it: load(run, model=...).")
        begun = json.loads((folder / "records.jsonl").read_text().partition("\n")[0])
        model = make_model(config, begun["input_shape"], begun["num_classes"]).to(getattr(torch, config.dtype))
    model.load_state_dict(weights)
    return model.eval()


def as_sequence(tasks: TaskSequence | Sequence[Task]) -> TaskSequence:
    """Make a sequence of a list of tasks: in domain mode if all use the same rows of the head, else in task mode.

    Raises:
        UserError: if something else came.
    """
    if isinstance(tasks, TaskSequence):
        return tasks
    if not isinstance(tasks, list | tuple) or not all(isinstance(task, Task) for task in tasks) or not tasks:
        raise UserError(f"tasks must be a TaskSequence or a list of Task, got {tasks!r}.")
    rows = [set(task.classes) for task in tasks]
    mode = "domain" if all(other == rows[0] for other in rows) else "task"
    return TaskSequence("tasks", tuple(tasks), mode, max(set().union(*rows)) + 1)


def describe(part: Any) -> Any:
    """Describe a part as plain data, so that two different objects have two run folders and equal ones share one."""
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if isinstance(part, dict):
        return {key: describe(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [describe(value) for value in part]
    if isinstance(part, set | frozenset):
        return sorted((describe(value) for value in part), key=repr)
    kind = part if callable(part) and hasattr(part, "__qualname__") else type(part)
    described: dict[str, Any] = {"object": f"{kind.__module__}.{kind.__qualname__}"}
    if isinstance(part, TaskSequence | Dataset):
        return described | {"name": part.name, "checksum": part.checksum}
    if isinstance(part, nn.Module):
        return described | {"shape": str(part), "weights": _digest(part.state_dict().values())}
    if isinstance(part, Tensor | np.ndarray):
        return described | {"values": _digest([torch.as_tensor(part)])}
    if kind is part:
        return described
    attributes = getattr(part, "__dict__", {"value": repr(part)})
    return described | {key: describe(value) for key, value in sorted(attributes.items()) if not key.startswith("_")}


def _digest(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
