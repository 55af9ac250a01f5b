"""Learning-rate schedules that look at more than the number of the epoch.

A schedule is made once a task and stepped once an epoch. One that wants to see the validation loss has `watch`, and is
told once how to get it; the loop steps it like any other.
"""

from collections.abc import Callable, Sequence

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau


class Plateau:
    """Lower the learning rate when the validation loss stops falling.

    Args:
        optimizer: whose rate it is.
        factor: by which the rate is multiplied, in (0, 1).
        patience: at the so-manieth epoch in a row without a lower loss.
        floor: lowest rate.

    Raises:
        ValueError: if a number is out of range.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, factor: float = 0.5, patience: int = 6, floor: float = 1e-5
    ) -> None:
        if not 0 < factor < 1 or patience < 1 or floor < 0:
            raise ValueError(
                f"factor must lie between 0 and 1, patience be at least 1 and floor at least 0, got {factor}, "
                f"{patience} and {floor}."
            )
        self._torch = ReduceLROnPlateau(
            optimizer, factor=factor, patience=patience - 1, min_lr=floor, threshold=0.0, threshold_mode="abs"
        )
        self._loss: Callable[[], float] | None = None

    def watch(self, loss: Callable[[], float]) -> None:
        """Take what gives the validation loss of this moment."""
        self._loss = loss

    def step(self) -> None:
        """End an epoch; before anything is watched, the rate stays."""
        if self._loss is not None:
            self._torch.step(self._loss())


def watch_validation(schedule: object, loss: Callable[[], float]) -> None:
    """Tell a schedule that wants it how to get the validation loss."""
    if callable(take := getattr(schedule, "watch", None)):
        take(loss)


def check_watched(schedule: object, tasks_without_validation: Sequence[str]) -> None:
    """Refuse a schedule that wants to see validation data where a task has none.

    Raises:
        ValueError: naming the task.
    """
    if hasattr(schedule, "watch") and tasks_without_validation:
        raise ValueError(
            f"{type(schedule).__name__} looks at the validation loss, and task {tasks_without_validation[0]!r} has no "
            f"validation part; carve one out with data.validation=0.1, say."
        )
