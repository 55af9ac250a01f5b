"""RST: robust self-training (Carmon, Raghunathan, Schmidt, Liang, Duchi 2019), on TRADES.

A network learns from the labelled samples alone; its answers to the unlabelled ones become their labels, once and for
all; then TRADES learns from both:

    L = mean over labelled of ℓ  +  λ · mean over unlabelled of ℓ,        ℓ = CE(f(x), y) + β KL(p(x) ‖ p(x'))

Deliberate difference: the teacher is the network itself after the first epochs of each task, and the student goes on
from its weights, where the paper trains two networks from scratch. A sample whose label is unknown has the target
`UNLABELLED`.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from continual.batches import UNLABELLED, Batch
from continual.objectives.copies import require_copies, require_strength
from continual.objectives.cross_entropy import CrossEntropy
from continual.objectives.trades import TRADES
from continual.objectives.unlabelled import answers, shared_weights
from continual.robustness.threat import ThreatModel


class SelfTraining(TRADES):
    """Label the unlabelled with what the labelled taught, then train robustly on all.

    Args:
        threat: what the attacker may do.
        teacher_epochs: first epochs of each task, which learn from labelled samples with cross-entropy.
        unlabelled_strength: λ.
        strength: β.
        steps: gradients of the attack.
        relative_step: step / ε.

    Raises:
        TypeError: if threat is none.
        ValueError: if a number is out of range.
    """

    name = "rst"
    learns_from_unlabelled = True

    def __init__(
        self,
        threat: ThreatModel,
        teacher_epochs: int = 5,
        unlabelled_strength: float = 1.0,
        strength: float = 6.0,
        steps: int = 10,
        relative_step: float = 0.25,
    ) -> None:
        super().__init__(threat, strength, steps, relative_step)
        self.teacher_epochs = require_copies(teacher_epochs, "teacher_epochs")
        self.unlabelled_strength = require_strength(unlabelled_strength, "unlabelled_strength")
        self._cross_entropy = CrossEntropy()
        self._teacher: Callable[[Tensor], Tensor] | None = None

    @property
    def teaches(self) -> bool:
        """Whether the teacher is still learning."""
        return self.epoch < self.teacher_epochs

    def begin_epoch(self, epoch: int, generator: torch.Generator) -> None:
        """Hear of an epoch; a task's first one forgets the teacher of the task before."""
        super().begin_epoch(epoch, generator)
        if self.teaches:
            self._teacher = None

    @property
    def rows(self) -> int:
        """Give 1 while the teacher learns, then 2."""
        return 1 if self.teaches else super().rows

    @property
    def passes(self) -> int:
        """Give 1 while the teacher learns, then T + 2."""
        return 1 if self.teaches else super().passes

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give labelled samples while the teacher learns, and then all of them twice, clean and attacked."""
        unlabelled = batch.targets == UNLABELLED
        if self.teaches:
            weights = shared_weights(batch, unlabelled, 0.0)
            return batch._replace(targets=batch.targets.clamp(min=0), weights=weights)
        if self._teacher is None:
            self._teacher = copy.deepcopy(forward).requires_grad_(False) if isinstance(forward, nn.Module) else forward
        targets = torch.where(unlabelled, answers(self._teacher, batch), batch.targets)
        weights = shared_weights(batch, unlabelled, self.unlabelled_strength)
        return super().prepare(forward, batch._replace(targets=targets, weights=weights))

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits, [B, classes] while the teacher learns and [2B, classes] after."""
        return self._cross_entropy.loss(outputs, prepared) if self.teaches else super().loss(outputs, prepared)
