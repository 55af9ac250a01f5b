"""Networks whose smoothed classifier is known, for tests of certification."""

import torch
from torch import nn

from continual.robustness import Target
from neuro.encoding import Poisson
from neuro.models import spiking_mlp


def half_space():
    """Two classes on [0, 1]^4 divided by a plane through the middle: p_A = Φ(distance / sigma) exactly."""
    model = nn.Linear(4, 2, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 0, 0, 0], [3.0, 0, -4.0, 0]]))
        model.bias.copy_(torch.tensor([0.0, 0.5]))
    return model


def at_distance(distance):
    """An image of class 1 at a distance from the plane of `half_space`, [1, 4] float64."""
    normal = torch.tensor([0.6, 0, -0.8, 0], dtype=torch.float64)
    return (0.5 + distance * normal)[None]


class Constant(nn.Module):
    """Names class 2 of 4, whatever it sees."""

    def forward(self, images):
        return torch.tensor([0.0, -1.0, 3.0, 1.0]).repeat(len(images), 1)


class Coin(nn.Module):
    """Names one of two classes at random, from torch's own stream, and does not look."""

    def forward(self, images):
        return torch.rand(len(images), 2)


def small_network(num_classes=4, seed=0, dtype=torch.float32):
    """A small classifier of images [1, 4, 4] with something to certify."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, num_classes)).to(dtype)
    with torch.no_grad():
        model[1].weight.mul_(2)
    return model.eval()


class Jitter(nn.Module):
    """Adds noise of its own, from torch's own stream, to the logits of a small network."""

    def __init__(self):
        super().__init__()
        self.inner = small_network()

    def forward(self, images):
        logits = self.inner(images)
        return logits + torch.randn_like(logits)


def jittering_target():
    return Target(Jitter(), stochastic=True)


def small_images(number=6, seed=1):
    return torch.rand(number, 1, 4, 4, generator=torch.Generator().manual_seed(seed))


def spiking(encoder=None):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return spiking_mlp((1, 4, 4), 4, [12], time_steps=3, **({} if encoder is None else {"encoder": encoder}))


def poisson_target():
    return Target(spiking(Poisson()), stochastic=True)
