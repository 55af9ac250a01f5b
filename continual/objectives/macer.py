"""MACER (Zhai, Dan, He, Zhang, Gong, Ravikumar, Hsieh, Wang 2020): raise the certified radius without an attack.

For k noisy copies of an image, U_j = f(x + σ ε_j), a soft smoothed classifier and its radius are

    p(b) = (1/k) Σ_j softmax(b U_j),      q = p(β),      ξ = Φ⁻¹(q_(1)) − Φ⁻¹(q_(2)),      radius = σ ξ / 2

and with a = argmax q the loss of a sample is

    −log(p(1)_y + 10⁻¹⁰)  +  λ (σ/2) (γ − ξ)    where a = y and ξ <= γ, the first term alone elsewhere.

γ is in units of ξ: 8 stops pushing at a radius of 4σ. β sharpens the second term only. The hinge also bounds gradients:
ξ <= γ keeps q_(1) from 1, where Φ⁻¹ is infinitely steep. Samples beyond it are taken out before Φ⁻¹ is computed for the
gradient, for the gradient of a masked infinity is NaN.

Deliberate differences: Φ⁻¹(q_(1)) is computed as −Φ⁻¹ of the sum of the other classes, which does not round to 1; half
precision is raised to single; the share of samples in each part is kept and can be read (`shares`); the second term may
start late in a task, as others do at large σ.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from continual.batches import Batch
from continual.objectives.copies import noisy, require_copies, require_sigma, require_strength, sample_weights
from continual.objectives.cross_entropy import masked_logits
from continual.objectives.objective import Objective


class SoftRadius(NamedTuple):
    """What a soft smoothed classifier says of each sample.

    Attributes:
        answer: a, the class of the largest q, [B].
        first_missing: 1 − q_(1), [B].
        second: q_(2), [B].
    """

    answer: Tensor
    first_missing: Tensor
    second: Tensor

    @property
    def xi(self) -> Tensor:
        """ξ, [B]; infinite where the soft classifier is certain."""
        return -torch.special.ndtri(self.first_missing) - torch.special.ndtri(self.second)


def mean_softmax(logits: Tensor, sharpness: float = 1.0) -> Tensor:
    """Average softmax(b U_j) over the copies: [k, B, classes] to [B, classes]."""
    return (sharpness * logits).softmax(-1).mean(0)


def soft_radius(logits: Tensor, beta: float) -> SoftRadius:
    """Give answers and what ξ is made of, from logits [k, B, classes] of at least 2 classes."""
    q = mean_softmax(logits, beta)
    answer = q.detach().argmax(1)
    others = q.scatter(1, answer[:, None], 0.0)
    return SoftRadius(answer, others.sum(1), others.amax(1))


class MACER(Objective):
    """Lower cross-entropy and raise the soft certified radius of what is right already.

    Args:
        sigma: standard deviation of the noise, raw pixel units.
        copies: k, noisy copies of each sample a step; 16 in the paper.
        strength: λ; 12 for sigma up to 0.25 in the paper, 4 at 0.5.
        gamma: γ, hinge in units of ξ.
        beta: β, sharpness of the soft classifier in the second term.
        robust_from_epoch: epoch of each task, from 0, at which the second term starts.

    Raises:
        ValueError: if a number is out of range.
    """

    name = "macer"

    def __init__(
        self,
        sigma: float,
        copies: int = 16,
        strength: float = 12.0,
        gamma: float = 8.0,
        beta: float = 16.0,
        robust_from_epoch: int = 0,
    ) -> None:
        super().__init__()
        self.sigma, self.copies = require_sigma(sigma), require_copies(copies)
        self.strength, self.gamma = require_strength(strength), require_strength(gamma, "gamma")
        self.beta = require_strength(beta, "beta")
        if robust_from_epoch < 0:
            raise ValueError(f"robust_from_epoch counts from 0, got {robust_from_epoch}.")
        self.robust_from_epoch = int(robust_from_epoch)
        self.shares: dict[str, Tensor] = {}

    @property
    def rows(self) -> int:
        """Give k."""
        return self.copies

    @property
    def passes(self) -> int:
        """Give k."""
        return self.copies

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Give noisy copies, [k · B, ...]."""
        return noisy(batch, self.sigma, self.copies, self.generator)

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [k · B, classes]; sums over samples are divided by B, not by how many are pushed."""
        logits = masked_logits(outputs, prepared.active)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).view(self.copies, -1, outputs.shape[1])
        targets, weights = prepared.targets[: logits.shape[1]], sample_weights(prepared, self.copies)
        right = mean_softmax(logits).gather(1, targets[:, None]).squeeze(1)
        loss = -(weights * (right + 1e-10).log()).sum()
        if self.strength == 0 or self.epoch < self.robust_from_epoch:
            return loss
        return loss + self.strength * (weights * self.radius_loss(logits, targets)).sum()

    def radius_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Give (σ/2)(γ − ξ) of the samples that are pushed and 0 of the others, [B].

        Args:
            logits: [k, B, classes].
            targets: [B].
        """
        found = soft_radius(logits, self.beta)
        with torch.no_grad():
            xi = found.xi
            correct, finite = found.answer == targets, xi.isfinite()
            pushed = correct & finite & (xi <= self.gamma)
            self.shares = {
                "pushed": pushed.float().mean(),
                "misclassified": (~correct).float().mean(),
                "not_finite": (~finite).float().mean(),
            }
        chosen = pushed.nonzero().squeeze(1)
        kept = SoftRadius(*(part[chosen] for part in found))
        missing = self.sigma / 2 * (self.gamma - kept.xi)
        return torch.zeros_like(found.second).index_put((chosen,), missing)
