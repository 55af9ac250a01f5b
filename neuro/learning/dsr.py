"""Differentiation on spike representation (Meng et al. 2022, DSR): backpropagation through rates instead of time.

Its neurons (`DSRLIF`, `DSRIF`) carry the method: forward they spike, backward each is the clipped linear map of its
weighted rate. The rule runs all ticks and goes back once, through those maps. What is presynaptic is the weighted
rate of each synapse's input, B rows: it decides what a layer passes on. The logits are read by the same weighted
rate.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from neuro.decoding import MeanOverTime, WeightedRate
from neuro.learning.rule import Objective, Presynaptic, Rule, Terms, Update, backpropagate
from neuro.models.classifier import SpikingClassifier
from neuro.neurons import DSRIF, DSRLIF, RepresentationNeuron


class DSR(Rule):
    """Train DSR's own neurons through their rate maps.

    Args:
        error_path: exact by default.
        seed: of a random error path.
    """

    name = "dsr"
    accepts = (DSRLIF, DSRIF)

    def check(self, model: nn.Module) -> None:
        """Refuse other neurons, and a decoder that reads another rate than the neurons'.

        Raises:
            ValueError: naming what is wanted.
        """
        super().check(model)
        wanted = {
            WeightedRate(neuron.tau / neuron.tick_duration).tau if isinstance(neuron, DSRLIF) else None
            for neuron in representation_neurons(model).values()
        }
        if not wanted:
            return
        if len(wanted) > 1:
            raise ValueError("dsr reads the whole network by one rate; give all its neurons one kind, tau and tick.")
        decoder = model.decoder if isinstance(model, SpikingClassifier) else None
        reads = {decoder.tau if isinstance(decoder, WeightedRate) else None} if decoder is not None else set()
        if reads != wanted or (wanted == {None} and not isinstance(decoder, MeanOverTime)):
            raise ValueError(
                f"dsr reads logits by the neurons' own rate: give a SpikingClassifier whose decoder is "
                f"{'MeanOverTime' if wanted == {None} else f'WeightedRate(tau={sorted(map(str, wanted))[0]})'}, "
                f"got {type(decoder).__name__ if decoder is not None else type(model).__name__}."
            )

    def presynaptic(self, model: nn.Module) -> Presynaptic:
        """Give the rate of each input by which the neurons read it."""
        represent = next((neuron.represent for neuron in representation_neurons(model).values()), mean_over_time)
        return lambda _name, activity: represent(activity)[None]

    def updates(self, model: nn.Module, batch: Any, objective: Objective, terms: Terms) -> Iterator[Update]:
        """Fill `.grad` once and yield; see `Rule.updates`."""
        return backpropagate(model, model, batch, objective, terms)


def representation_neurons(model: nn.Module) -> dict[str, RepresentationNeuron]:
    """Give DSR's neurons by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, RepresentationNeuron)}


def mean_over_time(activity: Tensor) -> Tensor:
    """Give the mean over time, for a network without neurons."""
    return activity.mean(0)
