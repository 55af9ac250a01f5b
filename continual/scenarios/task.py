"""A task and a sequence of tasks, as plain data: what is learned in which order, and which rows of the head it uses.

A task holds its own train, validation and test part together, so all of them see the same classes in the same order.
Targets are rows of the one head already; `classes` lists the rows the task uses and `label_names` what the labels were
called in the data. The mode says who may know what: *task* tells the task at test time and picks among its rows,
*class* withholds it and picks among all rows, *domain* withholds it and uses the same rows in every task (van de Ven
and Tolias, 2019).

Two things a stream may change (see `blurry` and `online`): a task's train part may hold samples that came from other
tasks, each under its own task's rows, which `origins` tells; and where one task ends and the next begins may be hidden.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from continual.data.arrays import Split, Test, Train, Validation, check_parts, checksum_of

Mode = Literal["task", "domain", "class"]
TrainLogits = Literal["all", "seen", "current"]
Boundaries = Literal["known", "hidden"]


@dataclass(frozen=True, eq=False)
class Task:
    """Hold one task of a sequence.

    Args:
        index: Position in the sequence, from 0.
        name: How reports call it, unique within the sequence.
        train: What is learned from; targets are head rows.
        validation: What selection looks at, or None.
        test: What is scored.
        classes: Head rows that this task's labels use, each once.
        label_names: What the data called them, aligned with `classes`; left empty, the rows' numbers.
        origins: [N] task that each train sample came from, where a stream mixed them; None: all from this one.
        withheld: [N] whether a train sample's label is kept from what learns (see `label_budget`); None: no label is.

    Raises:
        TypeError: A part has another part's type.
        ValueError: No classes, a class twice, a target outside `classes` (of a train sample: of its own task), or names
            or origins that do not match.
    """

    index: int
    name: str
    train: Train
    validation: Validation | None
    test: Test
    classes: tuple[int, ...]
    label_names: tuple[str, ...] = ()
    origins: npt.NDArray[np.int64] | None = None
    withheld: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        check_parts(self.train, self.validation, self.test)
        object.__setattr__(self, "classes", tuple(int(row) for row in self.classes))
        if not self.classes or len(set(self.classes)) != len(self.classes) or min(self.classes) < 0:
            raise ValueError(
                f"classes of task {self.name!r} must be at least one head row, each 0 or more and listed once, "
                f"but they are {self.classes}."
            )
        object.__setattr__(self, "label_names", tuple(self.label_names) or tuple(str(row) for row in self.classes))
        if len(self.label_names) != len(self.classes):
            raise ValueError(
                f"task {self.name!r} must have one label name for each of its {len(self.classes)} classes, "
                f"but {len(self.label_names)} came."
            )
        if self.origins is not None and self.origins.shape != self.train.targets.shape:
            raise ValueError(
                f"origins of task {self.name!r} must be one task for each of its {len(self.train)} train samples, "
                f"but their shape is {self.origins.shape}."
            )
        if self.withheld is not None and self.withheld.shape != self.train.targets.shape:
            raise ValueError(
                f"withheld of task {self.name!r} must say of each of its {len(self.train)} train samples whether its "
                f"label is kept back, but its shape is {self.withheld.shape}."
            )
        for part in self.parts:
            guests = self.origins is not None and part is self.train
            own = part.targets[self.origins == self.index] if guests else part.targets
            outside = np.setdiff1d(own, self.classes)
            if outside.size:
                raise ValueError(
                    f"{type(part).__name__.lower()} targets of task {self.name!r} must lie in its classes "
                    f"{self.classes}, but label {int(outside[0])} occurs; add it to classes or map the labels to rows."
                )

    @property
    def parts(self) -> tuple[Split, ...]:
        """Train, validation where there is one, and test."""
        return tuple(part for part in (self.train, self.validation, self.test) if part is not None)

    @property
    def trained_rows(self) -> tuple[int, ...]:
        """Head rows, sorted, that its labels use and that its train samples are labelled with."""
        guests = () if self.origins is None else np.unique(self.train.targets).tolist()
        return tuple(sorted({*self.classes, *guests}))

    @property
    def origin_tasks(self) -> tuple[int, ...]:
        """Tasks, sorted, that its train samples came from."""
        return (self.index,) if self.origins is None else tuple(np.unique(self.origins).tolist())

    @property
    def labels(self) -> dict[str, int]:
        """Head row of each label, by the name the data has for it."""
        return dict(zip(self.label_names, self.classes, strict=True))


@dataclass(frozen=True, eq=False)
class TaskSequence:
    """Hold the tasks of one run in their order.

    Args:
        name: How reports call it.
        tasks: At least one task; their indices count from 0.
        mode: "task", "domain" or "class": what is known at test time (see the head of this file).
        num_classes: Rows of the head.
        train_logits: Rows that compete in the training loss: "all" of the head, those "seen" so far, or the "current"
            task's.
        boundaries: Whether what learns is told where a task ends and which task a sample is of: "known" or "hidden".
        checksum: SHA-256 over names, rows and data of all tasks, computed when left empty.

    Raises:
        ValueError: No tasks, an unknown mode, `train_logits` or `boundaries`, indices out of step, a repeated name, a
            class outside the head, samples of two tasks that differ in shape or dtype, or origins that do not fit.
    """

    name: str
    tasks: tuple[Task, ...]
    mode: Mode
    num_classes: int
    train_logits: TrainLogits = "seen"
    boundaries: Boundaries = "known"
    checksum: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        if not self.tasks:
            raise ValueError("a task sequence must hold at least one task, but it holds none.")
        check_choice("mode", self.mode, get_args(Mode))
        check_choice("train_logits", self.train_logits, get_args(TrainLogits))
        check_choice("boundaries", self.boundaries, get_args(Boundaries))
        self._check_tasks()
        self._check_origins()
        if not self.checksum:
            object.__setattr__(self, "checksum", self._digest())

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, the same in all tasks."""
        return self.tasks[0].train.inputs.shape[1:]

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks in their order."""
        return tuple(task.name for task in self.tasks)

    def classes_seen(self, index: int) -> tuple[int, ...]:
        """Return the head rows, sorted, that tasks 0 to `index` (included) use or show in training."""
        self._check_index(index)
        return tuple(sorted({row for task in self.tasks[: index + 1] for row in task.trained_rows}))

    def head_rows_shared_before(self, index: int) -> tuple[int, ...]:
        """Return the head rows, sorted, of task `index` that an earlier task trained too (a projection guards them)."""
        self._check_index(index)
        earlier = {row for task in self.tasks[:index] for row in task.trained_rows}
        return tuple(sorted(earlier.intersection(self.tasks[index].trained_rows)))

    def _check_index(self, index: int) -> None:
        if not 0 <= index < len(self.tasks):
            raise IndexError(f"a task index of this sequence must lie in 0..{len(self.tasks) - 1}, but it is {index}.")

    def _check_tasks(self) -> None:
        first = self.tasks[0].train.inputs
        for position, task in enumerate(self.tasks):
            if task.index != position:
                raise ValueError(
                    f"task {task.name!r} must have index {position}, its position in the sequence, but it has "
                    f"{task.index}."
                )
            if max(task.classes) >= self.num_classes:
                raise ValueError(
                    f"classes of task {task.name!r} must be rows of a head with num_classes={self.num_classes}, but "
                    f"row {max(task.classes)} came; raise num_classes to at least {max(task.classes) + 1}."
                )
            inputs = task.train.inputs
            if (inputs.shape[1:], inputs.dtype) != (first.shape[1:], first.dtype):
                raise ValueError(
                    f"all tasks must hold samples of one shape and dtype, but task {task.name!r} has "
                    f"{inputs.shape[1:]} {inputs.dtype} and the first has {first.shape[1:]} {first.dtype}; pad or "
                    f"convert them first."
                )
        if len(set(self.task_names)) != len(self.tasks):
            raise ValueError(f"task names must differ from each other, but they are {', '.join(self.task_names)}.")

    def _check_origins(self) -> None:
        for task in self.tasks:
            for origin in () if task.origins is None else task.origin_tasks:
                if not 0 <= origin < len(self.tasks):
                    raise ValueError(
                        f"origins of task {task.name!r} must lie in 0..{len(self.tasks) - 1}, but {origin} occurs."
                    )
                outside = np.setdiff1d(task.train.targets[task.origins == origin], self.tasks[origin].classes)
                if outside.size:
                    raise ValueError(
                        f"train samples of task {task.name!r} that came from {self.tasks[origin].name!r} must have its "
                        f"labels {self.tasks[origin].classes}, but {int(outside[0])} occurs."
                    )

    def _digest(self) -> str:
        digest = hashlib.sha256(f"{self.mode} {self.num_classes} {self.train_logits};".encode())
        if self.boundaries != "known":
            digest.update(f"{self.boundaries};".encode())
        for task in self.tasks:
            digest.update(f"{task.name} {task.classes} {task.label_names} {checksum_of(task.parts)};".encode())
            if task.origins is not None:
                digest.update(np.ascontiguousarray(task.origins, dtype=np.int64).data.cast("B"))
            if task.withheld is not None:
                digest.update(np.packbits(task.withheld).tobytes())
        return digest.hexdigest()


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise a ValueError that lists the choices unless `value` is one of them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, but it is {value!r}.")


def check_num_tasks(num_tasks: int) -> None:
    """Raise unless the number of tasks is an integer of at least 1."""
    if isinstance(num_tasks, bool) or not isinstance(num_tasks, int):
        raise TypeError(f"num_tasks must be an integer, but {num_tasks!r} came.")
    if num_tasks < 1:
        raise ValueError(f"num_tasks must be at least 1, but it is {num_tasks}.")
