"""Adversarial training (Madry, Makelov, Schmidt, Tsipras, Vladu 2018): learn from the worst image of each ball.

    L = CE(f(x'), y),      x' = PGD on CE(f(·), y) from a random start

Labels decide the attack, so it leaks none that training does not show.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from continual.batches import Batch
from continual.objectives.ascent import answering, ascend, random_start, require_threat
from continual.objectives.copies import require_copies, require_strength
from continual.objectives.cross_entropy import CrossEntropy, masked_logits
from continual.objectives.objective import Objective
from continual.robustness.threat import ThreatModel


class Adversarial(Objective):
    """Learn from adversarial images.

    Args:
        threat: what the attacker may do.
        steps: gradients of the attack; 0 takes the random start.
        relative_step: step / ε; 0.25 is 2/255 at ε = 8/255.

    Raises:
        TypeError: if threat is none.
        ValueError: if a number is out of range.
    """

    name = "adversarial"
    needs_input_gradient = True

    def __init__(self, threat: ThreatModel, steps: int = 10, relative_step: float = 0.25) -> None:
        super().__init__()
        self.threat, self.relative_step = require_threat(threat), require_strength(relative_step, "relative_step")
        self.steps = steps if steps == 0 else require_copies(steps, "steps")
        self._cross_entropy = CrossEntropy()

    @property
    def passes(self) -> int:
        """Give T + 1."""
        return self.steps + 1

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Put the worst image found in each one's place."""
        return batch._replace(inputs=self.worst(forward, batch.inputs, batch.targets, batch.active))

    def worst(
        self, forward: Callable[[Tensor], Tensor], images: Tensor, targets: Tensor, active: Tensor | None
    ) -> Tensor:
        """Attack images [B, ...] with the labels [B]."""

        def loss(moved: Tensor) -> Tensor:
            logits = masked_logits(forward(moved), active)
            return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

        start = random_start(images, self.threat, self.generator)
        with answering(forward):
            return ascend(loss, images, self.threat, start, self.steps, self.relative_step * self.threat.epsilon)

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [B, classes]."""
        return self._cross_entropy.loss(outputs, prepared)
