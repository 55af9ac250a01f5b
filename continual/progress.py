"""What a run tells whoever watches: nothing, or progress bars in a terminal."""

import math
from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from continual.scenarios import Task


class Silent:
    """The role, doing nothing: what `continual.run` uses from Python unless told otherwise."""

    def start_run(self, strategy: str, num_tasks: int, steps_per_task: int) -> None:
        """A run begins."""

    def start_task(self, task: Task, trains: bool) -> None:
        """A task begins; some strategies skip its training."""

    def step(self) -> None:
        """An optimiser step was made."""

    def end_task(self, task: Task, known: Sequence[float]) -> None:
        """A task is trained, consolidated, scored and checkpointed; `known` are the accuracies on the tasks so far."""

    def notice(self, sentence: str) -> None:
        """Something the user should know now."""

    def end_run(self) -> None:
        """The run is over."""


class Bars(Silent):
    """A bar of steps for each strategy, with the latest accuracies beside it.

    Args:
        console: where to draw; standard error, so that the table on standard output can be piped.
    """

    def __init__(self, console: Console | None = None) -> None:
        columns = (
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Progress(*columns, console=console or Console(stderr=True), transient=False)
        self._current: Any = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def start_run(self, strategy: str, num_tasks: int, steps_per_task: int) -> None:
        """Add a bar."""
        self._steps_per_task = steps_per_task
        self._current = self._bars.add_task(strategy, total=num_tasks * steps_per_task, note="")

    def start_task(self, task: Task, trains: bool) -> None:
        """Move the bar to where the task begins."""
        self._bars.update(self._current, completed=task.index * self._steps_per_task)

    def step(self) -> None:
        """Advance by one step."""
        self._bars.advance(self._current)

    def end_task(self, task: Task, known: Sequence[float]) -> None:
        """Show how well all tasks so far are known."""
        mean = sum(known) / len(known)
        note = "" if math.isnan(mean) else f"tasks 1-{task.index + 1}: {100 * mean:.1f} %"
        self._bars.update(self._current, completed=(task.index + 1) * self._steps_per_task, note=note)

    def notice(self, sentence: str) -> None:
        """Print the sentence above the bars."""
        self._bars.console.print(sentence, highlight=False)
