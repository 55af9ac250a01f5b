"""What the rules share that learn tick by tick: no graph ever spans two ticks.

At every tick the network advances by one step from a state that is cut from the graph, the logits of this tick are
scored with 1/T of the loss, and errors go back through space alone. So memory does not grow with T. Rules differ in
what they take for presynaptic: the spikes (SLTT), or a trace of them (OTTT).

A static input is mapped by the layers before the first neuron once a batch; their errors are summed over the ticks
and go back once. Batch norm sees one tick at a time, whereas whole-time rules show it all T ticks at once.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from neuro.decoding import MeanOverTime
from neuro.error_paths import ErrorPath
from neuro.lateral.taps import modules_of, readable_sites
from neuro.learning.bptt import detached
from neuro.learning.rule import Objective, Rule, Terms, Update, backpropagate, score
from neuro.models.classifier import SpikingClassifier
from neuro.network import SpikingSequential
from neuro.neurons import IF, LIF, Neuron
from neuro.synapses import Synapse
from neuro.temporal import Temporal, run_layer
from neuro.types import Activity, Static, num_time_steps

Trace = Callable[[Tensor], Tensor]
"""From a synapse's input of this tick to what stands for it in the weight gradient."""


class TickRule(Rule):
    """Learn from every tick as it passes.

    Args:
        every_tick: step the optimiser at every tick, instead of summing a batch's gradients.
        error_path: exact by default.
        seed: of a random error path.
    """

    accepts = (LIF, IF)

    def __init__(self, every_tick: bool = False, error_path: ErrorPath | None = None, seed: int = 0) -> None:
        super().__init__(error_path, seed)
        self.every_tick = bool(every_tick)

    @abstractmethod
    def traces(self, model: nn.Module) -> dict[str, Trace]:
        """Give a fresh trace for every synapse that needs one, by name."""

    def check(self, model: nn.Module) -> None:
        """Refuse a network that cannot be scored tick by tick.

        Raises:
            ValueError: naming what is wanted.
        """
        super().check(model)
        if not any(isinstance(module, Neuron) for module in model.modules()):
            return
        if not isinstance(model, SpikingClassifier) or not isinstance(model.decoder, MeanOverTime):
            raise ValueError(
                f"{self.name} scores the outputs of every tick, so it needs a SpikingClassifier with the decoder "
                f"MeanOverTime."
            )
        self.require_own_synapses(model)

    def updates_per_batch(self, model: nn.Module) -> int:
        """Give T where the optimiser steps at every tick; see `Rule.updates_per_batch`."""
        return model.time_steps if self.every_tick and has_ticks(model) else 1

    def updates(self, model: nn.Module, batch: Any, objective: Objective, terms: Terms) -> Iterator[Update]:
        """Go through the ticks; yield at every one, or once with the sum. See `Rule.updates`.

        A network without neurons has no ticks: it is trained by plain backpropagation.
        """
        if not has_ticks(model):
            yield from backpropagate(model, model, batch, objective, terms)
            return
        prepared = objective.prepare(model, batch)
        with presynaptic_traces(model, self.traces(model)):
            network, activity, gradient = model.network, model.encode(prepared.inputs), None
            if self.every_tick:
                for outputs, loss in self._ticks(network, activity, prepared, objective, terms):
                    yield Update(outputs, loss, prepared)
                return
            if isinstance(activity, Static):  # a moving input is mapped tick by tick, or one graph would span them all
                before, network = split_at_first_state(network)
                activity, gradient = leaf_of(run_layer(before, activity)[0])
            seen = list(self._ticks(network, activity, prepared, objective, terms))
            if gradient is not None:
                gradient()
        outputs, losses = zip(*seen, strict=True)
        yield Update(torch.stack(outputs).mean(0), torch.stack(losses).sum(), prepared)

    def _ticks(
        self, network: SpikingSequential, activity: Activity, prepared: Any, objective: Objective, terms: Terms
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Advance, score and go back, tick by tick."""
        time_steps, state = num_time_steps(activity), None
        for tick in range(time_steps):
            current = activity.value if isinstance(activity, Static) else activity[tick]
            outputs, state = network.step(current, detached(state))
            loss = score(outputs, prepared, objective, terms) / time_steps
            torch.autograd.backward(loss)
            yield outputs.detach(), loss.detach()


def has_ticks(model: nn.Module) -> TypeGuard[SpikingClassifier]:
    """Tell whether a network has neurons and runs over time."""
    return isinstance(model, SpikingClassifier) and any(isinstance(part, Neuron) for part in model.modules())


def split_at_first_state(network: SpikingSequential) -> tuple[SpikingSequential, SpikingSequential]:
    """Cut a network before its first layer with a state; without layers before it, nothing is cut off."""
    layers = list(network)
    first = next(index for index, layer in enumerate(layers) if isinstance(layer, Temporal))
    return (network[:first] if first else SpikingSequential(nothing=nn.Identity())), network[first:]


def leaf_of(activity: Activity) -> tuple[Activity, Callable[[], None]]:
    """Cut an activity from its graph, and give what sends the gradient gathered at the cut back into the graph."""
    value = activity.value if isinstance(activity, Static) else activity
    if not value.requires_grad:
        return activity, lambda: None
    leaf = value.detach().requires_grad_()
    cut = Static(leaf, activity.time_steps) if isinstance(activity, Static) else leaf
    return cut, lambda: torch.autograd.backward(value, leaf.grad)


@contextmanager
def presynaptic_traces(model: nn.Module, traces: dict[str, Trace]) -> Iterator[None]:
    """Put traces on the presynaptic side of synapses while the context is open; what stood there comes back after.

    So a strategy may run a batch of its own between two ticks of another.
    """
    synapses = modules_of(readable_sites(model))
    with ExitStack() as stack:
        for name, trace in traces.items():
            synapse = synapses[name]
            assert isinstance(synapse, Synapse)  # check has refused every other
            stack.callback(setattr, synapse, "presynaptic", synapse.presynaptic)
            synapse.presynaptic = trace
        yield
