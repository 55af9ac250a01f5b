"""Go on from a task boundary of a finished or interrupted run, with other values.

A fork shares its parent's history: weights, the strategy's state, measurements and records up to the task. It has a
folder of its own and names its parent in `parent`. With no value changed it ends as its parent did, to the bit. What
decides which tasks there are cannot be changed: the history would be that of other tasks.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from continual.api import run_config
from continual.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from continual.config import RunConfig, did_you_mean
from continual.errors import UserError
from continual.outcome import Result
from continual.progress import Silent
from continual.records import Records
from continual.run_folder import open_folder, read_config

TASKS = ("data", "scenario", "stream", "order_seed", "num_labelled", "num_unlabelled")
FIXED = (*TASKS, "model", "seed", "dtype", "parent")
"""Keys that the history depends on."""


def fork(run_folder: str | Path, task: int, overrides: Sequence[str] = (), progress: Silent | None = None) -> Result:
    """Go on from a run as it was after a task.

    Args:
        run_folder: of the run; it needs the checkpoint of that boundary, see `keep_checkpoints`.
        task: 0-based; the last task of the shared history.
        overrides: values such as optimizer.lr=0.05, of keys that the run has.
        progress: is told what happens.

    Returns:
        The finished fork; one that is already there is read, one that was interrupted goes on.

    Raises:
        UserError: if the boundary is not kept, or a value cannot be changed.
    """
    parent = Path(run_folder)
    description = changed(read_config(parent), overrides)
    if any("object" in (description[key] or {}) for key in ("scenario", "data", "model", "strategy")):
        raise UserError(f"The run in {parent} was made with objects of your own; a fork needs a described run.")
    saved = read_checkpoint(parent / "checkpoint", task + 1)
    if saved is None:
        raise UserError(
            f"{parent} keeps no checkpoint of the boundary after task {task}; run it with keep_checkpoints=all."
        )
    description["parent"] = {"run": parent.resolve().name, "task": task}
    RunConfig.from_dict(description)
    folder = open_folder(description, description["overwrite"])
    if not (folder / "records.jsonl").exists():
        share_history(parent, folder, saved, description["parent"])
    return run_config(description | {"overwrite": False}, progress)


def share_history(parent: Path, folder: Path, saved: Checkpoint, origin: dict[str, Any]) -> None:
    """Copy everything up to the boundary; the records end with an event that names the parent."""
    for number in range(saved.tasks_done):
        name = f"weights/task_{number:02d}.safetensors"
        shutil.copyfile(parent / name, folder / name)
    if (parent / "confusion.npz").exists():
        shutil.copyfile(parent / "confusion.npz", folder / "confusion.npz")
    shared = (parent / "records.jsonl").read_bytes()[: saved.progress["records_length"]]
    (folder / "records.jsonl").write_bytes(shared)
    records = Records(folder / "records.jsonl", len(shared))
    records.write("fork", parent=origin["run"], task=origin["task"])
    progress = saved.progress | {"records_length": records.length}
    write_checkpoint(folder / "checkpoint", saved._replace(progress=progress))


def changed(description: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Give a resolved configuration with other values.

    Raises:
        UserError: if an override is none, names no key, or a key that the history depends on.
    """
    found = json.loads(json.dumps(description))
    for override in overrides:
        path, equals, value = override.partition("=")
        *parents, last = path.split(".")
        node: Any = found
        for part in parents:
            node = node.get(part) if isinstance(node, dict) else None
        if not equals or not isinstance(node, dict) or last not in node:
            known = node if isinstance(node, dict) else found
            raise UserError(f"fork changes values of keys the run has, not {override!r}{did_you_mean(last, known)}.")
        if path.partition(".")[0] in FIXED:
            raise UserError(f"{path} decides what the shared history is, so a fork cannot change it; start a new run.")
        node[last] = yaml.safe_load(value)
    return found
