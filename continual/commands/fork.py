"""`fork`: go on from a task boundary of a run, differently."""

from pathlib import Path

from continual.errors import UserError


def fork_run(words: list[str], task: int | None) -> int:
    """Fork a run after a task, with overrides of plain values, and print the table of the fork."""
    if not words or task is None:
        raise UserError("fork needs a run folder and --task, the task after which it goes on: fork runs/NAME --task 1.")
    from rich.console import Console

    from continual.commands.train import print_results
    from continual.forking import fork
    from continual.progress import Bars

    with Bars() as bars:
        result = fork(Path(words[0]), task, words[1:], progress=bars)
    print_results(Console(), [result.folder])
    return 0
