"""The inner maximisation of adversarial training: projected gradient ascent, without an attack's bookkeeping.

    x₀ = start,      x_{t+1} = P(x_t + a · steepest(∇ℓ)),      P projects onto ball and box

The network answers in evaluation mode, so norm statistics and dropout neither steer nor see the search; modes come back
as they were. Weights are constants meanwhile: `.grad` stays empty, and no time goes into what would fill it. The last
point is taken, as in training by Madry et al. (2018): the best of all points would be a stronger attack at equal cost,
and another training.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


def ascend(
    loss: Callable[[Tensor], Tensor], images: Tensor, threat: ThreatModel, start: Tensor, steps: int, step: float
) -> Tensor:
    """Raise a loss inside a threat.

    Args:
        loss: from images [B, ...] to a scalar, a sum over samples.
        images: centres of the balls, [B, ...].
        threat: ball and box.
        start: first point, inside the threat.
        steps: gradients.
        step: length of each step, raw pixel units.

    Returns:
        Images inside the threat, detached.
    """
    current = start.detach()
    for _ in range(steps):
        watched = current.clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(watched), watched)
        current = threat.project(current + step * threat.norm.steepest(gradient), images)
    return current


def random_start(images: Tensor, threat: ThreatModel, generator: torch.Generator) -> Tensor:
    """Draw a point of the ball around each image, from a stream on the CPU."""
    seeds = torch.randint(2**63 - 1, (len(images),), generator=generator)
    return threat.start(images, SampleStreams(seeds.to(images.device)), 0)


@contextmanager
def answering(forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Put a network in evaluation mode with its weights constant, and give everything its own mode back."""
    modules = list(forward.modules()) if isinstance(forward, nn.Module) else []
    learned = [p for p in forward.parameters() if p.requires_grad] if isinstance(forward, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        for parameter in learned:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter in learned:
            parameter.requires_grad_()


def require_threat(threat: ThreatModel) -> ThreatModel:
    """Give a threat.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(threat, ThreatModel):
        raise TypeError(f"threat must be a ThreatModel such as linf(0.3), got {threat!r}.")
    return threat
