"""What holds for every preset: causality, padding, batch, device, resumed decoding, gradients, exact repetition."""

import functools

import pytest
import torch

from transformers_core.attention.lazy import keep_scores
from transformers_core.cache import Cache
from transformers_core.generation import generate
from transformers_core.positions.bilevel import Segmenter
from transformers_core.presets.bipe import bipe_alibi, bipe_rope
from transformers_core.presets.convolutional_vit import convolutional_vit
from transformers_core.presets.kernelized import kernelized_decoder, kernelized_encoder, kernelized_vit
from transformers_core.presets.lazyformer import lazy_decoder, lazy_encoder
from transformers_core.presets.macaron import macaron_decoder, macaron_encoder, macaron_translator
from transformers_core.presets.relative import alibi_decoder, rotary_decoder, t5
from transformers_core.presets.size import Size
from transformers_core.presets.standard import post_ln_encoder, pre_ln_decoder, pre_ln_encoder, transformer, vit
from transformers_core.presets.tupe import tupe_a, tupe_r

SIZE = Size(vocabulary=11, width=16, heads=4, inner=24, layers=2, max_length=12)
ENCODERS = {
    "post_ln_encoder": post_ln_encoder,
    "pre_ln_encoder": pre_ln_encoder,
    "macaron_encoder": macaron_encoder,
    "tupe_a": tupe_a,
    "tupe_r": tupe_r,
    "lazy_encoder": lazy_encoder,
    "lazy_encoder_scores": functools.partial(lazy_encoder, keep=keep_scores),
    "kernelized_encoder": lambda size: kernelized_encoder(size, torch.Generator().manual_seed(0)),
}
DECODERS = {
    "pre_ln_decoder": pre_ln_decoder,
    "alibi_decoder": alibi_decoder,
    "rotary_decoder": rotary_decoder,
    "macaron_decoder": macaron_decoder,
    "bipe_rope": lambda size: bipe_rope(size, Segmenter([3, 5], size.max_length)),
    "bipe_alibi": lambda size: bipe_alibi(size, Segmenter([3, 5], size.max_length)),
    "lazy_decoder": lazy_decoder,
    "kernelized_decoder": lambda size: kernelized_decoder(size, torch.Generator().manual_seed(0)),
}
TRANSLATORS = {"transformer": transformer, "t5": t5, "macaron_translator": macaron_translator}
IMAGES = {
    "vit": functools.partial(vit, image=(3, 8, 8), side=4, num_classes=5),
    "convolutional_vit": functools.partial(convolutional_vit, image=(3, 8, 8), side=4, num_classes=5),
    "kernelized_vit": lambda size: kernelized_vit(size, (3, 8, 8), 4, 5, torch.Generator().manual_seed(0)),
}
TOLERANCE = {"kernelized_decoder": 1e-5}
"""Presets that multiply by FFT see the rounding of other tokens, here in float64."""
CACHED = [name for name in DECODERS if name != "kernelized_decoder"]
"""The FFT form has no cache: it is for training."""

TEXT = {**ENCODERS, **DECODERS}
ALL = {**TEXT, **TRANSLATORS, **IMAGES}


def ids(*shape, seed=0):
    return torch.randint(0, SIZE.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def built(name):
    torch.manual_seed(0)
    return ALL[name](SIZE).eval()


def inputs(name, batch=3, length=7):
    if name in IMAGES:
        return (torch.rand(batch, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)
    if name in TRANSLATORS:
        return ids(batch, length + 2, seed=1), ids(batch, length)
    return (ids(batch, length),)


def close(name, first, second):
    return torch.allclose(first, second, atol=max(2e-5, TOLERANCE.get(name, 0.0)))


@pytest.mark.parametrize("name", {**DECODERS, **TRANSLATORS})
def test_an_output_does_not_change_when_later_tokens_do(name):
    model = built(name)
    *source, tokens = inputs(name)
    later = tokens.clone()
    later[:, 4:] = (later[:, 4:] + 1) % SIZE.vocabulary
    with torch.no_grad():
        before, after = model(*source, tokens), model(*source, later)
    if name in TOLERANCE:
        assert torch.allclose(before[:, :4], after[:, :4], atol=TOLERANCE[name])
    else:
        assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-2)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_output_of_an_encoder_changes_when_any_token_does(name):
    model, tokens = built(name), ids(1, 7)
    other = tokens.clone()
    other[:, 3] = (other[:, 3] + 1) % SIZE.vocabulary
    assert ((model(tokens) - model(other)).abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("name", TEXT)
def test_padding_changes_nothing(name):
    model, tokens = built(name), ids(2, 6)
    padded = torch.cat((tokens, ids(2, 3, seed=5)), 1)
    valid = torch.arange(9).expand(2, 9) < 6
    assert close(name, model(padded, valid)[:, :6], model(tokens))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_padding_of_the_source_changes_nothing(name):
    model = built(name)
    source, target = inputs(name)
    padded = torch.cat((source, ids(3, 2, seed=5)), 1)
    valid = torch.arange(11).expand(3, 11) < 9
    assert close(name, model(padded, target, valid), model(source, target))


@pytest.mark.parametrize("name", TEXT)
def test_a_sequence_of_nothing_but_padding_is_finite(name):
    model, tokens = built(name), ids(2, 5)
    valid = torch.tensor([[False] * 5, [True] * 5])
    out = model(tokens, valid)
    assert torch.isfinite(out).all()
    out.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ALL)
def test_a_row_of_a_batch_is_what_it_is_alone(name):
    model, given = built(name), inputs(name)
    together = model(*given)
    for row in range(3):
        assert close(name, model(*(x[row : row + 1] for x in given))[0], together[row])


@pytest.mark.parametrize("name", ALL)
def test_the_same_call_twice_gives_the_same_bits_and_every_parameter_learns(name):
    model, given = built(name), inputs(name)
    assert torch.equal(model(*given), model(*given))
    model.train()
    model(*given).square().sum().backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None]


@pytest.mark.parametrize("name", ALL)
def test_outputs_are_logits_and_the_dtype_follows_the_weights(name):
    model, given = built(name).double(), inputs(name)
    given = tuple(x.double() if x.is_floating_point() else x for x in given)
    out = model(*given)
    assert out.dtype == torch.float64
    assert out.shape == ((3, 5) if name in IMAGES else (3, given[-1].shape[1], SIZE.vocabulary))


@pytest.mark.parametrize("name", ALL)
def test_a_device_changes_nothing(name, device):
    model, given = built(name), inputs(name)
    expected = model(*given)
    assert torch.allclose(model.to(device)(*(x.to(device) for x in given)).cpu(), expected, atol=1e-4)


@pytest.mark.parametrize("name", CACHED)
def test_reading_token_by_token_from_a_cache_is_reading_at_once(name):
    model, tokens = built(name), ids(2, 8)
    cache = Cache()
    with torch.no_grad():
        pieces = [model(tokens[:, a:b], cache=cache) for a, b in ((0, 3), (3, 4), (4, 8))]
        assert torch.allclose(torch.cat(pieces, 1), model(tokens), atol=1e-5)
    assert cache.length == 8


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translating_token_by_token_from_a_cache_is_translating_at_once(name):
    model = built(name)
    source, target = inputs(name)
    memory, cache = model.encoder(source), Cache()
    pieces = [model.decoder(target[:, t : t + 1], memory=memory, cache=cache) for t in range(target.shape[1])]
    assert torch.allclose(torch.cat(pieces, 1), model(source, target), atol=1e-5)


@pytest.mark.parametrize("name", CACHED)
def test_greedy_text_is_the_argmax_of_the_whole_prefix_each_time(name):
    model, text = built(name), ids(2, 3)
    written = generate(model, text, 4)
    for _ in range(4):
        text = torch.cat((text, model(text)[:, -1:].argmax(-1)), 1)
    assert torch.equal(written, text)


@pytest.mark.parametrize("name", ALL)
def test_weights_carry_the_whole_model(name):
    model, given = built(name), inputs(name)
    torch.manual_seed(1)
    other = ALL[name](SIZE).eval()
    assert not torch.equal(other(*given), model(*given))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(*given), model(*given))
