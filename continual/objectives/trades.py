"""TRADES (Zhang, Yu, Jiao, Xing, El Ghaoui, Jordan 2019): accuracy of clean images, stability of the others.

    L = CE(f(x), y) + β KL(p(x) ‖ p(x')),      x' = PGD on KL(p(x) ‖ p(·)) from x + 0.001 ε,   ε ~ N(0, I)

The attack reads no label. Gradients of the loss go through both arguments of the divergence, as in the paper's code;
clean answers inside the attack are computed once, for they do not move.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from continual.batches import Batch
from continual.objectives.ascent import answering, ascend, require_threat
from continual.objectives.copies import gaussian_like, repeated, require_copies, require_strength, sample_weights
from continual.objectives.cross_entropy import masked_logits
from continual.objectives.objective import Objective
from continual.robustness.threat import ThreatModel

START = 1e-3
"""Standard deviation of the start, raw pixel units: at x itself the divergence has no slope."""


class TRADES(Objective):
    """Learn clean images and hold the answers around them.

    Args:
        threat: what the attacker may do.
        strength: β; 6 for CIFAR-10 and 1 for MNIST in the paper.
        steps: gradients of the attack.
        relative_step: step / ε.

    Raises:
        TypeError: if threat is none.
        ValueError: if a number is out of range.
    """

    name = "trades"
    needs_input_gradient = True

    def __init__(
        self, threat: ThreatModel, strength: float = 6.0, steps: int = 10, relative_step: float = 0.25
    ) -> None:
        super().__init__()
        self.threat, self.steps = require_threat(threat), require_copies(steps, "steps")
        self.strength = require_strength(strength)
        self.relative_step = require_strength(relative_step, "relative_step")

    @property
    def rows(self) -> int:
        """Give 2: clean and attacked."""
        return 2

    @property
    def passes(self) -> int:
        """Give T + 2; the clean answer that the attack is held against is one forward pass more."""
        return self.steps + 2

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give the batch and its adversarial copy, [2B, ...]."""
        moved = self.least_stable(forward, batch.inputs, batch.active)
        return repeated(batch, 2)._replace(inputs=torch.cat([batch.inputs, moved]))

    def least_stable(self, forward: Callable[[Tensor], Tensor], images: Tensor, active: Tensor | None) -> Tensor:
        """Find images inside the threat whose answers differ most from the clean ones."""
        with answering(forward):
            with torch.no_grad():
                clean = log_probabilities(forward(images), active)
            start = self.threat.project(images + START * gaussian_like(images, self.generator), images)
            step = self.relative_step * self.threat.epsilon
            return ascend(
                lambda moved: divergence(clean, log_probabilities(forward(moved), active)).sum(),
                images,
                self.threat,
                start,
                self.steps,
                step,
            )

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [2B, classes]."""
        clean, moved = log_probabilities(outputs, prepared.active).chunk(2)
        wrong = -clean.gather(1, prepared.targets[: len(clean), None]).squeeze(1)
        return (sample_weights(prepared, 2) * (wrong + self.strength * divergence(clean, moved))).sum()


def log_probabilities(logits: Tensor, active: Tensor | None) -> Tensor:
    """Give log softmax over the active rows; inactive ones get the lowest finite number, so that 0 times it is 0."""
    found = masked_logits(logits, active).log_softmax(1)
    return found.clamp(min=torch.finfo(found.dtype).min)


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Give KL(p ‖ q) of each sample, [B], from log-probabilities [B, classes]."""
    return (first.exp() * (first - second)).sum(1)
