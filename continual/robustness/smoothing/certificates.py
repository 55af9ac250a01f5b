"""What a certification found: one row an image, and the numbers that are functions of the rows.

An image is certified with radius R = σ Φ⁻¹(lower bound of p_A) where that bound is at least 1/2; else the smoothed
classifier abstains: predicted −1, radius 0. Then, with probability 1 − alpha for each image, either it abstains or no
perturbation of l2 length below R changes the smoothed classifier's answer.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continual.reports.atomic_file import write_atomically
from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.clopper_pearson import radius_of

ABSTAINED = -1


class Row(NamedTuple):
    """The certificate of one image.

    Attributes:
        sample: number that names the image and its noise.
        checksum: of the image and its label.
        label: its class, None where unknown.
        selected: the class that most of the n0 draws named, in the numbering of the head.
        agreeing: draws of the estimate that named it.
        draws: draws of the estimate.
        lower: bound on p_A.
        upper: bound on p_A.
    """

    sample: int
    checksum: str
    label: int | None
    selected: int
    agreeing: int
    draws: int
    lower: float
    upper: float


@dataclass(frozen=True)
class Certificates:
    """Certificates of many images under one budget.

    ACR and curves depend on the budget (the ceiling is σ Φ⁻¹(α^(1/n))), reward easy images, and are no measure of
    accuracy; they are shown with the budget and the distribution of p_A.

    Args:
        budget: all that decides them but the network and the images.
        network: fingerprint of the network; None where it could not be taken.
        noise: what else decides the draws: device, number format, draws in a block, version of torch.
        rows: one an image.
        versions: of the software.
    """

    budget: Budget
    network: str | None
    noise: dict[str, Any]
    rows: tuple[Row, ...]
    versions: dict[str, str]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> np.ndarray:
        """Give one field of all rows, [N]; an unknown label is −1."""
        values = [getattr(row, name) for row in self.rows]
        return np.asarray([-1 if value is None else value for value in values])

    @property
    def abstained(self) -> np.ndarray:
        """Where nothing is certified, [N] bool."""
        return self.column("lower") < 0.5

    @property
    def predicted(self) -> np.ndarray:
        """Classes of the smoothed classifier, −1 where it abstains, [N]."""
        return np.where(self.abstained, ABSTAINED, self.column("selected"))

    @property
    def radii(self) -> np.ndarray:
        """Certified radii, 0 where it abstains, in raw pixel units, [N]."""
        return np.where(self.abstained, 0.0, radius_of(self.column("lower"), self.budget.sigma))

    @property
    def possible_radii(self) -> np.ndarray:
        """Upper bounds on the radius, from the upper bound on p_A; negative where no radius is possible, [N]."""
        return radius_of(self.column("upper"), self.budget.sigma)

    @property
    def correct(self) -> np.ndarray:
        """Where the smoothed classifier does not abstain and names the label, [N] bool.

        Raises:
            ValueError: if labels are unknown.
        """
        if any(row.label is None for row in self.rows):
            raise ValueError("Accuracy needs labels; give certify(..., labels=...).")
        return ~self.abstained & (self.column("selected") == self.column("label"))

    @property
    def p_a(self) -> np.ndarray:
        """Share of draws that agreed, an estimate of p_A without bias at a fixed number of draws, [N]."""
        return self.column("agreeing") / self.column("draws")

    @property
    def abstention_rate(self) -> float:
        """Share of images on which it abstains."""
        return float(self.abstained.mean())

    @property
    def average_certified_radius(self) -> float:
        """ACR, the mean of R where correct and 0 elsewhere; NaN where labels are unknown or sampling stopped early."""
        if self.budget.rule.sequential or any(row.label is None for row in self.rows):
            return math.nan
        return float((self.radii * self.correct).mean())

    def certified_accuracy(self, radius: float) -> float:
        """Give the share of images that are right and certified at a radius or above.

        Args:
            radius: l2, in raw pixel units.
        """
        return float((self.correct & (self.radii >= radius)).mean())

    def worst_class(self, radius: float) -> tuple[int, float]:
        """Give the class with the lowest certified accuracy, and that accuracy.

        Args:
            radius: l2, in raw pixel units.
        """
        labels, certified = self.column("label"), self.correct & (self.radii >= radius)
        shares = {int(label): float(certified[labels == label].mean()) for label in np.unique(labels)}
        worst = min(shares, key=lambda label: shares[label])
        return worst, shares[worst]

    def undecided(self, radius: float) -> np.ndarray:
        """Tell where the draws settle neither that a radius is certified nor that it is out of reach, [N] bool."""
        return ((self.radii < radius) | self.abstained) & (self.possible_radii >= radius)

    def write_table(self, path: str | Path) -> Path:
        """Write the usual tab-separated table: idx, label, predict, radius, correct; and the number of draws.

        Seconds per image, which the usual tables have, are left out: the same certificates give the same bytes.

        Args:
            path: of the file; its folder is made when missing.
        """
        known = all(row.label is not None for row in self.rows)
        correct = self.correct.astype(int).tolist() if known else [""] * len(self)
        lines = ["idx\tlabel\tpredict\tradius\tcorrect\tdraws"]
        for row, predicted, radius, right in zip(self.rows, self.predicted, self.radii, correct, strict=True):
            label = "" if row.label is None else row.label
            lines.append(f"{row.sample}\t{label}\t{predicted}\t{radius:.6g}\t{right}\t{row.draws}")
        return write_atomically(Path(path), ("\n".join(lines) + "\n").encode())


def guaranteed_accuracy(accuracy: float, number: int, alpha: float, failure: float = 0.01) -> float:
    """Give what the smoothed classifier's own certified accuracy on these images is at least, but for a small chance.

    Each certificate may be wrong with probability alpha; Bernstein's inequality bounds how many are (Cohen, Rosenfeld
    and Kolter 2019, appendix). This is about the draws, not about the images: other images have another accuracy.

    Args:
        accuracy: certified accuracy that was measured.
        number: images.
        alpha: chance of error of one certificate.
        failure: chance that the result does not hold.
    """
    spread = math.log(1 / failure) / number
    return max(0.0, accuracy - alpha - math.sqrt(alpha * (1 - alpha) * spread) - spread / 3)
