"""The folder of a run: its name, what may be in it, and who may write there.

    <output>/<name>-<hash of the resolved configuration>/
        config.yaml  records.jsonl  accuracy_matrix.npz  metrics.json  activity.npz
        report.html  figures/  weights/task_kk.safetensors  checkpoint/

The hash leaves out what does not change the result (device, threads, output), so the same command finds its own run
again.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from continual.checkpoint import FORMAT_VERSION, write_atomically
from continual.config import NOT_HASHED
from continual.errors import UserError


def run_hash(description: Mapping[str, Any]) -> str:
    """Give 8 hexadecimal digits that stand for a resolved configuration."""
    decisive = {key: value for key, value in description.items() if key not in NOT_HASHED}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:8]


def open_folder(description: Mapping[str, Any], overwrite: bool) -> Path:
    """Find or make the folder of a run.

    Args:
        description: the resolved configuration as plain data.
        overwrite: remove an earlier run of the same configuration.

    Returns:
        The folder, with `config.yaml` in it.

    Raises:
        UserError: if the folder cannot be written, or holds something else.
    """
    output = Path(description["output"])
    if is_run(output):
        raise UserError(f"output={output} is itself the folder of a run; name the folder above it, or a new one.")
    folder = output / f"{description['name']}-{run_hash(description)}"
    if folder.exists() and not is_run(folder) and not _is_empty(folder):
        raise UserError(f"{folder} holds something that is not a run of ours; move it away, or choose another output.")
    try:
        if overwrite and is_run(folder):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write_or_compare(folder / "config.yaml", description)
        for part in ("weights", "checkpoint", "figures"):
            (folder / part).mkdir(exist_ok=True)
    except OSError as problem:
        raise UserError(
            f"The output folder {folder} cannot be written ({problem.strerror}); choose another output."
        ) from problem
    return folder


def is_run(folder: Path) -> bool:
    """Tell whether a folder is one of ours."""
    return (folder / "config.yaml").is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """Read the resolved configuration of a run.

    Raises:
        UserError: if the folder is not a run, or of a newer format.
    """
    if not is_run(folder):
        raise UserError(f"{folder} is not the folder of a run: it has no config.yaml.")
    description = yaml.safe_load((folder / "config.yaml").read_text())
    if description.pop("format_version", None) != FORMAT_VERSION:
        raise UserError(f"{folder} was written in another format; this version reads format {FORMAT_VERSION}.")
    return description


def _is_empty(folder: Path) -> bool:
    """Tell whether nothing is in a folder, or only a draft that an interrupted write left."""
    return folder.is_dir() and all(entry.name.endswith(".draft") for entry in folder.iterdir())


def _write_or_compare(path: Path, description: Mapping[str, Any]) -> None:
    if path.exists():
        if run_hash(read_config(path.parent)) != run_hash(description):
            raise UserError(f"{path.parent} holds another run; choose another output.")
        return
    content = yaml.safe_dump({"format_version": FORMAT_VERSION, **description}, sort_keys=False)
    write_atomically(path, content.encode())


def comparison_folder(folders: Sequence[Path]) -> Path:
    """Give the folder of a comparison: beside the first run, named by all of them."""
    names = "/".join(sorted(folder.resolve().name for folder in folders))
    return folders[0].resolve().parent / f"compare-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
