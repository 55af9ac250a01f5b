"""From a configuration to the parts of a run: data, tasks, model, strategy, rule, objective."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from continual.config import RunConfig, build
from continual.errors import UserError
from continual.evaluation import part_of
from continual.runner import Parts
from continual.scenarios import TaskSequence
from continual.seeding import seeded
from continual.strategies import Setting
from neuro.lateral import last_linear


def make_parts(config: RunConfig) -> Parts:
    """Build every part of a run and attach the strategy.

    Raises:
        UserError: if a part does not fit.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    torch.set_flush_denormal(True)  # fading gradients are full of denormals, which are some ten times slower
    sequence, allow = make_sequence(config), config.allow
    model = make_model(config, sequence.input_shape, sequence.num_classes).to(
        device_of(config.device), getattr(torch, config.dtype)
    )
    strategy, rule = build(config.strategy, "strategy", allow), build(config.rule, "rule", allow)
    if strategy.needs_task_id_in_test and sequence.mode != "task":
        raise UserError(f"{strategy.name} needs the task's number at test time, which mode={sequence.mode} withholds.")
    try:
        rule.check(model)
        for task in sequence.tasks:
            part_of(task, config.evaluate_on)
        head = config.head if config.head is not None else last_linear(model)
        strategy.attach(Setting(model, head, sequence, config.seed))
    except ValueError as problem:
        raise UserError(str(problem)) from problem
    make_optimizer, make_schedule = optimizer_makers(config)
    trial = make_optimizer(list(model.parameters()))
    if make_schedule is not None:
        make_schedule(trial)
    return Parts(
        model,
        sequence,
        strategy,
        rule,
        build(config.objective, "objective", allow),
        make_optimizer,
        make_schedule,
        config.epochs,
        config.batch_size,
        config.seed,
        config.evaluate_on,
        config.evaluate_future,
    )


def optimizer_makers(config: RunConfig) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Give what makes an optimiser from parameters, and a schedule from an optimiser, anew for each task."""

    def make_optimizer(parameters: list[nn.Parameter]) -> Any:
        return build(config.optimizer, "optimizer", config.allow, params=parameters)

    def make_schedule(optimizer: torch.optim.Optimizer) -> Any:
        return build(config.schedule, "schedule", config.allow, optimizer=optimizer)

    return make_optimizer, make_schedule if config.schedule is not None else None


def make_sequence(config: RunConfig) -> TaskSequence:
    """Build data and scenario, or take the user's own sequence."""
    if isinstance(config.scenario, TaskSequence):
        return config.scenario
    return build(config.scenario, "scenario", config.allow, dataset=build(config.data, "data", config.allow))


def make_model(config: RunConfig, input_shape: Sequence[int], num_classes: int) -> nn.Module:
    """Build the network, its weights drawn from the stream `init`, or take the user's own."""
    if isinstance(config.model, nn.Module):
        return config.model
    with seeded(config.seed, "init"):
        return build(config.model, "model", config.allow, input_shape=tuple(input_shape), num_classes=num_classes)


def device_of(name: str) -> torch.device:
    """Check that a device is there.

    Raises:
        UserError: if it is not, listing what is.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        there = ["cpu"] + ([str(torch.accelerator.current_accelerator())] if torch.accelerator.is_available() else [])
        raise UserError(f"device={name} is not available here; choose from {', '.join(there)}.") from problem
    return device
