"""The attention kernels agree with the formula written out, under every bias and mask."""

import pytest
import torch
from torch import nn

from transformers_core.attention.kernel import EagerKernel, FlexKernel, Scores, SDPAKernel, attention_weights
from transformers_core.attention.multihead import (
    Attention,
    CrossAttention,
    SelfAttention,
    dense_projections,
)
from transformers_core.masks import Mask
from transformers_core.offsets import Offsets
from transformers_core.types import Context, consecutive

VALID = torch.tensor([[True, True, True, False, False], [True, True, True, True, True]])
PAIRS = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(3)) > 0.5
MASKS = {
    "nothing": Mask(),
    "causal": Mask(causal=True),
    "padding": Mask(VALID),
    "pairs": Mask(pairs=PAIRS),
    "all three": Mask(VALID, True, PAIRS),
    "nothing allowed": Mask(torch.zeros(2, 5, dtype=torch.bool)),
}


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def scores(mask, bias=None, dtype=torch.float32):
    query, key = drawn(2, 3, 5, 4, seed=1, dtype=dtype), drawn(2, 3, 5, 4, seed=2, dtype=dtype)
    return Scores(query, key, 0.5, bias, mask)


def by_loops(given, value):
    """The slow obvious reference: exponentials and sums, one number at a time."""
    batch, heads, queries, keys = given.shape
    allowed = given.mask.dense(queries, keys, value.device)
    allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool) if allowed is None else allowed
    allowed = allowed.expand(given.shape)
    out = torch.zeros(batch, heads, queries, value.shape[-1], dtype=value.dtype)
    for b in range(batch):
        for a in range(heads):
            for i in range(queries):
                js = [j for j in range(keys) if allowed[b, a, i, j]]
                ws = [
                    torch.exp(
                        given.scale * (given.query[b, a, i] @ given.key[b, a, j])
                        + (0 if given.bias is None else given.bias.expand(given.shape)[b, a, i, j])
                    )
                    for j in js
                ]
                for j, w in zip(js, ws, strict=True):
                    out[b, a, i] += w / sum(ws) * value[b, a, j]
    return out


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kernel", [EagerKernel(), SDPAKernel(), FlexKernel()], ids=["eager", "sdpa", "flex"])
def test_every_kernel_is_the_formula_summed_number_by_number(kernel, biased, mask):
    bias = drawn(1, 3, 5, 5, seed=4) if biased else None
    value = drawn(2, 3, 5, 4, seed=5)
    given = scores(mask, bias)
    assert torch.allclose(kernel(given, value), by_loops(given, value), atol=1e-6)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_the_fused_kernel_has_the_gradients_of_the_formula_and_none_is_nan(mask):
    gradients = []
    for kernel in (EagerKernel(), SDPAKernel()):
        query, key, value = (drawn(2, 3, 5, 4, seed=s).requires_grad_() for s in (1, 2, 5))
        bias = drawn(1, 3, 5, 5, seed=4).requires_grad_()
        kernel(Scores(query, key, 0.5, bias, mask), value).square().sum().backward()
        gradients.append([t.grad for t in (query, key, value, bias)])
    for eager, fused in zip(*gradients, strict=True):
        assert torch.isfinite(eager).all()
        assert torch.allclose(eager, fused, atol=1e-5)


@pytest.mark.parametrize("kernel", [EagerKernel(), SDPAKernel(), FlexKernel()], ids=["eager", "sdpa", "flex"])
def test_a_query_that_may_look_at_nothing_gets_exactly_zero(kernel):
    assert torch.equal(kernel(scores(MASKS["nothing allowed"]), drawn(2, 3, 5, 4)), torch.zeros(2, 3, 5, 4))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_rows_of_weights_sum_to_one_or_are_empty_and_equal_values_come_out_unchanged(mask):
    given = scores(mask)
    total = attention_weights(given).sum(-1)
    assert (((total - 1).abs() < 1e-6) | (total == 0)).all()
    mixed = EagerKernel()(given, torch.ones(2, 3, 5, 4))
    assert torch.allclose(mixed, total[..., None].expand_as(mixed), atol=1e-6)


def test_eager_and_fused_agree_in_half_precision():
    given, value = (
        scores(MASKS["all three"], drawn(1, 3, 5, 5).bfloat16(), torch.bfloat16),
        drawn(2, 3, 5, 4).bfloat16(),
    )
    assert torch.allclose(EagerKernel()(given, value), SDPAKernel()(given, value), atol=2e-2)


def test_gradients_of_the_formula_are_those_of_finite_differences():
    def out(query, key, value, bias):
        return EagerKernel()(Scores(query, key, 0.7, bias, Mask(VALID[:, :3], True)), value)

    tensors = [drawn(2, 1, 3, 2, seed=s, dtype=torch.float64).requires_grad_() for s in (1, 2, 3)]
    bias = drawn(1, 1, 3, 3, seed=4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(out, (*tensors, bias))


def test_values_per_offset_are_the_matrix_they_stand_for():
    line = Offsets(torch.arange(5.0)[None])
    assert line.grid == (3,)
    assert line.dense()[0].tolist() == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]
    plane = Offsets(torch.arange(15.0).reshape(1, 3, 5))  # a grid of 2 x 3
    assert plane.grid == (2, 3)
    for i in range(6):
        for j in range(6):
            down, right = j // 3 - i // 3, j % 3 - i % 3
            assert plane.dense()[0, i, j] == (down + 1) * 5 + right + 2


def test_wrong_masks_and_biases_are_refused_with_what_to_do():
    value = drawn(2, 3, 5, 4)
    kernel = EagerKernel()
    with pytest.raises(TypeError, match="boolean with True = may attend"):
        kernel(scores(Mask(VALID.float())), value)
    with pytest.raises(TypeError, match="belong into the bias"):
        kernel(scores(Mask(pairs=PAIRS.float())), value)
    with pytest.raises(ValueError, match=r"add axes of size 1"):
        kernel(scores(Mask(pairs=PAIRS[0, 0])), value)
    with pytest.raises(ValueError, match=r"\[B, L\] = \[2, 5\]"):
        kernel(scores(Mask(VALID[:, :4])), value)
    with pytest.raises(TypeError, match=r"bias.to\(query.dtype\)"):
        kernel(scores(Mask(), drawn(1, 3, 5, 5).double()), value)
    with pytest.raises(ValueError, match="must broadcast"):
        kernel(scores(Mask(), drawn(3, 5, 5)), value)
    with pytest.raises(ValueError, match="at least as many keys"):
        kernel(Scores(drawn(1, 1, 3, 2), drawn(1, 1, 2, 2), 1.0, None, Mask(causal=True)), drawn(1, 1, 2, 2))


def test_the_flexible_kernel_refuses_what_it_cannot_do():
    given = scores(Mask())
    with pytest.raises(ValueError, match="no backward pass on a CPU"):
        FlexKernel()(given._replace(query=given.query.requires_grad_()), drawn(2, 3, 5, 4))
    with pytest.raises(ValueError, match="cannot drop weights"):
        FlexKernel()(scores(Mask()), drawn(2, 3, 5, 4), 0.1)


def test_dropped_weights_are_rescaled_and_come_from_torchs_stream():
    torch.manual_seed(0)
    mixed = EagerKernel()(scores(Mask()), torch.ones(2, 3, 5, 4), 0.5)
    assert not torch.allclose(mixed, torch.ones_like(mixed))
    torch.manual_seed(0)
    assert torch.equal(mixed, EagerKernel()(scores(Mask()), torch.ones(2, 3, 5, 4), 0.5))


def as_torch(attention, width, heads, **widths):
    """torch's own module with the same weights."""
    theirs = nn.MultiheadAttention(width, heads, batch_first=True, **widths)
    ours = attention.projections
    maps = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))
        else:
            for name, m in zip("qkv", maps, strict=True):
                getattr(theirs, f"{name}_proj_weight").copy_(m.weight)
        theirs.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return theirs


@pytest.mark.parametrize("kernel", [EagerKernel(), SDPAKernel()], ids=["eager", "sdpa"])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_torchs_with_the_same_weights(kernel, causal):
    attention = SelfAttention(4, dense_projections(8), kernel=kernel)
    x, here = drawn(2, 5, 8), consecutive(5, torch.device("cpu"))
    ours = attention(x, Context(here, here, Mask(VALID, causal)))
    forbidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    theirs, _ = as_torch(attention, 8, 4)(x, x, x, key_padding_mask=~VALID, attn_mask=forbidden)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_cross_attention_is_torchs_with_the_same_weights_and_a_memory_of_another_width():
    attention = CrossAttention(4, dense_projections(8, memory_width=6))
    x, memory, here = drawn(2, 3, 8), drawn(2, 5, 6), consecutive(3, torch.device("cpu"))
    ours = attention(x, Context(here, here, memory=memory, memory_mask=Mask(VALID)))
    theirs, _ = as_torch(attention, 8, 4, kdim=6, vdim=6)(x, memory, memory, key_padding_mask=~VALID)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_heads_that_do_not_divide_the_width_and_a_missing_memory_are_refused():
    with pytest.raises(ValueError, match="multiple of the number of heads, got 3"):
        Attention(3, dense_projections(8))
    here = consecutive(3, torch.device("cpu"))
    with pytest.raises(ValueError, match="pass memory="):
        CrossAttention(2, dense_projections(8))(drawn(1, 3, 8), Context(here, here))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the flexible kernel trains on a GPU only")
def test_on_a_gpu_all_three_kernels_agree_in_value_and_gradient():
    found = []
    for kernel in (EagerKernel(), SDPAKernel(), FlexKernel()):
        query, key, value = (drawn(2, 2, 128, 16, seed=s).cuda().requires_grad_() for s in (1, 2, 3))
        out = kernel(Scores(query, key, 0.25, None, Mask(causal=True)), value)
        out.square().sum().backward()
        found.append((out.detach(), query.grad, key.grad, value.grad))
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-4)
