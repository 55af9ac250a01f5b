"""Attacks on spiking networks: other ways back through the spikes, and the worst case over them.

A spike has no derivative; what training put in its place may vanish where an attack needs it, and a network judged by
its training surrogate alone looks more robust than it is. Each wrapper here runs an attack while the way back is
another one; the way forward, spike for spike, stays. `WorstCase(over_surrogates(attack))` is the figure to report, next
to a gradient-free attack.

    Surrogated       ds/du of any shape at every spiking layer
    ThroughRates     a layer's rate r = mean_t s_t is its activation, dr/dī = 1[r > 0] (backward pass through rate, Ding
                     et al. 2022); deliberate: the way forward keeps the leak, where the published code drops it
    StraightThrough  a Poisson encoder's draw s ~ Bernoulli(x) is given ds/dx = 1
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from continual.robustness.attacks.apgd import APGD
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.settings import require_positive
from continual.robustness.attacks.square import Square
from continual.robustness.guard import networks_behind
from continual.robustness.losses import Margin
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel
from neuro.encoding import Poisson
from neuro.neurons import Neuron, RepresentationNeuron
from neuro.surrogate import ATan, Rectangle, Sigmoid, Surrogate, Triangle
from neuro.types import Activity, unroll


def surrogate_family(width: float = 1.0) -> list[Surrogate]:
    """Give sigmoid, arc tangent, triangle and rectangle at half, once and twice a width.

    All have area 1 and the height 1/width at the threshold, so the width is comparable between shapes.

    Args:
        width: in units of the membrane; the default sigmoid of our neurons (slope 4) has 1.

    Raises:
        ValueError: if it is not above 0.
    """
    require_positive(width=width)
    widths = [scale * width for scale in (0.5, 1.0, 2.0)]
    return [shape for w in widths for shape in (Sigmoid(4 / w), ATan(2 / w), Triangle(w), Rectangle(w))]


class _Rate(torch.autograd.Function):
    """Spikes forward; backward a layer's rate stands for each of its spikes."""

    @staticmethod
    def forward(ctx: Any, current: Tensor, spikes: Tensor) -> Tensor:
        ctx.save_for_backward(spikes.mean(0) > 0)
        ctx.time_steps = len(spikes)
        return spikes.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (fired,) = ctx.saved_tensors
        gradient = grad_outputs[0].sum(0) * fired / ctx.time_steps
        return gradient.expand(ctx.time_steps, *gradient.shape), None


class _Dressed(torch.autograd.Function):
    """Spikes of a foreign layer forward; backward a surrogate."""

    @staticmethod
    def forward(ctx: Any, distance: Tensor, spikes: Tensor, surrogate: Surrogate) -> Tensor:
        ctx.save_for_backward(distance)
        ctx.surrogate = surrogate
        return spikes.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        return grad_outputs[0] * ctx.surrogate(ctx.saved_tensors[0]), None, None


@contextmanager
def replaced(changes: Sequence[tuple[nn.Module, str, Any]], wanted: str) -> Iterator[None]:
    """Set attributes of modules, and give each its old one back.

    Raises:
        ValueError: if there is nothing to set, naming what was looked for.
    """
    if not changes:
        raise ValueError(f"The network has no {wanted}, so this attack would be the plain one; leave the wrapper out.")
    old = [(module.__dict__.get(name), name in module.__dict__) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            object.__setattr__(module, name, value)
        yield
    finally:
        for (module, name, _), (value, was_there) in zip(changes, old, strict=True):
            if was_there:
                object.__setattr__(module, name, value)
            else:
                object.__delattr__(module, name)


def surrogate_replaced(networks: Iterable[nn.Module], surrogate: Surrogate) -> AbstractContextManager[None]:
    """Give every spiking layer another surrogate: our neurons, and layers with a `spike_grad` as snnTorch's have."""
    modules = [module for network in networks for module in network.modules()]
    own = [(m, "surrogate", surrogate) for m in modules if isinstance(m, Neuron) and "surrogate" in m.__dict__]
    foreign = [
        (m, "spike_grad", _dressed(m.__dict__["spike_grad"], surrogate))
        for m in modules
        if callable(m.__dict__.get("spike_grad"))
    ]
    return replaced([*own, *foreign], "spiking layer with a surrogate")


def _dressed(spike: Callable[[Tensor], Tensor], surrogate: Surrogate) -> Callable[[Tensor], Tensor]:
    return lambda distance: _Dressed.apply(distance, spike(distance).detach(), surrogate)  # pyright: ignore[reportReturnType]


def through_rates(networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
    """Let gradients pass every spiking layer of ours through its rate."""
    modules = [module for network in networks for module in network.modules()]
    spiking = [m for m in modules if isinstance(m, Neuron) and m.is_spiking and not isinstance(m, RepresentationNeuron)]
    return replaced([(m, "simulate", _rated(m.simulate)) for m in spiking], "spiking neurons of neuro.neurons")


def _rated(simulate: Callable[..., Any]) -> Callable[..., Any]:
    def run(current: Activity, state: Any = None) -> tuple[Tensor, Any]:
        with torch.no_grad():
            spikes, last = simulate(current, state)
        return _Rate.apply(unroll(current), spikes), last  # pyright: ignore[reportReturnType]  # apply is untyped

    return run


def straight_through(networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
    """Let gradients pass every Poisson encoder as if it were the identity at every tick."""
    modules = [module for network in networks for module in network.modules() if isinstance(module, Poisson)]
    return replaced([(m, "forward", _passed(m.forward)) for m in modules], "Poisson encoder")


def _passed(encode: Callable[[Tensor, int], Activity]) -> Callable[[Tensor, int], Tensor]:
    def run(inputs: Tensor, time_steps: int) -> Tensor:
        return unroll(encode(inputs.detach(), time_steps)) + (inputs - inputs.detach())

    return run


class OtherWayBack(Attack):
    """The role of the wrappers: an attack while gradients take another way."""

    attack: Attack

    @abstractmethod
    def view(self, networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
        """Change the way back while the context is open, not the way forward."""

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        target = oracle.target
        with self.view(networks_behind(target.model, target.backward, target.networks)):
            return self.attack.search(oracle, images, labels, threat, streams)


@dataclass(frozen=True)
class Surrogated(OtherWayBack):
    """An attack through another surrogate.

    Args:
        attack: that uses gradients.
        surrogate: ds/du at every spiking layer.
    """

    attack: Attack
    surrogate: Surrogate

    def view(self, networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
        """Replace the surrogate."""
        return surrogate_replaced(networks, self.surrogate)


@dataclass(frozen=True)
class ThroughRates(OtherWayBack):
    """An attack through each layer's rate.

    Args:
        attack: that uses gradients.
    """

    attack: Attack

    def view(self, networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
        """Go through rates."""
        return through_rates(networks)


@dataclass(frozen=True)
class StraightThrough(OtherWayBack):
    """An attack straight through a Poisson encoder; average it with Target(stochastic=True, gradient_draws=10).

    Args:
        attack: that uses gradients.
    """

    attack: Attack

    def view(self, networks: Iterable[nn.Module]) -> AbstractContextManager[None]:
        """Go straight through."""
        return straight_through(networks)


def over_surrogates(attack: Attack, width: float = 1.0) -> list[Attack]:
    """Give one attack through every surrogate of the family, and through rates; put them into `WorstCase`.

    Args:
        attack: that uses gradients.
        width: of the surrogate in training, in units of the membrane.
    """
    return [ThroughRates(attack), *(Surrogated(attack, surrogate) for surrogate in surrogate_family(width))]


def spiking_standard(steps: int = 100, queries: int = 5000, width: float = 1.0) -> list[Attack]:
    """Give the selection for spiking networks: Auto-PGD on the margin through rates and every surrogate, then Square.

    Args:
        steps: of each gradient attack.
        queries: of Square.
        width: of the surrogate in training, in units of the membrane.
    """
    attack = APGD(steps=steps, loss=Margin())
    return [attack, *over_surrogates(attack, width), Square(queries=queries)]
