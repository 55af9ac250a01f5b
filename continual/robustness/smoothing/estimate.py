"""The procedure of CERTIFY on a group of images: choose the class, then estimate its probability until it is enough."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.clopper_pearson import radius_of
from continual.robustness.smoothing.votes import Ballot


class Estimate(NamedTuple):
    """What the draws say of one image.

    Attributes:
        selected: the class that most of the n0 draws named, the lowest of equals, in the ballot's numbering.
        agreeing: draws of the estimate that named it.
        draws: draws of the estimate.
        lower: bound on p_A, the highest of all looks.
        upper: bound on p_A, the lowest of all looks.
    """

    selected: int
    agreeing: int
    draws: int
    lower: float
    upper: float


def estimated(ballot: Ballot, images: Tensor, indices: Sequence[int], budget: Budget) -> list[Estimate]:
    """Certify a group of images together; those that are decided leave it at a look, the others go on.

    Args:
        ballot: the network, asked about noisy copies.
        images: [N, ...].
        indices: numbers that name the images' noise.
        budget: draws, bound and goal.
    """
    assert budget.goal is not None
    selected = ballot.count(images, indices, range(budget.n0), "selection").numpy().argmax(1)
    agreeing, draws = np.zeros(len(images), int), np.zeros(len(images), int)
    lower, upper = np.zeros(len(images)), np.ones(len(images))
    left, start = np.arange(len(images)), 0
    for look in budget.rule.looks:
        places = left.tolist()
        names = [indices[place] for place in places]
        votes = ballot.count(images[places], names, range(start, look), "estimation").numpy()
        agreeing[left] += votes[np.arange(len(left)), selected[left]]
        draws[left] = start = look
        lower[left] = np.maximum(lower[left], budget.rule.lower(agreeing[left], look))
        upper[left] = np.minimum(upper[left], budget.rule.upper(agreeing[left], look))
        bounds = radius_of(lower[left], budget.sigma), radius_of(upper[left], budget.sigma)
        left = left[~budget.goal.reached(*bounds, budget.ceiling)]
        if not len(left):
            break
    columns = (column.tolist() for column in (selected, agreeing, draws, lower, upper))
    return [Estimate(*entry) for entry in zip(*columns, strict=True)]
