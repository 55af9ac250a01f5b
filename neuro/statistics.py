"""What a network spends: firing rates, synaptic operations, multiply-accumulates.

A synapse that receives spikes performs one synaptic operation (an addition) per spike and outgoing connection; one
that receives graded values performs a multiply-accumulate per connection instead. Which it is, is read off the
values: an input whose non-zero values are all the same is spikes (of any amplitude). A static graded input is counted
once, because it is computed once. At an image's border a pixel has fewer outgoing connections; they are counted one
by one.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro.lateral.taps import evaluating, modules_of, readable_sites, tapped
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
    synapses = modules_of(readable_sites(model))
    calls: dict[str, list[Tensor]] = {}
    measured: list[LayerActivity] = []

    def on_spikes(name: str) -> Callable[[nn.Module, tuple[Any, ...], tuple[Tensor, State]], None]:
        return lambda _module, _inputs, outputs: measured.append(_neuron_activity(name, outputs[0]))

    with ExitStack() as stack:
        for name, neuron in neuron_layers(model).items():
            if neuron.is_spiking:
                stack.callback(neuron.register_forward_hook(on_spikes(name)).remove)  # pyright: ignore[reportArgumentType]
        with evaluating(model), tapped(synapses, lambda name, seen: calls.setdefault(name, []).append(seen)):
            model(inputs)
    for name, seen in calls.items():
        measured.append(_synapse_activity(name, torch.cat(seen), synapses[name], len(inputs)))
    return sorted(measured, key=lambda layer: order[layer.name])


def _synapse_activity(name: str, inputs: Tensor, synapse: nn.Module, num_samples: int) -> LayerActivity:
    connections = outgoing_connections(synapse, inputs)
    largest = inputs.abs().amax()
    if bool(((inputs == 0) | (inputs == largest)).all()):
        operations = ((inputs != 0) * connections).sum(dtype=torch.float64) / num_samples
        return LayerActivity(name, None, None, None, float(operations), 0.0)
    macs = connections.expand(inputs.shape).sum(dtype=torch.float64) / num_samples
    return LayerActivity(name, None, None, None, 0.0, float(macs))


def outgoing_connections(synapse: nn.Module, inputs: Tensor) -> Tensor:
    """Count the outgoing connections of every input value, broadcastable to the inputs."""
    if isinstance(synapse, nn.Linear):
        return inputs.new_tensor(float(synapse.out_features))
    assert isinstance(synapse, nn.Conv1d | nn.Conv2d)
    one = torch.ones_like(inputs[:1], dtype=torch.float32, requires_grad=True)
    kernel = torch.ones_like(synapse.weight, dtype=torch.float32)
    with torch.enable_grad():
        reached = synapse._conv_forward(one, kernel, None).sum()
    return torch.autograd.grad(reached, one)[0]


def _neuron_activity(name: str, spikes: Tensor) -> LayerActivity:
    fired = (spikes != 0).to(torch.float32)
    per_neuron = fired.flatten(0, 1).mean(0)
    silent, saturated = (per_neuron == 0).float().mean(), (per_neuron == 1).float().mean()
    return LayerActivity(name, float(per_neuron.mean()), float(silent), float(saturated), 0.0, 0.0)


def firing_rates(spikes: Tensor) -> Tensor:
    """Give the share of ticks at which each neuron fired, [B, ...].

    Args:
        spikes: zeros and ones, [T, B, ...].

    Raises:
        ValueError: if other values are among them.
    """
    require_spikes(spikes, "spikes")
    return spikes.mean(0)


def require_spikes(spikes: Tensor, name: str) -> None:
    """Refuse a tensor that holds anything but zeros and ones.

    Raises:
        ValueError: naming it and the first other value.
    """
    other = spikes[(spikes != 0) & (spikes != 1)]
    if other.numel():
        raise ValueError(
            f"{name} must hold zeros and ones only, it holds {float(other[0]):.4g}; pass a neuron's spikes."
        )
