"""The only way in which attacks ask a network: logits, decisions and gradients, counted.

All counters and flags stay on the network's device until the attack is over, so that no step waits for a number.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from continual.robustness.checks import require_logits, require_same_answers
from continual.robustness.target import Target

Objective = Callable[[Tensor], Tensor]
"""From logits [B, C] to what is raised, per sample [B]."""


_ASKED_TWICE = 8
"""Samples on which a network is asked twice whether it answers the same."""


class Seen(NamedTuple):
    """What one question gave.

    Attributes:
        values: of the objective, [B].
        logits: [B, C].
        gradient: of the values' sum with respect to the images [B, ...]; zeros where it was not asked for.
    """

    values: Tensor
    logits: Tensor
    gradient: Tensor


class Oracle:
    """Answers for one attack, and keeps count.

    Attributes:
        target: the network.
        forward_passes: images that went through the network.
        backward_passes: images whose gradient was asked for.
    """

    def __init__(self, target: Target, num_classes: int) -> None:
        self.target, self.num_classes = target, num_classes
        self.forward_passes = self.backward_passes = 0
        self._zero: Tensor | int = 0
        self._broken: Tensor | int = 0
        self._strange: Tensor | bool = False

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Give logits [B, C]; of a stochastic network the mean over the draws of one gradient."""
        return torch.stack([self._ask(images) for _ in range(self.target.gradient_draws)]).mean(0)

    @torch.no_grad()
    def score(self, images: Tensor, objective: Objective) -> Seen:
        """Evaluate an objective without its gradient."""
        logits = self.logits(images)
        return Seen(objective(logits), logits, torch.zeros_like(images))

    @torch.no_grad()
    def decide(self, images: Tensor) -> Tensor:
        """Give the predicted class [B], in the numbering of the active classes; ties go to the lowest."""
        draws = self.target.decision_draws if self.target.stochastic else 1
        votes = sum(torch.nn.functional.one_hot(self._ask(images).argmax(1), self.num_classes) for _ in range(draws))
        return votes.argmax(1)  # pyright: ignore[reportAttributeAccessIssue]  # a sum of at least one tensor

    def gradient(self, images: Tensor, objective: Objective) -> Seen:
        """Evaluate an objective and its gradient with respect to the images, averaged over the draws.

        Where a gradient is NaN or infinite it counts as 0; both are counted.
        """
        draws = [self._one_gradient(images, objective) for _ in range(self.target.gradient_draws)]
        values, logits, gradient = (torch.stack(part).mean(0) for part in zip(*draws, strict=True))
        broken = ~gradient.flatten(1).isfinite().all(1)
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        self._zero = self._zero + (gradient.flatten(1) == 0).all(1).sum()
        self._broken = self._broken + broken.sum()
        return Seen(values, logits, gradient)

    def _one_gradient(self, images: Tensor, objective: Objective) -> Seen:
        variable = images.detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = self._ask(variable, self.target.backward)
            values = objective(logits)
            (gradient,) = (
                torch.autograd.grad(values.sum(), variable, allow_unused=True) if values.requires_grad else (None,)
            )
        self.backward_passes += len(images)
        gradient = gradient if gradient is not None else torch.zeros_like(images)
        if self.target.backward is None:
            return Seen(values.detach(), logits.detach(), gradient)
        with torch.no_grad():
            own = self._ask(images)
            return Seen(objective(own), own, gradient)

    def _ask(self, images: Tensor, through: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        logits = self.target.ask(images, through)
        self.forward_passes += len(images)
        self._strange = self._strange | ~logits.detach().isfinite().all()
        return logits

    def vouch(self) -> None:
        """Refuse an attack during which a logit was NaN or infinite.

        Raises:
            ValueError: saying so.
        """
        if bool(self._strange):
            raise ValueError(
                "The network gave NaN or infinite logits on images that an attack tried inside the box; "
                "accuracy against such an attack has no meaning. Find the layer that overflows, or use float64."
            )

    def share_of_zero_gradients(self) -> float:
        """Give the share of gradients that were exactly 0 in every pixel; NaN where none was asked for."""
        return float(self._zero) / self.backward_gradients if self.backward_gradients else float("nan")

    def share_of_broken_gradients(self) -> float:
        """Give the share of gradients with a NaN or an infinity; NaN where none was asked for."""
        return float(self._broken) / self.backward_gradients if self.backward_gradients else float("nan")

    @property
    def backward_gradients(self) -> int:
        """Gradients asked for, each perhaps a mean over draws."""
        return self.backward_passes // self.target.gradient_draws


def opened(target: Target, images: Tensor) -> Oracle:
    """Ask a network for the first time, check what it gives, and give an oracle for it.

    Raises:
        TypeError: if it gives no tensor of logits.
        ValueError: if logits have the wrong shape or are not finite.
    """
    with torch.no_grad():
        logits = target.ask(images)
    require_logits(logits, len(images))
    return Oracle(target, logits.shape[1])


def require_steadiness(target: Target, images: Tensor) -> None:
    """Ask a network that is not declared stochastic twice about a few images.

    Raises:
        ValueError: if it answers differently.
    """
    if target.stochastic:
        return
    with torch.no_grad():
        first, second = target.ask(images[:_ASKED_TWICE]), target.ask(images[:_ASKED_TWICE])
    if isinstance(first, Tensor) and first.shape == second.shape:
        require_same_answers(first, second)
