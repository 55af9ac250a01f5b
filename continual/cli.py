"""The command line.

Commands, each on a line of its own:

    python -m continual [train] [OVERRIDE ...]
        run; the same command resumes, and a finished run prints its table again
    python -m continual report RUN [RUN ...]
        write a run's report again, or compare several runs
    python -m continual collect FOLDER [FOLDER ...]
        tables of all finished runs in and below the folders
    python -m continual mirror FOLDER [FOLDER ...] --to tensorboard|mlflow
        copies of the records of all runs in and below the folders, for a tracker
    python -m continual list [GROUP]
        what there is to choose from
    python -m continual data
        which data is here, and how to get the rest

Exit status: 0 finished, 2 the user's mistake (one sentence on standard error), 130 Ctrl-C, 143 terminated; after the
last two the same command goes on from the last task boundary. Nothing heavy is imported before it is needed.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from continual.errors import DivergedError, UserError

COMMANDS = ("train", "report", "collect", "mirror", "list", "data")
OPTIONS = {"output": ("report", "collect", "mirror"), "format": ("collect",), "to": ("mirror",)}
"""Options that only some commands know."""

EXAMPLES = """\
examples:
  python -m continual                                           naive and HLOP on permuted MNIST-5k
  python -m continual strategy=hlop scenario.num_tasks=3 epochs=1
  python -m continual strategies=[naive,hlop,joint] scenario=split data=digits
  python -m continual experiment=permuted_mnist5k_hlop seed=1
  python -m continual --config-dir my_configs strategy=mine 'allow=[mypackage]'
  python -m continual report runs/a-1234abcd runs/b-5678abcd
  python -m continual collect runs --format csv --format latex --output tables
  python -m continual mirror runs --to tensorboard

Overrides are Hydra's: group=choice, key=value, key.sub=value.
`--cfg` prints every key, `list` every group and choice.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _dispatch(_parser().parse_intermixed_args(given))
    except (UserError, DivergedError) as problem:
        print(f"continual: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _stopped(130, given)
    except _Terminated:
        return _stopped(143, given)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output has gone
        return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one sentence, like all others."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise UserError(f"{message}; `python -m continual --help` shows how to call it.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m continual",
        description="Train a network on one task after another and measure what it forgets.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar=f"[{'|'.join(COMMANDS)}] ARGUMENT",
        help="train (the default): overrides; report: run folders; collect, mirror: run folders, or folders "
        "that hold some; list: a group; data: nothing",
    )
    parser.add_argument("--config-dir", metavar="FOLDER", help="your own configuration groups, searched too")
    parser.add_argument("--cfg", action="store_true", help="print the resolved configuration and stop")
    parser.add_argument(
        "--output", metavar="FOLDER", help="where `report` writes a comparison, and `collect` its tables"
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help="what `collect` writes: csv, markdown, latex (these three unless said), parquet; may be given repeatedly",
    )
    parser.add_argument("--to", metavar="TRACKER", help="what `mirror` writes for: tensorboard or mlflow")
    parser.add_argument("--version", action="version", version=_version())
    return parser


def _dispatch(options: argparse.Namespace) -> int:
    command, rest = (
        (options.words[0], options.words[1:])
        if options.words[:1] and options.words[0] in COMMANDS
        else ("train", options.words)
    )
    for option, commands in OPTIONS.items():
        if getattr(options, option) is not None and command not in commands:
            raise UserError(f"--{option} is for {' and '.join(commands)}; {command} does not know it.")
    if command == "data":
        return _data(rest)
    if command == "list":
        return _list(rest, options.config_dir)
    if command == "report":
        return _report(rest, options.output)
    if command == "mirror":
        return _mirror(rest, options.output, options.to)
    if command == "collect":
        return _collect(rest, options.output, options.format or ["csv", "markdown", "latex"])
    for word in rest:
        if "=" not in word and not word.startswith("~"):
            raise UserError(f"{word!r} is neither a command ({', '.join(COMMANDS)}) nor an override such as epochs=3.")
    return _config(rest, options.config_dir) if options.cfg else _train(rest, options.config_dir)


def _train(overrides: list[str], config_dir: str | None) -> int:
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
    _print_results(Console(), [result.folder for result in results])
    return 0


def _print_results(console: Any, folders: list[Path]) -> None:
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


def _config(overrides: list[str], config_dir: str | None) -> int:
    import yaml

    from continual.compose import compose, strategies_of

    names = strategies_of(overrides, config_dir)
    kept = [override for override in overrides if not override.startswith(("strategies=", "strategy="))]
    print(
        yaml.safe_dump_all((compose([*kept, f"strategy={name}"], config_dir) for name in names), sort_keys=False),
        end="",
    )
    return 0


def _report(words: list[str], output: str | None) -> int:
    if not words:
        raise UserError("report needs at least one run folder, such as runs/NAME-12345678.")
    from continual.metrics import write_references
    from continual.reports import compare, write_report
    from continual.run_folder import comparison_folder

    folders = [Path(word) for word in words]
    try:
        write_references([folder for folder in folders if (folder / "metrics.json").exists()])
        if len(folders) == 1:
            print(write_report(folders[0]))
        else:
            print(compare(folders, Path(output) if output else comparison_folder(folders)))
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    return 0


def _collect(words: list[str], output: str | None, formats: list[str]) -> int:
    if not words:
        raise UserError("collect needs at least one folder, such as runs.")
    from continual.reports import collect, write_collected
    from continual.run_folder import is_run

    first = Path(words[0])
    beside = first.resolve().parent if is_run(first) else first
    try:
        collected = collect(map(Path, words))
        written = write_collected(collected, Path(output) if output else beside / "collected", formats)
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    print(f"{len(collected.runs)} finished runs, {len(collected.skipped)} left out")
    for folder, reason in collected.skipped:
        print(f"left out {folder}: {reason}")
    for path in written:
        print(f"written  {path}")
    return 0


def _mirror(words: list[str], output: str | None, tracker: str | None) -> int:
    if not words:
        raise UserError("mirror needs at least one folder, such as runs.")
    if tracker is None:
        raise UserError("mirror needs --to tensorboard or --to mlflow.")
    from continual.mirror import mirror
    from continual.reports import find_runs

    try:
        folders = find_runs(map(Path, words))
        if not folders:
            raise UserError(f"mirror needs at least one run, but {', '.join(words)} holds none.")
        for folder in folders:
            print(mirror(folder, tracker, Path(output) if output else None))
    except (ValueError, OSError) as problem:
        raise UserError(str(problem)) from problem
    return 0


def _list(words: list[str], config_dir: str | None) -> int:
    from continual.compose import GROUPS, choices

    for group in words or GROUPS:
        print(f"{group:<11} {'  '.join(choices(group, config_dir))}")
    return 0


def _data(words: list[str]) -> int:
    if words:
        raise UserError(f"data takes no arguments, got {' '.join(words)}.")
    from continual.data.inventory import inventory

    for entry in inventory():
        print(f"{entry.name:<26} {entry.status:<8} {entry.where or ''}")
        if entry.status != "ready":
            print(f"{'':<26} {'':<8} to get it: {entry.how_to_get}")
    return 0


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"palimpsest {version('palimpsest')}"
    except PackageNotFoundError:
        return "palimpsest (not installed)"


class _Terminated(BaseException):
    """SIGTERM, raised where the program stands."""


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _stopped(status: int, given: Sequence[str]) -> int:
    same = "the same command without overwrite=true" if "overwrite=true" in given else "the same command"
    print(f"continual: stopped; {same} goes on from the last finished task.", file=sys.stderr)
    return status
