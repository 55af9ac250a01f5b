"""The role of a learning rule: how gradients arise from a batch.

A rule fills `.grad` and yields, once a batch or once a tick; what is minimised is the objective's affair, and what is
kept out of the gradient the strategy's. A rule names the neurons it trains and says what it takes for presynaptic, so
that whoever protects weights looks at the same rows. Rules run the same weights: none adds a parameter.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from neuro.error_paths import ErrorPath, Exact
from neuro.lateral.taps import modules_of, readable_sites
from neuro.neurons import Neuron
from neuro.synapses import Synapse


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

Presynaptic = Callable[[str, Tensor], Tensor]
"""From a layer's name and its input over time [T, B, ...] to what the rule takes for presynaptic, time first."""


class Rule(ABC):
    """What all rules share: which neurons they train, and the error path.

    Args:
        error_path: through which matrix synapses send errors back; exact by default.
        seed: of a random error path.
    """

    name: str = "rule"
    accepts: tuple[type[Neuron], ...] = (Neuron,)
    refuses: tuple[type[Neuron], ...] = ()

    def __init__(self, error_path: ErrorPath | None = None, seed: int = 0) -> None:
        self.error_path, self.seed = error_path if error_path is not None else Exact(), int(seed)

    def check(self, model: nn.Module) -> None:
        """Refuse a network with a neuron or a synapse that this rule cannot train.

        Raises:
            ValueError: naming the layer and what the rule accepts.
        """
        neurons = {name: module for name, module in model.named_modules() if isinstance(module, Neuron)}
        for name, module in neurons.items():
            if not isinstance(module, self.accepts) or isinstance(module, self.refuses):
                accepted = ", ".join(neuron.__name__ for neuron in self.accepts)
                but = f" except {', '.join(neuron.__name__ for neuron in self.refuses)}" if self.refuses else ""
                raise ValueError(
                    f"{self.name} cannot train layer {name!r} ({type(module).__name__}); it accepts {accepted}{but}."
                )
        if not isinstance(self.error_path, Exact):
            self.require_own_synapses(model)

    def require_own_synapses(self, model: nn.Module) -> None:
        """Refuse a weight whose backward pass is torch's own.

        Raises:
            ValueError: naming the layer.
        """
        for name, module in modules_of(readable_sites(model)).items():
            if not isinstance(module, Synapse):
                raise ValueError(
                    f"{self.name} with {self.error_path.name} errors needs our synapses; layer {name!r} is "
                    f"{type(module).__module__}.{type(module).__name__}, use neuro.{type(module).__name__}."
                )

    def attach(self, model: nn.Module) -> None:
        """Lay the error path into every synapse, each its own draw from the seed."""
        for index, module in enumerate(modules_of(readable_sites(model)).values()):
            if isinstance(module, Synapse):
                generator = torch.Generator().manual_seed(self.seed * 1009 + index)
                module.error_path = self.error_path.for_weight(module.get_parameter("weight").detach(), generator)

    def presynaptic(self, model: nn.Module) -> Presynaptic | None:
        """Give what stands on the presynaptic side of each weight's update; None where that is the input itself."""
        return None

    def updates_per_batch(self, model: nn.Module) -> int:
        """Count how often `updates` yields for a batch; each time the loss is its equal share of the batch's."""
        return 1

    @abstractmethod
    def updates(self, model: nn.Module, batch: Any, objective: Objective, terms: Terms) -> Iterator[Update]:
        """Fill `.grad` and yield, once or more.

        Args:
            model: from inputs to logits.
            batch: has `inputs`, and what the objective reads.
            objective: what is minimised.
            terms: a strategy's extra loss.
        """


def score(outputs: Tensor, prepared: Any, objective: Objective, terms: Terms) -> Tensor:
    """Give the objective with a strategy's extra terms."""
    loss, extra = objective.loss(outputs, prepared), terms(outputs, prepared)
    return loss if extra is None else loss + extra


def backpropagate(
    forward: Callable[[Tensor], Tensor], model: nn.Module, batch: Any, objective: Objective, terms: Terms
) -> Iterator[Update]:
    """Run forward, score and go back once."""
    prepared = objective.prepare(model, batch)
    outputs = forward(prepared.inputs)
    loss = score(outputs, prepared, objective, terms)
    torch.autograd.backward(loss)
    yield Update(outputs.detach(), loss.detach(), prepared)
