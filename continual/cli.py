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
    python -m continual evaluate RUN robustness=NAME [robustness.NAME.KEY=VALUE ...]
        attack or certify the last network of a run, on every task
    python -m continual fork RUN --task K [KEY=VALUE ...]
        go on from a run as it was after task K, with other values
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
from types import FrameType
from typing import NoReturn

from continual.commands.evaluate import evaluate
from continual.commands.fork import fork_run
from continual.commands.listing import list_choices, list_data
from continual.commands.report import collect_runs, mirror_runs, report
from continual.commands.train import print_config, train
from continual.errors import DivergedError, UserError

COMMANDS = ("train", "report", "collect", "mirror", "evaluate", "fork", "list", "data")
OPTIONS = {
    "output": ("report", "collect", "mirror", "evaluate"),
    "format": ("collect",),
    "to": ("mirror",),
    "task": ("fork",),
}
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
  python -m continual evaluate runs/a-1234abcd robustness=pgd20 robustness.pgd20.num_samples=100
  python -m continual fork runs/a-1234abcd --task 1 optimizer.lr=0.05

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
        "that hold some; evaluate, fork: a run folder and values; list: a group; data: nothing",
    )
    parser.add_argument("--config-dir", metavar="FOLDER", help="your own configuration groups, searched too")
    parser.add_argument("--cfg", action="store_true", help="print the resolved configuration and stop")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="where `report`, `collect` and `evaluate` write",
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help="what `collect` writes: csv, markdown, latex (these three unless said), parquet; may be given repeatedly",
    )
    parser.add_argument("--to", metavar="TRACKER", help="what `mirror` writes for: tensorboard or mlflow")
    parser.add_argument("--task", type=int, metavar="K", help="the task, from 0, after which `fork` goes on")
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
    if command in ("data", "list"):
        return list_data(rest) if command == "data" else list_choices(rest, options.config_dir)
    if command == "report":
        return report(rest, options.output)
    if command == "mirror":
        return mirror_runs(rest, options.output, options.to)
    if command == "collect":
        return collect_runs(rest, options.output, options.format or ["csv", "markdown", "latex"])
    if command == "evaluate":
        return evaluate(rest, options.output)
    if command == "fork":
        return fork_run(rest, options.task)
    for word in rest:
        if "=" not in word and not word.startswith("~"):
            raise UserError(f"{word!r} is neither a command ({', '.join(COMMANDS)}) nor an override such as epochs=3.")
    return print_config(rest, options.config_dir) if options.cfg else train(rest, options.config_dir)


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
