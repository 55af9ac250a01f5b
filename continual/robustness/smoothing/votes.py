"""Noisy copies of images and the classes a network names them: the only place where draws are made and counted.

The noise of an image comes in blocks of 100 draws; a block's stream is named by the seed, what the draws are for
(choosing the class or estimating its probability), the image's index and the block's number. So nothing else decides
it: not the batch, not the order, not what was certified before, and a larger sample begins with the smaller one. Choice
and estimate never share a draw. A network's own rounding may still differ between batch sizes, as everywhere.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from continual.robustness.guard import networks_behind
from continual.robustness.target import Target
from continual.seeding import derive_seed, reseed_modules

BLOCK = 100
"""Draws that share a stream."""


class Rows(NamedTuple):
    """Draws of one image that enter one forward pass.

    Attributes:
        position: of the image among those that are counted.
        block: number of the block.
        first: first draw inside the block.
        last: draw inside the block after the last.
    """

    position: int
    block: int
    first: int
    last: int

    @property
    def number(self) -> int:
        """Draws."""
        return self.last - self.first


class Ballot:
    """Count votes of a network on noisy copies.

    A stochastic network sees one block a pass, and its own streams start afresh with each: its randomness is as much
    named as the noise is.

    Args:
        target: the network.
        num_classes: C, of the active classes.
        sigma: standard deviation of the noise, in raw pixel units.
        seed: root of all streams.
        batch_size: copies in one forward pass.

    Attributes:
        forward_passes: copies that went through the network.
    """

    def __init__(self, target: Target, num_classes: int, sigma: float, seed: int, batch_size: int) -> None:
        self.target, self.num_classes = target, num_classes
        self.sigma, self.seed, self.batch_size = sigma, seed, batch_size
        self.forward_passes = 0
        self._networks = networks_behind(target.model, target.networks) if target.stochastic else ()

    @torch.no_grad()
    def count(self, images: Tensor, indices: Sequence[int], draws: range, purpose: str) -> Tensor:
        """Count how often each class is named.

        Args:
            images: [N, ...].
            indices: numbers that name the images' streams, N of them.
            draws: which draws of each image.
            purpose: what they are for; other purposes have other draws.

        Returns:
            Counts [N, C], int64, on the CPU.

        Raises:
            ValueError: if a logit is NaN or infinite.
        """
        cells = len(images) * self.num_classes
        counts = torch.zeros(cells, dtype=torch.int64, device=images.device)
        strange = torch.zeros(len(images), device=images.device)
        for batch in self._batches(len(images), draws):
            logits, owners = self._vote(images, indices, batch, purpose)
            counts += torch.bincount(owners * self.num_classes + logits.argmax(1), minlength=cells)
            broken = (~logits.isfinite().all(1)).float()
            strange += torch.bincount(owners, weights=broken, minlength=len(images))
        _require_finite(strange, indices)
        return counts.view(len(images), self.num_classes).cpu()

    def _batches(self, number: int, draws: range) -> Iterator[list[Rows]]:
        batch: list[Rows] = []
        size = 0
        for rows in _rows_of(number, draws, BLOCK if self.target.stochastic else self.batch_size):
            if batch and (self.target.stochastic or size + rows.number > self.batch_size):
                yield batch
                batch, size = [], 0
            batch.append(rows)
            size += rows.number
        if batch:
            yield batch

    def _vote(self, images: Tensor, indices: Sequence[int], batch: list[Rows], purpose: str) -> tuple[Tensor, Tensor]:
        """Give the logits of a batch [R, C] and the positions of the images they belong to [R]."""
        positions = torch.tensor([rows.position for rows in batch], device=images.device)
        sizes = torch.tensor([rows.number for rows in batch], device=images.device)
        owners = positions.repeat_interleave(sizes)
        if self.target.stochastic:
            return self._vote_afresh(images, indices, batch[0], purpose), owners
        noisy = images.new_empty((sum(rows.number for rows in batch), *images.shape[1:]))
        start = 0
        for rows in batch:
            self._draw(noisy[start : start + rows.number], images, indices, rows, purpose)
            start += rows.number
        return self._ask(noisy), owners

    def _vote_afresh(self, images: Tensor, indices: Sequence[int], rows: Rows, purpose: str) -> Tensor:
        """Ask a stochastic network about a whole block, so that its own draws do not hang on which rows are used."""
        noisy = images.new_empty((BLOCK, *images.shape[1:]))
        self._draw(noisy, images, indices, rows._replace(first=0, last=BLOCK), purpose)
        name = ("network", purpose, int(indices[rows.position]), rows.block)
        torch.manual_seed(derive_seed(self.seed, *name))
        for network in self._networks:
            reseed_modules(network, self.seed, *name)
        return self._ask(noisy)[rows.first : rows.last]

    def _draw(self, place: Tensor, images: Tensor, indices: Sequence[int], rows: Rows, purpose: str) -> None:
        """Write noisy copies of one image into a place [R, ...]."""
        seed = derive_seed(self.seed, "smoothing", purpose, int(indices[rows.position]), rows.block)
        generator = torch.Generator(images.device).manual_seed(seed)
        if rows.number == BLOCK:
            place.normal_(generator=generator)
        else:
            block = images.new_empty((BLOCK, *images.shape[1:])).normal_(generator=generator)
            place.copy_(block[rows.first : rows.last])
        place.mul_(self.sigma).add_(images[rows.position])

    def _ask(self, noisy: Tensor) -> Tensor:
        self.forward_passes += len(noisy)
        return self.target.ask(noisy)


def _rows_of(number: int, draws: range, most: int) -> Iterator[Rows]:
    """Cut the draws of all images at the ends of blocks, and into pieces of at most so many rows."""
    for position in range(number):
        for block in range(draws.start // BLOCK, -(-draws.stop // BLOCK)):
            first, last = max(draws.start - block * BLOCK, 0), min(draws.stop - block * BLOCK, BLOCK)
            for start in range(first, last, most):
                yield Rows(position, block, start, min(start + most, last))


def _require_finite(strange: Tensor, indices: Sequence[int]) -> None:
    if bool(strange.any()):
        position = int(strange.argmax())
        raise ValueError(
            f"The network gave NaN or infinite logits on {int(strange[position])} noisy copies of image "
            f"{int(indices[position])}; they cannot be counted as votes. Find the layer that overflows outside "
            f"[0, 1] (noise leaves the box), clamp the input inside the network, or use float64; for a head that is "
            f"masked by −infinity slice it instead: Target(model, classes=[…])."
        )
