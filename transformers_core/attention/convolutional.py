"""A ViT layer that is a given convolution (Li et al. 2021).

Tokens are flattened patches of side P, [B, L, P²C]. A K × K convolution (K odd, r = (K − 1)/2, stride 1, zero padding)
reaches R = ⌈r/P⌉ patches far, so (2R + 1)² heads suffice, one per offset Δ between patches:

    table_a[Δ'] = 0 where Δ' = Δ_a, else −2M            the softmax picks the neighbour at Δ_a
    null key    score −M, value 0                        picked exactly when that neighbour lies outside: zero padding
    W_V,a W_O,a entry from pixel (s, t), channel c of the neighbour to pixel (u, w), channel o of the own patch:
                kernel[o, c, Δ_y P + s − u + r, Δ_x P + t − w + r] where both indices lie in [0, K), else 0

The error is of order e^{−M}: float32 rounding from M ≈ 20, float64 from 40. Two differences. W_V passes a head's patch
on and W_O holds the kernel, so a head has the width P²C_in. And only W_Q is 0 while W_K is drawn: the content is off
just the same, but with both 0 neither would ever learn.

Two-phase training: `TokenConvolution` is the same layer as a convolution; `to_attention` switches one, and
`begin_attention_phase` all of a model, without changing the function.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformers_core.attention.multihead import Projections, SelfAttention
from transformers_core.models.vit import patches, unpatch
from transformers_core.offsets import pair_offsets
from transformers_core.types import Context


def neighbour_offsets(reach: int) -> list[tuple[int, int]]:
    """List the offsets between patches within a reach R, row by row: (2R + 1)² of them."""
    steps = range(-reach, reach + 1)
    return [(down, right) for down in steps for right in steps]


def patch_reach(kernel_size: int, side: int) -> int:
    """Give R, how many patches of side P a K × K convolution reaches."""
    return -(-((kernel_size - 1) // 2) // side)


def neighbour_matrices(weight: Tensor, side: int) -> Tensor:
    """Cut a convolution into one matrix per neighbouring patch.

    Args:
        weight: [C_out, C_in, K, K] with K odd.
        side: P, pixels.

    Returns:
        [(2R + 1)², P²C_in, P²C_out]: tokens times it, summed over the neighbours, is the convolution.

    Raises:
        ValueError: if the kernel is not square and odd.
    """
    size = weight.shape[-1]
    if weight.dim() != 4 or weight.shape[2] != size or size % 2 == 0:
        raise ValueError(f"A kernel [C_out, C_in, K, K] with K odd is needed, got {list(weight.shape)}.")
    reach, radius = patch_reach(size, side), (size - 1) // 2
    margin = 2 * side * (reach + 1)
    wide, origin = F.pad(weight, [margin] * 4), margin + radius  # any tap may be asked for; outside the kernel it is 0
    pixel = torch.arange(side, device=weight.device)
    apart = pixel[:, None] - pixel[None, :]  # [s, u]: s − u
    matrices = []
    for down, right in neighbour_offsets(reach):
        rows, columns = origin + down * side + apart, origin + right * side + apart
        taps = wide[:, :, rows[:, None, :, None], columns[None, :, None, :]]  # [o, c, s, t, u, w]
        matrices.append(taps.permute(2, 3, 1, 4, 5, 0).flatten(3).flatten(0, 2))
    return torch.stack(matrices)


class PatchAttention(SelfAttention):
    """Self-attention over a grid of patches with a table of offsets of its own and a null key.

    Args:
        heads: A.
        projections: the linear maps.
        grid: patches down and right.
    """

    def __init__(self, heads: int, projections: Projections, grid: tuple[int, int]) -> None:
        super().__init__(heads, projections)
        self.grid = grid
        self.table = nn.Parameter(torch.zeros(heads, 2 * grid[0] - 1, 2 * grid[1] - 1))
        self.null = nn.Parameter(torch.zeros(heads))

    @classmethod
    @torch.no_grad()
    def from_conv2d(
        cls,
        convolution: nn.Conv2d,
        side: int,
        grid: tuple[int, int],
        generator: torch.Generator,
        sharpness: float = 40.0,
        query_width: int = 8,
    ) -> "PatchAttention":
        """Make the layer that is this convolution.

        Args:
            convolution: K × K with K odd, stride 1, dilation 1, one group, zero padding (K − 1)/2.
            side: P, pixels.
            grid: patches down and right.
            generator: draws W_K.
            sharpness: M; about 10 leaves gradients to the tables, 40 is exact in float64.
            query_width: K of queries and keys of a head, which say nothing at first.

        Raises:
            ValueError: for any other convolution.
        """
        _check_convolution(convolution)
        weight = convolution.weight
        matrices = neighbour_matrices(weight, side)
        heads, source, target = matrices.shape
        make = {"dtype": weight.dtype, "device": weight.device}
        query, key = (nn.Linear(source, heads * query_width, **make) for _ in range(2))
        value, output = nn.Linear(source, heads * source, **make), nn.Linear(heads * source, target, **make)
        for silent in (query.weight, query.bias, key.bias, value.bias, output.bias):
            nn.init.zeros_(silent)
        key.weight.copy_(torch.randn(key.weight.shape, generator=generator) * source**-0.5)
        value.weight.copy_(torch.eye(source, **make).repeat(heads, 1))
        output.weight.copy_(matrices.flatten(0, 1).T)
        if convolution.bias is not None:
            output.bias.copy_(convolution.bias.repeat(side * side))
        layer = cls(heads, Projections(query, key, value, output), grid).to(**make)
        layer.null.fill_(-sharpness)
        layer.table.fill_(-2 * sharpness)
        for head, (down, right) in enumerate(neighbour_offsets(patch_reach(weight.shape[2], side))):
            if abs(down) < grid[0] and abs(right) < grid[1]:
                layer.table[head, grid[0] - 1 + down, grid[1] - 1 + right] = 0.0
        return layer

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Attend within patches [B, L, P²C]; the context's bias and mask are not read.

        Raises:
            ValueError: if the patches do not fill the grid.
        """
        if x.shape[1] != self.grid[0] * self.grid[1]:
            raise ValueError(f"A grid of {self.grid} patches was announced, got {x.shape[1]} patches.")
        bias = self.table.flatten(1)[:, pair_offsets(self.grid, x.device)]
        bias = torch.cat((bias, self.null[:, None, None].expand(-1, x.shape[1], 1)), -1)[None]
        query, key, value = self.project_query(x, context.positions), *self.keys_and_values(x, context)
        scores = self.score(query, F.pad(key, (0, 0, 0, 1)), bias, context.mask)
        return self.mix(scores, F.pad(value, (0, 0, 0, 1)))


class TokenConvolution(nn.Module):
    """A convolution of the picture that patches make: the first phase of training.

    Args:
        convolution: K × K with K odd, stride 1, zero padding (K − 1)/2.
        side: P, pixels.
        grid: patches down and right.

    Raises:
        ValueError: for any other convolution.
    """

    def __init__(self, convolution: nn.Conv2d, side: int, grid: tuple[int, int]) -> None:
        super().__init__()
        _check_convolution(convolution)
        self.convolution, self.side, self.grid = convolution, side, grid

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Convolve patches [B, L, P²C_in] to [B, L, P²C_out]."""
        del context
        return patches(self.convolution(unpatch(x, self.grid, self.side)), self.side)

    def to_attention(self, generator: torch.Generator, sharpness: float = 10.0) -> PatchAttention:
        """Make the attention layer that is this convolution, soft enough to learn on."""
        return PatchAttention.from_conv2d(self.convolution, self.side, self.grid, generator, sharpness)


def begin_attention_phase(model: nn.Module, generator: torch.Generator, sharpness: float = 10.0) -> int:
    """Replace each `TokenConvolution` inside a model by its attention layer; say how many there were."""
    names = [name for name, part in model.named_modules() if isinstance(part, TokenConvolution)]
    for name in names:
        parent, _, own = name.rpartition(".")
        layer = model.get_submodule(name)
        assert isinstance(layer, TokenConvolution)
        setattr(model.get_submodule(parent), own, layer.to_attention(generator, sharpness))
    return len(names)


def _check_convolution(convolution: nn.Conv2d) -> None:
    size = convolution.kernel_size
    fits = (
        size[0] == size[1]
        and size[0] % 2 == 1
        and convolution.stride == (1, 1)
        and convolution.dilation == (1, 1)
        and convolution.groups == 1
        and convolution.padding in (((size[0] - 1) // 2,) * 2, "same")
        and convolution.padding_mode == "zeros"
    )
    if not fits:
        raise ValueError(
            "Attention takes over square odd kernels with stride 1, dilation 1, one group and zero padding (K − 1)/2, "
            f"got {convolution}."
        )
