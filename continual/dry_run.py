"""What a run would do and cost, before it is done: steps, bytes, and seconds estimated from a few real steps."""

import copy
import time
from typing import Any

import torch

from continual.assembly import make_parts
from continual.batches import gather
from continual.config import RunConfig
from continual.numerics import numerics
from continual.progress import Silent
from continual.run_folder import run_hash
from continual.runner import steps_per_task, train_epoch

TRIAL_STEPS = 5


def estimate(description: dict[str, Any]) -> str:
    """Describe a run in one line; nothing is written.

    Args:
        description: resolved configuration.

    Raises:
        UserError: if a part does not fit.
    """
    config = RunConfig.from_dict(description)
    with numerics(config.threads):
        return _estimate(config)


class _BatchTimes(Silent):
    """Note when each batch was done."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def step(self) -> None:
        self.ends.append(time.perf_counter())


def _estimate(config: RunConfig) -> str:
    parts = make_parts(config)
    tasks = parts.sequence.tasks
    steps = steps_per_task(parts) * len(tasks)
    weights = sum(parameter.nbytes for parameter in parts.model.parameters())
    data = sum(split.inputs.nbytes for task in tasks for split in task.parts)
    trial = copy.copy(parts)
    trial.model = copy.deepcopy(parts.model)
    optimizer = parts.make_optimizer(list(trial.model.parameters()))
    parts.strategy.before_task(tasks[0], optimizer)
    reference = next(trial.model.parameters())
    updates = train_epoch(
        trial,
        optimizer,
        gather([tasks[0]], tasks[0], parts.sequence, reference.device, reference.dtype),
        torch.Generator(),
        batches := _BatchTimes(),
    )
    while len(batches.ends) <= TRIAL_STEPS and next(updates, None) is not None:
        pass
    first, *later = batches.ends or [time.perf_counter()]
    per_step = (later[-1] - first) / len(later) if later else 0.0
    folder = f"{config.output}/{config.name}-{run_hash(config.as_dict())}"
    return (
        f"{len(tasks)} tasks, {steps} steps, about {steps * per_step:.0f} s of unprotected training "
        f"({per_step * 1e3:.1f} ms a step); weights {weights / 1e6:.1f} MB, data {data / 1e6:.1f} MB, "
        f"saved weights and checkpoint {weights / 1e6 * (len(tasks) + 1):.1f} MB; would write {folder}"
    )
