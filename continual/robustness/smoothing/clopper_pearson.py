"""Exact bounds on a probability from a number of draws that was fixed beforehand, and what they say of a radius.

Of n independent draws k agreed. The one-sided Clopper–Pearson lower bound at level α is the p for which k or more
agreements have probability α: the α-quantile of Beta(k, n − k + 1), and 0 for k = 0. (A two-sided routine has to be
asked for 2α.) A Gaussian-smoothed classifier whose top class has p_A >= p is constant in the open l2 ball of radius
σ Φ⁻¹(p) (Cohen, Rosenfeld and Kolter 2019, theorem 1, with the runner-up bounded by 1 − p).

Source: Clopper and Pearson 1934.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import beta


def clopper_pearson_lower(agreeing: ArrayLike, draws: ArrayLike, alpha: float) -> np.ndarray:
    """Give a bound that lies above the probability with chance alpha at most.

    Args:
        agreeing: k, whole numbers in [0, n], any shape.
        draws: n, fixed before the first draw, of a shape that fits.
        alpha: chance of error, in (0, 1).

    Returns:
        Probabilities in [0, 1], float64, of the common shape.
    """
    agreeing, draws = np.broadcast_arrays(np.asarray(agreeing, np.float64), np.asarray(draws, np.float64))
    bound = beta.ppf(alpha, np.maximum(agreeing, 1), draws - np.maximum(agreeing, 1) + 1)
    return np.where(agreeing == 0, 0.0, bound)


def clopper_pearson_upper(agreeing: ArrayLike, draws: ArrayLike, alpha: float) -> np.ndarray:
    """Give a bound that lies below the probability with chance alpha at most.

    Args:
        agreeing: k, whole numbers in [0, n], any shape.
        draws: n, fixed before the first draw, of a shape that fits.
        alpha: chance of error, in (0, 1).
    """
    return 1 - clopper_pearson_lower(np.asarray(draws) - np.asarray(agreeing), draws, alpha)


def radius_of(probability: ArrayLike, sigma: float) -> np.ndarray:
    """Give σ Φ⁻¹(p), in raw pixel units; negative below 1/2, −∞ at 0, ∞ at 1."""
    return sigma * ndtri(np.asarray(probability, np.float64))
