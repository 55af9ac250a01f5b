"""The worst case over several attacks, each run on what the ones before it left.

A network is as robust as its weakest answer: a sample counts as right only if no attack made it wrong. Averages over
attacks mean nothing. Since every sample has its own random stream, a member finds the same on what is left as on the
whole set, and the worst case is at most each member's own accuracy.

`standard(num_classes)` is the selection of AutoAttack (Croce and Hein 2020): Auto-PGD with cross-entropy, targeted
Auto-PGD, FAB and Square. Its difference-of-logits losses do not exist for 2 and 3 classes; there the margin takes
their place, and the attacks' names say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from continual.robustness.attacks.apgd import APGD, TargetedAPGD
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.fab import FAB
from continual.robustness.attacks.settings import require_at_least_one
from continual.robustness.attacks.square import Square
from continual.robustness.losses import DLR, Margin, TargetedDLR, TargetedMargin
from continual.robustness.oracle import Oracle
from continual.robustness.streams import SampleStreams
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class WorstCase(Attack):
    """Several attacks as one.

    Args:
        attacks: in order; cheap ones first saves the most.

    Raises:
        ValueError: if there is none.
    """

    attacks: Sequence[Attack]

    def __post_init__(self) -> None:
        if not self.attacks or not all(isinstance(attack, Attack) for attack in self.attacks):
            raise ValueError(f"WorstCase needs at least one attack, got {self.attacks!r}.")

    @property
    def uses_gradients(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # known from the members
        """Whether any member does."""
        return any(attack.uses_gradients for attack in self.attacks)

    @property
    def name(self) -> str:
        """All members."""
        return f"WorstCase({', '.join(attack.name for attack in self.attacks)})"

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`."""
        found = images.clone()
        left = labels.new_ones(len(labels)).nonzero().squeeze(1)
        for attack in self.attacks:
            if not len(left):
                break
            found[left] = attack.search(oracle, images[left], labels[left], threat, streams[left])
            left = left[oracle.decide(found[left]) == labels[left]]
        return found


def standard(num_classes: int, steps: int = 100, queries: int = 5000, num_targets: int = 9) -> list[Attack]:
    """Give AutoAttack's standard selection for a head of this many classes.

    Args:
        num_classes: C, of the active classes.
        steps: of each gradient attack.
        queries: of Square.
        num_targets: of the targeted attacks.

    Raises:
        ValueError: if a number is too small.
    """
    require_at_least_one(steps=steps, queries=queries, num_targets=num_targets)
    _require_two(num_classes)
    loss = TargetedDLR() if num_classes > 3 else TargetedMargin()
    targeted = TargetedAPGD(steps=steps, num_targets=num_targets, loss=loss)
    return [APGD(steps=steps), targeted, FAB(steps=steps, num_targets=num_targets), Square(queries=queries)]


def randomised(num_classes: int, steps: int = 100) -> list[Attack]:
    """Give AutoAttack's selection for networks that answer at random; average gradients with Target(gradient_draws=20).

    Args:
        num_classes: C, of the active classes.
        steps: of each attack.

    Raises:
        ValueError: if a number is too small.
    """
    _require_two(num_classes)
    return [APGD(steps=steps), APGD(steps=steps, loss=DLR() if num_classes > 2 else Margin())]


def _require_two(num_classes: int) -> None:
    if num_classes < 2:
        raise ValueError(f"At least 2 classes are needed, got {num_classes}.")
