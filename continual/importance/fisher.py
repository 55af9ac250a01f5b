"""The diagonal Fisher information in four estimates (van de Ven 2025 compares them for EWC).

With p = softmax(z) among the rows that compete and g_c(x) = ∂ log p(c|x)/∂θ, a mean over samples x of, elementwise,

    Exact        Σ_c p(c|x) g_c(x)²           the Fisher information; nothing is differentiated through p
    Sampled      g_c(x)², c drawn from p      unbiased for Exact, with one backward pass instead of one a class
    Empirical    g_y(x)², y the true label    not the Fisher where labels are noisy or the fit is poor
    Argmax       g_c(x)², c the likeliest     biased downwards: it looks where the network is surest

They differ by orders of magnitude, so a strength belongs to one of them.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import nn

from continual.batches import TrainingData, training_rows
from continual.importance.estimator import Importance, ScorePass
from continual.importance.scores import of_drawn_label, of_label, of_likeliest_label, root_shares
from continual.scenarios import TaskSequence


class Exact(Importance):
    """The Fisher information, summed over the labels: a backward pass per class that competes.

    Args:
        max_samples: how many samples of a task are looked at, drawn by seed; None looks at all. Fewer than elsewhere by
            default, because each costs as many backward passes as classes compete.
        max_classes: refuse a task in which more classes compete.
        chunk_size: samples whose gradients are held at a time; None keeps them below 64 MiB.

    Raises:
        ValueError: if a number is below 1.
    """

    name, measures = "exact", "exact_fisher"

    def __init__(self, max_samples: int | None = 200, max_classes: int = 100, chunk_size: int | None = None) -> None:
        super().__init__(max_samples, chunk_size)
        if max_classes < 1:
            raise ValueError(f"max_classes must be at least 1, got {max_classes}.")
        self.max_classes = max_classes

    def check(self, model: nn.Module, names: Sequence[str], sequence: TaskSequence) -> None:
        """Refuse also a task with too many classes."""
        super().check(model, names, sequence)
        competing = max(int(training_rows(sequence, task).sum()) for task in sequence.tasks)
        if competing > self.max_classes:
            raise ValueError(
                f"The exact Fisher takes a backward pass per class and {competing} classes compete, more than "
                f"max_classes={self.max_classes}; use the sampled one, or raise max_classes."
            )

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give √p(c|x) log p(c|x) of every class, whose squared gradient is p(c|x) g_c²."""
        for labels in data.active.any(0).nonzero().flatten().split(affordable):
            yield ScorePass(partial(root_shares, labels), num_scores=len(labels))


class Sampled(Importance):
    """The Fisher with one label per sample, drawn from what the network believes; unbiased for `Exact`."""

    name, measures = "sampled", "sampled_fisher"

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give log p of a drawn label."""
        yield ScorePass(of_drawn_label, (torch.rand(len(data), generator=generator).to(data.inputs.device),))


class Empirical(Importance):
    """The mean square of the gradient of the true label: what most published code uses."""

    name, measures = "empirical", "empirical_fisher"

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give log p of the true label."""
        yield ScorePass(of_label, (data.targets,))


class Argmax(Importance):
    """The mean square of the gradient of the predicted label."""

    name, measures = "argmax", "argmax_fisher"

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give log p of the likeliest label."""
        yield ScorePass(of_likeliest_label)
