"""Goals: when an image has been sampled enough.

A goal sees two bounds on the radius, σ Φ⁻¹ of the bounds on p_A: what is certified and what is possible. A bound that
holds at every look lets any goal stop, so a goal decides what is spent, never whether a certificate is right.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from continual.robustness.attacks.settings import require_positive


class Goal(ABC):
    """When to stop."""

    @abstractmethod
    def reached(self, certified: np.ndarray, possible: np.ndarray, ceiling: float) -> np.ndarray:
        """Tell which images need no further draw, [N] bool.

        Args:
            certified: lower bounds on the radius, [N]; negative means that nothing is certified yet.
            possible: upper bounds, [N].
            ceiling: the largest radius that the rule's draws can give.
        """

    def describe(self) -> dict[str, Any]:
        """Give the goal as plain data."""
        return {"goal": type(self).__name__, **asdict(self)}  # pyright: ignore[reportArgumentType]  # a dataclass


@dataclass(frozen=True)
class AllDraws(Goal):
    """Spend everything."""

    def reached(self, certified: np.ndarray, possible: np.ndarray, ceiling: float) -> np.ndarray:
        """Never before the last draw."""
        return np.zeros(len(certified), bool)


@dataclass(frozen=True)
class AboveRadii(Goal):
    """Stop when each of some radii, stated beforehand, is known to be certified or known to be out of reach.

    The bound holds for all radii at once, so many cost no more error than one. Radius 0 asks whether to abstain.

    Args:
        radii: in raw pixel units, l2.

    Raises:
        ValueError: if there is none, or one is negative or not finite.
    """

    radii: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.radii) or not all(np.isfinite(r) and r >= 0 for r in self.radii):
            raise ValueError(f"radii must be at least one finite number >= 0, got {list(self.radii)}.")
        object.__setattr__(self, "radii", tuple(float(radius) for radius in self.radii))

    def reached(self, certified: np.ndarray, possible: np.ndarray, ceiling: float) -> np.ndarray:
        """Tell whether every radius is below what is certified or above what is possible."""
        radii = np.asarray(self.radii)
        return np.all((certified[:, None] >= radii) | (possible[:, None] < radii), axis=1)


@dataclass(frozen=True)
class WithinTolerance(Goal):
    """Stop when the certified radius is at most so far below the largest possible one, or nothing can be certified.

    Args:
        tolerance: in raw pixel units, l2, above 0.
    """

    tolerance: float

    def __post_init__(self) -> None:
        require_positive(tolerance=self.tolerance)

    def reached(self, certified: np.ndarray, possible: np.ndarray, ceiling: float) -> np.ndarray:
        """Tell whether the two bounds are close; no radius above the ceiling counts as possible."""
        return (possible < 0) | (np.minimum(possible, ceiling) - certified <= self.tolerance)
