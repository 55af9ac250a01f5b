"""Presynaptic rows: what each application of a weight sees, as vectors.

A weight's gradient is a sum of outer products δ xᵀ. For a linear map x is its input; for a convolution x is a patch,
one for every output position, of n = C_in/groups · k_h · k_w values, cut with the layer's own stride, padding and
dilation.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def convolution_rows(
    inputs: Float[Tensor, "M C H W"],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Float[Tensor, "R n"]:
    """Cut images [M, C, H, W] into patches [M · H' · W', C · k_h · k_w]."""
    patches = F.unfold(inputs, tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))
    return patches.transpose(1, 2).flatten(0, 1)


def sampled(inputs: Tensor, per_input: int, max_rows: int | None, generator: torch.Generator | None) -> Tensor:
    """Choose so many inputs that their patches outnumber `max_rows` four times, so that the rest need not be cut.

    Args:
        inputs: [M, ...].
        per_input: rows that each gives.
        max_rows: how many rows are wanted; None wants all.
        generator: of the choice, on the CPU.
    """
    if max_rows is None or len(inputs) * per_input <= 4 * max_rows:
        return inputs
    chosen = torch.randperm(len(inputs), generator=generator)[: -(-4 * max_rows // per_input)]
    return inputs[chosen.to(inputs.device)]


def at_most(rows: Float[Tensor, "R n"], max_rows: int | None, generator: torch.Generator | None) -> Tensor:
    """Choose at most `max_rows` of the rows, by the generator."""
    if max_rows is None or len(rows) <= max_rows:
        return rows
    return rows[torch.randperm(len(rows), generator=generator)[:max_rows].to(rows.device)]
