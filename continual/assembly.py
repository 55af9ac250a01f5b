"""From a configuration to the parts of a run: data, tasks, model, strategy, rule, objective."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from continual.batches import as_tensors
from continual.config import RunConfig, build, call
from continual.data import Dataset
from continual.energy import constants_from
from continual.errors import UserError
from continual.evaluation import part_of
from continual.objectives import check_input_gradient
from continual.optimizer_state import example_optimizer
from continual.robust_matrices import Measurement
from continual.runner import Parts
from continual.scenarios import TaskSequence, label_budget, reordered
from continual.schedules import check_watched
from continual.seeding import apart, seeded
from continual.strategies import Setting, Strategy
from neuro.lateral import evaluating, last_linear


def make_parts(config: RunConfig) -> Parts:
    """Build every part of a run and attach the strategy.

    Raises:
        UserError: if a part does not fit.
    """
    for key, kind in (("scenario", TaskSequence), ("data", Dataset), ("model", nn.Module), ("strategy", Strategy)):
        require(key, getattr(config, key), kind)
    sequence, allow = make_sequence(config), config.allow
    model = make_model(config, sequence.input_shape, sequence.num_classes).to(
        device_of(config.device), getattr(torch, config.dtype)
    )
    strategy, rule = build(config.strategy, "strategy", allow), build(config.rule, "rule", allow)
    objective = build(config.objective, "objective", allow)
    check_needs(strategy, sequence, config)
    check_labels(strategy, objective, sequence)
    make_optimizer, make_schedule = optimizer_makers(config)
    try:
        rule.check(model)
        for task in sequence.tasks:
            part_of(task, config.evaluate_on)
        head = find_head(model, config.head)
        rule.attach(model)
        setting = Setting(model, head, sequence, config.seed, rule, objective, config.epochs, config.batch_size)
        strategy.attach(setting)
        strategy.check_optimizer(later_optimizer(make_optimizer, config))
    except ValueError as problem:
        raise UserError(str(problem)) from problem
    check_fit(model, objective, sequence, config)
    constants_from(config.energy)
    check_schedule(make_optimizer([nn.Parameter(torch.zeros(1))]), make_schedule, config.epochs, sequence)
    return Parts(
        model,
        sequence,
        strategy,
        rule,
        objective,
        make_optimizer,
        make_schedule,
        config.epochs,
        config.batch_size,
        config.seed,
        config.evaluate_on,
        config.evaluate_future,
        config.optimizer_state == "keep",
        config.evaluate_every,
        make_measurements(config),
        config.robustness_every_task,
        config.keep_checkpoints == "all",
    )


def check_needs(strategy: Strategy, sequence: TaskSequence, config: RunConfig) -> None:
    """Refuse a strategy that needs what the sequence hides, and settings that an online stream rules out.

    Raises:
        UserError: naming what is needed and hidden.
    """
    if strategy.needs_task_id_in_test and sequence.mode != "task":
        raise UserError(f"{strategy.name} needs the task's number at test time, which mode={sequence.mode} withholds.")
    if sequence.boundaries == "known":
        return
    for needed, what in (
        (strategy.needs_boundaries, "to be told where a task ends"),
        (strategy.needs_task_id_in_training, "the task's number in training"),
    ):
        if needed:
            raise UserError(
                f"{strategy.name} needs {what}, which stream=online hides; use stream=as_given, or a strategy without "
                f"that need, such as er."
            )
    if config.epochs != 1 or config.optimizer_state != "keep":
        raise UserError(
            f"stream=online is seen once, by one optimiser, but epochs={config.epochs} and "
            f"optimizer_state={config.optimizer_state}; add epochs=1 optimizer_state=keep."
        )


def check_labels(strategy: Strategy, objective: Any, sequence: TaskSequence) -> None:
    """Refuse to withhold labels from what cannot do without.

    Raises:
        UserError: naming the part that needs them.
    """
    if all(task.withheld is None or not task.withheld.any() for task in sequence.tasks):
        return
    if not getattr(objective, "learns_from_unlabelled", False):
        raise UserError(
            f"num_labelled withholds labels, and the objective {objective.name} learns from labelled samples alone; "
            f"use objective=pass, uat or rst, or add num_unlabelled=0."
        )
    if strategy.needs_labels:
        raise UserError(
            f"{strategy.name} reads the labels of what it keeps or measures, and num_labelled withholds some; use "
            f"naive, joint, er, lwf, gpm or hlop, or add num_unlabelled=0."
        )


def make_measurements(config: RunConfig) -> dict[str, Measurement]:
    """Build what is measured beside accuracy.

    Raises:
        UserError: if a name or a description does not fit.
    """
    if not isinstance(config.robustness, dict):
        raise UserError(f"robustness must name evaluations, as in robustness=[pgd20], got {config.robustness!r}.")
    found = {}
    for name, description in config.robustness.items():
        found[name] = build(description, f"robustness.{name}", config.allow)
        if not callable(getattr(found[name], "measure", None)):
            raise UserError(f"robustness.{name} must be an evaluation that can `measure`, got {found[name]!r}.")
    return found


def later_optimizer(make_optimizer: Callable[..., Any], config: RunConfig) -> torch.optim.Optimizer:
    """Make an optimiser as a task after the first will have it, of a parameter that nobody uses."""
    return example_optimizer(make_optimizer([nn.Parameter(torch.zeros(1))]), config.optimizer_state == "keep")


def optimizer_makers(config: RunConfig) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Give what makes an optimiser from parameters, and a schedule from an optimiser, anew for each task."""

    def make_optimizer(parameters: list[nn.Parameter]) -> Any:
        return build(config.optimizer, "optimizer", config.allow, params=parameters)

    def make_schedule(optimizer: torch.optim.Optimizer) -> Any:
        return build(config.schedule, "schedule", config.allow, optimizer=optimizer)

    return make_optimizer, make_schedule if config.schedule is not None else None


def require(key: str, part: Any, kind: type) -> None:
    """Refuse a part that is neither described nor an object of its role.

    Raises:
        UserError: saying what came.
    """
    if part is not None and not isinstance(part, dict | kind):
        raise UserError(f"{key} must be described with _target_ or be a {kind.__name__}, got {part!r}.")


def find_head(model: nn.Module, name: str | None) -> str:
    """Give the name of the head: the last linear layer, or the linear layer the user names.

    Raises:
        ValueError: if there is no such layer, listing those there are.
    """
    linear = [layer for layer, module in model.named_modules() if isinstance(module, nn.Linear)]
    if name is not None and name not in linear:
        raise ValueError(f"head={name} is not a linear layer of the model; choose from {', '.join(linear) or 'none'}.")
    return name if name is not None else last_linear(model)


def check_fit(model: nn.Module, objective: Any, sequence: TaskSequence, config: RunConfig) -> None:
    """Send one sample through the network, and a gradient back to it where the objective asks for one.

    Raises:
        UserError: if an input does not fit, the head has too few rows, or no gradient arrives.
    """
    reference = next(model.parameters())
    one = sequence.tasks[0].train.select(np.array([0]))
    inputs, _ = as_tensors(one, reference.device, reference.dtype)
    try:
        with evaluating(model), apart(model, config.seed, "fit"):
            logits = model(inputs)
    except (RuntimeError, ValueError) as problem:
        reason = " ".join(" ".join([str(problem), *getattr(problem, "__notes__", [])]).split())
        raise UserError(
            f"The model cannot take inputs {list(inputs.shape)} ({reason}); change its input size."
        ) from problem
    if tuple(logits.shape) != (1, sequence.num_classes):
        raise UserError(
            f"The model must give logits [B, {sequence.num_classes}], one row of the head per class of the sequence; "
            f"it gave {list(logits.shape)} for one sample."
        )
    try:
        with apart(model, config.seed, "fit"):
            check_input_gradient(objective, model, inputs)
    except ValueError as problem:
        raise UserError(str(problem)) from problem


def check_schedule(
    optimizer: Any, make_schedule: Callable[..., Any] | None, epochs: int, sequence: TaskSequence
) -> None:
    """Run a schedule through the epochs of one task.

    Raises:
        UserError: if it fails on the way, or wants to see validation data where there is none.
    """
    if make_schedule is None:
        return
    schedule = make_schedule(optimizer)
    try:
        check_watched(schedule, [task.name for task in sequence.tasks if task.validation is None])
    except ValueError as problem:
        raise UserError(f"schedule: {problem}") from problem
    optimizer.step()
    for _ in range(epochs):
        try:
            schedule.step()
        except (ArithmeticError, ValueError, TypeError, RuntimeError) as problem:
            raise UserError(f"schedule: {problem}; change its settings.") from problem


def make_sequence(config: RunConfig) -> TaskSequence:
    """Build data and scenario, or take the user's own sequence; order it, make a stream of it, withhold labels."""
    sequence = config.scenario
    if not isinstance(sequence, TaskSequence):
        sequence = build(sequence, "scenario", config.allow, dataset=build(config.data, "data", config.allow))
    sequence = call(reordered, "order_seed", {"order_seed": config.order_seed}, {"sequence": sequence})
    if config.stream is not None:
        sequence = build(config.stream, "stream", config.allow, sequence=sequence)
    budget = {"num_labelled": config.num_labelled, "num_unlabelled": config.num_unlabelled, "seed": config.seed}
    return call(label_budget, "num_labelled", budget, {"sequence": sequence})


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
