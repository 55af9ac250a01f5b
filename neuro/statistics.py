"""What a network spends: firing rates, synaptic operations, multiply-accumulates.

A synapse that receives spikes performs one synaptic operation (an addition) per spike and outgoing connection; one that
receives graded values performs a multiply-accumulate per connection instead. Which it is, is read off the values: rows
of zeros and ones are spikes. A static graded input is counted once, because it is computed once.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro.lateral.taps import evaluating, linear_sites, tapped
from neuro.probes import neuron_layers
from neuro.types import State


class LayerActivity(NamedTuple):
    """What one layer does per sample.

    Attributes:
        name: of the layer.
        rate: spikes per neuron and tick, in [0, 1]; None for a synapse.
        silent: share of neurons that never fired; None for a synapse.
        saturated: share of neurons that fired at every tick of every sample; None for a synapse.
        synaptic_operations: additions per sample caused by spikes.
        macs: multiply-accumulates per sample on graded inputs.
    """

    name: str
    rate: float | None
    silent: float | None
    saturated: float | None
    synaptic_operations: float
    macs: float


def measure_activity(model: nn.Module, inputs: Tensor) -> list[LayerActivity]:
    """Run a batch in evaluation mode and count, layer by layer in the order of the network.

    Args:
        model: the network.
        inputs: raw inputs [B, ...].

    Returns:
        One entry a synapse and a spiking layer.
    """
    order = {name: position for position, (name, _) in enumerate(model.named_modules())}
    sites = {site.name: site for site in linear_sites(model)}
    measured: list[LayerActivity] = []

    def on_rows(name: str, rows: Tensor) -> None:
        measured.append(_synapse_activity(name, rows, sites[name].weight.shape[0], len(inputs)))

    def on_spikes(name: str) -> Callable[[nn.Module, tuple[Any, ...], tuple[Tensor, State]], None]:
        return lambda _module, _inputs, outputs: measured.append(_neuron_activity(name, outputs[0]))

    with ExitStack() as stack:
        for name, neuron in neuron_layers(model).items():
            if neuron.is_spiking:
                stack.callback(neuron.register_forward_hook(on_spikes(name)).remove)  # pyright: ignore[reportArgumentType]
        with evaluating(model), tapped(list(sites.values()), on_rows):
            model(inputs)
    return sorted(measured, key=lambda layer: order[layer.name])


def _synapse_activity(name: str, rows: Tensor, fan_out: int, num_samples: int) -> LayerActivity:
    events = torch.count_nonzero(rows)
    if bool(((rows == 0) | (rows == 1)).all()):
        return LayerActivity(name, None, None, None, float(events) * fan_out / num_samples, 0.0)
    return LayerActivity(name, None, None, None, 0.0, rows.numel() * fan_out / num_samples)


def _neuron_activity(name: str, spikes: Tensor) -> LayerActivity:
    per_neuron = spikes.flatten(0, 1).mean(0)
    silent, saturated = (per_neuron == 0).float().mean(), (per_neuron == 1).float().mean()
    return LayerActivity(name, float(per_neuron.mean()), float(silent), float(saturated), 0.0, 0.0)
