"""The only door to Hydra: from command-line overrides to plain data.

Hydra composes the configuration groups in `configs/` (and a user's own folder) and resolves every interpolation; what
comes out are dicts, lists and scalars. Its own errors are turned into one sentence.
"""

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from continual.config import RunConfig, did_you_mean
from continual.errors import UserError

GROUPS = (
    "data",
    "scenario",
    "stream",
    "model",
    "strategy",
    "sizes",
    "neuron",
    "encoder",
    "decoder",
    "rule",
    "error_path",
    "objective",
    "optimizer",
    "schedule",
    "robustness",
    "experiment",
    "debug",
)

PARTS = {
    "neuron": "neuron@model.neuron",
    "encoder": "encoder@model.encoder",
    "decoder": "decoder@model.decoder",
    "error_path": "error_path@rule.error_path",
}
"""Groups that describe a part of another choice: what a user writes, and where Hydra puts it."""


def config_folder() -> Path:
    """Give the folder of configurations: inside the installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "configs"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "configs"


def compose(overrides: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """Compose one run's configuration.

    Args:
        overrides: `key=value` and `group=choice`.
        config_dir: a user's own folder of groups, searched first.

    Returns:
        The resolved configuration, without the keys that only feed others.

    Raises:
        UserError: if an override does not fit.
    """
    composed = _compose(list(overrides), config_dir)
    for key in ("strategies", "sizes"):
        composed.pop(key, None)
    return composed


def strategies_of(overrides: Sequence[str], config_dir: str | None = None) -> list[str]:
    """Give the strategies that a command asks for: one if `strategy=` is chosen, else the list of the configuration."""
    chosen = [override.partition("=")[2] for override in overrides if override.startswith("strategy=")]
    if chosen and not any(override.startswith("strategies=") for override in overrides):
        return chosen[-1:]
    unrelated = [override for override in overrides if not override.startswith("strategy.")]
    listed = _compose(unrelated, config_dir)["strategies"]
    if not isinstance(listed, list) or not listed:
        raise UserError(
            f"strategies must be a list of at least one strategy, got {listed!r}; write strategies=[naive,hlop]."
        )
    return [str(name) for name in listed]


def choices(group: str, config_dir: str | None = None) -> list[str]:
    """List the choices of a group.

    Raises:
        UserError: if there is no such group.
    """
    if group not in GROUPS:
        raise UserError(f"There is no group {group!r}{did_you_mean(group, GROUPS)}.")
    folders = [config_folder() / group] + ([Path(config_dir) / group] if config_dir else [])
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def _compose(overrides: list[str], config_dir: str | None) -> dict[str, Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if config_dir is not None and not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir} is not a folder.")
    quoted = str(Path(config_dir).resolve()).replace("\\", "\\\\").replace("'", "\\'") if config_dir else ""
    search = [f"hydra.searchpath=['file://{quoted}']"] if config_dir else []
    try:
        with initialize_config_dir(str(config_folder().resolve()), version_base="1.3"):
            placed = [part for override in overrides for part in _placed(override)]
            composed = hydra_compose("train", overrides=[*search, *placed])
        resolved: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException, ValueError) as problem:
        raise UserError(_sentence(str(problem), overrides, config_dir)) from problem
    return resolved


def _placed(override: str) -> list[str]:
    """Turn `neuron=lif` into the form that says where it belongs, and `robustness=[a,b]` into one choice for each."""
    group, equals, choice = override.partition("=")
    if equals and group == "robustness":
        names = [name.strip() for name in choice.strip("[]").split(",") if name.strip() not in ("", "null")]
        return [f"+robustness@robustness.{name}={name}" for name in names]
    return [f"{PARTS[group]}={choice}" if equals and group in PARTS else override]


def _sentence(message: str, overrides: Sequence[str], config_dir: str | None) -> str:
    """Turn Hydra's message into one sentence that names the choices."""
    missing = re.search(r"Could not find '([\w_]+)/([^']*)'", message)
    if missing:
        group, choice = missing.groups()
        known = choices(group, config_dir) if group in GROUPS else []
        return f"There is no {group} {choice!r}{did_you_mean(choice, known)}."
    misplaced = re.search(r"Could not override '(\w+)@(\w+)[^']*'", message)
    if misplaced:
        group, owner = misplaced.groups()
        return f"The chosen {owner} has no {group} to choose; choose another {owner}, or leave {group} out."
    unknown = re.search(r"Could not override '([^']+)'", message)
    if unknown:
        parent, _, key = unknown.group(1).rpartition(".")
        where = f"{parent} has" if parent else "There is"
        return f"{where} no key {key!r}{did_you_mean(key, _keys_below(parent, overrides, config_dir))}."
    for override in overrides:
        group, _, choice = override.partition("=")
        if group in GROUPS and choice in ("null", ""):
            return f"{group} cannot be left out; choose from {', '.join(choices(group, config_dir))}."
    given = f" (given: {' '.join(overrides)})" if overrides else ""
    return f"The configuration cannot be composed: {' '.join(message.split())}{given}"


def _keys_below(parent: str, overrides: Sequence[str], config_dir: str | None) -> list[str]:
    """Give the keys that an override could have named; below a group they depend on its choice."""
    if not parent:
        return [entry.name for entry in fields(RunConfig)] + ["strategies", "sizes", "experiment", "debug"]
    chosen = [override for override in overrides if override.partition("=")[0] in GROUPS]
    node: Any = _compose(chosen, config_dir)
    for part in parent.split("."):
        node = node.get(part, {}) if isinstance(node, dict) else {}
    return [key for key in node if key != "_target_"] if isinstance(node, dict) else []
