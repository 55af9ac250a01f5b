"""The role of an estimator of importances: from a task's data to a weight per parameter.

    F_p = mean over samples x of the task of |∂ score(x) / ∂θ_p|²

A member says which scores of a sample are differentiated; the squares are gathered here, chunk by chunk, in evaluation
mode, on samples drawn once a task from a stream of its own. Rows of the head that do not compete take no part.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from continual.batches import TrainingData, as_tensors
from continual.per_sample import Score, affordable_gradients, per_sample_gradients, require_per_sample
from continual.scenarios import TaskSequence
from continual.seeding import apart, stream
from neuro.neurons import Neuron

Weights = dict[str, Tensor]
"""By parameter name, a tensor of the parameter's shape."""


class ScorePass(NamedTuple):
    """One pass over the samples.

    Attributes:
        score: of the logits of one sample, the rows that compete, and that sample's extras.
        extras: what the score needs of each sample, [N, ...] each.
        num_scores: how long a vector the score gives; 1 for a scalar.
    """

    score: Score
    extras: tuple[Tensor, ...] = ()
    num_scores: int = 1


class Estimate(NamedTuple):
    """What an estimator found.

    Attributes:
        importance: by name, at least zero, in single precision at least.
        gradients: how many gradients were squared.
        passes: what they took, in forward passes of one sample; a backward pass counts as two.
    """

    importance: Weights
    gradients: int
    passes: int


class Importance(ABC):
    """The role: from a task's data to a weight per parameter.

    Args:
        max_samples: how many samples of a task are looked at, drawn by seed; None looks at all.
        chunk_size: samples whose gradients are held at a time; None keeps them below 64 MiB.

    Raises:
        ValueError: if a number is below 1.
    """

    name: str = "importance"
    measures: str = "importance"
    """What it is, for reports."""

    def __init__(self, max_samples: int | None = 500, chunk_size: int | None = None) -> None:
        for key, value in (("max_samples", max_samples), ("chunk_size", chunk_size)):
            if value is not None and value < 1:
                raise ValueError(f"{key} must be at least 1, got {value}.")
        self.max_samples, self.chunk_size = max_samples, chunk_size

    def check(self, model: nn.Module, names: Sequence[str], sequence: TaskSequence) -> None:
        """Refuse a network or a sequence that it cannot work with; one training sample is tried.

        Raises:
            ValueError: naming the layer that is in the way.
        """
        reference = next(model.parameters())
        one = sequence.tasks[0].train.select(np.array([0]))
        inputs, _ = as_tensors(one, reference.device, reference.dtype)
        with apart(model, 0, "fit"):
            require_per_sample(model, names, inputs)

    def reported_name(self, model: nn.Module) -> str:
        """Give what it measures on a network, as `surrogate_…` where spikes are differentiated."""
        spiking = any(isinstance(module, Neuron) and module.is_spiking for module in model.modules())
        return f"surrogate_{self.measures}" if spiking else self.measures

    def estimate(self, model: nn.Module, names: Sequence[str], data: TrainingData, seed: int, task: int) -> Estimate:
        """Weigh the parameters for what the network does on a task's data.

        Args:
            model: as it is at the task's end; left as it is, modes and random streams too.
            names: of the parameters.
            data: what the task was trained on.
            seed: root of the named streams.
            task: its number, which names the streams.
        """
        chosen = choose(data, self.max_samples, stream(seed, "consolidation", task))
        totals, gradients, passes = no_weights(model, names), 0, 0
        for step in self.passes(chosen, stream(seed, "labels", task), affordable_gradients(model, names)):
            with apart(model, seed, "consolidation", task):  # the same noise in every pass over the samples
                for found in per_sample_gradients(
                    model,
                    names,
                    step.score,
                    chosen.inputs,
                    chosen.active,
                    *step.extras,
                    num_scores=step.num_scores,
                    chunk_size=self.chunk_size,
                ):
                    for name, total in totals.items():
                        over = tuple(range(found[name].ndim - total.ndim))
                        total += self.magnitude(found[name]).sum(over, dtype=total.dtype)
            gradients += len(chosen) * step.num_scores
            passes += len(chosen) * (1 + 2 * step.num_scores)
        return Estimate({name: total / len(chosen) for name, total in totals.items()}, gradients, passes)

    def magnitude(self, gradients: Tensor) -> Tensor:
        """Give what gradients count for: their squares."""
        return gradients.square()

    @abstractmethod
    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give the scores whose gradients are gathered.

        Args:
            data: the samples.
            generator: of random labels, on the CPU.
            affordable: how many gradients may be held at a time.
        """


def choose(data: TrainingData, max_samples: int | None, generator: torch.Generator) -> TrainingData:
    """Draw the samples to look at, each with the rows it competes among, [N, classes]."""
    chosen = torch.randperm(len(data), generator=generator)[:max_samples].to(data.inputs.device)
    active = data.active.expand(len(data), -1) if data.active.ndim == 1 else data.active
    return TrainingData(data.inputs[chosen], data.targets[chosen], active[chosen], data.task[chosen])


def no_weights(model: nn.Module, names: Sequence[str]) -> Weights:
    """Give zeros for every parameter, in single precision at least."""
    parameters = {name: model.get_parameter(name).detach() for name in names}
    return {name: torch.zeros_like(held, dtype=precision_of(held)) for name, held in parameters.items()}


def precision_of(tensor: Tensor) -> torch.dtype:
    """Give a tensor's dtype, or single precision where that is finer."""
    return torch.promote_types(tensor.dtype, torch.float32)
