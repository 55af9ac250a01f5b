"""Leave a network exactly as it was found.

While an attack runs, every module behind the network is in evaluation mode, no parameter collects a gradient and all
random streams are lent. Afterwards each submodule has its own mode back (`model.train()` would thaw a batch norm that
its owner froze), and so have `requires_grad`, buffers such as batch-norm statistics, tensors that a layer keeps as its
state (a membrane), and the streams of torch, numpy, Python and of the modules themselves.
"""

import functools
import inspect
import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from continual.seeding import apart, seeded


def networks_behind(*things: Any) -> tuple[nn.Module, ...]:
    """Find the modules that callables use: themselves, their owner, what they close over, and the globals they name.

    Args:
        things: modules, methods of one, partials, functions, objects with `__call__`, and collections of these.

    Returns:
        Each module once. A network that is reached in a more hidden way has to be named by the caller.
    """
    found: dict[int, nn.Module] = {}
    _collect(things, found, set())
    return tuple(found.values())


def _collect(thing: Any, found: dict[int, nn.Module], seen: set[int]) -> None:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, nn.Module):
        found[id(thing)] = thing
    elif isinstance(thing, list | tuple | set):
        for entry in thing:
            _collect(entry, found, seen)
    elif isinstance(thing, dict):
        _collect(list(thing.values()), found, seen)
    elif isinstance(thing, functools.partial):
        _collect([thing.func, *thing.args, *thing.keywords.values()], found, seen)
    elif inspect.ismethod(thing):
        _collect([thing.__self__, thing.__func__], found, seen)
    elif inspect.isfunction(thing):
        if thing.__module__.partition(".")[0] == "torch":
            return
        used = inspect.getclosurevars(thing)
        _collect([*used.nonlocals.values(), *used.globals.values()], found, seen)
    elif callable(thing) and hasattr(thing, "__dict__") and not inspect.isclass(thing) and not inspect.ismodule(thing):
        _collect(vars(thing), found, seen)


@contextmanager
def left_as_found(networks: Iterable[nn.Module], root: int) -> Iterator[None]:
    """Lend networks to an attack, and give everything back as it was, whatever happens.

    Args:
        networks: modules to guard.
        root: seed of the streams that stand in meanwhile.
    """
    modules = list(dict.fromkeys(module for network in networks for module in network.modules()))
    parameters = [(parameter, parameter.requires_grad) for module in modules for parameter in module.parameters(False)]
    modes = [(module, module.training) for module in modules]
    held = [(module, _held_by(module)) for module in modules]
    python, numerical = random.getstate(), np.random.get_state()  # noqa: NPY002  # the global stream of foreign code
    with ExitStack() as stack:
        stack.enter_context(seeded(root, "attack"))
        for network in networks:
            stack.enter_context(apart(network, root, "attack"))
        try:
            for module in modules:
                module.training = False
            for parameter, _ in parameters:
                parameter.requires_grad_(False)
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, wanted in parameters:
                parameter.requires_grad_(wanted)
            for module, state in held:
                _give_back(module, state)
            random.setstate(python)
            np.random.set_state(numerical)  # noqa: NPY002


def _held_by(module: nn.Module) -> list[tuple[dict[str, Any], str, Any, Any]]:
    """Note everything that a forward pass may overwrite: buffers, tensors and generators among the attributes."""
    places = (module._buffers, module.__dict__)
    return [
        (place, name, value, _content(value))
        for place in places
        for name, value in place.items()
        if name not in ("_parameters", "_buffers", "_modules") and _is_state(value)
    ]


def _is_state(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_state(entry) for entry in value)
    return value is None or isinstance(value, Tensor | torch.Generator)


def _content(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, torch.Generator):
        return value.get_state()
    return [(entry, _content(entry)) for entry in value] if isinstance(value, list | tuple) else None


def _give_back(module: nn.Module, state: list[tuple[dict[str, Any], str, Any, Any]]) -> None:
    kept = {(id(place), name) for place, name, _, _ in state}
    for place in (module._buffers, module.__dict__):
        grown = [name for name, value in place.items() if (id(place), name) not in kept and _is_state(value)]
        for name in grown:
            del place[name]
    for place, name, value, content in state:
        if not (name == "generator" and hasattr(module, "reseed")):  # `apart` puts that stream back itself
            place[name] = value
            _refill(value, content)


@torch.no_grad()
def _refill(value: Any, content: Any) -> None:
    if isinstance(value, Tensor):
        if not torch.equal(value, content):
            value.copy_(content)
    elif isinstance(value, torch.Generator):
        value.set_state(content)
    elif isinstance(value, list | tuple):
        if isinstance(value, list):
            value[:] = [entry for entry, _ in content]
        for entry, old in content:
            _refill(entry, old)
