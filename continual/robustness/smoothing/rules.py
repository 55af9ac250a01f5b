"""Rules: how many draws a certificate takes, when it may look at them, and which bound holds at a look.

Three with one face. `FixedSample` looks once, at a number fixed beforehand, and its bound is the tightest.
`Looks` is the plain way to stop early: a few looks fixed beforehand, the error divided among them (Bonferroni).
`MixtureSequence` may look after every draw at no further price. What makes sampling stop is a goal, not a rule.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.smoothing.clopper_pearson import clopper_pearson_lower, clopper_pearson_upper
from continual.robustness.smoothing.mixture import mixture_lower, mixture_upper


class Rule(ABC):
    """Looks and bounds; both bounds err with chance `alpha` at most, each by itself, over all looks together."""

    alpha: float

    @property
    @abstractmethod
    def looks(self) -> tuple[int, ...]:
        """Numbers of draws at which it may look, ascending; the last is all it may spend."""

    @abstractmethod
    def lower(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the lower bound on p_A at a look, float64 of the common shape."""

    @abstractmethod
    def upper(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the upper bound on p_A at a look, float64 of the common shape."""

    @property
    def most(self) -> int:
        """All draws it may spend on one image."""
        return self.looks[-1]

    @property
    def sequential(self) -> bool:
        """Whether it may stop before it has spent all."""
        return len(self.looks) > 1

    @property
    def ceiling(self) -> float:
        """The largest radius there is, all draws agreeing, in units of sigma."""
        return float(ndtri(self.lower(self.most, self.most)))

    @property
    def least_agreeing(self) -> int:
        """The smallest number of agreeing draws, of all, with which it does not abstain."""
        counts = np.arange(self.most // 2, self.most + 1)
        return int(counts[np.argmax(self.lower(counts, self.most) >= 0.5)])

    def describe(self) -> dict[str, Any]:
        """Give the rule as plain data."""
        return {"rule": type(self).__name__, **asdict(self)}  # pyright: ignore[reportArgumentType]  # a dataclass

    def _check(self) -> None:
        """Refuse an alpha that is no chance, and samples with which nothing can be certified."""
        alpha, most = self.alpha, self.most
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
            raise ValueError(f"alpha, the chance of a wrong certificate, must lie in (0, 1), got {alpha!r}.")
        if not self.ceiling > 0:
            raise ValueError(
                f"With {most} draws at alpha = {alpha:g} nothing can be certified: if all agree, p_A is known to be "
                f"above {float(self.lower(most, most)):.3g} only, where more than 0.5 is needed (ceiling radius "
                f"{self.ceiling:.3g} sigma); take more draws, 1000 or 10000, say."
            )


@dataclass(frozen=True)
class FixedSample(Rule):
    """Look once, after n draws, with the Clopper–Pearson bound: the rule of the usual tables and the only one for ACR.

    Example:
        >>> rule = FixedSample(10_000)
        >>> round(rule.ceiling, 4), rule.least_agreeing
        (3.1986, 5156)

    Args:
        n: draws of every image.
        alpha: chance of a wrong certificate.

    Raises:
        ValueError: if alpha is outside (0, 1), or n is too small to certify anything.
    """

    n: int
    alpha: float = 0.001

    def __post_init__(self) -> None:
        require_at_least_one(n=self.n)
        self._check()

    @property
    def looks(self) -> tuple[int, ...]:
        """The one look."""
        return (self.n,)

    def lower(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the Clopper–Pearson lower bound."""
        return clopper_pearson_lower(agreeing, draws, self.alpha)

    def upper(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the Clopper–Pearson upper bound."""
        return clopper_pearson_upper(agreeing, draws, self.alpha)


@dataclass(frozen=True)
class Looks(Rule):
    """Look at preset numbers of draws, each with the Clopper–Pearson bound at alpha over the number of looks.

    Args:
        sizes: numbers of draws, ascending.
        alpha: chance that any of the looks is wrong.

    Raises:
        ValueError: if alpha is outside (0, 1), sizes do not ascend, or are too small to certify anything.
    """

    sizes: Sequence[int] = (100, 1000, 10_000)
    alpha: float = 0.001

    def __post_init__(self) -> None:
        if not self.sizes:
            raise ValueError("sizes must hold at least one number of draws, got none.")
        require_at_least_one(**{f"sizes[{place}]": size for place, size in enumerate(self.sizes)})
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes must ascend, got {list(self.sizes)}.")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        self._check()

    @property
    def looks(self) -> tuple[int, ...]:
        """The preset numbers."""
        return tuple(self.sizes)

    def lower(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the Clopper–Pearson lower bound with this look's share of alpha."""
        return clopper_pearson_lower(agreeing, draws, self.alpha / len(self.sizes))

    def upper(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the Clopper–Pearson upper bound with this look's share of alpha."""
        return clopper_pearson_upper(agreeing, draws, self.alpha / len(self.sizes))


@dataclass(frozen=True)
class MixtureSequence(Rule):
    """Look as often as wanted, with a bound that holds at all numbers of draws at once; see `mixture`.

    Args:
        n: draws that one image may take at most.
        alpha: chance that the bound is ever wrong.
        every: draws between two looks; decides how late it notices, not whether it holds.

    Raises:
        ValueError: if alpha is outside (0, 1), or n is too small to certify anything.
    """

    n: int = 10_000
    alpha: float = 0.001
    every: int = 100

    def __post_init__(self) -> None:
        require_at_least_one(n=self.n, every=self.every)
        self._check()

    @property
    def looks(self) -> tuple[int, ...]:
        """Every so many draws, and at the last."""
        return (*range(self.every, self.n, self.every), self.n)

    def lower(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the lower end of the confidence sequence."""
        return mixture_lower(agreeing, draws, self.alpha)

    def upper(self, agreeing: ArrayLike, draws: ArrayLike) -> np.ndarray:
        """Give the upper end of the confidence sequence."""
        return mixture_upper(agreeing, draws, self.alpha)
