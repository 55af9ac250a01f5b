"""Auto-PGD (Croce and Hein 2020): gradient ascent whose step size needs no tuning.

    z = P(x_k + s d(∇L(x_k))),   x_{k+1} = P(x_k + 0.75 (z − x_k) + 0.25 (x_k − x_{k−1}))

The step s starts at 2ε. At checkpoints, 0.22 N steps apart at first and 0.03 N closer each time down to 0.06 N, a
sample halves its s and goes back to its best point if the loss rose in at most 0.75 of the steps since, or if s was not
halved at the last checkpoint and the best loss has not moved since then. The first start is random: x plus ε times a
random direction scaled to unit length. Every sample has a step and a history of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.best import Best
from continual.robustness.attacks.settings import require_at_least_one, require_share
from continual.robustness.losses import CROSS_ENTROPY, TARGETED_DLR, Loss, TargetedLoss
from continual.robustness.norms import per_sample
from continual.robustness.oracle import Oracle, Seen
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel

_MOMENTUM = 0.75


def checkpoints(steps: int) -> list[int]:
    """Give the steps after which a run of `steps` steps may halve its step size."""
    window, shrink, least = (max(int(share * steps), 1) for share in (0.22, 0.03, 0.06))
    found, at = [], window
    while at < steps:
        found.append(at)
        window = max(window - shrink, least)
        at += window
    return found


class Ascent:
    """The state of one run, a value a sample.

    Args:
        threat: what is allowed.
        origin: unattacked images, [B, ...].
        start: where the run begins, [B, ...].
        seen: what the network said there.
        rho: share of rising steps below which a step is halved.
    """

    def __init__(self, threat: ThreatModel, origin: Tensor, start: Tensor, seen: Seen, rho: float) -> None:
        self.threat, self.origin, self.rho = threat, origin, rho
        self.current = self.previous = self.best = start
        self.gradient = self.best_gradient = seen.gradient
        self.value = self.best_value = self.best_at_checkpoint = seen.values
        self.step = torch.full_like(seen.values, 2 * threat.epsilon)
        self.rises = torch.zeros_like(seen.values)
        self.halved = torch.ones_like(seen.values, dtype=torch.bool)
        self.first = True

    def propose(self) -> Tensor:
        """Give the next point; the first step has no momentum."""
        size = per_sample(self.step, self.current)
        straight = self.threat.project(self.current + size * self.threat.norm.steepest(self.gradient), self.origin)
        share = 1.0 if self.first else _MOMENTUM
        moved = self.current + share * (straight - self.current) + (1 - share) * (self.current - self.previous)
        self.first = False
        return self.threat.project(moved, self.origin)

    def move(self, images: Tensor, seen: Seen) -> None:
        """Go to a point and note whether the loss rose."""
        self.rises = self.rises + (seen.values > self.value)
        self.previous, self.current = self.current, images
        self.gradient, self.value = seen.gradient, seen.values
        better = self.value > self.best_value
        self.best = torch.where(per_sample(better, images), images, self.best)
        self.best_gradient = torch.where(per_sample(better, images), self.gradient, self.best_gradient)
        self.best_value = torch.where(better, self.value, self.best_value)

    def check(self, window: int) -> None:
        """Halve the step of the samples that do not get on, and take them back to their best point."""
        stuck = ~self.halved & (self.best_value <= self.best_at_checkpoint)
        halve = (self.rises <= self.rho * window) | stuck
        self.step = torch.where(halve, self.step / 2, self.step)
        back = per_sample(halve, self.current)
        self.current = torch.where(back, self.best, self.current)
        self.gradient = torch.where(back, self.best_gradient, self.gradient)
        self.value = torch.where(halve, self.best_value, self.value)
        self.halved, self.best_at_checkpoint = halve, self.best_value
        self.rises = torch.zeros_like(self.rises)


def ascend(
    oracle: Oracle,
    images: Tensor,
    labels: Tensor,
    threat: ThreatModel,
    start: Tensor,
    objective: Callable[[Tensor], Tensor],
    settings: tuple[int, float],
) -> Best:
    """Run Auto-PGD once.

    Args:
        oracle: answers for the network.
        images: unattacked, [B, ...].
        labels: [B].
        threat: what is allowed.
        start: where to begin, [B, ...].
        objective: from logits to what is raised, [B].
        settings: number of steps, and the share of rising steps below which a step is halved.

    Returns:
        For every sample the first misclassified image, else the one of highest loss.
    """
    steps, rho = settings
    best, checks, last = Best(images), checkpoints(steps), 0
    seen = oracle.gradient(start, objective)
    best.offer(start, seen.values, seen.logits.argmax(1) != labels)
    run = Ascent(threat, images, start, seen, rho)
    for number in range(1, steps + 1):
        current = run.propose()
        seen = oracle.gradient(current, objective) if number < steps else oracle.score(current, objective)
        best.offer(current, seen.values, seen.logits.argmax(1) != labels)
        run.move(current, seen)
        if number in checks:
            run.check(number - last)
            last = number
    return best


def random_start(threat: ThreatModel, images: Tensor, streams: SampleStreams, key: int) -> Tensor:
    """Give x + ε t/‖t‖ with t uniform for l∞ and Gaussian for l2, clipped to the box."""
    draw = threat.norm.draw(images, 1.0, streams, key)
    length = per_sample(threat.norm.length(draw), draw).clamp(min=torch.finfo(draw.dtype).tiny)
    return threat.project(images + threat.epsilon * draw / length, images)


@dataclass(frozen=True)
class APGD(Attack):
    """Auto-PGD with any loss.

    Args:
        steps: N.
        restarts: random starts; each is tried on the samples that are still right.
        rho: share of rising steps below which a step is halved.
        loss: what is raised.

    Raises:
        ValueError: if a count is below 1 or rho outside [0, 1].
    """

    steps: int = 100
    restarts: int = 1
    rho: float = 0.75
    loss: Loss = CROSS_ENTROPY

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, restarts=self.restarts)
        require_share(rho=self.rho)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        found = Best(images)
        for restart in range(self.restarts):
            left = (~found.fooled).nonzero().squeeze(1)
            if not len(left):
                break
            x, y = images[left], labels[left]
            start = random_start(threat, x, streams[left], restart)
            run = ascend(oracle, x, y, threat, start, lambda z, y=y: self.loss(z, y), (self.steps, self.rho))
            found.offer_some(left, run)
        return found.images


@dataclass(frozen=True)
class TargetedAPGD(Attack):
    """Auto-PGD towards one class after the other: those with the highest logits on the unattacked image.

    Args:
        steps: N for each class.
        num_targets: classes that are tried, at most all but the label.
        rho: share of rising steps below which a step is halved.
        loss: what is raised.

    Raises:
        ValueError: if a count is below 1 or rho outside [0, 1].
    """

    steps: int = 100
    num_targets: int = 9
    rho: float = 0.75
    loss: TargetedLoss = TARGETED_DLR

    def __post_init__(self) -> None:
        require_at_least_one(steps=self.steps, num_targets=self.num_targets)
        require_share(rho=self.rho)

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        found, targets = Best(images), likely_targets(oracle, images, labels, self.num_targets)
        for number in range(targets.shape[1]):
            left = (~found.fooled).nonzero().squeeze(1)
            if not len(left):
                break
            x, y, t = images[left], labels[left], targets[left, number]
            start = random_start(threat, x, streams[left], number)
            objective = lambda z, y=y, t=t: self.loss(z, y, t)  # noqa: E731
            run = ascend(oracle, x, y, threat, start, objective, (self.steps, self.rho))
            found.offer_some(left, run)
        return found.images


def likely_targets(oracle: Oracle, images: Tensor, labels: Tensor, number: int) -> Tensor:
    """Give the other classes by falling logit on the unattacked images, at most `number`, [B, K]."""
    logits = oracle.logits(images).scatter(1, labels[:, None], -torch.inf)
    return logits.argsort(dim=1, descending=True)[:, : min(number, logits.shape[1] - 1)]
