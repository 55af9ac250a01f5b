"""Means over seeds with the interval that says how far to trust them.

With few seeds the spread itself is uncertain, so the interval is Student's: ``mean ± t_{(1+c)/2, n-1} s / sqrt(n)``,
with ``s`` the standard deviation of the sample (divisor n-1). Two strategies run on the same seeds are compared by the
differences seed by seed, which removes the part of the spread that both share.

Source: Student (1908, The probable error of a mean). The values are assumed independent and roughly normal.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Interval(NamedTuple):
    """A mean and its confidence interval.

    Attributes:
        mean: Mean of the values.
        half_width: Half of the interval's width; NaN for one value.
        low: ``mean - half_width``.
        high: ``mean + half_width``.
        num_values: Number of values, n.
    """

    mean: float
    half_width: float
    low: float
    high: float
    num_values: int


def mean_and_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of values and its t-interval.

    Args:
        values: ``[n]`` values, one per seed; a NaN among them makes the result NaN.
        confidence: Coverage of the interval, in (0, 1), dimensionless.

    Returns:
        The interval; its half width is NaN for n = 1, where nothing is known about the spread.

    Raises:
        ValueError: When there are no values, they are not one-dimensional, or confidence is outside (0, 1).
    """
    from scipy import stats  # imported here: it takes longer to load than everything else in this package

    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"values must be a list of at least one number, but their shape is {sample.shape}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, but it is {confidence}; 0.95 is usual.")
    mean = float(sample.mean())
    half_width = math.nan
    if sample.size > 1:
        quantile = float(stats.t.ppf(0.5 + confidence / 2.0, sample.size - 1))
        half_width = quantile * float(sample.std(ddof=1)) / math.sqrt(sample.size)
    return Interval(mean, half_width, mean - half_width, mean + half_width, int(sample.size))


def paired_difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of ``a - b`` and its t-interval, pair by pair.

    Args:
        a: ``[n]`` values, one per seed.
        b: ``[n]`` values of the other strategy on the same seeds in the same order.
        confidence: Coverage of the interval, in (0, 1), dimensionless.

    Returns:
        The interval of the differences; an interval that holds 0 does not tell the two apart.

    Raises:
        ValueError: When the two lists differ in length, or as for :func:`mean_and_interval`.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(
            f"paired values must be as many on both sides, but there are {first.size} and {second.size}; "
            "keep only the seeds that both sides ran."
        )
    return mean_and_interval(first - second, confidence)
