"""A certification that is described once and run on many networks: what `robustness=smoothing` builds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from continual.batches import as_tensors
from continual.data.arrays import Split
from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.evaluate import Data
from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.certify import certify
from continual.robustness.smoothing.goals import Goal
from continual.robustness.smoothing.report import CertificationReport, readable_radii
from continual.robustness.smoothing.rules import FixedSample, Rule
from continual.robustness.target import Model, Target


@dataclass(frozen=True)
class Smoothing:
    """Randomised smoothing with one budget.

    Args:
        sigma: standard deviation of the noise, in raw pixel units; there is no default that is right.
        rule: draws and bound; None takes `FixedSample(1000)`.
        goal: when a rule that may stop early does.
        radii: at which certified accuracy is read; empty takes 0 to 2 sigma in five steps.
        n0: draws that choose the class.
        num_samples: the first so many samples of the data; None takes all.
        batch_size: noisy copies in one forward pass.
        seed: of the noise.

    Raises:
        TypeError: if sigma is no number.
        ValueError: if sigma is missing or not above 0, or another value is outside its range.
    """

    sigma: float | None
    rule: Rule | None = None
    goal: Goal | None = None
    radii: Sequence[float] = ()
    n0: int = 100
    num_samples: int | None = None
    batch_size: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least_one(batch_size=self.batch_size)
        if self.num_samples is not None:
            require_at_least_one(num_samples=self.num_samples)
        readable_radii(self.radii, self.budget.sigma)

    @property
    def budget(self) -> Budget:
        """All that decides a certificate but the network and the image."""
        rule = self.rule if self.rule is not None else FixedSample(1000)
        return Budget(self.sigma, rule, self.goal, self.n0, self.seed)  # pyright: ignore[reportArgumentType]  # checked

    def measure(self, model: Model | Target, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Give what a matrix over tasks holds: certified accuracy at each radius, as in `certified_r0.25`, and the ACR.

        The ACR is left out where sampling stopped early.
        """
        found = self(model, (images, labels))
        values = {
            f"certified_r{radius:g}": accuracy
            for radius, accuracy in zip(found.radii, found.certified_accuracy, strict=True)
        }
        acr = found.average_certified_radius
        return values if math.isnan(acr) else values | {"acr": acr}

    def __call__(self, model: Model | Target, data: Data, file: str | Path | None = None) -> CertificationReport:
        """Certify one network.

        Args:
            model: any callable from images to logits, or a `Target` that says how it has to be asked.
            data: a part of a dataset, or images in raw pixels [N, ...] and labels [N].
            file: where certificates are kept as they are made, so that an interrupted certification goes on.
        """
        budget, (images, labels) = self.budget, _tensors(data)
        first = slice(self.num_samples)
        settings = {"rule": budget.rule, "goal": budget.goal, "n0": self.n0, "seed": self.seed, "file": file}
        found = certify(model, images[first], budget.sigma, labels[first], batch_size=self.batch_size, **settings)
        return CertificationReport(found, readable_radii(self.radii, budget.sigma))


def _tensors(data: Data) -> tuple[Tensor, Tensor]:
    if isinstance(data, Split):
        return as_tensors(data, torch.device("cpu"), torch.float32)
    images, labels = (part if isinstance(part, Tensor) else torch.from_numpy(np.asarray(part)) for part in data)
    return images, labels
