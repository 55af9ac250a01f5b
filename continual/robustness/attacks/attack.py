"""The role of an attack, and all that attacks have in common.

An attack is a `search`: from the images that the network gets right it makes candidates inside the threat. Around it
stand, once for all: the checks of what came in, the guard that leaves the network as it was, the clean answers, the
check that candidates are inside ball and box, and the decision about them, asked afresh.
"""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from continual.robustness.adversarial import Adversarial, Cost
from continual.robustness.checks import require_images, require_labels
from continual.robustness.oracle import Oracle, opened, require_steadiness
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target, as_target
from continual.robustness.threat import ThreatModel


class Attack(ABC):
    """The role; a member is a frozen dataclass with a `search`."""

    uses_gradients: bool = True

    @property
    def name(self) -> str:
        """The class and what was set, as in a report."""
        if not is_dataclass(self):
            return type(self).__name__
        changed = [
            f"{entry.name}={getattr(self, entry.name)!r}"
            for entry in fields(self)
            if entry.repr and getattr(self, entry.name) != entry.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @abstractmethod
    def search(
        self, oracle: Oracle, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Tensor:
        """Make candidates.

        Args:
            oracle: answers for the network; gradients are off outside of it.
            images: that the network gets right, [B, ...].
            labels: in the numbering of the active classes, [B].
            threat: what is allowed.
            streams: one random stream a sample.

        Returns:
            Candidates [B, ...] inside the threat, successful or not.
        """

    def __call__(
        self,
        model: Model | Target,
        images: Tensor,
        labels: Tensor,
        threat: ThreatModel,
        generator: torch.Generator | SampleStreams,
    ) -> Adversarial:
        """Attack a network.

        Args:
            model: any callable from images to logits, or a `Target` that says how it has to be asked.
            images: raw pixels, [B, ...].
            labels: [B], in the numbering of the head.
            threat: what is allowed.
            generator: on the CPU; gives one seed a sample, in order, so that batches in turn equal one large batch.
                Streams that were drawn before are taken as they are.

        Returns:
            Images inside the threat with the network's answers.

        Raises:
            TypeError: for images or labels of the wrong type.
            ValueError: for values outside their range, logits that are not finite, or undeclared randomness.
        """
        target = as_target(model)
        images = require_images(images, threat)
        require_labels(labels, images)
        labels = labels.detach().to(images.device)
        streams = streams_for(generator, images)
        with target.left_as_found(int(streams.seeds[0])), torch.no_grad():
            return self._attacked(target, images, labels, threat, streams)

    def _attacked(
        self, target: Target, images: Tensor, labels: Tensor, threat: ThreatModel, streams: SampleStreams
    ) -> Adversarial:
        require_steadiness(target, images)
        oracle = opened(target, images)
        local = target.local_labels(labels, oracle.num_classes)
        clean = oracle.decide(images)
        attackable = (clean == local).nonzero().squeeze(1)
        found = images.clone()
        if len(attackable):
            before = images[attackable]
            after = self.search(oracle, before, local[attackable], threat, streams[attackable])
            threat.require(after, before, self.name)
            found[attackable] = after.detach()
        decided = torch.where(clean == local, oracle.decide(found), clean)
        oracle.vouch()
        cost = Cost(
            oracle.forward_passes,
            oracle.backward_passes,
            oracle.share_of_zero_gradients(),
            oracle.share_of_broken_gradients(),
        )
        heads = [target.head_labels(classes) for classes in (decided, clean)]
        return Adversarial(found, images, labels.long(), *heads, threat=threat, attack=self.name, cost=cost)


def streams_for(generator: torch.Generator | SampleStreams, images: Tensor) -> SampleStreams:
    """Draw one stream a sample, or take those there are.

    Raises:
        TypeError: if there is neither.
        ValueError: if their number differs from the images'.
    """
    if isinstance(generator, torch.Generator):
        return SampleStreams.drawn(generator, len(images), images.device)
    if not isinstance(generator, SampleStreams):
        raise TypeError(f"A torch.Generator on the CPU is needed, got {generator!r}; make one with a manual seed.")
    if len(generator.seeds) != len(images):
        raise ValueError(f"{len(images)} images need as many streams, got {len(generator.seeds)}.")
    return generator
