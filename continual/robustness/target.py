"""The network under attack: any callable from pixels to logits, and how it has to be asked.

Attacks take a bare callable or a `Target` around it. A Target says what cannot be seen from outside: that answers are
random, which rows of the head are active, what resets a state, what stands in for the network on the way back.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from continual.robustness.checks import require_known_labels
from continual.robustness.guard import left_as_found, networks_behind

Model = Callable[[Tensor], Tensor]
"""From images [B, ...] in raw pixels to logits [B, C]."""


@dataclass(frozen=True)
class Target:
    """A network and how it has to be asked.

    Example:
        >>> import torch
        >>> target = Target(torch.nn.Linear(4, 10), classes=[2, 3])
        >>> target.ask(torch.rand(5, 4)).shape
        torch.Size([5, 2])

    Args:
        model: any callable from images in raw pixels to logits, spiking or not.
        classes: rows of the head that are active, in ascending order; None for all. Labels keep the head's numbering.
        stochastic: answers draw fresh randomness at every call (a Poisson encoder); a decision is then the class that
            most of `decision_draws` calls name, the lowest of equals.
        gradient_draws: calls that one gradient averages over (expectation over transformation).
        decision_draws: calls of one decision of a stochastic network.
        reset: called before every forward pass; for layers that keep a membrane from call to call.
        backward: a differentiable stand-in, with outputs as the model's, that gradients go through (BPDA, Athalye,
            Carlini and Wagner 2018); decisions stay the model's own. None goes back through the model.
        networks: further modules to leave as found, where they cannot be found behind `model`.

    Raises:
        TypeError: if model is not callable.
        ValueError: if a number of draws is below 1, or classes are not ascending or fewer than 2.
    """

    model: Model
    classes: Sequence[int] | None = None
    stochastic: bool = False
    gradient_draws: int = 1
    decision_draws: int = 10
    reset: Callable[[], Any] | None = None
    backward: Model | None = None
    networks: Sequence[nn.Module] = ()

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"A callable from images to logits is needed, got {self.model!r}.")
        if min(self.gradient_draws, self.decision_draws) < 1:
            raise ValueError(
                f"gradient_draws and decision_draws must be at least 1, got {self.gradient_draws} and "
                f"{self.decision_draws}."
            )
        rows = self.classes
        if rows is not None and (len(rows) < 2 or list(rows) != sorted(set(rows)) or rows[0] < 0):
            raise ValueError(f"classes must be at least 2 different rows of the head, ascending, got {list(rows)}.")

    def ask(self, images: Tensor, through: Model | None = None) -> Tensor:
        """Give the logits of the active classes, from a reset state.

        Args:
            images: [B, ...].
            through: what to call; None for the model.
        """
        if self.reset is not None:
            self.reset()
        logits = (through if through is not None else self.model)(images)
        if self.classes is None or logits.ndim != 2:
            return logits
        if self.classes[-1] >= logits.shape[1]:
            raise ValueError(f"classes must be rows of the head, below {logits.shape[1]}, got {list(self.classes)}.")
        return logits[:, torch.as_tensor(self.classes, device=logits.device)]

    def local_labels(self, labels: Tensor, num_classes: int) -> Tensor:
        """Give labels in the numbering of the active classes.

        Args:
            labels: [B], in the numbering of the head.
            num_classes: C, of the active classes.

        Raises:
            ValueError: if a label is not among them.
        """
        if self.classes is None:
            require_known_labels(labels, num_classes)
            return labels.long()
        rows = torch.as_tensor(self.classes, device=labels.device)
        place = torch.searchsorted(rows, labels.contiguous().to(rows.dtype)).clamp(max=len(rows) - 1)
        strange = rows[place] != labels
        if bool(strange.any()):
            sample = int(strange.int().argmax())
            raise ValueError(
                f"Labels must be among the active classes {list(self.classes)}, but sample {sample} has the label "
                f"{int(labels[sample])}."
            )
        return place

    def head_labels(self, predictions: Tensor) -> Tensor:
        """Give predictions in the numbering of the head."""
        if self.classes is None:
            return predictions
        return torch.as_tensor(self.classes, device=predictions.device)[predictions]

    def left_as_found(self, root: int) -> AbstractContextManager[None]:
        """Lend everything behind this target to an attack; see `guard.left_as_found`."""
        return left_as_found(networks_behind(self.model, self.backward, self.reset, self.networks), root)


def as_target(model: Model | Target) -> Target:
    """Give a target; a bare callable is asked as it is."""
    return model if isinstance(model, Target) else Target(model)
