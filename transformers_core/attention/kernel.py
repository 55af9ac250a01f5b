"""One attention formula, several kernels that agree.

    out_i = Σ_j w_ij v_j / Σ_j w_ij,     w_ij = m_ij exp(scale · q_i·k_j + b_ij),     m_ij ∈ {0, 1}

`EagerKernel` writes it out and is the truth; it alone can show the weights. `SDPAKernel` calls torch's fused function,
`FlexKernel` torch's flexible one, which has no backward pass on a CPU. A row without any allowed key is 0 in value and
gradient in all of them. A bias must be finite: what is forbidden belongs into the mask. In half precision the eager
softmax is taken in float32, as the fused kernels do.
"""

import functools
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformers_core.masks import Mask, check_mask
from transformers_core.offsets import Offsets
from transformers_core.types import Bias


class Scores(NamedTuple):
    """Everything attention weights are made of, before any kernel has run.

    Attributes:
        query: [B, A, Lq, K].
        key: [B, A, Lk, K].
        scale: factor of q·k, dimensionless; 1/√K for plain attention.
        bias: added to the scaled scores.
        mask: which pairs count.
    """

    query: Tensor
    key: Tensor
    scale: float
    bias: Bias | None = None
    mask: Mask = Mask()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[B, A, Lq, Lk]."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]


def dense_bias(scores: Scores) -> Tensor | None:
    """Give the bias as a tensor that broadcasts to the scores.

    Raises:
        TypeError: if its dtype is not the query's.
        ValueError: if it does not broadcast.
    """
    bias = scores.bias
    if bias is None:
        return None
    bias = bias.dense()[None] if isinstance(bias, Offsets) else bias
    if bias.dtype != scores.query.dtype:
        raise TypeError(
            f"The bias must have the dtype of the queries, {scores.query.dtype}, got {bias.dtype}; "
            "cast it with bias.to(query.dtype)."
        )
    if bias.dim() != 4 or any(have not in (1, need) for have, need in zip(bias.shape, scores.shape, strict=True)):
        raise ValueError(f"The bias must broadcast to [B, A, Lq, Lk] = {list(scores.shape)}, got {list(bias.shape)}.")
    return bias


def dense_mask(scores: Scores) -> tuple[Tensor | None, Tensor | None]:
    """Give the mask with its dead rows opened, and which rows are alive; (None, None) if all is allowed.

    Opening a dead row keeps its softmax finite; the kernel then replaces its result by 0.
    """
    check_mask(scores.mask, scores.shape)
    allowed = scores.mask.dense(scores.shape[2], scores.shape[3], scores.query.device)
    if allowed is None:
        return None, None
    alive = allowed.any(-1, keepdim=True)
    return allowed | ~alive, alive


def attention_weights(scores: Scores) -> Tensor:
    """Give the normalised weights.

    Args:
        scores: what they are made of.

    Returns:
        [B, A, Lq, Lk]; rows sum to 1, or are all 0 where no key is allowed.
    """
    bias = dense_bias(scores)
    allowed, alive = dense_mask(scores)
    logits = (scores.query * scores.scale) @ scores.key.transpose(-2, -1)
    if bias is not None:
        logits = logits + bias
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    weights = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32)).to(logits.dtype)
    return weights if alive is None else weights.masked_fill(~alive, 0)


class EagerKernel(nn.Module):
    """The formula written out: the reference of the other kernels.

    Example:
        >>> tokens = torch.eye(2)[None, None]
        >>> EagerKernel()(Scores(tokens, tokens, 0.0), tokens).tolist()
        [[[[0.5, 0.5], [0.5, 0.5]]]]
    """

    def forward(self, scores: Scores, value: Tensor, dropout: float = 0.0) -> Tensor:
        """Mix values [B, A, Lk, K'] into [B, A, Lq, K']; `dropout` drops weights, from torch's default stream."""
        return F.dropout(attention_weights(scores), dropout) @ value


class SDPAKernel(nn.Module):
    """torch's fused attention; a causal mask alone needs no matrix.

    Example:
        >>> tokens = torch.eye(2)[None, None]
        >>> SDPAKernel()(Scores(tokens, tokens, 1.0, mask=Mask(causal=True)), tokens)[0, 0, 0].tolist()
        [1.0, 0.0]
    """

    def forward(self, scores: Scores, value: Tensor, dropout: float = 0.0) -> Tensor:
        """Mix values [B, A, Lk, K'] into [B, A, Lq, K']; `dropout` drops weights, from torch's default stream."""
        fused = functools.partial(
            F.scaled_dot_product_attention, scores.query, scores.key, value, dropout_p=dropout, scale=scores.scale
        )
        bias = dense_bias(scores)
        mask = scores.mask
        only_causal = mask.causal and mask.valid is None and mask.pairs is None
        if bias is None and only_causal and scores.shape[2] == scores.shape[3]:
            return fused(is_causal=True)
        allowed, alive = dense_mask(scores)
        if allowed is not None and bias is not None:
            allowed = torch.where(allowed, bias, -torch.inf)
        mixed = fused(attn_mask=bias if allowed is None else allowed)
        return mixed if alive is None else mixed.masked_fill(~alive, 0)


class FlexKernel(nn.Module):
    """torch's flexible attention: bias and mask are read inside the kernel, compiled on a GPU.

    It has no backward pass on a CPU and no dropout of weights.
    """

    def forward(self, scores: Scores, value: Tensor, dropout: float = 0.0) -> Tensor:
        """Mix values [B, A, Lk, K'] into [B, A, Lq, K'].

        Raises:
            ValueError: if weights shall be dropped, or a gradient is wanted on a CPU.
        """
        if dropout:
            raise ValueError(f"FlexKernel cannot drop weights, got dropout = {dropout}; use SDPAKernel or dropout 0.")
        on_gpu, bias = scores.query.is_cuda, dense_bias(scores)
        tensors = (scores.query, scores.key, value, *(() if bias is None else (bias,)))
        if not on_gpu and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise ValueError("FlexKernel has no backward pass on a CPU; use SDPAKernel there.")
        allowed, alive = dense_mask(scores)
        shape = scores.shape
        bias = None if bias is None else bias.expand(shape)
        allowed = None if allowed is None else allowed.expand(shape)

        def modify(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if bias is not None:
                score = score + bias[b, h, i, j]
            return score if allowed is None else torch.where(allowed[b, h, i, j], score, -torch.inf)

        mixed = _flexible(on_gpu)(scores.query, scores.key, value, score_mod=modify, scale=scores.scale)
        return mixed if alive is None else mixed.masked_fill(~alive, 0)


@functools.cache
def _flexible(compiled: bool) -> Any:
    from torch.nn.attention.flex_attention import flex_attention  # slow to import, and few need it

    return torch.compile(flex_attention) if compiled else flex_attention
