"""What one attack says of robustness, label by label and without labels.

The attack aims at the network's own answers, so it never stops at a clean error. Each image then gives all three:

    standard   f(x) = y             stable   f(x') = f(x)             robust   both

and with 0/1 losses max(R_standard, R_stability) <= R_robust <= R_standard + R_stability holds on the images found,
where R_stability needs no label (Zhai et al. 2019). For an image that is right, the network's answer is the label, so
`robust` is what an attack with labels finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from continual.robustness.scoring import predict
from continual.robustness.target import Model, Target, as_target

if TYPE_CHECKING:
    from continual.robustness.evaluate import Evaluation


class Risks(NamedTuple):
    """Shares of samples, each in [0, 1].

    Attributes:
        standard: answered wrongly as they are.
        stability: answered differently inside the threat than as they are.
        robust: answered wrongly as they are or inside the threat.
    """

    standard: float
    stability: float
    robust: float


def risks(evaluation: Evaluation, model: Model | Target, images: Tensor, labels: Tensor) -> Risks:
    """Attack a network's own answers and tell the three risks apart.

    Args:
        evaluation: threat and attacks; its curve and battery are not asked for.
        model: any callable from images to logits, or a `Target`.
        images: raw pixels, [N, ...].
        labels: [N], in the numbering of the head.

    Raises:
        TypeError: for images or labels of the wrong type.
        ValueError: for values outside their range, logits that are not finite, or undeclared randomness.
    """
    images, labels = images[: evaluation.num_samples], labels[: evaluation.num_samples]
    target = as_target(model)
    answers = predict(target, images, evaluation.batch_size, evaluation.seed)
    found = evaluation.without_curve()(target, (images, answers)).adversarial
    stable, right = found.predictions == answers, answers == labels.to(answers.device)
    return Risks(_share(~right), _share(~stable), _share(~(stable & right)))


def _share(wrong: Tensor) -> float:
    return float(wrong.to(torch.float64).mean())
