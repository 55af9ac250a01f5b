"""Vision transformer (Dosovitskiy et al. 2021): an image is a row of patches.

Images come in [0, 1], [B, C, H, W]; normalisation happens inside. A patch is flattened pixel by pixel, the channels of
a pixel together; the original flattens by a convolution, which differs by a permutation of weights.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from transformers_core.blocks.stack import Stack
from transformers_core.types import Context, consecutive


def patches(images: Tensor, side: int) -> Tensor:
    """Cut images into patches, row by row.

    Args:
        images: [B, C, H, W] with H and W multiples of the side.
        side: P, pixels.

    Returns:
        [B, L, P²C], L = HW/P²; within a patch pixel-major, channel-minor.

    Raises:
        ValueError: if the image is not [B, C, H, W] or patches do not tile it.
    """
    if images.dim() != 4 or images.shape[2] % side or images.shape[3] % side:
        raise ValueError(f"Images [B, C, H, W] must be tiled by patches of side {side}, got {list(images.shape)}.")
    cut = images.unflatten(3, (-1, side)).unflatten(2, (-1, side))  # [B, C, gh, P, gw, P]
    return cut.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def unpatch(tokens: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """Put patches [B, L, P²C] on a grid together to images [B, C, H, W]: the inverse of `patches`."""
    cut = tokens.unflatten(1, grid).unflatten(3, (side, side, -1))  # [B, gh, gw, P, P, C]
    return cut.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


class PatchEmbedding(nn.Module):
    """Normalise an image, cut it and map every patch to D.

    Args:
        image: channels, height and width, pixels.
        side: of a patch, pixels.
        width: D.
        mean: of each channel, or one for all, in the images' range.
        deviation: of each channel, or one for all.

    Raises:
        ValueError: if patches do not tile the image.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        image: tuple[int, int, int],
        side: int,
        width: int,
        mean: Sequence[float] = (0.5,),
        deviation: Sequence[float] = (0.5,),
    ) -> None:
        super().__init__()
        channels, height, breadth = image
        if height % side or breadth % side:
            raise ValueError(f"Patches of side {side} do not tile an image of {height} x {breadth} pixels.")
        self.image, self.side, self.grid = image, side, (height // side, breadth // side)
        self.project = nn.Linear(side * side * channels, width)
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map [B, C, H, W] in [0, 1] to [B, L, D].

        Raises:
            ValueError: if the images have another shape than announced.
        """
        if tuple(images.shape[1:]) != self.image:
            raise ValueError(f"Images of shape {list(self.image)} were announced, got {list(images.shape[1:])}.")
        return self.project(patches((images - self.mean) / self.deviation, self.side))


class ViT(nn.Module):
    """Patches, layers, and a classifier.

    Args:
        embedding: maps images to [B, L, D].
        stack: the layers.
        pool: maps [B, L, D] to [B, D].
        head: maps [B, D] to logits [B, C].
        positions: maps positions to [1, L, D], added to the patches; None adds nothing.
        class_width: D for a learned class token before the patches; None has none.
    """

    def __init__(
        self,
        embedding: nn.Module,
        stack: Stack,
        pool: nn.Module,
        head: nn.Module,
        positions: nn.Module | None = None,
        class_width: int | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.stack, self.pool, self.head, self.positions = embedding, stack, pool, head, positions
        self.class_token = None if class_width is None else nn.Parameter(torch.zeros(class_width))

    def forward(self, images: Tensor) -> Tensor:
        """Classify images [B, C, H, W] in [0, 1]; give logits [B, C]."""
        x = self.embedding(images)
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), 1, -1), x), 1)
        positions = consecutive(x.shape[1], x.device)
        if self.positions is not None:
            x = x + self.positions(positions)
        return self.head(self.pool(self.stack(x, Context(positions, positions))))
