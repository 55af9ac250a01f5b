"""Macaron, TUPE, BiPE and LazyFormer reduce to what they generalise, and differ from it only where they should."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformers_core.attention.kernel import EagerKernel, Scores, SDPAKernel
from transformers_core.attention.lazy import (
    AnchorAttention,
    FollowerAttention,
    keep_scores,
    keep_weights,
)
from transformers_core.attention.multihead import SelfAttention, dense_projections, split_heads
from transformers_core.blocks.feed_forward import FeedForward
from transformers_core.blocks.stack import Block, SharingBlock, Stack
from transformers_core.cache import Cache
from transformers_core.masks import Mask
from transformers_core.positions.bilevel import Segmenter
from transformers_core.positions.relative import BucketBias, SlopeBias, SumBias
from transformers_core.positions.rotary import Rotary
from transformers_core.positions.untied import UntiedBias, untied_scale
from transformers_core.presets.bipe import SLOPE_FACTOR, bipe_alibi, bipe_rope
from transformers_core.presets.lazyformer import lazy_decoder, lazy_encoder
from transformers_core.presets.macaron import macaron_decoder, macaron_encoder, macaron_layer, macaron_translator
from transformers_core.presets.size import Size, self_attention
from transformers_core.presets.standard import post_ln_encoder, standard_layer
from transformers_core.presets.tupe import tupe_a, tupe_r
from transformers_core.residual import PreNorm, post_norm, pre_norm
from transformers_core.types import Context, Shared, consecutive

SIZE = Size(vocabulary=11, width=16, heads=4, inner=24, layers=4, max_length=12)
HERE = consecutive(6, torch.device("cpu"))
CONTEXT = Context(HERE, HERE)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids(*shape, seed=0):
    return torch.randint(0, SIZE.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def count(module):
    return sum(p.numel() for p in module.parameters())


# Macaron


def test_a_macaron_whose_first_half_is_dead_is_the_plain_block():
    place, attention = pre_norm(16), self_attention(SIZE).double()
    macaron = macaron_layer(SIZE, place, attention).double()
    first, middle, last = macaron.sublayers
    for part in first.sublayer.parameters():
        nn.init.zeros_(part)
    plain = Block(middle, PreNorm(copy.deepcopy(last.sublayer), last.norm))
    x = drawn(2, 6, 16)
    assert not torch.allclose(macaron(x, CONTEXT), plain(x, CONTEXT))
    with torch.no_grad():
        last.sublayer.outer.weight.mul_(2), last.sublayer.outer.bias.mul_(2)
    assert torch.allclose(macaron(x, CONTEXT), plain(x, CONTEXT), atol=1e-14)


def test_a_macaron_costs_a_plain_block_and_one_norm_and_one_offset():
    place = pre_norm(16)
    plain = standard_layer(SIZE, place)
    assert count(macaron_layer(SIZE, place, self_attention(SIZE))) == count(plain) + 2 * 16 + 16


def test_the_sublayers_of_a_macaron_read_the_same_both_ways():
    for model in (macaron_encoder(SIZE), macaron_decoder(SIZE), macaron_translator(SIZE).encoder):
        for layer in model.stack.layers:
            kinds = [type(part.sublayer) for part in layer.sublayers]
            assert kinds == kinds[::-1] == [FeedForward, SelfAttention, FeedForward]
            assert [part.scale for part in layer.sublayers] == [0.5, 1.0, 0.5]
    with pytest.raises(ValueError, match="must be even, got 25"):
        macaron_encoder(SIZE._replace(inner=25))


def test_strang_splitting_is_second_order_for_exact_flows_and_first_for_euler_steps():
    first, second, x = drawn(5, 5, seed=1), drawn(5, 5, seed=2), drawn(5, seed=3)
    eye = torch.eye(5).double()
    steps = [2.0**-k for k in range(4, 9)]

    def slope(lie):
        errors = []
        for h in steps:
            exact = torch.linalg.matrix_exp(h * (first + second)) @ x
            errors.append((lie(h) @ x - exact).norm().log2().item())
        return (errors[0] - errors[-1]) / 4

    def flow(matrix, h):
        return torch.linalg.matrix_exp(h * matrix)

    def euler(matrix, h):
        return eye + h * matrix

    assert slope(lambda h: flow(second, h) @ flow(first, h)) == pytest.approx(2, abs=0.1)
    assert slope(lambda h: flow(first, h / 2) @ flow(second, h) @ flow(first, h / 2)) == pytest.approx(3, abs=0.1)
    assert slope(lambda h: euler(first, h / 2) @ euler(second, h) @ euler(first, h / 2)) == pytest.approx(2, abs=0.1)
    h = 2.0**-12
    strang = euler(first, h / 2) @ euler(second, h) @ euler(first, h / 2)
    error = (strang - flow(first + second, h)) / h**2
    expected = first @ first / 4 + second @ second / 2  # no commutator: the halves stand around `second`
    assert torch.allclose(error.norm(), expected.norm(), rtol=1e-2)


# TUPE


def test_without_reset_tupe_is_attention_over_joined_channels():
    bias = UntiedBias(4, 16, 12).double()
    query, key, value = (drawn(2, 4, 6, 4, seed=s) for s in (1, 2, 3))
    untied = SDPAKernel()(Scores(query, key, untied_scale(4), bias(HERE, HERE)), value)
    places = bias.norm(bias.table(HERE.place))
    joined = [
        torch.cat((words, split_heads(project(places), 4).expand_as(words)), -1)
        for words, project in ((query, bias.query), (key, bias.key))
    ]
    assert torch.allclose(untied, SDPAKernel()(Scores(*joined, 1 / math.sqrt(8)), value), atol=1e-12)


def test_without_positions_tupe_is_equivariant_and_with_them_it_is_not():
    model = tupe_a(SIZE).double().eval()
    tokens, order = ids(2, 6), torch.tensor([3, 1, 0, 5, 4, 2])
    assert not torch.allclose(model(tokens[:, order]), model(tokens)[:, order], atol=1e-3)
    for part in model.stack.bias.parameters():
        nn.init.zeros_(part)
    assert torch.allclose(model(tokens[:, order]), model(tokens)[:, order], atol=1e-12)


def test_the_reset_row_and_column_do_not_depend_on_the_table_of_places():
    model = tupe_r(SIZE)
    bias = model.stack.bias
    nn.init.normal_(bias.row), nn.init.normal_(bias.column)
    before = bias(HERE, HERE)
    nn.init.normal_(bias.bias.parts[0].table.weight)
    after = bias(HERE, HERE)
    assert torch.equal(before[:, :, 0], after[:, :, 0])
    assert torch.equal(before[:, :, :, 0], after[:, :, :, 0])
    assert not torch.allclose(before[:, :, 1:, 1:], after[:, :, 1:, 1:])
    assert before[0, :, 0].std(-1).max() == 0
    assert before[0, :, 1:, 0].std(-1).max() == 0


def test_places_are_scored_once_for_all_layers_and_the_whole_batch():
    model, calls = tupe_a(SIZE), []
    model.stack.bias.register_forward_hook(lambda module, args, out: calls.append(out.shape))
    model(ids(5, 6))
    assert calls == [(1, 4, 6, 6)]


def test_with_its_projections_zero_tupe_r_is_t5s_bias_at_its_own_scale():
    untied, buckets = UntiedBias(4, 16, 12).double(), BucketBias(4).double()
    for part in (untied.query, untied.key):
        nn.init.zeros_(part.weight), nn.init.zeros_(part.bias)
    query, key, value = (drawn(2, 4, 6, 4, seed=s) for s in (1, 2, 3))
    both = EagerKernel()(Scores(query, key, untied_scale(4), SumBias(untied, buckets)(HERE, HERE)), value)
    logits = query @ key.mT / math.sqrt(8) + buckets(HERE, HERE)
    assert torch.allclose(both, logits.softmax(-1) @ value, atol=1e-12)


# BiPE


def bilevel(build, separators=(3, 5), max_index=12):
    torch.manual_seed(0)
    return build(SIZE, Segmenter(separators, max_index)).double().eval()


@pytest.mark.parametrize("build", [bipe_rope, bipe_alibi])
def test_without_separators_it_is_a_model_of_absolute_places(build):
    model, tokens = bilevel(build, separators=()), ids(2, 6)
    expected = model(tokens)
    for module in model.modules():
        if isinstance(module, SelfAttention):
            module.qk_map = None
    model.stack.bias = None
    assert torch.equal(model(tokens), expected)


def test_with_every_token_a_separator_it_is_the_plain_relative_model_and_a_constant():
    tokens = ids(2, 6)
    rope, alibi = bilevel(bipe_rope, range(11)), bilevel(bipe_alibi, range(11))
    for model in (rope, alibi):
        expected, table = model(tokens), model.embedding.positions.table.weight.detach()
        for module in model.modules():
            if isinstance(module, SelfAttention) and module.qk_map is not None:
                module.qk_map = Rotary(4).double()  # reads the index of each token
        if model.stack.bias is not None:
            model.stack.bias = SlopeBias(4, SLOPE_FACTOR).double()
        with torch.no_grad():
            model.embedding.table.weight.add_(table[0])
        model.embedding.positions = None
        model.locate = type(post_ln_encoder(SIZE).locate)()
        assert torch.allclose(model(tokens), expected, atol=1e-12)


def test_a_causal_slope_over_segments_is_a_bias_of_keys_alone():
    segment = torch.tensor([[0, 0, 0, 1, 1, 2]])
    slopes = SlopeBias(4, SLOPE_FACTOR).double()
    here = HERE._replace(place=segment)
    query, key, value = (drawn(1, 4, 6, 4, seed=s) for s in (1, 2, 3))
    both = [
        EagerKernel()(Scores(query, key, 0.5, bias, Mask(causal=True)), value)
        for bias in (slopes(here, here), slopes.slopes[:, None, None] * segment[:, None, None, :])
    ]
    assert torch.allclose(*both, atol=1e-12)


def test_swapping_equal_segments_keeps_the_bag_of_inputs():
    model = bilevel(bipe_rope)
    tokens = torch.tensor([[1, 2, 3, 4, 6, 5]])
    swapped = torch.tensor([[4, 6, 5, 1, 2, 3]])
    bags = [model.embedding(t, model.locate(t, None)[0])[0] for t in (tokens, swapped)]
    assert torch.equal(bags[0][[3, 4, 5, 0, 1, 2]], bags[1])


def test_a_document_read_through_a_cache_carries_its_segments():
    model, cache = bilevel(bipe_alibi), Cache()
    tokens = torch.tensor([[1, 3, 2, 2, 5, 1, 4]])
    pieces = [model(tokens[:, t : t + 1], cache=cache) for t in range(7)]
    assert torch.allclose(torch.cat(pieces, 1), model(tokens), atol=1e-10)
    assert cache.notes["segment"].tolist() == [[0, 0, 1, 1, 1, 2, 2]]


# LazyFormer


def test_in_groups_of_one_it_is_the_plain_encoder_bit_for_bit():
    torch.manual_seed(0)
    lazy = lazy_encoder(SIZE, group=1)
    torch.manual_seed(0)
    plain = post_ln_encoder(SIZE)
    for module in plain.modules():
        if isinstance(module, SelfAttention):
            module.kernel = EagerKernel()
    tokens = ids(2, 6)
    assert torch.equal(lazy(tokens), plain(tokens))
    valid = torch.arange(6).expand(2, 6) < 4
    assert torch.equal(lazy(tokens, valid), plain(tokens, valid))


@pytest.mark.parametrize("group", [1, 2, 4])
def test_parameters_are_those_of_the_formula(group):
    model, width, layers = lazy_encoder(SIZE, group), 16, 4
    attention = sum(
        count(m.projections) if isinstance(m, AnchorAttention) else count(m)
        for m in model.modules()
        if isinstance(m, AnchorAttention | FollowerAttention)
    )
    square = width * width + width
    assert attention == layers // group * 4 * square + (layers - layers // group) * 2 * square


def test_in_one_group_queries_and_keys_of_the_first_layer_alone_learn():
    model = lazy_encoder(SIZE, group=4)
    model(ids(2, 6)).square().sum().backward()
    learning = {n for n, p in model.named_parameters() if ".query." in n or ".key." in n}
    assert len(learning) == 4
    assert all(p.grad.abs().max() > 0 for n, p in model.named_parameters() if n in learning and "query" in n)


@pytest.mark.parametrize("mask", [Mask(), Mask(torch.arange(6).expand(2, 6) < 4, causal=True)])
def test_stored_weights_and_stored_scores_agree_with_queries_and_keys_of_the_anchor(mask):
    torch.manual_seed(0)
    anchor = AnchorAttention(4, dense_projections(16)).double()
    follower = FollowerAttention(4, nn.Linear(16, 16), nn.Linear(16, 16)).double()
    below, x, bias = drawn(2, 6, 16, seed=1), drawn(2, 6, 16, seed=2), drawn(1, 4, 6, 6, seed=3)
    outs = []
    for keep in (keep_weights, keep_scores):
        anchor.keep = keep
        context = Context(HERE, HERE, mask, bias, shared=Shared())
        anchor(below, context)
        outs.append(follower(x, context))
    maps = anchor.projections
    query, key, value = (split_heads(m, 4) for m in (maps.query(below), maps.key(below), follower.value(x)))
    mixed = EagerKernel()(Scores(query, key, 0.5, bias, mask), value)
    expected = follower.output(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(outs[0], expected, atol=1e-14)
    assert torch.allclose(outs[0], outs[1], atol=1e-12)


def test_training_uses_the_distribution_of_evaluation():
    model = lazy_encoder(SIZE, group=2).double()
    tokens = ids(2, 6)
    assert torch.equal(model.train()(tokens), model.eval()(tokens))


def test_followers_cache_values_only():
    model, cache = lazy_decoder(SIZE, group=4), Cache()
    model(ids(2, 6), cache=cache)
    assert sorted(len(entry) for entry in cache.entries.values()) == [1, 1, 1, 2]


def test_a_lazy_block_in_the_wrong_place_is_refused():
    with pytest.raises(ValueError, match="4 layers do not divide into lazy blocks of 3"):
        lazy_encoder(SIZE, group=3)
    with pytest.raises(ValueError, match="put it into a SharingBlock"):
        AnchorAttention(4, dense_projections(16))(drawn(1, 6, 16).float(), CONTEXT)
    follower = FollowerAttention(4, nn.Linear(16, 16), nn.Linear(16, 16))
    with pytest.raises(ValueError, match="make AnchorAttention the block's first"):
        SharingBlock(follower)(drawn(1, 6, 16).float(), CONTEXT)


def test_what_an_anchor_leaves_ends_with_its_block():
    place = post_norm(16)
    anchor = SharingBlock(Block(place(AnchorAttention(4, dense_projections(16)), 1.0)))
    follower = Block(place(FollowerAttention(4, nn.Linear(16, 16), nn.Linear(16, 16)), 1.0))
    with pytest.raises(ValueError, match="mixes as an anchor"):
        Stack([anchor, follower])(drawn(1, 6, 16).float(), CONTEXT)


@pytest.mark.slow
def test_bilevel_places_extrapolate_better_than_tokens_places_on_a_two_level_task():
    """Answer at each token: the parity of its place inside its segment, xor whether the segment's first symbol is 2."""
    from transformers_core.presets.relative import rotary_decoder

    size = Size(vocabulary=4, width=32, heads=4, inner=64, layers=2, max_length=16)

    def drawn_texts(length, seed):
        make = torch.Generator().manual_seed(seed)
        tokens = torch.randint(1, 3, (64, length), generator=make)
        tokens[torch.rand(64, length, generator=make) < 0.2] = 3
        index = Segmenter([3], length)(tokens, None)[0].place
        opening = tokens.gather(1, torch.arange(length) - index)
        return tokens, (index % 2) ^ (opening == 2).long()

    def accuracy(model):
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for step in range(400):
            tokens, answers = drawn_texts(24, step)
            loss = F.cross_entropy(model(tokens).flatten(0, 1), answers.flatten())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
        tokens, answers = drawn_texts(96, 10_000)
        return (model(tokens).argmax(-1) == answers)[:, 48:].float().mean().item()

    torch.manual_seed(0)
    two_levels = accuracy(bipe_rope(size, Segmenter([3], 16)))
    torch.manual_seed(0)
    one_level = accuracy(rotary_decoder(size))
    assert two_levels > one_level + 0.1
