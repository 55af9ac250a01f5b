"""The role of an objective: what is minimised, in two halves with a learning rule between them.

`prepare` makes what the network will see from a batch: noisy copies, adversarial images. `loss` scores what it
answered. Between the two a rule runs the network its own way. Copies of a batch stand one whole batch after another,
so whoever looks at the first B rows of outputs finds one answer per sample.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from continual.batches import Batch


class Objective:
    """Show the batch as it is; the base of every objective of ours.

    Attributes:
        weighs_samples: `loss` reads `Batch.weights`.
        needs_input_gradient: `prepare` asks how answers change with the input.
        learns_from_unlabelled: there is a use for samples whose target is `UNLABELLED`.
    """

    name: str = "objective"
    weighs_samples: bool = True
    needs_input_gradient: bool = False
    learns_from_unlabelled: bool = False

    def __init__(self) -> None:
        self.epoch, self.generator = 0, torch.Generator().manual_seed(0)

    @property
    def passes(self) -> int:
        """Passes forward and back that a sample costs a step, those of an attack among them."""
        return 1

    @property
    def rows(self) -> int:
        """Copies of a sample that the network is trained on in a step."""
        return 1

    def begin_epoch(self, epoch: int, generator: torch.Generator) -> None:
        """Hear of an epoch of a task, counted from 0, and take the random stream that it draws from."""
        self.epoch, self.generator = epoch, generator

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Make the batch the network will see."""
        return batch

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits, a scalar."""
        raise NotImplementedError


def cost_of(objective: object) -> tuple[int, int]:
    """Give rows and passes per sample and step; 1 each for a user's own objective that does not say."""
    return getattr(objective, "rows", 1), getattr(objective, "passes", 1)


def begin_epoch(objective: object, epoch: int, generator: torch.Generator) -> None:
    """Tell an objective that an epoch begins, if it listens; a user's own need only prepare and score."""
    if callable(hear := getattr(objective, "begin_epoch", None)):
        hear(epoch, generator)


def check_input_gradient(objective: object, model: nn.Module, inputs: Tensor) -> None:
    """Refuse an objective that attacks its inputs where no gradient reaches them.

    Args:
        objective: what is minimised.
        model: from inputs to logits.
        inputs: one sample, [1, ...].

    Raises:
        ValueError: saying what blocks.
    """
    if not getattr(objective, "needs_input_gradient", False):
        return
    wanted = f"{getattr(objective, 'name', type(objective).__name__)} needs the gradient of the answer by the input"
    if not inputs.is_floating_point():
        raise ValueError(f"{wanted}, but inputs are of {inputs.dtype}; choose objective=cross_entropy.")
    watched = inputs.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = model(watched)
        found = torch.autograd.grad(logits.sum(), watched, allow_unused=True)[0] if logits.requires_grad else None
    if found is None:
        raise ValueError(f"{wanted}, and this model's input stage passes none back; use a constant-current encoder.")
