"""Multi-head attention: project, map queries and keys, let a kernel mix the values, merge the heads.

Four parts vary on their own. *Projections* are any modules (dense, block diagonal, from another width); a *map* acts on
queries and keys alike (rotary, unit length); the *kernel* computes; the *scale* is explicit, for sums of k position
terms want 1/√((1+k)K). Biases come from the model through the context (Vaswani et al. 2017 for the plain case).
"""

import torch
from torch import Tensor, nn

from transformers_core.attention.kernel import Scores, SDPAKernel
from transformers_core.masks import Mask
from transformers_core.offsets import Offsets
from transformers_core.types import Bias, Context, Positions


class Projections(nn.Module):
    """The four linear maps of attention.

    Args:
        query: [.., D] to [.., A·K].
        key: [.., D] to [.., A·K].
        value: [.., D] to [.., A·K'].
        output: [.., A·K'] to [.., D].
    """

    def __init__(self, query: nn.Module, key: nn.Module, value: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = query, key, value, output


def dense_projections(width: int, *, memory_width: int | None = None, bias: bool = True) -> Projections:
    """Make four dense maps of the model width D; keys and values may come from another width."""
    source = width if memory_width is None else memory_width
    return Projections(
        nn.Linear(width, width, bias),
        nn.Linear(source, width, bias),
        nn.Linear(source, width, bias),
        nn.Linear(width, width, bias),
    )


def check_heads(width: int, heads: int) -> None:
    """Refuse heads that do not divide the width.

    Raises:
        ValueError: if there is no head or a rest.
    """
    if heads < 1 or width % heads:
        raise ValueError(f"The width {width} must be a multiple of the number of heads, got {heads}.")


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Cut [B, L, A·K] into [B, A, L, K]."""
    check_heads(x.shape[-1], heads)
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Put [B, A, L, K] together into [B, L, A·K]."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """What self- and cross-attention share.

    Args:
        heads: A.
        projections: the linear maps; their widths must be multiples of A.
        qk_map: acts on queries and on keys, [B, A, L, K] with their positions; None leaves them.
        kernel: computes the mixture; None takes `SDPAKernel`.
        scale: factor of q·k; None is 1/√K.
        dropout: probability with which an attention weight is dropped in training.
    """

    def __init__(
        self,
        heads: int,
        projections: Projections,
        qk_map: nn.Module | None = None,
        kernel: nn.Module | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for projection in (projections.query, projections.key, projections.value):
            check_heads(getattr(projection, "out_features", heads), heads)
        self.heads, self.projections, self.scale, self.dropout = heads, projections, scale, dropout
        self.qk_map = qk_map
        self.kernel = kernel if kernel is not None else SDPAKernel()

    def project_query(self, x: Tensor, positions: Positions) -> Tensor:
        """Give the queries of tokens [B, L, D] as [B, A, L, K]."""
        return self._mapped(split_heads(self.projections.query(x), self.heads), positions)

    def project_key(self, source: Tensor, positions: Positions) -> Tensor:
        """Give the keys of tokens [B, L, D] as [B, A, L, K]."""
        return self._mapped(split_heads(self.projections.key(source), self.heads), positions)

    def project_value(self, source: Tensor) -> Tensor:
        """Give the values of tokens [B, L, D] as [B, A, L, K]."""
        return split_heads(self.projections.value(source), self.heads)

    def score(self, query: Tensor, key: Tensor, bias: Bias | None, mask: Mask) -> Scores:
        """Collect what the weights are made of; under autocast the bias follows the queries' dtype."""
        scale = self.scale if self.scale is not None else query.shape[-1] ** -0.5
        if torch.is_autocast_enabled(query.device.type):
            bias = _cast(bias, query.dtype)
        return Scores(query, key, scale, bias, mask)

    def mix(self, scores: Scores, value: Tensor) -> Tensor:
        """Let the kernel mix values and project the merged heads, [B, Lq, D]."""
        mixed = self.kernel(scores, value, self.dropout if self.training else 0.0)
        return self.projections.output(merge_heads(mixed))

    def _mapped(self, x: Tensor, positions: Positions) -> Tensor:
        return x if self.qk_map is None else self.qk_map(x, positions)


class SelfAttention(Attention):
    """Tokens look at each other; with a cache, also at those of earlier calls.

    Example:
        >>> from transformers_core.types import consecutive
        >>> here = consecutive(3, torch.device("cpu"))
        >>> attention = SelfAttention(heads=2, projections=dense_projections(8))
        >>> attention(torch.randn(1, 3, 8), Context(here, here, Mask(causal=True))).shape
        torch.Size([1, 3, 8])
    """

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Attend within [B, L, D]."""
        query, key, value = self.project_query(x, context.positions), *self.keys_and_values(x, context)
        return self.mix(self.score(query, key, context.bias, context.mask), value)

    def keys_and_values(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Give keys and values [B, A, Lk, K] of these tokens and of those in the cache."""
        key, value = self.project_key(x, context.positions), self.project_value(x)
        if context.cache is not None:
            key, value = context.cache.append(self, key, value)
        return key, value


class CrossAttention(Attention):
    """Tokens look at the memory; its keys and values are computed once per cache."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Attend from [B, L, D] to the memory in the context.

        Raises:
            ValueError: if there is no memory.
        """
        if context.memory is None:
            raise ValueError("Cross-attention needs a memory [B, Lm, D]; pass memory=encoder(source).")
        known = context.cache.entries.get(self) if context.cache is not None else None
        if known is None:
            memory = context.memory
            key, value = split_heads(self.projections.key(memory), self.heads), self.project_value(memory)
            known = (key, value) if context.cache is None else context.cache.append(self, key, value)
        key, value = known
        query = split_heads(self.projections.query(x), self.heads)
        return self.mix(self.score(query, key, None, context.memory_mask), value)


def _cast(bias: Bias | None, dtype: torch.dtype) -> Bias | None:
    if isinstance(bias, Offsets):
        return Offsets(bias.values.to(dtype))
    return bias if bias is None else bias.to(dtype)
