"""The budget of a certificate: everything that decides it but the network and the image.

Numbers of two budgets cannot be compared: more draws or a larger alpha raise every radius. So the budget travels with
each certificate, into its file, its table and its figures, and its ceiling is printed beside every result.
"""

import math
from dataclasses import dataclass
from typing import Any

from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.smoothing.goals import AllDraws, Goal
from continual.robustness.smoothing.rules import Rule


@dataclass(frozen=True)
class Budget:
    """Noise, draws, error and seed.

    Args:
        sigma: standard deviation of the noise, in raw pixel units.
        rule: draws of the estimate, and its bound.
        goal: when a rule that may stop early does; None spends everything.
        n0: draws that choose the class, never used for the estimate.
        seed: of the noise.

    Raises:
        TypeError: if sigma is no number, or rule and goal are none.
        ValueError: if sigma is not above 0, n0 is below 1, or a rule that may stop early has nothing to stop for.
    """

    sigma: float
    rule: Rule
    goal: Goal | None = None
    n0: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        require_sigma(self.sigma)
        require_at_least_one(n0=self.n0)
        if not isinstance(self.rule, Rule):
            raise TypeError(f"rule must be FixedSample, Looks or MixtureSequence, got {self.rule!r}.")
        if self.goal is None and self.rule.sequential:
            raise ValueError(
                f"{type(self.rule).__name__} may stop early, but nothing says for what; give "
                f"goal=AboveRadii([0.25, 0.5]) or goal=WithinTolerance(0.05), or take FixedSample."
            )
        if self.goal is None:
            object.__setattr__(self, "goal", AllDraws())
        if not isinstance(self.goal, Goal):
            raise TypeError(f"goal must be AboveRadii, WithinTolerance or AllDraws, got {self.goal!r}.")

    @property
    def ceiling(self) -> float:
        """The largest radius there is, all draws agreeing, in raw pixel units."""
        return self.sigma * self.rule.ceiling

    def describe(self) -> dict[str, Any]:
        """Give the budget as plain data, as it reads back from JSON."""
        assert self.goal is not None
        described = {**self.rule.describe(), **self.goal.describe()}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in described.items()}
        return {"sigma": self.sigma, "n0": self.n0, "seed": self.seed, **plain}

    def __str__(self) -> str:
        described = {"n": self.rule.most, **self.describe()}
        shown = ("n0", "n", "sizes", "alpha", "every", "radii", "tolerance", "seed")
        numbers = [f"{name} {_short(described[name])}" for name in shown if name in described]
        return (
            f"sigma {self.sigma:g}, {described['rule']}, {', '.join(numbers)}; ceiling radius {self.ceiling:.4f} "
            f"= {self.rule.ceiling:.4f} sigma"
        )


def require_sigma(sigma: Any) -> None:
    """Refuse a noise level that is missing or not above 0.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is missing, 0, negative or not finite.
    """
    if sigma is None:
        raise ValueError("sigma, the standard deviation of the noise in raw pixel units, is missing; give sigma=0.25.")
    if isinstance(sigma, bool) or not isinstance(sigma, int | float):
        raise TypeError(f"sigma must be a number in raw pixel units, got {sigma!r}.")
    if not (math.isfinite(sigma) and sigma > 0):
        raise ValueError(
            f"sigma must be above 0 and finite, in raw pixel units, got {sigma}; without noise there is nothing to "
            f"smooth and no radius to certify."
        )


def _short(value: Any) -> str:
    return "(" + ", ".join(f"{part:g}" for part in value) + ")" if isinstance(value, list) else f"{value:g}"
