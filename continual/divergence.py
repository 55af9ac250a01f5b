"""Stop a run whose loss is not finite, and say where.

On the CPU every loss is looked at before its step is made. On an accelerator they are looked at once an epoch, so that
no step waits for it; the step is then read off the losses kept. What the epoch leaves must be finite too.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from continual.errors import DivergedError
from continual.scenarios import Task
from continual.seeding import apart
from neuro.lateral import evaluating


def check_finite(losses: Tensor, model: nn.Module, inputs: Tensor, task: Task, epoch: int, folder: Path) -> None:
    """Raise if a loss of the epoch, or what it leaves, is NaN or infinite.

    Args:
        losses: of every step of the epoch, [steps].
        model: the network after the epoch.
        inputs: some of the task's inputs, to find the layer.
        task: being learned.
        epoch: 0-based.
        folder: run folder, to name the last good checkpoint.

    Raises:
        DivergedError: naming the step, the layer and the last good checkpoint.
    """
    finite, layer = torch.isfinite(losses), first_bad_layer(model, inputs)
    if bool(finite.all()) and layer is None:
        return
    step = len(losses) - 1 if bool(finite.all()) else int((~finite).nonzero()[0])
    checkpoint = folder / "checkpoint"
    there = (checkpoint / "state.json").exists()
    last = f"the last good checkpoint is {checkpoint}" if there else "no task was finished before"
    where = (
        f"the first layer that is not finite is {layer!r}" if layer else "every layer is finite: the loss overflowed"
    )
    what = f"The loss became {float(losses[step])}" if not bool(finite.all()) else "The network became infinite or NaN"
    raise DivergedError(
        f"{what} in task {task.index + 1} ({task.name}), "
        f"epoch {epoch + 1}, step {step + 1}; {where}; {last}. Lower optimizer.lr and run again."
    )


def is_seen_to_fail(loss: Tensor) -> bool:
    """Tell whether a loss is not finite, where looking costs no waiting: on the CPU."""
    return loss.device.type == "cpu" and not math.isfinite(loss.item())


def first_bad_layer(model: nn.Module, inputs: Tensor) -> str | None:
    """Name the first layer, in the order of computation, whose weight or output is not finite; None if all are."""
    bad: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, _inputs: Any, outputs: Any) -> None:
            tensors = [*module.parameters(recurse=False), *(outputs if isinstance(outputs, tuple) else (outputs,))]
            floats = [tensor for tensor in tensors if isinstance(tensor, Tensor) and tensor.is_floating_point()]
            if not all(bool(torch.isfinite(tensor).all()) for tensor in floats):
                bad.append(name)

        return look

    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not list(module.children()):
                stack.callback(module.register_forward_hook(watch(name)).remove)
        with evaluating(model), apart(model, 0, "divergence"):
            model(inputs)
    return bad[0] if bad else None
