"""Stop a run whose loss is not finite, and say where.

Losses are checked once an epoch, so that no step waits for an accelerator; the step is then read off the losses kept.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from continual.errors import DivergedError
from continual.scenarios import Task
from neuro.lateral import evaluating


def check_finite(losses: Tensor, model: nn.Module, inputs: Tensor, task: Task, epoch: int, folder: Path) -> None:
    """Raise if a loss of the epoch is NaN or infinite.

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
    if bool(torch.isfinite(losses).all()):
        return
    step = int((~torch.isfinite(losses)).nonzero()[0])
    checkpoint = folder / "checkpoint" / "state.json"
    last = f"the last good checkpoint is {checkpoint.parent}" if checkpoint.exists() else "no task was finished before"
    raise DivergedError(
        f"The loss became {float(losses[step])} in task {task.index + 1} ({task.name}), epoch {epoch + 1}, "
        f"step {step + 1}; the first layer that is not finite is {first_bad_layer(model, inputs)}; {last}. "
        f"Lower optimizer.lr and run again."
    )


def first_bad_layer(model: nn.Module, inputs: Tensor) -> str:
    """Name the first layer, in the order of computation, whose weight or output is not finite."""
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
        with evaluating(model):
            model(inputs)
    return repr(bad[0]) if bad else "none any more: the loss itself overflowed"
