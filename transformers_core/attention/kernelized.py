"""Kernelised attention with relative positions (Luo et al. 2021).

    z_i = φ(q_i)ᵀ D_i / φ(q_i)ᵀ a_i,    D_i = Σ_j c_{j−i} φ(k_j) v_jᵀ,    a_i = Σ_j c_{j−i} φ(k_j),    c = exp(b)

the counterpart of softmax(q·k + b): the exponential of the bias multiplies, which no plain feature map can do.
`DirectFeatureKernel` forms the L × L matrix and is the reference; `ToeplitzKernel` never does: D and a are Toeplitz
products, O(L log L) time and O(L·m·K) memory, less in `chunk`s of features. Queries and keys are to have unit length
(`UnitLength`), which keeps φ's variance bounded; the scores' scale multiplies the queries and should be 1.

Masks may hold padding and causality, nothing else. A constant added to b changes nothing, so its maximum is taken off.
Half precision is computed in float32 and cast back. The denominators are positive; those below the FFT's own round-off,
ε times a head's largest, are lifted to it. A query that may look at nothing gets 0.
"""

import torch
from torch import Tensor, nn

from transformers_core.attention.kernel import Scores
from transformers_core.attention.toeplitz import toeplitz_product
from transformers_core.masks import check_mask
from transformers_core.offsets import Offsets


class DirectFeatureKernel(nn.Module):
    """Kernelised attention with the matrix written out, O(L²): the reference, and the faster one for short texts.

    Args:
        features: φ, maps [..., K] to positive [..., m].
    """

    def __init__(self, features: nn.Module) -> None:
        super().__init__()
        self.features = features

    def forward(self, scores: Scores, value: Tensor, dropout: float = 0.0) -> Tensor:
        """Mix values [B, A, L, K'] into [B, A, L, K'].

        Raises:
            ValueError: if weights shall be dropped, or the mask or the bias have no Toeplitz structure.
        """
        weights, alive = _structure(scores, dropout)
        query, key = _mapped(self.features, scores)
        products = query @ key.transpose(-2, -1) * weights.dense()
        if scores.mask.valid is not None:
            products = products * scores.mask.valid[:, None, None, :]
        products = products if alive is None else products.masked_fill(~alive, 1.0)
        mixed = products @ value.to(products.dtype) / products.sum(-1, keepdim=True)
        return _finished(mixed, alive, value)


class ToeplitzKernel(nn.Module):
    """Kernelised attention by FFT, O(L log L).

    Args:
        features: φ, maps [..., K] to positive [..., m].
        dtype: in which the FFT runs; None is float32, or float64 for inputs in float64.
        chunk: how many features are taken at a time; None takes all at once.
    """

    def __init__(self, features: nn.Module, dtype: torch.dtype | None = None, chunk: int | None = None) -> None:
        super().__init__()
        self.features, self.dtype, self.chunk = features, dtype, chunk

    def forward(self, scores: Scores, value: Tensor, dropout: float = 0.0) -> Tensor:
        """Mix values [B, A, L, K'] into [B, A, L, K'].

        Raises:
            ValueError: if weights shall be dropped, or the mask or the bias have no Toeplitz structure.
        """
        weights, alive = _structure(scores, dropout)
        query, key = _mapped(self.features, scores)
        if scores.mask.valid is not None:
            key = key * scores.mask.valid[:, None, :, None]
        ones = torch.cat((value.to(key.dtype), torch.ones_like(value[..., :1], dtype=key.dtype)), -1)
        chunk = key.shape[-1] if self.chunk is None else self.chunk
        total = torch.zeros_like(ones)
        for some_query, some_key in zip(query.split(chunk, -1), key.split(chunk, -1), strict=True):
            pairs = some_key[..., :, None] * ones[..., None, :]  # [B, A, L, m, K' + 1]
            reached = toeplitz_product(weights, pairs.flatten(-2), self.dtype).unflatten(-1, pairs.shape[-2:])
            total = total + (some_query[..., :, None] * reached).sum(-2)
        mixed, denominator = total[..., :-1], total[..., -1:]
        floor = torch.finfo(total.dtype).eps * denominator.detach().amax(-2, keepdim=True)
        floor = floor.clamp(min=torch.finfo(total.dtype).tiny)
        return _finished(mixed / torch.maximum(denominator, floor), alive, value)


def _structure(scores: Scores, dropout: float) -> tuple[Offsets, Tensor | None]:
    """Give c per offset, with the future cut off where the mask is causal, and which rows are alive."""
    check_mask(scores.mask, scores.shape)
    _, heads, queries, keys = scores.shape
    if dropout:
        raise ValueError(f"Kernelised attention forms no weights to drop, got dropout = {dropout}; set it to 0.")
    if scores.mask.pairs is not None:
        raise ValueError("Kernelised attention knows padding and causal masks only, got a mask of pairs.")
    if queries != keys:
        raise ValueError(f"Kernelised attention needs as many queries as keys, got {queries} and {keys}; use no cache.")
    bias = scores.bias
    if bias is None:
        bias = Offsets(scores.query.new_zeros(heads, 2 * keys - 1))
    if not isinstance(bias, Offsets):
        raise ValueError("Kernelised attention takes a bias per offset, got one per pair; use OffsetTable.")
    if bias.values.dtype != scores.query.dtype:
        raise TypeError(f"The bias must have the dtype of the queries, {scores.query.dtype}, got {bias.values.dtype}.")
    values = bias.values.to(torch.promote_types(bias.values.dtype, torch.float32))
    values = (values - values.detach().flatten(1).amax(1).view(-1, *[1] * (values.dim() - 1))).exp()
    if scores.mask.causal:
        if len(bias.grid) > 1:
            raise ValueError("A grid of tokens has no past; causal attention needs tokens on a line.")
        values = values * (torch.arange(1 - keys, keys, device=values.device) <= 0)
    if scores.mask.valid is None:
        return Offsets(values), None
    return Offsets(values), _alive(scores.mask.valid, causal=scores.mask.causal)


def _alive(valid: Tensor, *, causal: bool) -> Tensor:
    """Say which queries may look at anything, [B, 1, L or 1, 1], without a matrix of pairs."""
    reached = valid.cummax(1).values if causal else valid.any(1, keepdim=True)
    return reached[:, None, :, None]


def _mapped(features: nn.Module, scores: Scores) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(scores.query.dtype, torch.float32)
    return features(scores.query.to(dtype) * scores.scale), features(scores.key.to(dtype))


def _finished(mixed: Tensor, alive: Tensor | None, value: Tensor) -> Tensor:
    return (mixed if alive is None else mixed.masked_fill(~alive, 0)).to(value.dtype)
