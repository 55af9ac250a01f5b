"""PREDICT: the class of the smoothed classifier, or an abstention where the draws do not settle it.

Of n draws the two most named classes have k1 >= k2 votes. If the true leader were another, each vote for either of the
two would fall to the first with probability 1/2 at most; an exact two-sided binomial test of k1 among k1 + k2 keeps the
chance of naming a class that is not the smoothed classifier's below alpha (Hung and Fithian 2019).

Source: Cohen, Rosenfeld and Kolter 2019, PREDICT.
"""

from collections.abc import Sequence

import numpy as np
import torch
from scipy.stats import binomtest
from torch import Tensor

from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.smoothing.budget import require_sigma
from continual.robustness.smoothing.certificates import ABSTAINED
from continual.robustness.smoothing.checks import number_of_classes, require_data, require_indices
from continual.robustness.smoothing.votes import Ballot
from continual.robustness.target import Model, Target, as_target


def smoothed_predict(
    model: Model | Target,
    images: Tensor,
    sigma: float,
    n: int = 1000,
    alpha: float = 0.001,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int = 400,
) -> np.ndarray:
    """Predict with the smoothed classifier.

    Args:
        model: any callable from images in [0, 1] to logits, or a `Target` that says how it has to be asked.
        images: [N, ...] in [0, 1].
        sigma: standard deviation of the noise, in raw pixel units.
        n: draws.
        alpha: chance of a wrong class, in (0, 1).
        seed: of the noise.
        indices: whole numbers that name the images and their noise; None counts from 0.
        batch_size: noisy copies in one forward pass; decides no draw.

    Returns:
        Classes in the numbering of the head, −1 where it abstains, [N] int64.

    Raises:
        TypeError: for a sigma or images of the wrong type.
        ValueError: for values outside their range, or logits that are not finite.
    """
    require_sigma(sigma)
    require_at_least_one(n=n, batch_size=batch_size)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha, the chance of a wrong class, must lie in (0, 1), got {alpha}.")
    target, images = as_target(model), require_data(images, None)
    names = require_indices(indices, len(images))
    with target.left_as_found(seed):
        ballot = Ballot(target, number_of_classes(target, images), sigma, seed, batch_size)
        groups = torch.arange(len(images)).split(max(1, batch_size // n))
        counts = [ballot.count(images[g], [names[i] for i in g.tolist()], range(n), "prediction") for g in groups]
    decided = [decide(row, alpha) for row in torch.cat(counts).tolist()]
    local = torch.tensor([max(choice, 0) for choice in decided])
    return np.where(np.asarray(decided) == ABSTAINED, ABSTAINED, target.head_labels(local).numpy())


def decide(counts: Sequence[int], alpha: float) -> int:
    """Give the most named class, or −1 if the second is not clearly behind.

    Args:
        counts: votes by class.
        alpha: largest p-value at which it answers.
    """
    first, second = np.argsort(-np.asarray(counts), kind="stable")[:2]
    votes, others = int(counts[first]), int(counts[second])
    p_value = binomtest(votes, votes + others, 0.5).pvalue if votes + others else 1.0
    return int(first) if p_value <= alpha else ABSTAINED
