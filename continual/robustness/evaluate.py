"""Evaluate a network's robustness: several attacks, their worst case, a curve over radii, and the verdict.

Each attack sees only what the attacks before it left. The robust accuracy is that of the stored adversarial images,
scored once more at the end in whole batches, clean errors included; it equals what anybody gets who loads the images
and scores them.
"""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from continual.batches import as_tensors
from continual.data.arrays import Split
from continual.robustness.adversarial import Adversarial, Cost
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.ensemble import standard
from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.checks import require_images, require_labels
from continual.robustness.oracle import opened, require_steadiness
from continual.robustness.report import AttackRow, Point, RobustnessReport
from continual.robustness.risks import risks
from continual.robustness.sanity import Battery
from continual.robustness.scoring import predict
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target, as_target
from continual.robustness.threat import ThreatModel

Data = Split | tuple[ArrayLike | Tensor, ArrayLike | Tensor]
"""A part of a dataset, or images in raw pixels [N, ...] and labels [N]."""


def evaluate(
    model: Model | Target,
    data: Data,
    threat: ThreatModel,
    attacks: Sequence[Attack] | None = None,
    epsilons: Sequence[float] = (),
    battery: Battery | None = None,
    batch_size: int = 128,
    seed: int = 0,
) -> RobustnessReport:
    """Evaluate a network against a threat.

    Example:
        >>> import torch
        >>> from continual.robustness import FGSM, evaluate, linf
        >>> report = evaluate(torch.nn.Linear(4, 3), (torch.rand(8, 4), torch.zeros(8, dtype=int)), linf(0.1), [FGSM()])
        >>> report.robust_accuracy <= report.clean_accuracy
        True

    Args:
        model: any callable from images to logits, or a `Target` that says how it has to be asked. It is evaluated in
            evaluation mode and left exactly as it was.
        data: what to attack; bytes in a `Split` are scaled to [0, 1].
        threat: what is allowed.
        attacks: in order; None takes `standard` for the number of classes.
        epsilons: further radii for the curve, each attacked with all attacks.
        battery: checks for masked gradients; None leaves them out, and the report says so.
        batch_size: samples attacked at a time; decides no result, but for a network that draws random numbers.
        seed: of all random draws.

    Returns:
        The report.

    Raises:
        TypeError: for images or labels of the wrong type.
        ValueError: for values outside their range, logits that are not finite, or undeclared randomness.
    """
    require_at_least_one(batch_size=batch_size)
    target = as_target(model)
    images, labels = _tensors(data, threat)
    attacks = list(attacks) if attacks is not None else standard(_num_classes(target, images))
    streams = SampleStreams.drawn(torch.Generator().manual_seed(seed), len(images), images.device)
    found, rows = _worst_case(target, images, labels, threat, attacks, streams, batch_size)
    curve = [Point(0.0, found.clean_accuracy), Point(threat.epsilon, found.accuracy)]
    for epsilon in sorted(set(epsilons) - {0.0, threat.epsilon}):
        other, _ = _worst_case(target, images, labels, threat.with_epsilon(epsilon), attacks, streams, batch_size)
        curve.append(Point(epsilon, other.accuracy))
    verdict = (
        battery(target, images, labels, threat, torch.Generator().manual_seed(seed)) if battery is not None else None
    )
    return RobustnessReport(found, tuple(rows), tuple(sorted(set(curve))), verdict, seed, _versions())


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is described once and run on many networks, or on one network after every task.

    Args:
        threat: what is allowed.
        attacks: in order; None takes `standard` for the number of classes.
        epsilons: further radii for the curve.
        battery: checks for masked gradients; None leaves them out.
        num_samples: the first so many samples of the data; None takes all.
        batch_size: samples attacked at a time.
        seed: of all random draws.

    Raises:
        ValueError: if a number is below 1.
    """

    threat: ThreatModel
    attacks: Sequence[Attack] | None = None
    epsilons: Sequence[float] = ()
    battery: Battery | None = None
    num_samples: int | None = None
    batch_size: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least_one(batch_size=self.batch_size)
        if self.num_samples is not None:
            require_at_least_one(num_samples=self.num_samples)

    def without_curve(self) -> "Evaluation":
        """Give the same evaluation at its own radius alone, without a verdict."""
        return replace(self, epsilons=(), battery=None)

    def measure(self, model: Model | Target, images: Tensor, labels: Tensor) -> dict[str, float]:
        """Give what a matrix over tasks holds: `robust`, and `stable`, which asks for no label; see `risks`."""
        found = risks(self, model, images, labels)
        return {"robust": 1 - found.robust, "stable": 1 - found.stability}

    def __call__(self, model: Model | Target, data: Data) -> RobustnessReport:
        """Evaluate one network; see `evaluate`."""
        images, labels = _tensors(data, self.threat)
        first = (images[: self.num_samples], labels[: self.num_samples])
        settings = (self.threat, self.attacks, self.epsilons, self.battery, self.batch_size, self.seed)
        return evaluate(model, first, *settings)


def _tensors(data: Data, threat: ThreatModel) -> tuple[Tensor, Tensor]:
    if isinstance(data, Split):
        images, labels = as_tensors(data, torch.device("cpu"), torch.float32)
    else:
        images, labels = (part if isinstance(part, Tensor) else torch.from_numpy(np.asarray(part)) for part in data)
    images = require_images(images, threat)
    require_labels(labels, images)
    return images, labels.to(images.device)


def _num_classes(target: Target, images: Tensor) -> int:
    with target.left_as_found(0):
        require_steadiness(target, images)
        return opened(target, images[:2]).num_classes


def _worst_case(
    target: Target,
    images: Tensor,
    labels: Tensor,
    threat: ThreatModel,
    attacks: Sequence[Attack],
    streams: SampleStreams,
    batch_size: int,
) -> tuple[Adversarial, list[AttackRow]]:
    """Run all attacks, each on what the ones before it left; score the images that come out."""
    found, wrong = images.clone(), torch.zeros(len(images), dtype=torch.bool, device=images.device)
    rows, spent = [], []
    for attack in attacks:
        start, left = time.perf_counter(), (~wrong).nonzero().squeeze(1)
        results = [
            attack(target, images[part], labels[part], threat, streams[part])
            for part in left.split(batch_size)
            if len(part)
        ]
        for part, result in zip(left.split(batch_size), results, strict=False):
            found[part], wrong[part] = result.images, result.success
        spent += [result.cost for result in results]
        seconds, cost = time.perf_counter() - start, total_cost([result.cost for result in results])
        rows.append(AttackRow(attack.name, len(left), int((~wrong).sum()), seconds, cost))
    clean, predictions = (predict(target, part, batch_size, int(streams.seeds[0])) for part in (images, found))
    name = f"WorstCase({', '.join(attack.name for attack in attacks)})"
    threat.require(found, images, name)
    result = Adversarial(found, images, labels.long(), predictions, clean, threat, name, total_cost(spent))
    return _never_better(result), rows


def _never_better(found: Adversarial) -> Adversarial:
    """Count a clean error of a network that answers at random as an error, whatever the next draw says."""
    wrong = found.clean_predictions != found.labels
    return replace(found, predictions=torch.where(wrong, found.clean_predictions, found.predictions))


def total_cost(costs: Sequence[Cost]) -> Cost:
    """Add what attacks spent; shares are weighted by the gradients asked for."""
    backward = sum(cost.backward_passes for cost in costs)

    def share(name: str) -> float:
        asked = [(cost.backward_passes, getattr(cost, name)) for cost in costs if cost.backward_passes]
        return sum(number * value for number, value in asked) / backward if backward else float("nan")

    return Cost(
        sum(cost.forward_passes for cost in costs), backward, share("zero_gradients"), share("broken_gradients")
    )


def _versions() -> dict[str, str]:
    return {"palimpsest": version("palimpsest"), "torch": torch.__version__, "python": platform.python_version()}
