"""BiPE (He et al. 2024): a Llama body, a learned place inside the segment, a relative place between segments.

    input        E[token_t] + P[index_t]
    BiPE-RoPE    queries and keys turn by segment·θ_m, θ_m = 10000^{−2m/K}
    BiPE-ALiBi   b_ij = −96 σ_a (segment_i − segment_j),  σ_a the standard slopes

The factor 96 makes up for segment distances being far smaller than token distances. Defaults there: 12 layers, D 768,
12 heads, inner 3072, vocabulary 32000, length 1024, N(0, 0.02), AdamW at 1e-4 with linear decay and 10,000 steps of
warm-up, weight decay 0.01. Left out: scaling queries by the logarithm of the place, rescaled angles for longer texts.
Different here: decoding may use a cache, which carries the pair (index, segment).
"""

from torch import nn

from transformers_core.blocks.stack import Stack
from transformers_core.models.decoder import Decoder
from transformers_core.models.embedding import TokenEmbedding
from transformers_core.norms.token import RMSNorm
from transformers_core.positions.absolute import LearnedPositions
from transformers_core.positions.bilevel import Segmenter
from transformers_core.positions.relative import SlopeBias
from transformers_core.presets.relative import llama_layer, rotary
from transformers_core.presets.size import Size, repeated
from transformers_core.types import segment_index

SLOPE_FACTOR = 96.0
"""Multiplies ALiBi's slopes where distances count segments."""


def bipe_rope(size: Size, locate: Segmenter) -> Decoder:
    """Make BiPE with rotary segments; logits [B, L, V]."""
    return _bipe(size, locate, rotary(size, segment_index), None)


def bipe_alibi(size: Size, locate: Segmenter) -> Decoder:
    """Make BiPE with a slope over segments; logits [B, L, V]."""
    return _bipe(size, locate, None, SlopeBias(size.heads, SLOPE_FACTOR, segment_index))


def _bipe(size: Size, locate: Segmenter, qk_map: nn.Module | None, bias: nn.Module | None) -> Decoder:
    embedding = TokenEmbedding(size.vocabulary, size.width, LearnedPositions(locate.max_index, size.width))
    stack = Stack(repeated(size, lambda: llama_layer(size, qk_map)), bias, RMSNorm(size.width, eps=1e-5))
    return Decoder(embedding, stack, nn.Linear(size.width, size.vocabulary, bias=False), locate=locate)
