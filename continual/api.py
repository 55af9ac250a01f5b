"""The Python twin of the command: `run` a sequence, `load` what it left.

import continual
result = continual.run(["scenario.num_tasks=3", "epochs=1"], strategy=my_strategy, tasks=my_tasks, model=my_module)
model = continual.load(result.folder, task=0)
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from continual.assembly import make_model, make_parts
from continual.checkpoint import read_checkpoint
from continual.config import RunConfig
from continual.data import Dataset
from continual.errors import UserError
from continual.outcome import Result, describe_run, finish, read_result
from continual.progress import Silent
from continual.records import Records
from continual.run_folder import open_folder, read_config
from continual.runner import Parts, run_sequence, score, steps_per_task
from continual.scenarios import TaskSequence
from continual.state import RunState, conditions


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
        DivergedError: if the loss stops being finite.
    """
    from continual.compose import compose  # Hydra stays out of a script that never asks for a configuration

    chosen = [f"strategy={strategy}"] if isinstance(strategy, str) else []
    description = compose([*overrides, *chosen]) | settings
    own: dict[str, Any] = {"scenario": tasks, "data": data, "model": model}
    own["strategy"] = None if isinstance(strategy, str) else strategy
    if tasks is not None:
        description["data"] = None
    return run_config(description, {key: part for key, part in own.items() if part is not None}, progress)


def run_config(
    description: dict[str, Any], own: dict[str, Any] | None = None, progress: Silent | None = None
) -> Result:
    """Run what a resolved configuration describes.

    Args:
        description: plain data, one key per field of `RunConfig`.
        own: objects that take the place of described parts.
        progress: is told what happens.
    """
    own, progress = own or {}, progress or Silent()
    config = RunConfig.from_dict(description | own)
    described = config.as_dict() | {key: describe(part) for key, part in own.items()}
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
    parts.model.load_state_dict(checkpoint.model)
    parts.strategy.load_state_dict(checkpoint.strategy)
    state = RunState.from_json(checkpoint.tasks_done, checkpoint.progress)
    return state, Records(folder / "records.jsonl", checkpoint.progress["records_length"])


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
        model = make_model(config, begun["input_shape"], begun["num_classes"])
    model.load_state_dict(weights)
    return model.eval()


def describe(part: Any) -> dict[str, Any]:
    """Describe an object of the user's so that two different ones have two run folders."""
    described: dict[str, Any] = {"object": f"{type(part).__module__}.{type(part).__qualname__}"}
    if isinstance(part, TaskSequence | Dataset):
        described |= {"name": part.name, "checksum": part.checksum}
    elif isinstance(part, nn.Module):
        weights = b"".join(tensor.cpu().numpy().tobytes() for tensor in part.state_dict().values())
        described |= {"shape": str(part), "weights": hashlib.sha256(weights).hexdigest()}
    else:
        described |= {key: repr(value) for key, value in sorted(vars(part).items()) if not key.startswith("_")}
    return described
