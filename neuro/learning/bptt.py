"""Backpropagation through time with surrogate gradients (Neftci, Mostafa, Zenke 2019), whole or truncated.

The network runs all T ticks, the objective scores the logits, and one backward pass goes through time. On a network
without neurons this is plain backpropagation. What is presynaptic is what stands at each synapse's input: every spike
row of every tick, T·B rows, or the B rows of a static input.

Truncated to K ticks (Williams and Peng 1990), states are cut from the graph after every K ticks: errors still reach
every tick from the one loss, but cross no cut. K >= T is the whole; the graph of all T ticks is kept, so memory is
not saved (OTTT and SLTT save it).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from neuro.error_paths import ErrorPath
from neuro.learning.rule import Objective, Rule, Terms, Update, backpropagate
from neuro.models.classifier import SpikingClassifier
from neuro.neurons import Neuron, RepresentationNeuron
from neuro.types import Activity, Static, num_time_steps, unroll


class BPTT(Rule):
    """The rule: all ticks forward, one backward.

    It accepts every neuron whose `step` autograd can differentiate.

    Args:
        truncation: K, ticks between two cuts; None cuts nowhere.
        error_path: exact by default.
        seed: of a random error path.

    Raises:
        ValueError: if truncation is below 1.
    """

    name = "bptt"
    refuses = (RepresentationNeuron,)

    def __init__(self, truncation: int | None = None, error_path: ErrorPath | None = None, seed: int = 0) -> None:
        super().__init__(error_path, seed)
        if truncation is not None and truncation < 1:
            raise ValueError(f"truncation must be at least 1 tick, got {truncation}.")
        self.truncation = truncation

    def check(self, model: nn.Module) -> None:
        """Refuse neurons it cannot train, and a truncation where time cannot be cut.

        Raises:
            ValueError: saying why.
        """
        super().check(model)
        has_neurons = any(isinstance(module, Neuron) for module in model.modules())
        if self.truncation is not None and has_neurons and not isinstance(model, SpikingClassifier):
            raise ValueError("Truncated bptt needs a SpikingClassifier, whose network can be run in pieces of time.")

    def updates(self, model: nn.Module, batch: Any, objective: Objective, terms: Terms) -> Iterator[Update]:
        """Fill `.grad` once and yield; see `Rule.updates`."""
        truncation = self.truncation
        if truncation is None or not isinstance(model, SpikingClassifier):
            return backpropagate(model, model, batch, objective, terms)
        return backpropagate(lambda inputs: truncated(model, inputs, truncation), model, batch, objective, terms)


def truncated(model: SpikingClassifier, inputs: Tensor, truncation: int) -> Tensor:
    """Give logits whose gradient crosses no cut between pieces of `truncation` ticks."""
    outputs, state = [], None
    for piece in pieces(model.encode(inputs), truncation):
        seen, state = model.network.simulate(piece, detached(state))
        outputs.append(seen)
    return model.decoder(torch.cat(outputs))


def pieces(activity: Activity, ticks: int) -> list[Activity]:
    """Cut activity in time."""
    if isinstance(activity, Static):
        total = num_time_steps(activity)
        return [Static(activity.value, min(ticks, total - start)) for start in range(0, total, ticks)]
    return list(unroll(activity).split(ticks))


def detached(state: Any) -> Any:
    """Cut a state, however nested, from the graph."""
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple):
        parts = [detached(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state
