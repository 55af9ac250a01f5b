"""The report of a certification: numbers, table, files."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from continual.reports.atomic_file import write_atomically
from continual.robustness.smoothing.certificates import Certificates, guaranteed_accuracy
from continual.robustness.smoothing.file import save_certificates


@dataclass(frozen=True)
class CertificationReport:
    """Certificates, and the radii at which they are read.

    Args:
        certificates: with labels.
        radii: l2, in raw pixel units, ascending.
    """

    certificates: Certificates
    radii: tuple[float, ...]

    @property
    def certified_accuracy(self) -> tuple[float, ...]:
        """Share of images that are right and certified, at each radius."""
        return tuple(self.certificates.certified_accuracy(radius) for radius in self.radii)

    @property
    def average_certified_radius(self) -> float:
        """ACR; NaN where sampling stopped early."""
        return self.certificates.average_certified_radius

    def table(self) -> str:
        """Give the report as text of fixed width."""
        found, total = self.certificates, len(self.certificates)
        draws = found.column("draws")
        lines = [
            f"{total} images; {found.budget}",
            f"{'radius':>8} {'certified':>9} {'95 % interval':>16} {'0.99 sure':>9} "
            f"{'worst class':>12} {'undecided':>9}",
        ]
        for point in self._points():
            low, high = point["interval"]
            lines.append(
                f"{point['radius']:8.4g} {point['accuracy']:9.3f} {f'[{low:.3f}, {high:.3f}]':>16} "
                f"{point['guaranteed']:9.3f} {f'''{point['worst_class_accuracy']:.3f} ({point['worst_class']})''':>12} "
                f"{point['undecided']:9d}"
            )
        acr = self.average_certified_radius
        shown = f"{acr:.4f}" if math.isfinite(acr) else "not given, because sampling stopped early (take FixedSample)"
        lines += [
            f"ACR {shown}; abstains on {found.abstention_rate:.3f}; draws an image: mean {draws.mean():.0f}, most "
            f"{draws.max()}, all {draws.sum()}",
            "0.99 sure: the smoothed classifier's own on these images, but for a chance of 0.01.",
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Give everything but the single certificates as plain data; what is not a number is None."""
        found, acr = self.certificates, self.average_certified_radius
        return {
            "budget": found.budget.describe(),
            "ceiling": found.budget.ceiling,
            "network": found.network,
            "samples": len(found),
            "curve": [{**point, "interval": list(point["interval"])} for point in self._points()],
            "acr": acr if math.isfinite(acr) else None,
            "abstention_rate": found.abstention_rate,
            "draws": int(found.column("draws").sum()),
            "versions": found.versions,
        }

    def save(self, folder: str | Path) -> Path:
        """Write `certification.json`, `certificates.jsonl`, `certificates.tsv`, `certification.html` and the figures.

        Args:
            folder: made when missing.

        Returns:
            The folder.
        """
        from continual.robustness.smoothing.page import write_page

        folder = Path(folder)
        content = json.dumps(self.as_dict(), indent=2, allow_nan=False)
        write_atomically(folder / "certification.json", content.encode())
        save_certificates(self.certificates, folder / "certificates.jsonl")
        self.certificates.write_table(folder / "certificates.tsv")
        write_page({"this network": self.certificates}, self.radii, folder)
        return folder

    def _points(self) -> list[dict[str, Any]]:
        return [certified_point(self.certificates, radius) for radius in self.radii]


def certified_point(found: Certificates, radius: float) -> dict[str, Any]:
    """Give everything there is to say of one radius, as plain data.

    Args:
        found: certificates with labels.
        radius: l2, in raw pixel units.
    """
    accuracy, total = found.certified_accuracy(radius), len(found)
    bounds = binomtest(round(accuracy * total), total).proportion_ci(0.95, method="exact")
    worst, share = found.worst_class(radius)
    return {
        "radius": radius,
        "accuracy": accuracy,
        "interval": (float(bounds.low), float(bounds.high)),
        "guaranteed": guaranteed_accuracy(accuracy, total, found.budget.rule.alpha),
        "worst_class": worst,
        "worst_class_accuracy": share,
        "undecided": int(found.undecided(radius).sum()),
    }


def default_radii(sigma: float) -> tuple[float, ...]:
    """Give five radii, 0 to 2 sigma."""
    return tuple(round(sigma * step, 12) for step in (0, 0.5, 1, 1.5, 2))


def readable_radii(radii: Sequence[float], sigma: float) -> tuple[float, ...]:
    """Give radii in ascending order, the default ones if there are none.

    Raises:
        ValueError: if one is negative or not finite.
    """
    if not all(math.isfinite(radius) and radius >= 0 for radius in radii):
        raise ValueError(f"radii must be finite numbers >= 0, got {list(radii)}.")
    return tuple(sorted(set(map(float, radii)))) if radii else default_radii(sigma)
