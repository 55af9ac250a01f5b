"""Layers above each other, all reading one context; the bias is computed once for all of them."""

from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor, nn

from transformers_core.types import Context, Shared


class Block(nn.Module):
    """Residual sublayers, one after another.

    Args:
        sublayers: modules called with tokens [B, L, D] and the context.
    """

    def __init__(self, *sublayers: nn.Module) -> None:
        super().__init__()
        self.sublayers = nn.ModuleList(sublayers)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        for sublayer in self.sublayers:
            x = sublayer(x, context)
        return x


class SharingBlock(Block):
    """Blocks of which the first leaves its attention in a slot for the others (LazyFormer).

    The slot lives for this call only. To save activations, checkpoint the whole block: a layer alone would not see it.
    """

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        return super().forward(x, replace(context, shared=Shared()))


class Stack(nn.Module):
    """The body of every model.

    Args:
        layers: blocks from bottom to top.
        bias: maps query and key positions to what is added to all layers' scores; None keeps the context's bias.
        final_norm: after the last layer, which Pre-LN needs; None leaves it out.
    """

    def __init__(
        self, layers: Iterable[nn.Module], bias: nn.Module | None = None, final_norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.layers, self.bias, self.final_norm = nn.ModuleList(layers), bias, final_norm

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        if self.bias is not None:
            context = replace(context, bias=self.bias(context.positions, context.key_positions))
        for layer in self.layers:
            x = layer(x, context)
        return x if self.final_norm is None else self.final_norm(x, context.mask.valid)
