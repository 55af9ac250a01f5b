"""Taps: what stands before each weight.

A weight's gradient is a sum of outer products δ xᵀ over presynaptic rows x, so whoever protects it needs those rows.
A tap listens at a layer's input and hands on its rows [R, n] while the network runs; T·B rows after spikes, B rows
for a static input. It never keeps them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

RowSink = Callable[[str, Tensor], None]
"""Receives a layer's name and its presynaptic rows [R, n]."""


class WeightSite(NamedTuple):
    """A weight [out, n] that can be tapped and protected.

    Attributes:
        name: of the module that holds it.
        module: that module.
        weight: the parameter.
    """

    name: str
    module: nn.Module
    weight: nn.Parameter

    @property
    def width(self) -> int:
        """Presynaptic width n."""
        return self.weight.shape[1]


def linear_sites(model: nn.Module) -> list[WeightSite]:
    """List the linear layers of a network, in the order of its modules."""
    found = ((name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear))
    return [WeightSite(name, module, module.get_parameter("weight")) for name, module in found]


def weight_sites(model: nn.Module) -> list[WeightSite]:
    """List the weights of a network that can be tapped, in the order of its modules.

    Raises:
        ValueError: if there is none, if a layer holds a weight that no tap reads, or if two layers share one weight.
    """
    for name, module in model.named_modules():
        if isinstance(module, _UNREADABLE):
            raise ValueError(
                f"Layer {name!r} ({type(module).__name__}) has a weight whose presynaptic rows cannot be tapped; "
                f"only linear layers can be protected so far."
            )
    sites = linear_sites(model)
    if not sites:
        raise ValueError("The network has no linear layer to protect.")
    holders = [id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False)]
    if any(holders.count(id(site.weight)) > 1 for site in sites):
        raise ValueError("Two layers share one weight; tied weights have no single presynaptic side to protect.")
    return sites


_UNREADABLE = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Bilinear)


@contextmanager
def tapped(sites: Sequence[WeightSite], sink: RowSink) -> Iterator[None]:
    """Hand the presynaptic rows of every site to `sink` while the context is open."""

    def listen(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda _module, inputs: sink(name, inputs[0].detach().flatten(0, -2))

    with ExitStack() as stack:
        for site in sites:
            stack.callback(site.module.register_forward_pre_hook(listen(site.name)).remove)
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in evaluation mode, without gradients, and give each its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
