"""Checkpoints at task boundaries: atomic, verified, no pickle.

`checkpoint/` holds the tensors (safetensors) and `state.json`, which names the tensor file and its SHA-256. The JSON
is replaced last and atomically, so at every moment it points to a complete checkpoint. It also records what decides
bits (device, dtype, threads, torch); a resume under other conditions is refused unless it is forced.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load, save
from torch import Tensor

from continual.errors import UserError

FORMAT_VERSION = 1


class Checkpoint(NamedTuple):
    """Everything a resumed run needs.

    Attributes:
        tasks_done: tasks that are finished.
        model: the network's state dict.
        strategy: the strategy's state dict.
        progress: plain numbers: matrices, costs, length of the records.
        conditions: what decides bits.
        optimizer: what the optimiser remembers, tensors and plain numbers by name; empty where it is not kept.
    """

    tasks_done: int
    model: dict[str, Tensor]
    strategy: dict[str, Tensor]
    progress: dict[str, Any]
    conditions: dict[str, str]
    optimizer: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, keep: bool = False) -> None:
    """Write a checkpoint beside the old one, switch to it in one step, then drop the old one unless all are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"after_task_{checkpoint.tasks_done:02d}.safetensors"
    kept = {key: value for key, value in checkpoint.optimizer.items() if isinstance(value, Tensor)}
    parts = {"model": checkpoint.model, "strategy": checkpoint.strategy, "optimizer": kept}
    digest = write_tensors(folder / name, {k: t for prefix, part in parts.items() for k, t in _prefixed(prefix, part)})
    state = {
        "format_version": FORMAT_VERSION,
        "tasks_done": checkpoint.tasks_done,
        "tensors": name,
        "sha256": digest,
        "progress": checkpoint.progress,
        "conditions": checkpoint.conditions,
        "optimizer": {key: value for key, value in checkpoint.optimizer.items() if key not in kept},
    }
    described = json.dumps(state, indent=1).encode()
    if keep:
        write_atomically((folder / name).with_suffix(".json"), described)
    write_atomically(folder / "state.json", described)
    for old in folder.glob("after_task_*.safetensors"):
        if old.name != name and not old.with_suffix(".json").exists():
            old.unlink()


def read_checkpoint(folder: Path, tasks_done: int | None = None) -> Checkpoint | None:
    """Read the last checkpoint of a run, or the one after so many tasks; None if there is none.

    Raises:
        UserError: if a part is missing, damaged or of another format.
    """
    path = folder / "state.json"
    if tasks_done is not None and (kept := folder / f"after_task_{tasks_done:02d}.json").exists():
        path = kept
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_text())
        if tasks_done is not None and state["tasks_done"] != tasks_done:
            return None
        content = (folder / state["tensors"]).read_bytes()
        numbers = state["optimizer"]
        intact = hashlib.sha256(content).hexdigest() == state["sha256"] and state["format_version"] == FORMAT_VERSION
    except (OSError, KeyError, json.JSONDecodeError) as problem:
        raise UserError(
            f"The checkpoint in {folder} cannot be read ({problem!r}); start over with overwrite=true."
        ) from problem
    if not intact:
        raise UserError(f"The checkpoint in {folder} is damaged or of another version; start over with overwrite=true.")
    tensors = load(content)
    return Checkpoint(
        state["tasks_done"],
        _unprefixed("model", tensors),
        _unprefixed("strategy", tensors),
        state["progress"],
        state["conditions"],
        _unprefixed("optimizer", tensors) | numbers,
    )


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str:
    """Write tensors atomically as safetensors; give the SHA-256 of the file."""
    content = save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()})
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    return [(f"{prefix}/{name}", tensor) for name, tensor in tensors.items()]


def _unprefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")
    }
