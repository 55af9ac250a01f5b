"""What a run lost against runs that had it easier: intransigence and plasticity, from reference runs beside it.

Two figures need accuracies that no single run holds. Intransigence compares with ``a*_k``, the accuracy on task k of a
network trained from the initial weights on all data of tasks 1..k; plasticity with ``s_k``, that of one trained on task
k alone. The strategies ``cumulative_restart`` and ``alone`` measure them: each is the diagonal of such a run. A run may
serve as a reference only if its configuration equals the run's own in everything but the strategy (and in what moves no
accuracy just learned): seeds, data, network, epochs, optimiser. Without one there is no number, only the reason.

Source: Chaudhry et al. (2018) for intransigence; their reference has the budget of the last task, here it has `epochs`
passes over all data so far (equal epochs, so more steps).
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from continual.config import NOT_HASHED

from .accuracy_matrix import AccuracyMatrices
from .summary import own_matrix
from .transfer import intransigence, intransigence_per_task, plasticity, transfer_independent

JOINT_REFERENCE, ALONE_REFERENCE = "cumulative_restart", "alone"
FILE = "references.json"
FORMAT_VERSION = 1

_MAY_DIFFER = (*NOT_HASHED, "strategy", "name", "format_version", "evaluate_every", "evaluate_future")
"""Keys of a configuration in which a run and its reference may differ."""


class References(NamedTuple):
    """What reference runs say about a run.

    Attributes:
        intransigence: Mean over tasks of ``a*_k - R[k, k]``; None without a reference.
        intransigence_per_task: Its T terms.
        plasticity: Mean over tasks of ``R[k, k] - s_k``; None without a reference.
        transfer_independent: Its T terms.
        cumulative_restart: Folder name of the run that measured ``a*``; None where there is none.
        alone: Folder name of the run that measured ``s``; None where there is none.
        undefined: For each figure that is None the reason.
    """

    intransigence: float | None
    intransigence_per_task: tuple[float, ...] | None
    plasticity: float | None
    transfer_independent: tuple[float, ...] | None
    cumulative_restart: str | None
    alone: str | None
    undefined: Mapping[str, str]


class _Run(NamedTuple):
    name: str
    strategy: str
    settings: str
    accuracies: NDArray[np.float64]


class _Reference(NamedTuple):
    """The accuracies of a reference run, or why there is none."""

    levels: NDArray[np.float64] | None
    name: str | None = None
    reason: str = ""


def with_references(folders: Sequence[Path]) -> dict[Path, References]:
    """Find for each run its references among the others, and compare.

    Args:
        folders: Of finished runs, references among them; they need not have solved the same tasks.

    Returns:
        One entry a folder, in the order given.

    Raises:
        FileNotFoundError: When a folder lacks a file of a finished run.
    """
    runs = {folder: _read(Path(folder)) for folder in folders}
    return {folder: _compare(run, runs.values()) for folder, run in runs.items()}


def write_references(folders: Sequence[Path]) -> dict[Path, References]:
    """Compare runs with their references, and write ``references.json`` beside the metrics of those that have any.

    A run without any reference among the folders keeps the file that an earlier comparison may have written: what it
    holds names its references.

    Args:
        folders: As for :func:`with_references`.

    Returns:
        The same as :func:`with_references`.
    """
    found = with_references(folders)
    for folder, references in found.items():
        if references.cumulative_restart or references.alone:
            draft = Path(folder) / f"{FILE}.draft"
            draft.write_text(json.dumps({"format_version": FORMAT_VERSION, **references._asdict()}, indent=1))
            os.replace(draft, Path(folder) / FILE)
    return found


def _read(folder: Path) -> _Run:
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")) or {}
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    with (folder / "records.jsonl").open(encoding="utf-8") as lines:
        start = json.loads(lines.readline())
    matrices = AccuracyMatrices.load(folder / "accuracy_matrix.npz")
    accuracies = getattr(matrices, own_matrix(metrics["mode"]))
    return _Run(folder.resolve().name, metrics["strategy"], _settings(config, start), accuracies)


def _settings(config: Mapping[str, Any], start: Mapping[str, Any]) -> str:
    """Give everything that a run and its reference must share as one text; a key that is null is as good as absent."""
    kept = {key: value for key, value in config.items() if key not in _MAY_DIFFER and value is not None}
    return json.dumps([kept, start.get("data_checksum")], sort_keys=True)


def _compare(run: _Run, runs: Collection[_Run]) -> References:
    R, undefined = run.accuracies, {}
    joint, alone = (_reference(run, strategy, runs) for strategy in (JOINT_REFERENCE, ALONE_REFERENCE))
    stubborn = plastic = each_stubborn = each_plastic = None
    if joint.levels is not None:
        stubborn = intransigence(R, joint.levels)
        each_stubborn = tuple(intransigence_per_task(R, joint.levels).tolist())
    else:
        undefined |= dict.fromkeys(("intransigence", "intransigence_per_task"), joint.reason)
    if alone.levels is not None:
        plastic = plasticity(R, alone.levels)
        each_plastic = tuple(transfer_independent(R, alone.levels).tolist())
    else:
        undefined |= dict.fromkeys(("plasticity", "transfer_independent"), alone.reason)
    return References(stubborn, each_stubborn, plastic, each_plastic, joint.name, alone.name, undefined)


def _reference(run: _Run, strategy: str, runs: Collection[_Run]) -> _Reference:
    """Find the run of a reference strategy that fits."""
    others = [other for other in runs if other.strategy == strategy]
    fitting = [other for other in others if other.settings == run.settings]
    if run.strategy == strategy:
        return _Reference(None, reason="the run is the reference itself")
    if not others:
        return _Reference(None, reason=f"needs a run of {strategy} with the same configuration, and none is compared")
    if not fitting:
        return _Reference(None, reason=f"no run of {strategy} has the same configuration in all but the strategy")
    levels = np.diagonal(fitting[0].accuracies)
    if np.isnan(levels + np.diagonal(run.accuracies)).any():
        return _Reference(None, reason="an accuracy right after learning was not measured (diagonal)")
    return _Reference(levels, fitting[0].name)
