"""Stability training (Zheng, Song, Leung, Goodfellow 2016; with Gaussian noise Li, Chen, Wang, Carin 2019).

    L = CE(f(x), y) + λ Σ_c −p_c(x) log p_c(x + σ ε),      p = softmax ∘ f,   ε ~ N(0, I)

The second term asks noisy images for the answer that the clean one got. Gradients go through both arguments.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from continual.batches import Batch
from continual.objectives.copies import gaussian_like, repeated, require_sigma, require_strength, sample_weights
from continual.objectives.cross_entropy import masked_logits
from continual.objectives.objective import Objective


class Stability(Objective):
    """Hold answers to noisy images to those to clean ones.

    Args:
        sigma: standard deviation of the noise, raw pixel units.
        strength: λ.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "stability"

    def __init__(self, sigma: float, strength: float = 2.0) -> None:
        super().__init__()
        self.sigma, self.strength = require_sigma(sigma), require_strength(strength)

    @property
    def rows(self) -> int:
        """Give 2: clean and noisy."""
        return 2

    @property
    def passes(self) -> int:
        """Give 2: clean and noisy."""
        return 2

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give the batch and a noisy copy of it, [2B, ...]."""
        moved = batch.inputs + self.sigma * gaussian_like(batch.inputs, self.generator)
        return repeated(batch, 2)._replace(inputs=torch.cat([batch.inputs, moved]))

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [2B, classes]."""
        clean, moved = masked_logits(outputs, prepared.active).log_softmax(1).chunk(2)
        targets = prepared.targets[: len(clean)]
        wrong = -clean.gather(1, targets[:, None]).squeeze(1)
        unstable = -(clean.exp() * moved.clamp(min=torch.finfo(moved.dtype).min)).sum(1)
        return (sample_weights(prepared, 2) * (wrong + self.strength * unstable)).sum()
