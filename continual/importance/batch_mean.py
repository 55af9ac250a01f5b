"""The square of a batch's mean gradient, which much code takes for a Fisher.

    F = Σ_batches (B/N) (mean over the batch of g_y)²,      g_y = ∂ log p(y|x)/∂θ of the true label y

Near an optimum gradients cancel in the mean, and it is about 1/B of the empirical Fisher; at B = 1 it is that.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.func import vmap

from continual.batches import TrainingData
from continual.importance.estimator import Estimate, Importance, ScorePass, choose, no_weights
from continual.importance.scores import of_label
from continual.per_sample import plain_backward
from continual.scenarios import TaskSequence
from continual.seeding import apart, stream
from neuro.lateral import evaluating


class BatchMeanLegacy(Importance):
    """The square of a batch's mean gradient, for comparison with code that takes it for a Fisher.

    It shrinks with the batch size, so a strength tuned with it holds for that batch size alone. One ordinary backward
    pass a batch, so it works on layers that per-sample gradients refuse. The last batch counts by its size.

    Args:
        max_samples: how many samples of a task are looked at, drawn by seed; None looks at all.
        batch_size: B; 1 makes it `Empirical`.

    Raises:
        ValueError: if a number is below 1.
    """

    name, measures = "batch_mean", "batch_mean_legacy"

    def __init__(self, max_samples: int | None = 500, batch_size: int = 64) -> None:
        super().__init__(max_samples)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        self.batch_size = batch_size

    def check(self, model: nn.Module, names: Sequence[str], sequence: TaskSequence) -> None:
        """Accept every network."""

    def passes(self, data: TrainingData, generator: torch.Generator, affordable: int) -> Iterator[ScorePass]:
        """Give log p of the true label."""
        yield ScorePass(of_label, (data.targets,))

    def estimate(self, model: nn.Module, names: Sequence[str], data: TrainingData, seed: int, task: int) -> Estimate:
        """Weigh the parameters batch by batch; see `Importance.estimate`."""
        chosen = choose(data, self.max_samples, stream(seed, "consolidation", task))
        totals, parameters = no_weights(model, names), [model.get_parameter(name) for name in names]
        (step,) = self.passes(chosen, stream(seed, "labels", task), self.batch_size)
        parts = (part.split(self.batch_size) for part in (chosen.inputs, chosen.active, *step.extras))
        with apart(model, seed, "consolidation", task), evaluating(model), plain_backward(model):
            for inputs, *own in zip(*parts, strict=True):
                with torch.enable_grad():
                    score = vmap(step.score)(model(inputs), *own).mean()
                    found = torch.autograd.grad(score, parameters, allow_unused=True, materialize_grads=True)
                for name, gradient in zip(names, found, strict=True):
                    totals[name] += gradient.square() * (len(inputs) / len(chosen))
        return Estimate(totals, -(-len(chosen) // self.batch_size), 3 * len(chosen))
