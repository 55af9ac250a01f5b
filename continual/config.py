"""From plain data to objects: what a run is described by, and how the description is built.

A description is a dict; one with `_target_` names a public constructor and its keywords. Targets may lie below our
own packages, torch.nn and torch.optim, and in packages the user allows by name. A wrong key, type or value ends in
one sentence that names the path to it. This file knows nothing of Hydra.
"""

import difflib
import importlib
import inspect
import math
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Literal, Union

from continual.errors import UserError

ALLOWED = ("neuro", "continual", "transformers_core", "torch.nn", "torch.optim")
NOT_HASHED = ("device", "threads", "output", "overwrite", "dry_run", "resume", "allow", "keep_checkpoints")
"""Keys that do not change what a run computes, but for rounding."""


@dataclass
class RunConfig:
    """The description of one run; each part is a dict with `_target_`, or an object from Python.

    Attributes:
        data: makes a `Dataset`.
        scenario: makes a `TaskSequence` from it.
        stream: how its tasks come: makes a `TaskSequence` from one; None leaves it as it is.
        model: makes the network from `input_shape` and `num_classes`.
        strategy: what protects old tasks.
        rule: how gradients arise.
        objective: what is minimised.
        optimizer: makes an optimiser from parameters, once a task.
        schedule: makes a learning-rate schedule from an optimiser, or None.
        name: first part of the run folder's name; None for scenario and data, as in permuted_mnist5k.
        epochs: per task.
        batch_size: samples per batch.
        seed: root of all random streams.
        order_seed: draws the order of the tasks, apart from all else; None leaves it as given.
        num_labelled: train samples of each task that keep their label; None for all.
        num_unlabelled: train samples of each task without one; None for the rest.
        optimizer_state: whether what an optimiser remembers is lost (reset) or kept (keep) where a task ends.
        evaluate_on: test, or validation for selection.
        evaluate_every: optimiser steps between evaluations inside a task; None evaluates at the ends of tasks alone.
        evaluate_future: score tasks before they are learned too; forward transfer needs it.
        robustness: evaluations by name, each measured after every task as a matrix of its own.
        energy: picojoules per_mac and per_synaptic_operation, which the estimate of energy stands on.
        published: of a preset, the number it is to reproduce: source, acc_final, bwt and tolerance, in percent.
        robustness_every_task: measure them on all tasks so far after each; else on the new one, and on all at the end.
        head: name of the head's layer; None for the last linear one.
        device: where to compute.
        dtype: of weights and inputs.
        threads: CPU threads; None leaves torch's choice.
        output: folder that run folders go into.
        overwrite: redo a run that is there.
        dry_run: only say what would be done.
        keep_checkpoints: of every task boundary (all), so that a run can be forked there, or of the last (latest).
        parent: of a fork, the run and the task it went on from.
        resume: auto refuses to go on under conditions that change bits; force goes on.
        allow: packages that targets may lie in, beside ours.
    """

    data: Any
    scenario: Any
    model: Any
    strategy: Any
    rule: Any
    objective: Any
    optimizer: Any
    schedule: Any = None
    stream: Any = None
    name: str | None = None
    epochs: int = 1
    batch_size: int = 64
    seed: int = 0
    order_seed: int | None = None
    num_labelled: int | None = None
    num_unlabelled: int | None = None
    optimizer_state: Literal["reset", "keep"] = "reset"
    evaluate_on: Literal["test", "validation"] = "test"
    evaluate_every: int | None = None
    evaluate_future: bool = True
    robustness: Any = field(default_factory=dict)
    robustness_every_task: bool = False
    published: Any = None
    energy: Any = field(default_factory=dict)
    head: str | None = None
    device: str = "cpu"
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    threads: int | None = None
    output: str = "runs"
    overwrite: bool = False
    dry_run: bool = False
    resume: Literal["auto", "force"] = "auto"
    keep_checkpoints: Literal["latest", "all"] = "latest"
    parent: Any = None
    allow: Sequence[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        self.output = str(self.output)
        for entry in fields(self):
            setattr(self, entry.name, _fitted(getattr(self, entry.name), hints[entry.name], entry.name))
        if self.name is not None and not re.fullmatch(r"[\w.-]*\w[\w.-]*", self.name):
            raise UserError(f"name must be made of letters, digits, '.', '_' and '-', got {self.name!r}.")
        if self.name is None:
            self.name = "_".join(label_of(part) for part in (self.scenario, self.data) if part is not None)
        for key in ("epochs", "batch_size", "threads", "evaluate_every"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise UserError(f"{key} must be at least 1, got {value}.")

    def as_dict(self) -> dict[str, Any]:
        """Give the resolved description, one key per field."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> "RunConfig":
        """Make a config of plain data.

        Raises:
            UserError: if a key is unknown or missing, or a value has the wrong type.
        """
        known = {entry.name for entry in fields(cls)}
        for key in description:
            if key not in known:
                raise UserError(f"There is no key {key!r}{did_you_mean(key, known)}.")
        try:
            return cls(**description)
        except TypeError as problem:
            raise UserError(f"The configuration is incomplete: {problem}.") from problem


def label_of(part: Any) -> str:
    """Name a described part after its constructor, and an object after itself, fit for a folder's name."""
    described = isinstance(part, Mapping)
    label = (
        str(part.get("_target_", "")).rpartition(".")[2] if described else getattr(part, "name", type(part).__name__)
    )
    return re.sub(r"[^\w-]+", "_", label)


def build(description: Any, path: str, allow: Sequence[str] = (), **injected: Any) -> Any:
    """Build an object from its description.

    Args:
        description: a dict with `_target_`; anything else is given back, its parts built.
        path: where it stands in the configuration, for messages.
        allow: packages that targets may lie in, beside ours.
        injected: further keywords of the outermost target.

    Returns:
        The object.

    Raises:
        UserError: if the target is not allowed or does not exist, a key does not fit its signature, or it refuses a
            value.
    """
    if isinstance(description, Mapping) and "_target_" in description:
        target = resolve(description["_target_"], path, allow)
        keys = {key: build(value, f"{path}.{key}", allow) for key, value in description.items() if key != "_target_"}
        return call(target, path, keys, injected)
    if isinstance(description, Mapping):
        return {key: build(value, f"{path}.{key}", allow) for key, value in description.items()}
    if isinstance(description, list | tuple):
        return [build(value, f"{path}[{index}]", allow) for index, value in enumerate(description)]
    return description


def resolve(target: str, path: str, allow: Sequence[str] = ()) -> Any:
    """Import a target by its dotted name.

    Raises:
        UserError: if it is not below an allowed package or cannot be imported.
    """
    allowed = (*ALLOWED, *allow)
    if not isinstance(target, str) or not any(target.startswith(f"{prefix}.") for prefix in allowed):
        raise UserError(
            f"{path}._target_ must lie below one of {', '.join(allowed)}, got {target!r}; "
            f"name your own package with allow=[yourpackage]."
        )
    module_name, _, attribute = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as problem:
        raise UserError(f"{path}._target_: {target!r} cannot be imported ({problem}).") from problem
    if not callable(found):
        raise UserError(f"{path}._target_ must name a class or a function, but {target!r} is a {type(found).__name__}.")
    return found


def call(target: Any, path: str, keys: Mapping[str, Any], injected: Mapping[str, Any]) -> Any:
    """Call a target with keywords checked against its signature.

    Raises:
        UserError: naming the path of the key or value that does not fit.
    """
    parameters = inspect.signature(target).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    hints = _hints(target)
    arguments = {}
    for key, value in keys.items():
        if key not in parameters and not open_ended:
            raise UserError(f"{path} has no key {key!r}{did_you_mean(key, set(parameters) - set(injected))}.")
        arguments[key] = _fitted(value, hints.get(key, Any), f"{path}.{key}")
    try:
        return target(**arguments, **injected)
    except (ValueError, TypeError, OSError, ArithmeticError, RuntimeError) as problem:
        raise UserError(f"{path}: {' '.join(str(problem).split())}") from problem


def did_you_mean(key: str, choices: typing.Iterable[str]) -> str:
    """Give the end of a message: the closest choice, or all of them."""
    ordered = sorted(choices)
    close = difflib.get_close_matches(key, ordered, n=1)
    if close:
        return f"; did you mean {close[0]!r}? (choose from {', '.join(ordered)})"
    return f"; choose from {', '.join(ordered)}" if ordered else ""


def _hints(target: Any) -> dict[str, Any]:
    function = target.__init__ if inspect.isclass(target) else target
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return {}  # a foreign constructor whose annotations cannot be resolved: its own checks have to do


def _fitted(value: Any, hint: Any, path: str) -> Any:
    """Check a plain value against a plain annotation; an int is taken for a float, objects pass.

    Raises:
        UserError: if it does not fit.
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in options:
            raise UserError(f"{path} must be one of {', '.join(map(repr, options))}, got {value!r}.")
        return value
    if origin in (Union, UnionType):
        return _fitted_to_one_of(value, options, path)
    if (
        origin is not None
        and isinstance(origin, type)
        and issubclass(origin, Sequence)
        and isinstance(value, list | tuple)
    ):
        return [_fitted(entry, options[0] if options else Any, f"{path}[{index}]") for index, entry in enumerate(value)]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        raise UserError(f"{path} must be a list, got {value!r}.")
    if hint not in _PLAIN:
        return value
    if hint is float and not isinstance(value, bool) and _reads_as_number(value):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise UserError(f"{path} must be {_PLAIN[hint]}, got {value!r}.")
    return value


def _fitted_to_one_of(value: Any, options: tuple[Any, ...], path: str) -> Any:
    """Check against a union: a text has to fit one of its plain members, anything else may be meant for another."""
    plain = [option for option in options if option in _PLAIN]
    others = [option for option in options if option not in _PLAIN and option is not type(None)]
    if value is None or not plain or (others and not isinstance(value, str)):
        return value
    return value if isinstance(value, str) and str in plain else _fitted(value, plain[0], path)


def _reads_as_number(value: Any) -> bool:
    """Tell whether a value is a number, or the text of one: YAML takes 1e-3 for a text."""
    try:
        return isinstance(value, int | float | str) and math.isfinite(float(value))
    except ValueError:
        return False


_PLAIN = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
