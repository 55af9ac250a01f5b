"""Taps: what stands before each weight.

A weight's gradient is a sum of outer products δ xᵀ over presynaptic rows x, so whoever protects it needs those rows. A
`WeightSite` is a weight seen as a matrix [out, n]; a grouped convolution has one per group. A tap listens at a layer's
input while the network runs and hands it on; `rows` cuts it into rows: T·B after spikes, B for a static input, one per
patch for a convolution, and s_{t−1} of every tick for a recurrent synapse. Nothing is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro.lateral.rows import at_most, convolution_rows, sampled

InputSink = Callable[[str, Tensor], None]
"""Receives a layer's name and its input of one call."""

Presynaptic = Callable[[str, Tensor], Tensor]
"""From a layer's name and its input over time [T, B, ...] to what a learning rule takes for presynaptic, time first."""

TAPPED = (nn.Linear, nn.Conv1d, nn.Conv2d)
_UNREADABLE = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Bilinear)


class WeightSite(NamedTuple):
    """A weight matrix [out, n] that can be tapped and protected.

    Attributes:
        layer: name of the module that holds it.
        module: that module.
        weight: the parameter.
        group: which group of a grouped convolution.
        num_groups: of the convolution; 1 for every other layer.
    """

    layer: str
    module: nn.Module
    weight: nn.Parameter
    group: int = 0
    num_groups: int = 1

    @property
    def name(self) -> str:
        """The layer's name, with the group where there are several."""
        return self.layer if self.num_groups == 1 else f"{self.layer}[{self.group}]"

    @property
    def width(self) -> int:
        """Presynaptic width n."""
        return self.weight[0].numel()

    @property
    def precision(self) -> torch.dtype:
        """Of what is learned about this weight: its own, but single precision at least."""
        return torch.promote_types(self.weight.dtype, torch.float32)

    def part(self, tensor: Tensor) -> Tensor:
        """Give this group's part of a tensor of the weight's shape, a view [out, ...]."""
        size = tensor.shape[0] // self.num_groups
        return tensor[self.group * size : (self.group + 1) * size]

    def rows(self, inputs: Tensor, max_rows: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Cut an input of the layer into presynaptic rows [R, n].

        Args:
            inputs: of the layer, in one call.
            max_rows: bound on R; the generator chooses.
            generator: of the choice, on the CPU.
        """
        module = self.module
        if isinstance(module, nn.Linear):
            return at_most(inputs.flatten(0, -2), max_rows, generator)
        assert isinstance(module, nn.Conv1d | nn.Conv2d)
        inputs, (height, width) = inputs.chunk(self.num_groups, 1)[self.group], _output_size(module, inputs)
        inputs = _padded(module, sampled(inputs, height * width, max_rows, generator))
        pairs = [(*(1,) * (2 - len(size)), *size) for size in (module.kernel_size, module.stride, module.dilation)]
        rows = convolution_rows(inputs, pairs[0], pairs[1], (0, 0), pairs[2])
        return at_most(rows, max_rows, generator)


def _padded(module: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> Tensor:
    """Pad as the layer does; a sequence becomes an image of height 1."""
    amounts = module._reversed_padding_repeated_twice
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    padded = F.pad(inputs, amounts, mode=mode) if any(amounts) else inputs
    return padded if isinstance(module, nn.Conv2d) else padded.unsqueeze(2)


def _output_size(module: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> tuple[int, int]:
    amounts = module._reversed_padding_repeated_twice
    sizes = []
    for axis in range(len(module.kernel_size)):
        reach = module.dilation[axis] * (module.kernel_size[axis] - 1)
        around = sum(amounts[2 * (len(module.kernel_size) - 1 - axis) :][:2])
        sizes.append((inputs.shape[2 + axis] + around - reach - 1) // module.stride[axis] + 1)
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (1, sizes[0])


def readable_sites(model: nn.Module) -> list[WeightSite]:
    """List the weights that a tap reads, in the order of the network's modules; others are left out."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, TAPPED):
            groups = 1 if isinstance(module, nn.Linear) else module.groups
            weight = module.get_parameter("weight")
            found += [WeightSite(name, module, weight, group, groups) for group in range(groups)]
    return found


def weight_sites(model: nn.Module) -> list[WeightSite]:
    """List the weights of a network that can be tapped, in the order of its modules.

    Raises:
        ValueError: if there is none, if a layer holds a weight that no tap reads, or if two layers share one weight.
    """
    for name, module in model.named_modules():
        if isinstance(module, _UNREADABLE) and not isinstance(module, TAPPED):
            raise ValueError(
                f"Layer {name!r} ({type(module).__name__}) has a weight whose presynaptic rows cannot be tapped; "
                f"linear layers and one- and two-dimensional convolutions can be protected."
            )
    sites = readable_sites(model)
    if not sites:
        raise ValueError("The network has no linear or convolutional layer to protect.")
    holders = [id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False)]
    if any(holders.count(id(site.weight)) > 1 for site in sites):
        raise ValueError("Two layers share one weight; tied weights have no single presynaptic side to protect.")
    return sites


@contextmanager
def tapped(modules: dict[str, nn.Module], sink: InputSink) -> Iterator[None]:
    """Hand the input of every call of these modules to `sink` while the context is open."""

    def listen(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda _module, inputs: sink(name, inputs[0].detach())

    with ExitStack() as stack:
        for name, module in modules.items():
            stack.callback(module.register_forward_pre_hook(listen(name)).remove)
        yield


@torch.no_grad()
def presynaptic_inputs(
    model: nn.Module, sites: Sequence[WeightSite], inputs: Tensor, presynaptic: Presynaptic | None = None
) -> Iterator[tuple[WeightSite, Tensor]]:
    """Run a network once and give what stands before each weight, still whole: `site.rows` cuts it.

    Runs in evaluation mode without gradients; modes come back as they were.

    Args:
        model: the network.
        sites: its weights.
        inputs: as the network takes them, [B, ...].
        presynaptic: what the learning rule takes for presynaptic; by default each layer's input as it is.

    Yields:
        A site and its layer's inputs of all calls [M, ...]: time first, [T·B, ...], where the layer ran over time.
    """
    calls: dict[str, list[Tensor]] = {}
    with evaluating(model), tapped(modules_of(sites), lambda name, seen: calls.setdefault(name, []).append(seen)):
        model(inputs)
    layer, whole = None, inputs
    for site in sites:
        if site.layer != layer:
            layer, whole = site.layer, torch.cat(calls.pop(site.layer))
            if presynaptic is not None and len(whole) % len(inputs) == 0:
                whole = presynaptic(layer, whole.unflatten(0, (-1, len(inputs)))).flatten(0, 1)
        yield site, whole


def modules_of(sites: Sequence[WeightSite]) -> dict[str, nn.Module]:
    """Give the modules that hold these weights, by name, each once."""
    return {site.layer: site.module for site in sites}


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
