"""Axis letters, the type of a static input, and what every state is.

Shapes are written in letters throughout: T time steps, B batch, N neurons (or features), C H W an image. Activity is
time first, `T B ...`. State is explicit: a NamedTuple of tensors that goes into a step and comes out of it, so that
nothing hides in a module between two batches and no reset can be forgotten.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = tuple[Tensor, ...]
"""State of one neuron layer; each neuron declares its own NamedTuple."""


class Static(NamedTuple):
    """An input that is the same at every time step, held once.

    Layers without state map it once instead of T times; a neuron layer reads it T times.

    Attributes:
        value: the input of one time step, [B, ...].
        time_steps: T, how often it is presented.
    """

    value: Tensor
    time_steps: int


Activity: TypeAlias = Tensor | Static
"""What flows between layers: [T, B, ...], or a static [B, ...] with its T."""


def unroll(activity: Activity) -> Tensor:
    """Give activity as [T, B, ...]; a static value is expanded without a copy."""
    if isinstance(activity, Static):
        return activity.value.expand(activity.time_steps, *activity.value.shape)
    return activity


def first_tick(activity: Activity) -> Tensor:
    """Give the input of the first time step, [B, ...]."""
    return activity.value if isinstance(activity, Static) else activity[0]


def num_time_steps(activity: Activity) -> int:
    """Give T.

    Raises:
        ValueError: if there is no time step at all.
    """
    time_steps = activity.time_steps if isinstance(activity, Static) else activity.shape[0]
    if time_steps < 1:
        raise ValueError(f"At least one time step is needed, got T = {time_steps}; set time_steps to 1 or more.")
    return time_steps


def state_like(current: Tensor, fill: float = 0.0) -> Tensor:
    """Give a fresh state tensor of the shape, device and dtype of one tick's input [B, ...]."""
    return torch.full_like(current, fill, requires_grad=False)
