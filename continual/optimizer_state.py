"""What an optimiser remembers, as named tensors and numbers: a new task or a resumed run can go on with it.

A new optimiser is made for every task; with `optimizer_state=keep` it takes over what the old one remembered of each
parameter (momentum, moments, step counts), by the parameter's name. Learning rates and all else that is set start as
configured, and a schedule starts anew. A parameter that no longer trains is left out; one that did not is new.
"""

from typing import Any

import torch
from torch import Tensor, nn


def remembered(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """Give what an optimiser remembers, by `parameter/quantity`: tensors, numbers or None.

    Args:
        optimizer: of some of the model's parameters.
        model: names them.

    Raises:
        ValueError: if it remembers something else, such as LBFGS's lists.
    """
    found = {}
    for name, parameter in model.named_parameters():
        for quantity, value in optimizer.state.get(parameter, {}).items():
            if value is not None and not isinstance(value, Tensor | bool | int | float):
                raise ValueError(
                    f"optimizer_state=keep can keep tensors and numbers, but {type(optimizer).__name__} remembers "
                    f"{quantity!r}, a {type(value).__name__}; use optimizer_state=reset or another optimiser."
                )
            found[f"{name}/{quantity}"] = value.detach().clone() if isinstance(value, Tensor) else value
    return found


def take_over(optimizer: torch.optim.Optimizer, model: nn.Module, memory: dict[str, Any]) -> None:
    """Let a new optimiser go on with what an old one remembered.

    Args:
        optimizer: that has not stepped yet.
        model: names its parameters.
        memory: from `remembered`.
    """
    if not memory:
        return
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    state: dict[int, dict[str, Any]] = {}
    described = optimizer.state_dict()
    for group, numbered in zip(optimizer.param_groups, described["param_groups"], strict=True):
        for parameter, number in zip(group["params"], numbered["params"], strict=True):
            prefix = f"{names[id(parameter)]}/"
            known = {key.removeprefix(prefix): value for key, value in memory.items() if key.startswith(prefix)}
            if known:
                state[number] = known
    optimizer.load_state_dict({"state": state, "param_groups": described["param_groups"]})


def example_optimizer(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.Optimizer:
    """Step an optimiser of parameters nobody uses, so that it remembers what it would of a network's."""
    for group in optimizer.param_groups if steps else ():
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        optimizer.step()
    return optimizer
