"""SmoothAdv (Salman, Yang, Li, Zhang, Zhang, Razenshteyn, Bubeck 2019): attack the smoothed classifier in training.

    x' = argmax over ‖x' − x‖ <= ε of −log (1/m) Σ_j softmax(f(x' + σ ε_j))_y,      L = (1/m) Σ_j CE(f(x' + σ ε_j), y)

The m draws of noise of a sample are made once, for the attack and for the update. The attack is l2 PGD of T steps of
length 2ε/T from x. ε may grow linearly over the first epochs.

Deliberate difference: each step is projected onto the ball and then into the box, which stays in the ball; the
reference code does it the other way round.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from continual.batches import Batch
from continual.objectives.ascent import answering, ascend
from continual.objectives.copies import gaussian_like, repeated, require_copies, require_sigma, require_strength
from continual.objectives.cross_entropy import CrossEntropy, masked_logits
from continual.objectives.macer import mean_softmax
from continual.objectives.objective import Objective
from continual.robustness.threat import l2


class SmoothAdversarial(Objective):
    """Learn from images that are adversarial to the smoothed classifier.

    Args:
        sigma: standard deviation of the noise, raw pixel units.
        epsilon: radius of the attack in l2, raw pixel units.
        draws: m, draws of noise of each sample a step.
        steps: T, gradients of the attack.
        warmup_epochs: epochs of a task over which ε grows to its value; 0 for none.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "smooth_adversarial"
    needs_input_gradient = True

    def __init__(
        self, sigma: float, epsilon: float = 1.0, draws: int = 2, steps: int = 4, warmup_epochs: int = 0
    ) -> None:
        super().__init__()
        self.sigma, self.draws, self.steps = require_sigma(sigma), require_copies(draws, "draws"), steps
        self.epsilon, self.warmup_epochs = require_strength(epsilon, "epsilon"), int(warmup_epochs)
        require_copies(steps, "steps")
        if warmup_epochs < 0:
            raise ValueError(f"warmup_epochs must be at least 0, got {warmup_epochs}.")
        self._cross_entropy = CrossEntropy()

    @property
    def rows(self) -> int:
        """Give m."""
        return self.draws

    @property
    def passes(self) -> int:
        """Give m (T + 1)."""
        return self.draws * (self.steps + 1)

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give noisy copies of adversarial images, [m · B, ...]."""
        copies = repeated(batch, self.draws)
        noise = self.sigma * gaussian_like(copies.inputs, self.generator)
        moved = self.worst(forward, batch, noise)
        return copies._replace(inputs=torch.cat([moved] * self.draws) + noise)

    def worst(self, forward: Callable[[Tensor], Tensor], batch: Batch, noise: Tensor) -> Tensor:
        """Attack under given noise, [m · B, ...]."""
        threat, copies = l2(self.epsilon * self._share()), repeated(batch, self.draws)

        def loss(moved: Tensor) -> Tensor:
            logits = masked_logits(forward(torch.cat([moved] * self.draws) + noise), copies.active)
            right = mean_softmax(logits.view(self.draws, -1, logits.shape[1])).gather(1, batch.targets[:, None])
            return -right.clamp(min=1e-20).log().sum()

        with answering(forward):
            return ascend(loss, batch.inputs, threat, batch.inputs, self.steps, 2 * threat.epsilon / self.steps)

    def _share(self) -> float:
        return min(1.0, (self.epoch + 1) / self.warmup_epochs) if self.warmup_epochs else 1.0

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [m · B, classes]."""
        return self._cross_entropy.loss(outputs, prepared)
