"""`train`: run, resume, or only describe what a command asks for."""

import os
import sys
from pathlib import Path
from typing import Any


def train(overrides: list[str], config_dir: str | None) -> int:
    """Run every strategy that is asked for, one after another, and print their table."""
    from continual.compose import compose, strategies_of

    names = strategies_of(overrides, config_dir)
    kept = [override for override in overrides if not override.startswith(("strategies=", "strategy="))]
    described = {name: compose([*kept, f"strategy={name}"], config_dir) for name in names}
    if any(description["allow"] for description in described.values()):
        sys.path.insert(0, os.getcwd())  # a user's own package usually lies where the command is given
    if next(iter(described.values()))["dry_run"]:
        return _dry_run(described)

    from rich.console import Console

    from continual.api import run_config
    from continual.assembly import make_parts
    from continual.config import RunConfig
    from continual.progress import Bars

    for description in described.values():
        make_parts(RunConfig.from_dict(description))  # a mistake in the last strategy shows before the first is trained
    with Bars() as bars:
        results = [run_config(description, progress=bars) for description in described.values()]
    print_results(Console(), [result.folder for result in results])
    return 0


def print_results(console: Any, folders: list[Path]) -> None:
    """Print the table of finished runs and where their reports are."""
    from continual.reports import compare, comparison_table
    from continual.run_folder import comparison_folder

    console.print(comparison_table(folders))
    for folder in folders:
        console.print(
            f"report  {folder / 'report.html'}\nfigures {folder / 'figures'}{os.sep}", highlight=False, soft_wrap=True
        )
    if len(folders) > 1:
        console.print(f"compare {compare(folders, comparison_folder(folders))}", highlight=False, soft_wrap=True)


def _dry_run(described: dict[str, dict[str, Any]]) -> int:
    from continual.dry_run import estimate

    for name, description in described.items():
        print(f"{name}: {estimate(description)}")
    return 0


def print_config(overrides: list[str], config_dir: str | None) -> int:
    """Print the resolved configuration of every strategy that is asked for."""
    import yaml

    from continual.compose import compose, strategies_of

    names = strategies_of(overrides, config_dir)
    kept = [override for override in overrides if not override.startswith(("strategies=", "strategy="))]
    print(
        yaml.safe_dump_all((compose([*kept, f"strategy={name}"], config_dir) for name in names), sort_keys=False),
        end="",
    )
    return 0
