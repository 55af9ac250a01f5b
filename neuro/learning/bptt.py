"""Backpropagation through time with surrogate gradients (Neftci, Mostafa, Zenke 2019).

The network runs all T ticks, the objective scores the logits, and one backward pass goes through time. On a network
without neurons this is plain backpropagation. What is presynaptic is what stands at each synapse's input: every spike
row of every tick, T·B rows, or the B rows of a static input.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from neuro.neurons import Neuron


@runtime_checkable
class Objective(Protocol):
    """What a rule needs of an objective: what the network will see, and its score."""

    def prepare(self, forward: Callable[[Tensor], Tensor], batch: Any) -> Any:
        """Make the batch the network will see."""
        ...

    def loss(self, outputs: Tensor, prepared: Any) -> Tensor:
        """Score the outputs, a scalar to be lowered."""
        ...


class Update(NamedTuple):
    """One filling of `.grad`.

    Attributes:
        outputs: logits, [B, classes], detached.
        loss: the objective with its extra terms, a detached scalar.
        batch: what the network saw.
    """

    outputs: Tensor
    loss: Tensor
    batch: Any


Terms = Callable[[Tensor, Any], Tensor | None]
"""A strategy's extra loss, from outputs and batch; None for nothing."""


class BPTT:
    """The rule: all ticks forward, one backward.

    It accepts every neuron whose `step` autograd can differentiate.
    """

    name = "bptt"
    accepts: tuple[type[Neuron], ...] = (Neuron,)

    def check(self, model: nn.Module) -> None:
        """Refuse a network with a neuron that this rule cannot train.

        Raises:
            ValueError: naming the layer and what the rule accepts.
        """
        for name, module in model.named_modules():
            if isinstance(module, Neuron) and not isinstance(module, self.accepts):
                accepted = ", ".join(neuron.__name__ for neuron in self.accepts)
                raise ValueError(
                    f"{self.name} cannot train layer {name!r} ({type(module).__name__}); it accepts {accepted}."
                )

    def updates(
        self, model: Callable[[Tensor], Tensor], batch: Any, objective: Objective, terms: Terms
    ) -> Iterator[Update]:
        """Fill `.grad` once and yield.

        Args:
            model: from inputs to logits.
            batch: has `inputs`, and what the objective reads.
            objective: what is minimised.
            terms: a strategy's extra loss.

        Yields:
            One update a batch.
        """
        prepared = objective.prepare(model, batch)
        outputs = model(prepared.inputs)
        loss = objective.loss(outputs, prepared)
        extra = terms(outputs, prepared)
        if extra is not None:
            loss = loss + extra
        torch.autograd.backward(loss)
        yield Update(outputs.detach(), loss.detach(), prepared)
