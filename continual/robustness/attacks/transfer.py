"""Transfer: images made on a source network are shown to the target (Papernot, McDaniel and Goodfellow 2016).

The target's gradients are never asked for, so a target that masks them gains nothing. A target that falls to transfer
but not to white-box attacks masks its gradients. The books hold what the target was asked; passes of the source are not
in them.
"""

from dataclasses import dataclass, field

from torch import Tensor

from continual.robustness.attacks.attack import Attack
from continual.robustness.oracle import Oracle, opened
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target, as_target
from continual.robustness.threat import ThreatModel


@dataclass(frozen=True)
class Transfer(Attack):
    """Attack a source network; let the target answer.

    Args:
        source: a callable from images to logits, or a Target, with the target's classes; left as it was found.
        attack: what is run on the source, on every image that the target gets right.
    """

    source: Model | Target = field(repr=False)
    attack: Attack
    uses_gradients = False

    @property
    def name(self) -> str:
        """The inner attack and that it was made elsewhere."""
        return f"Transfer({self.attack.name})"

    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates; see `Attack.search`.

        Raises:
            ValueError: if the source has another number of classes.
        """
        source = as_target(self.source)
        with source.left_as_found(int(streams.seeds[0])):
            surrogate = opened(source, images)
            if surrogate.num_classes != oracle.num_classes:
                raise ValueError(
                    f"Source and target must share their classes, the source has {surrogate.num_classes} and the "
                    f"target {oracle.num_classes}; slice one with Target(model, classes=…)."
                )
            found = self.attack.search(surrogate, images, labels, threat, streams)
            surrogate.vouch()
        return found
