"""The report of a robustness evaluation: numbers, table, files."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binomtest

from continual.reports.atomic_file import write_atomically
from continual.robustness.adversarial import Adversarial, Cost
from continual.robustness.sanity import Verdict


class Point(NamedTuple):
    """One point of the curve.

    Attributes:
        epsilon: radius, in raw pixel units.
        accuracy: worst case over the attacks.
    """

    epsilon: float
    accuracy: float


@dataclass(frozen=True)
class AttackRow:
    """What one attack of several did.

    Attributes:
        attack: its name and settings.
        attacked: samples that were left to it.
        left: samples that it left right.
        seconds: wall time.
        cost: passes and bad gradients.
    """

    attack: str
    attacked: int
    left: int
    seconds: float
    cost: Cost


@dataclass(frozen=True)
class RobustnessReport:
    """Everything an evaluation found.

    Attributes:
        adversarial: the worst images that were found, with the network's answers.
        rows: one an attack, in order.
        curve: accuracy against radius, the clean accuracy at 0 first.
        verdict: of the sanity battery; None where it was not asked.
        seed: of all draws.
        versions: of the software.
    """

    adversarial: Adversarial
    rows: tuple[AttackRow, ...]
    curve: tuple[Point, ...]
    verdict: Verdict | None
    seed: int
    versions: dict[str, str]

    @property
    def clean_accuracy(self) -> float:
        """Share of samples that are right unattacked."""
        return self.adversarial.clean_accuracy

    @property
    def robust_accuracy(self) -> float:
        """Share of samples that no attack made wrong, scored on the stored images; clean errors count as errors."""
        return self.adversarial.accuracy

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95 % interval of the robust accuracy for the number of samples (Clopper and Pearson 1934)."""
        total = len(self.adversarial.labels)
        right = int((~self.adversarial.success).sum())
        bounds = binomtest(right, total).proportion_ci(0.95, method="exact")
        return float(bounds.low), float(bounds.high)

    def table(self) -> str:
        """Give the report as text of fixed width."""
        threat, total = self.adversarial.threat, len(self.adversarial.labels)
        low, high = self.interval
        lines = [
            f"{threat.norm.name} <= {threat.epsilon:.6g} in [{threat.lower:g}, {threat.upper:g}], {total} samples, "
            f"seed {self.seed}",
            f"{'attack':44} {'attacked':>8} {'left':>6} {'accuracy':>8} {'forward':>9} {'backward':>9} {'seconds':>8}",
            f"{'none':44} {total:8d} {round(self.clean_accuracy * total):6d} {self.clean_accuracy:8.3f}",
        ]
        lines += [
            f"{row.attack[:44]:44} {row.attacked:8d} {row.left:6d} {row.left / total:8.3f} "
            f"{row.cost.forward_passes:9d} {row.cost.backward_passes:9d} {row.seconds:8.1f}"
            for row in self.rows
        ]
        lines.append(f"worst case {self.robust_accuracy:.3f}, 95 % interval [{low:.3f}, {high:.3f}]")
        lines += [f"  epsilon {point.epsilon:.6g}: accuracy {point.accuracy:.3f}" for point in self.curve]
        lines.append(str(self.verdict) if self.verdict is not None else "verdict: not asked (give a battery)")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Give everything but the images as plain data; what is not a number is None."""
        verdict = self.verdict.as_dict() if self.verdict is not None else None
        plain = {
            "threat": self.adversarial.threat.describe(),
            "samples": len(self.adversarial.labels),
            "clean_accuracy": self.clean_accuracy,
            "robust_accuracy": self.robust_accuracy,
            "robust_accuracy_interval": list(self.interval),
            "attacks": [asdict(row) for row in self.rows],
            "curve": [point._asdict() for point in self.curve],
            "verdict": verdict,
            "seed": self.seed,
            "versions": self.versions,
        }
        return _without_nan(plain)

    def save(self, folder: str | Path) -> Path:
        """Write `robustness.json`, `adversarial.safetensors`, and the figures as PNG.

        Args:
            folder: made when missing.

        Returns:
            The folder.
        """
        from continual.robustness.figures import figures_of

        folder = Path(folder)
        content = json.dumps(self.as_dict(), indent=2, allow_nan=False)
        write_atomically(folder / "robustness.json", content.encode())
        self.adversarial.save(folder / "adversarial.safetensors")
        for name, picture in figures_of(self).items():
            write_atomically(folder / "figures" / f"{name}.png", picture)
        return folder


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
