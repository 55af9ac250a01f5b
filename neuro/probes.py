"""Probes: record spikes and membranes by layer name while a network runs.

    with record(model) as probe:
        model(images)
    probe.spikes["network.neuron1"]          [T, B, N]

A membrane is replayed tick by tick from the current the layer received, so recording needs no flag in any kernel.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from neuro.neurons import Neuron
from neuro.types import Activity, State, unroll


class Probe:
    """What was recorded, by layer name.

    Attributes:
        spikes: outputs of each neuron layer, [T, B, ...]; of a readout, its membrane.
        membranes: first state variable of each neuron layer after every tick, [T, B, ...].
    """

    def __init__(self) -> None:
        self.spikes: dict[str, Tensor] = {}
        self.membranes: dict[str, Tensor] = {}


def neuron_layers(model: nn.Module) -> dict[str, Neuron]:
    """Give the neuron layers of a network by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Neuron)}


@contextmanager
def record(
    model: nn.Module, layers: Sequence[str] | None = None, spikes: bool = True, membranes: bool = False
) -> Iterator[Probe]:
    """Record the latest forward pass of a network's neuron layers.

    Args:
        model: the network.
        layers: names of neuron layers; None records all.
        spikes: record outputs.
        membranes: record membranes, at the cost of running the layer again.

    Yields:
        The probe, filled by every forward pass while the context is open.

    Raises:
        ValueError: if a name is not a neuron layer's.
    """
    found = neuron_layers(model)
    unknown = [name for name in layers or () if name not in found]
    if unknown:
        raise ValueError(f"There is no neuron layer {unknown[0]!r}; choose from {', '.join(found) or 'none'}.")
    probe = Probe()

    def listener(name: str) -> Callable[[Neuron, tuple[Any, ...], tuple[Tensor, State]], None]:
        def listen(neuron: Neuron, inputs: tuple[Any, ...], outputs: tuple[Tensor, State]) -> None:
            if spikes:
                probe.spikes[name] = outputs[0].detach()
            if membranes:
                probe.membranes[name] = replay_membrane(neuron, *inputs)

        return listen

    with ExitStack() as stack:
        for name in layers if layers is not None else found:
            stack.callback(found[name].register_forward_hook(listener(name)).remove)  # pyright: ignore[reportArgumentType]
        yield probe


@torch.no_grad()
def replay_membrane(neuron: Neuron, current: Activity, state: State | None = None) -> Tensor:
    """Give the first state variable after every tick, [T, B, ...]."""
    state, membranes = neuron.starting_state(current, state), []
    for tick in unroll(current).unbind(0):
        _, state = neuron.step(tick, state)
        membranes.append(state[0])
    return torch.stack(membranes)
