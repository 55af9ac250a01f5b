"""What a search remembers for every sample, all of it on tensors."""

import torch
from torch import Tensor

from continual.robustness.norms import per_sample


class Best:
    """The first image that is misclassified; until there is one, the image of the highest value.

    Args:
        images: where the search starts, [B, ...].
    """

    def __init__(self, images: Tensor) -> None:
        self.images = images.clone()
        self.values = torch.full((len(images),), -torch.inf, dtype=images.dtype, device=images.device)
        self.fooled = torch.zeros(len(images), dtype=torch.bool, device=images.device)

    def offer(self, images: Tensor, values: Tensor, fooled: Tensor) -> None:
        """Take what is better.

        Args:
            images: [B, ...].
            values: of the objective, [B].
            fooled: whether each is misclassified, [B].
        """
        taken = ~self.fooled & (fooled | (values > self.values))
        self.images = torch.where(per_sample(taken, images), images, self.images)
        self.values = torch.where(taken, values.to(self.values.dtype), self.values)
        self.fooled = self.fooled | fooled

    def offer_some(self, samples: Tensor, other: "Best") -> None:
        """Take what is better in another search over some of the samples.

        Args:
            samples: their numbers, [K].
            other: K samples.
        """
        images, values, fooled = self.images.clone(), self.values.clone(), self.fooled.clone()
        images[samples], values[samples], fooled[samples] = other.images, other.values, other.fooled
        self.offer(images, values, fooled)


class Closest:
    """The misclassified image that is nearest to its origin.

    Args:
        origin: the unattacked images, [B, ...].
    """

    def __init__(self, origin: Tensor) -> None:
        self.images = origin.clone()
        self.lengths = torch.full((len(origin),), torch.inf, dtype=origin.dtype, device=origin.device)

    def offer(self, images: Tensor, lengths: Tensor, fooled: Tensor) -> None:
        """Take what is misclassified and nearer.

        Args:
            images: [B, ...].
            lengths: distance to the origin, [B].
            fooled: whether each is misclassified, [B].
        """
        taken = fooled & (lengths < self.lengths)
        self.images = torch.where(per_sample(taken, images), images, self.images)
        self.lengths = torch.where(taken, lengths, self.lengths)

    @property
    def found(self) -> Tensor:
        """Which samples have one, [B] bool."""
        return self.lengths.isfinite()
