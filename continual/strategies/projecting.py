"""What strategies share that project updates: everything but where the maps come from.

Such a strategy learns a linear map per weight at a task's end. The rest is the same for all of them and is here: which
rows of the head tasks share, the side that fits the optimiser, the pass over a task's data, and the counters that a
resume needs. The optimiser decides the side, never both: gradients for SGD without weight decay, the applied update
for all others.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from continual.batches import TrainingData, training_rows
from continual.pass_cost import forward_operations
from continual.quadratic_penalty import shares_head
from continual.scenarios import Task, TaskSequence
from continual.seeding import apart, stream
from continual.strategies.strategy import Setting
from neuro.lateral import (
    AnyProjector,
    HeadRows,
    Moment,
    RowSource,
    WeightGuard,
    WeightSite,
    second_moments,
    unprotected_parameters,
)

SILENCE = "Nothing reached layer {name!r} in this task, so the task has no direction there to protect."


class ProjectionPath:
    """A guard over the weights, and a strategy's hooks around it.

    Args:
        setting: what the strategy is attached to.

    Attributes:
        guard: that applies the maps.
        num_tasks: learned so far.
        spent: multiply-accumulates of learning so far, the passes through the network among them.

    Raises:
        ValueError: if the network has a weight that cannot be protected.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.guard = WeightGuard(setting.model, setting.head, shares_head(setting.sequence), trace_side=True)
        self.presynaptic = setting.rule.presynaptic(setting.model)
        self.num_tasks, self.spent = 0, 0
        self.silent: list[str] = []
        self._on_gradient = True

    @property
    def sites(self) -> list[WeightSite]:
        """The weights that are protected."""
        return self.guard.sites

    def begin_task(self, task: Task, on_gradient: bool, within_tasks: bool = False) -> None:
        """Choose the side of the projection and tell the head's rows apart.

        Args:
            task: that is learned now.
            on_gradient: whether the optimiser is linear in the gradient.
            within_tasks: project also the rows of the head that only later tasks share.
        """
        self._on_gradient = on_gradient
        self.guard.set_trace_side(on_gradient)
        self.guard.begin_task(head_rows(self.setting.sequence, task, within_tasks))

    def after_backward(self) -> None:
        """Project the gradient, where the optimiser is linear in it."""
        if self._on_gradient:
            self.guard.after_backward()

    def after_step(self) -> None:
        """Project the applied update, where it is not."""
        if not self._on_gradient:
            self.guard.after_step()

    def moments(
        self, task: Task, data: TrainingData, rows: RowSource, max_samples: int | None, batch_size: int
    ) -> dict[str, Moment]:
        """Accumulate what the task puts before each weight, in a pass that moves no stream of training.

        Args:
            task: that was learned.
            data: its training data.
            rows: which rows count.
            max_samples: how many samples are shown, drawn by seed; None shows all.
            batch_size: samples per batch.
        """
        chosen, setting = self.batches(task, data, max_samples, batch_size), self.setting
        choice = stream(setting.seed, "consolidation", "rows", task.index)
        with apart(setting.model, setting.seed, "consolidation", task.index):
            found = second_moments(setting.model, self.sites, chosen, rows, self.presynaptic, choice)
        self.spent += sum(found[site.name].num_rows * site.width**2 for site in self.sites)
        self.silent = [name for name, moment in found.items() if not bool(moment.total.any())]
        return found

    def notices(self) -> list[str]:
        """Say at the start what no map protects, and after a task which layers nothing reached."""
        return (
            standing_still(self.guard) if self.num_tasks == 0 else [SILENCE.format(name=name) for name in self.silent]
        )

    def batches(self, task: Task, data: TrainingData, max_samples: int | None, batch_size: int) -> list[Tensor]:
        """Draw inputs for the pass at a task's end, and count their way through the network."""
        chosen = chosen_batches(data, self.setting.seed, task, max_samples, batch_size)
        self.count_pass(sum(map(len, chosen)))
        return [data.inputs[indices] for indices in chosen]

    def count_pass(self, num_samples: int) -> None:
        """Count samples that go through the network, densely."""
        self.spent += num_samples * forward_operations(self.setting.model, self.setting.sequence)

    def end_task(self, maps: Mapping[str, AnyProjector | None]) -> None:
        """Count a task and put its maps into force, with all that is frozen beside them."""
        self.num_tasks += 1
        self.guard.enforce(maps)

    @property
    def operations(self) -> int:
        """Multiply-accumulates of learning and projecting so far."""
        return self.spent + self.guard.projecting

    def counters(self) -> Tensor:
        """Give what a resumed run needs beside the maps, [3] int64."""
        return torch.tensor([self.num_tasks, self.spent, self.guard.projecting], dtype=torch.int64)

    def resume(self, counters: Tensor, maps: Mapping[str, AnyProjector | None]) -> None:
        """Take the counters back and put the maps into force for the weights as they are now."""
        self.num_tasks, self.spent, self.guard.projecting = (int(count) for count in counters)
        if self.num_tasks:
            self.guard.enforce(maps)


def standing_still(guard: WeightGuard) -> list[str]:
    """Say, in a sentence or none, which parameters no map can protect and are therefore frozen from task 2 on."""
    names = unprotected_parameters(guard.model, guard.sites, guard.head.module)
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return [f"No projection can protect {shown}: they stand still from the second task on."] if names else []


def shared_rows(sequence: TaskSequence, task: Task) -> Tensor:
    """Give the head rows of a task that the loss of an earlier task trained too, [num_classes].

    An inactive row gets no gradient, so it is trained by a task if and only if it is active there.
    """
    return training_rows(sequence, task) & trained_by(sequence, sequence.tasks[: task.index])


def trained_by(sequence: TaskSequence, tasks: Sequence[Task]) -> Tensor:
    """Give the head rows that the loss of any of these tasks trains, [num_classes]."""
    rows = torch.zeros(sequence.num_classes, dtype=torch.bool)
    for task in tasks:
        rows |= training_rows(sequence, task)
    return rows


def head_rows(sequence: TaskSequence, task: Task, within_tasks: bool = False) -> HeadRows:
    """Tell apart the rows of the head in a task.

    Args:
        sequence: all tasks.
        task: that is learned now.
        within_tasks: project also the rows of the head that only later tasks share.
    """
    active, others = training_rows(sequence, task), [other for other in sequence.tasks if other.index != task.index]
    return HeadRows(
        shared_rows(sequence, task), active, active & trained_by(sequence, others) if within_tasks else None
    )


def chosen_batches(
    data: TrainingData, seed: int, task: Task, max_samples: int | None, batch_size: int, number: int = 0
) -> list[Tensor]:
    """Draw which samples a pass at a task's end shows, as indices, batch by batch.

    Args:
        data: of the task.
        seed: root of the named streams.
        task: that was learned.
        max_samples: how many; None shows all.
        batch_size: samples per batch.
        number: of the pass.
    """
    order = torch.randperm(len(data), generator=stream(seed, "consolidation", task.index, number))
    return list(order[:max_samples].to(data.inputs.device).split(batch_size))


def require_parts(state: Mapping[str, Tensor], wanted: Mapping[str, Sequence[int | None]]) -> None:
    """Refuse a state with a part missing, left over or of another shape.

    Args:
        state: that was given.
        wanted: shape of every part, None where a length is free.

    Raises:
        ValueError: naming the parts.
    """
    if set(state) != set(wanted):
        raise ValueError(f"The state needs exactly {sorted(wanted)}, got {sorted(state)}.")
    for name, shape in wanted.items():
        found = list(state[name].shape)
        if len(found) != len(shape) or any(b is not None and a != b for a, b in zip(found, shape, strict=True)):
            raise ValueError(f"The state's part {name!r} needs the shape {list(shape)}, got {found}.")


def require_at_least_one(**numbers: int | None) -> None:
    """Refuse a number below 1; None stands for all.

    Raises:
        ValueError: naming it.
    """
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
