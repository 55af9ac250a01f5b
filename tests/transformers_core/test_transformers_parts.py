"""Norms, placements, feed-forward parts, embeddings, patches, generation: closed forms and bad input."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformers_core.blocks.feed_forward import FeedForward, GatedFeedForward
from transformers_core.cache import Cache
from transformers_core.generation import Sample, generate, greedy
from transformers_core.initialise import initialise_normal, initialise_xavier
from transformers_core.masks import Mask, causal_pairs
from transformers_core.models.embedding import MeanOfTokens, TokenEmbedding
from transformers_core.models.vit import PatchEmbedding, patches, unpatch
from transformers_core.norms.token import GroupLayerNorm, LayerNorm, RMSNorm
from transformers_core.presets.relative import t5
from transformers_core.presets.size import Size
from transformers_core.presets.standard import (
    post_ln_encoder,
    pre_ln_decoder,
    pre_ln_encoder,
    standard_layer,
    transformer,
    vit,
)
from transformers_core.residual import PostNorm, PreNorm, SandwichNorm, post_norm, pre_norm, sandwich_norm
from transformers_core.types import Context, consecutive

SIZE = Size(vocabulary=11, width=16, heads=4, inner=24, layers=2, max_length=12)
HERE = consecutive(5, torch.device("cpu"))
CONTEXT = Context(HERE, HERE)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def ids(*shape, seed=0):
    return torch.randint(0, SIZE.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


class Doubling(nn.Module):
    def forward(self, x, context):
        return 2 * x


def test_each_placement_is_its_equation():
    x, norm = drawn(2, 5, 4), LayerNorm(4).double()
    assert torch.allclose(PreNorm(Doubling(), norm, scale=0.5)(x, CONTEXT), x + norm(x))
    assert torch.allclose(PostNorm(Doubling(), norm, scale=0.5)(x, CONTEXT), norm(2 * x))
    other = RMSNorm(4).double()
    assert torch.allclose(SandwichNorm(Doubling(), norm, other)(x, CONTEXT), x + other(2 * norm(x)))
    for place in (pre_norm(4), post_norm(4), sandwich_norm(4)):
        assert place(Doubling(), 1.0).double()(x, CONTEXT).shape == x.shape


def test_group_norm_is_a_layer_norm_of_each_part():
    norm, x = GroupLayerNorm(6, 2).double(), drawn(3, 6)
    nn.init.normal_(norm.weight)
    parts = [F.layer_norm(part, (3,)) for part in x.chunk(2, -1)]
    assert torch.allclose(norm(x), torch.cat(parts, -1) * norm.weight + norm.bias)
    with pytest.raises(ValueError, match="multiple of the number of groups, got 4"):
        GroupLayerNorm(6, 4)


def test_feed_forward_parts_are_their_equations():
    x = drawn(2, 5, 4)
    plain, gated = FeedForward(4, 6).double(), GatedFeedForward(4, 6).double()
    hidden = (x @ plain.inner.weight.T + plain.inner.bias).clamp(min=0)
    assert torch.allclose(plain(x), hidden @ plain.outer.weight.T + plain.outer.bias)
    gate = x @ gated.gate.weight.T
    hidden = gate * torch.sigmoid(gate) * (x @ gated.up.weight.T)
    assert torch.allclose(gated(x), hidden @ gated.down.weight.T)
    assert not [name for name, _ in gated.named_parameters() if "bias" in name]


def test_a_post_ln_layer_is_torchs_with_the_same_weights():
    layer = standard_layer(SIZE, post_norm(SIZE.width)).double()
    theirs = nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=False).double()
    _copy_layer(layer, theirs)
    x = drawn(2, 5, 16)
    assert torch.allclose(layer(x, CONTEXT), theirs(x), atol=1e-12)


def test_a_pre_ln_layer_is_torchs_with_the_same_weights():
    layer = standard_layer(SIZE, pre_norm(SIZE.width)).double()
    theirs = nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=True).double()
    _copy_layer(layer, theirs)
    x, valid = drawn(2, 5, 16), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    context = Context(HERE, HERE, Mask(valid, causal=True))
    found = theirs(x, ~causal_pairs(5, 5, x.device)[0, 0], src_key_padding_mask=~valid)
    assert torch.allclose(layer(x, context), found, atol=1e-12)


def _copy_layer(ours, theirs):
    attention, forward = ours.sublayers
    maps = attention.sublayer.projections
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([m.weight for m in (maps.query, maps.key, maps.value)]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([m.bias for m in (maps.query, maps.key, maps.value)]))
    theirs.self_attn.out_proj.load_state_dict(maps.output.state_dict())
    theirs.linear1.load_state_dict(forward.sublayer.inner.state_dict())
    theirs.linear2.load_state_dict(forward.sublayer.outer.state_dict())
    theirs.norm1.load_state_dict(attention.norm.state_dict())
    theirs.norm2.load_state_dict(forward.norm.state_dict())


def test_with_all_sublayers_zero_both_placements_give_the_norm_of_the_embedding():
    for build in (pre_ln_encoder, post_ln_encoder):
        model = build(SIZE).double()
        for layer in model.stack.layers:
            for residual in layer.sublayers:
                last = residual.sublayer.projections.output if hasattr(residual.sublayer, "heads") else None
                last = residual.sublayer.outer if last is None else last
                nn.init.zeros_(last.weight), nn.init.zeros_(last.bias)
        tokens = ids(2, 5)
        x = model.embedding(tokens, HERE)
        expected = F.layer_norm(x, (16,))
        assert torch.allclose(model.stack(x, CONTEXT), expected, atol=1e-4)  # idempotent up to the norm's own epsilon


def test_patches_are_pixel_major_and_come_back():
    images = torch.arange(2 * 3 * 4 * 6.0).reshape(2, 3, 4, 6)
    tokens = patches(images, 2)
    assert tokens.shape == (2, 6, 12)
    assert torch.equal(tokens[1, 4, :3], images[1, :, 2, 2])  # second row of patches, second patch, first pixel
    assert torch.equal(tokens[1, 4, 3:6], images[1, :, 2, 3])
    assert torch.equal(unpatch(tokens, (2, 3), 2), images)
    with pytest.raises(ValueError, match="tiled by patches of side 4"):
        patches(images, 4)
    with pytest.raises(ValueError, match="do not tile"):
        PatchEmbedding((3, 4, 6), 4, 8)
    with pytest.raises(ValueError, match=r"\[3, 8, 8\] were announced, got \[1, 8, 8\]"):
        vit(SIZE, (3, 8, 8), 4, 5)(torch.rand(2, 1, 8, 8))


def test_images_are_normalised_inside():
    embedding = PatchEmbedding((1, 2, 2), 2, 4, mean=[0.25], deviation=[0.5])
    x = torch.rand(1, 1, 2, 2)
    assert torch.allclose(embedding(x), embedding.project(((x - 0.25) / 0.5).flatten()[None, None]))


def test_the_mean_of_tokens_skips_padding_and_is_zero_without_any():
    x = drawn(2, 3, 4)
    valid = torch.tensor([[True, True, False], [False] * 3])
    found = MeanOfTokens()(x, valid)
    assert torch.allclose(found[0], x[0, :2].mean(0))
    assert torch.equal(found[1], torch.zeros(4).double())
    assert torch.allclose(MeanOfTokens()(x), x.mean(1))


def test_wrong_tokens_and_masks_are_refused():
    model = pre_ln_encoder(SIZE)
    with pytest.raises(TypeError, match=r"tokens\.long"):
        model(torch.rand(2, 5))
    with pytest.raises(ValueError, match=r"shape \[B, L\]"):
        TokenEmbedding(5, 4)(torch.zeros(2, 3, 4, dtype=torch.long), HERE)
    with pytest.raises(TypeError, match="boolean"):
        model(ids(2, 5), torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"\[2, 5\]"):
        model(ids(2, 5), torch.ones(5, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="12 rows, got a sequence of 13"):
        model(ids(2, 13))
    with pytest.raises(ValueError, match="multiple of the number of heads"):
        pre_ln_encoder(SIZE._replace(heads=3))


def test_a_padding_id_does_what_an_explicit_mask_does():
    torch.manual_seed(0)
    model = pre_ln_encoder(SIZE)
    tokens = torch.tensor([[1, 2, 3, 0, 0]])
    expected = model(tokens, tokens != 0)
    model.pad = 0
    assert torch.equal(model(tokens), expected)
    assert not torch.equal(expected, model(tokens, torch.ones_like(tokens, dtype=torch.bool)))


def test_reading_past_the_table_through_a_cache_is_refused_too():
    model, cache = pre_ln_decoder(SIZE), Cache()
    model(ids(1, 12), cache=cache)
    with pytest.raises(ValueError, match="12 rows, got a sequence of 13"):
        model(ids(1, 1), cache=cache)


def test_a_cache_remembers_which_tokens_were_padding():
    torch.manual_seed(0)
    model, tokens = pre_ln_decoder(SIZE), ids(2, 6)
    valid = torch.tensor([[True] * 6, [False, True, True, True, True, True]])
    cache = Cache()
    pieces = [model(tokens[:, :4], valid[:, :4], cache=cache), model(tokens[:, 4:], cache=cache)]
    assert torch.allclose(torch.cat(pieces, 1), model(tokens, valid), atol=1e-5)


@pytest.mark.parametrize("build", [transformer, t5])
def test_a_translation_is_written_by_a_bound_memory(build):
    torch.manual_seed(0)
    model = build(SIZE).eval()
    source, start = ids(2, 6), torch.zeros(2, 1, dtype=torch.long)
    memory = model.encoder(source)
    written = generate(functools.partial(model.decoder, memory=memory), start, 4)
    text = start
    for _ in range(4):
        text = torch.cat((text, model(source, text)[:, -1:].argmax(-1)), 1)
    assert torch.equal(written, text)


def test_a_row_that_stopped_stays_stopped_and_all_stopped_ends():
    def decoder(tokens, cache):
        following = torch.where(tokens[:, -1] == 3, 3, tokens[:, -1] + 1)
        return F.one_hot(following, 5).float()[:, None]

    text = generate(decoder, torch.tensor([[0], [2]]), 10, stop=3)
    assert text.tolist() == [[0, 1, 2, 3], [2, 3, 3, 3]]
    with pytest.raises(ValueError, match="at least 1"):
        generate(decoder, torch.zeros(1, 0, dtype=torch.long), 1)


def test_samples_follow_the_distribution_and_the_generator():
    logits = torch.tensor([[0.0, math.log(3.0), math.log(6.0)]]).expand(20000, 3)
    draws = Sample(torch.Generator().manual_seed(0))(logits)
    assert torch.equal(draws, Sample(torch.Generator().manual_seed(0))(logits))
    share = draws.bincount(minlength=3) / 20000
    assert torch.allclose(share, torch.tensor([0.1, 0.3, 0.6]), atol=0.015)  # four standard errors
    cut = Sample(torch.Generator().manual_seed(0), top_k=2)(logits).bincount(minlength=3)
    assert cut[0] == 0
    assert cut[1] / 20000 == pytest.approx(1 / 3, abs=0.015)
    cold = Sample(torch.Generator().manual_seed(0), temperature=1e-4)(logits)
    assert torch.equal(cold, greedy(logits))
    with pytest.raises(ValueError, match="choose `greedy`"):
        Sample(torch.Generator(), temperature=0.0)
    with pytest.raises(ValueError, match="top_k = 0"):
        Sample(torch.Generator(), top_k=0)


def test_initial_weights_have_the_deviation_asked_for_and_come_from_the_generator():
    model = pre_ln_encoder(Size(width=64, inner=256, vocabulary=500))
    initialise_normal(model, torch.Generator().manual_seed(0), 0.05)
    first = model.head.weight.clone()
    assert first.std().item() == pytest.approx(0.05, rel=0.02)
    assert all(not m.bias.any() for m in model.modules() if isinstance(m, nn.Linear))
    initialise_normal(model, torch.Generator().manual_seed(0), 0.05)
    assert torch.equal(first, model.head.weight)
    initialise_xavier(model, torch.Generator().manual_seed(0))
    assert model.head.weight.abs().max() <= math.sqrt(6 / 564)
    assert model.embedding.table.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_a_bias_is_computed_once_for_all_layers():
    model = t5(SIZE)
    calls = []
    for side in (model.encoder, model.decoder):
        side.stack.bias.register_forward_hook(lambda *_: calls.append(1))
    model(ids(2, 5), ids(2, 4))
    assert len(calls) == 2


def test_half_precision_under_autocast_takes_biases_along():
    model = t5(SIZE).eval()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(ids(2, 5), ids(2, 4))
    assert torch.isfinite(out).all()
    assert torch.allclose(out.float(), model(ids(2, 5), ids(2, 4)), atol=0.2)
