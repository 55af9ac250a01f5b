"""Robust training with unlabelled images: PASS and UAT-OT.

A sample whose target is `UNLABELLED` has no label. Labels cost accuracy on clean images; stability under attack can be
learned without any (Zhai, Cai, He, Dan, He, Hopcroft, Wang 2019), for with 0/1 losses

    max(R_standard, R_stability) <= R_robust <= R_standard + R_stability,

and R_stability = P(some x' in the ball is answered unlike x) never asks for y. With labelled (x, y), unlabelled u:

    PASS      CE(f(PGD(x, y)), y) + λ CE(f(PGD(u, ŷ)), ŷ),            ŷ = argmax f(u), found anew at every step
    UAT-OT    CE(f(PGD(x, y)), y) + λ KL(p̄(u) ‖ p(u')),               p̄ a constant copy, u' = PGD on that divergence
              (Alayrac, Uesato, Huang, Fawzi, Stanforth, Kohli 2019)

Both terms are means, over labelled and over unlabelled samples of the batch. All go through the network in one batch.
Pseudo-labels come from evaluation mode, without a threshold or an averaged teacher.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from continual.batches import UNLABELLED, Batch
from continual.objectives.adversarial import Adversarial
from continual.objectives.ascent import answering
from continual.objectives.copies import require_strength, sample_weights
from continual.objectives.cross_entropy import masked_logits
from continual.objectives.trades import TRADES, divergence, log_probabilities
from continual.robustness.norms import per_sample
from continual.robustness.threat import ThreatModel


class PASS(Adversarial):
    """Learn labels from few samples and stability from all.

    Args:
        threat: what the attacker may do.
        strength: λ, weight of the unlabelled term.
        steps: gradients of the attack.
        relative_step: step / ε.

    Raises:
        TypeError: if threat is none.
        ValueError: if a number is out of range.
    """

    name = "pass"
    learns_from_unlabelled = True

    def __init__(
        self, threat: ThreatModel, strength: float = 0.3, steps: int = 10, relative_step: float = 0.25
    ) -> None:
        super().__init__(threat, steps, relative_step)
        self.strength = require_strength(strength)

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Attack all images; unlabelled ones get the network's own answer for a target, and λ for a weight."""
        unlabelled = batch.targets == UNLABELLED
        targets = torch.where(unlabelled, answers(forward, batch), batch.targets)
        weights = shared_weights(batch, unlabelled, self.strength)
        return super().prepare(forward, batch._replace(targets=targets, weights=weights))


class UAT(Adversarial):
    """Learn labels from few samples and hold the answers around all others (online targets).

    Args:
        threat: what the attacker may do.
        strength: λ, weight of the unlabelled term.
        steps: gradients of the attack.
        relative_step: step / ε.

    Raises:
        TypeError: if threat is none.
        ValueError: if a number is out of range.
    """

    name = "uat"
    learns_from_unlabelled = True

    def __init__(
        self, threat: ThreatModel, strength: float = 1.0, steps: int = 10, relative_step: float = 0.25
    ) -> None:
        super().__init__(threat, steps, relative_step)
        self.strength = require_strength(strength)
        self._stability = TRADES(threat, 1.0, max(1, steps), relative_step)
        self._held: Tensor | None = None
        self._unlabelled: Tensor | None = None

    @property
    def passes(self) -> int:
        """Give 2T + 1: both attacks run on all samples, and each sample takes one."""
        return 2 * self.steps + 1

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
        """Attack labelled images by their labels, the others by the answers to them, which are kept for the loss."""
        unlabelled = batch.targets == UNLABELLED
        with answering(forward), torch.no_grad():
            self._held = log_probabilities(forward(batch.inputs), batch.active)
        self._stability.generator = self.generator
        by_label = self.worst(forward, batch.inputs, batch.targets.clamp(min=0), batch.active)
        by_answer = self._stability.least_stable(forward, batch.inputs, batch.active)
        self._unlabelled = unlabelled
        return batch._replace(
            inputs=torch.where(per_sample(unlabelled, batch.inputs), by_answer, by_label),
            targets=torch.where(unlabelled, self._held.argmax(1), batch.targets),
            weights=shared_weights(batch, unlabelled, self.strength),
        )

    def loss(self, outputs: Tensor, prepared: Batch) -> Tensor:
        """Score logits [B, classes]."""
        assert self._held is not None
        assert self._unlabelled is not None
        found = log_probabilities(outputs, prepared.active)
        wrong = -found.gather(1, prepared.targets[:, None]).squeeze(1)
        scored = torch.where(self._unlabelled, divergence(self._held, found), wrong)
        return (sample_weights(prepared, 1) * scored).sum()


def answers(forward: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    """Give the network's own classes among the rows that compete, in evaluation mode, [B]."""
    with answering(forward), torch.no_grad():
        return masked_logits(forward(batch.inputs), batch.active).argmax(1)


def shared_weights(batch: Batch, unlabelled: Tensor, strength: float) -> Tensor:
    """Give weights [B] that sum to 1 over the labelled samples and to `strength` over the others."""
    own = sample_weights(batch, 1)
    labelled, rest = (own * ~unlabelled).sum(), (own * unlabelled).sum()
    tiny = torch.finfo(own.dtype).tiny
    return torch.where(unlabelled, strength * own / rest.clamp(min=tiny), own / labelled.clamp(min=tiny))
