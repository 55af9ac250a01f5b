"""Kernelised attention by FFT equals the matrix written out, and the softmax as features grow."""

import math

import pytest
import torch

from transformers_core.attention.features import (
    PositiveRandomFeatures,
    gaussian_directions,
    orthogonal_directions,
)
from transformers_core.attention.kernel import EagerKernel, Scores
from transformers_core.attention.kernelized import DirectFeatureKernel, ToeplitzKernel
from transformers_core.attention.toeplitz import fast_length, toeplitz_product
from transformers_core.masks import Mask
from transformers_core.offsets import Offsets
from transformers_core.positions.rotary import UnitLength
from transformers_core.types import consecutive

GRIDS = [(37,), (5, 4), (1,), (1, 6)]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def table(grid, heads=2, spread=1.0, dtype=torch.float64):
    return Offsets(spread * drawn(heads, *(2 * n - 1 for n in grid), seed=4, dtype=dtype))


def given(grid, mask=Mask(), dtype=torch.float64, **options):  # noqa: B008
    length, here = math.prod(grid), consecutive(math.prod(grid), torch.device("cpu"))
    query, key = (UnitLength()(drawn(2, 2, length, 6, seed=s, dtype=dtype), here) for s in (1, 2))
    return Scores(query, key, 1.0, table(grid, dtype=dtype, **options), mask), drawn(
        2, 2, length, 6, seed=3, dtype=dtype
    )


def features(dtype=torch.float64, count=16, seed=7):
    return PositiveRandomFeatures(gaussian_directions(count, 6, generator(seed)).to(dtype))


@pytest.mark.parametrize("grid", GRIDS)
def test_a_toeplitz_product_is_the_matrix_product(grid):
    x, weights = drawn(2, 2, math.prod(grid), 3), table(grid)
    assert torch.allclose(toeplitz_product(weights, x), weights.dense() @ x, atol=1e-12)


def test_circles_are_products_of_small_primes():
    assert [fast_length(n) for n in (1, 7, 11, 13, 73, 121)] == [1, 8, 12, 15, 75, 125]


def test_half_precision_is_refused_by_the_product_and_computed_in_single_by_the_kernel():
    weights, x = table((5,), dtype=torch.float16), drawn(1, 2, 5, 3, dtype=torch.float16)
    with pytest.raises(TypeError, match=r"pass dtype=torch\.float32"):
        toeplitz_product(weights, x)
    assert toeplitz_product(weights, x, torch.float32).dtype == torch.float16
    scores, value = given((9,), dtype=torch.float16)
    mixed = ToeplitzKernel(features(torch.float32))(scores, value)
    single = Scores(scores.query.float(), scores.key.float(), 1.0, Offsets(scores.bias.values.float()))
    assert mixed.dtype == torch.float16
    assert torch.allclose(mixed.float(), ToeplitzKernel(features(torch.float32))(single, value.float()), atol=2e-3)


@pytest.mark.parametrize("grid", GRIDS)
def test_without_a_mask_fft_is_the_matrix_in_single_and_double_precision(grid):
    scores, value = given(grid)
    assert torch.allclose(
        ToeplitzKernel(features())(scores, value), DirectFeatureKernel(features())(scores, value), atol=1e-12
    )
    scores, value = given(grid, dtype=torch.float32)
    direct = DirectFeatureKernel(features(torch.float32))(scores, value)
    assert torch.allclose(ToeplitzKernel(features(torch.float32))(scores, value), direct, atol=1e-5)


def test_causal_fft_is_the_matrix_to_the_bounds_each_precision_has():
    mask = Mask(causal=True)
    scores, value = given((64,), mask)
    exact = DirectFeatureKernel(features())(scores, value)
    assert torch.allclose(ToeplitzKernel(features())(scores, value), exact, atol=1e-12)
    scores, value = given((64,), mask, torch.float32)
    direct = DirectFeatureKernel(features(torch.float32))(scores, value)
    assert torch.allclose(ToeplitzKernel(features(torch.float32))(scores, value), direct, atol=1e-3)
    double = ToeplitzKernel(features(torch.float32), dtype=torch.float64)(scores, value)
    assert torch.allclose(double, direct, atol=1e-5)


def test_steep_tables_need_double_precision_and_get_it():
    scores, value = given((64,), spread=10.0)
    exact = DirectFeatureKernel(features())(scores, value)
    assert torch.allclose(ToeplitzKernel(features())(scores, value), exact, atol=1e-10)


@pytest.mark.parametrize("chunk", [1, 5, 16])
def test_chunks_of_features_change_nothing(chunk):
    scores, value = given((21,))
    whole = ToeplitzKernel(features())(scores, value)
    assert torch.allclose(ToeplitzKernel(features(), chunk=chunk)(scores, value), whole, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_and_dead_rows_are_as_in_the_matrix(causal):
    valid = torch.tensor([[False, False, True, True, True, False], [False] * 6])
    scores, value = given((6,), Mask(valid, causal))
    direct, fast = (kernel(scores, value) for kernel in (DirectFeatureKernel(features()), ToeplitzKernel(features())))
    assert torch.allclose(direct, fast, atol=1e-12)
    assert torch.equal(fast[1], torch.zeros_like(fast[1]))
    if causal:
        assert torch.equal(fast[0, :, :2], torch.zeros_like(fast[0, :, :2]))
    assert (direct[0, :, 2:] != 0).all()


def test_without_a_bias_it_is_plain_linear_attention():
    scores, value = given((21,))
    query, key = features()(scores.query), features()(scores.key)
    expected = (query @ (key.mT @ value)) / (query @ key.sum(-2)[..., None])
    for bias in (None, Offsets(torch.zeros(2, 41).double())):
        assert torch.allclose(ToeplitzKernel(features())(scores._replace(bias=bias), value), expected, atol=1e-12)


def test_a_constant_added_to_the_bias_changes_nothing_however_large():
    scores, value = given((21,))
    kernel = ToeplitzKernel(features())
    for constant in (3.0, 1000.0):
        moved = scores._replace(bias=Offsets(scores.bias.values + constant))
        assert torch.allclose(kernel(moved, value), kernel(scores, value), atol=1e-6)


def test_causal_rows_ignore_what_comes_later_and_the_first_is_its_own_value():
    scores, value = given((21,), Mask(causal=True))
    kernel = ToeplitzKernel(features())
    mixed = kernel(scores, value)
    assert torch.allclose(mixed[:, :, 0], value[:, :, 0], atol=1e-12)
    other = value.clone()
    other[:, :, 10:] += 5.0
    assert torch.allclose(kernel(scores, other)[:, :, :10], mixed[:, :, :10], atol=1e-12)


def test_gradients_are_those_of_the_matrix():
    found = []
    for make in (DirectFeatureKernel, ToeplitzKernel):
        scores, value = given((11,), Mask(causal=True))
        tensors = [t.clone().requires_grad_() for t in (scores.query, scores.key, scores.bias.values, value)]
        scores = scores._replace(query=tensors[0], key=tensors[1], bias=Offsets(tensors[2]))
        make(features())(scores, tensors[3]).square().sum().backward()
        found.append([t.grad for t in tensors])
    for direct, fast in zip(*found, strict=True):
        assert torch.allclose(direct, fast, atol=1e-11)


def test_products_of_features_are_unbiased_with_the_variance_of_the_formula():
    x, y = torch.tensor([0.3, -0.5, 0.2]).double(), torch.tensor([0.1, 0.4, -0.3]).double()
    phi = PositiveRandomFeatures(gaussian_directions(400_000, 3, generator()).double())
    products = phi(x) * phi(y) * 400_000
    exact, relative = (x @ y).exp(), (x + y).square().sum().exp() - 1
    assert abs(products.mean() / exact - 1) < 4 * (relative / 400_000).sqrt()
    assert products.var() / exact**2 == pytest.approx(relative.item(), rel=0.05)


def test_orthogonal_directions_are_orthogonal_in_blocks_and_normal_each():
    directions = orthogonal_directions(8, 3, generator())
    gram = directions[:3] @ directions[:3].T
    assert torch.allclose(gram, gram.diag().diag(), atol=1e-5)
    assert directions.shape == (8, 3)
    lengths = orthogonal_directions(3000, 3, generator()).square().sum(1)
    assert lengths.mean().item() == pytest.approx(3.0, rel=0.1)


def test_with_more_features_it_approaches_the_softmax_at_the_root_of_their_number():
    scores, value = given((12,), spread=0.5)
    exact = EagerKernel()(scores, value)
    counts, errors = [32, 128, 512, 2048], []
    for count in counts:
        squares = [
            (
                DirectFeatureKernel(PositiveRandomFeatures(gaussian_directions(count, 6, generator(s)).double()))(
                    scores, value
                )
                - exact
            )
            .square()
            .mean()
            for s in range(12)
        ]
        errors.append(torch.stack(squares).mean().sqrt().log().item())
    steps = torch.tensor(counts).log()
    slope = ((steps - steps.mean()) * (torch.tensor(errors) - sum(errors) / 4)).sum() / (
        steps - steps.mean()
    ).square().sum()
    assert slope.item() == pytest.approx(-0.5, abs=0.15)


def test_what_has_no_toeplitz_structure_is_refused():
    scores, value = given((6,))
    kernel = ToeplitzKernel(features())
    with pytest.raises(ValueError, match="use OffsetTable"):
        kernel(scores._replace(bias=scores.bias.dense()[None]), value)
    with pytest.raises(ValueError, match="got a mask of pairs"):
        kernel(scores._replace(mask=Mask(pairs=torch.ones(1, 1, 6, 6, dtype=torch.bool))), value)
    with pytest.raises(ValueError, match="set it to 0"):
        kernel(scores, value, 0.1)
    with pytest.raises(ValueError, match="use no cache"):
        kernel(scores._replace(query=scores.query[:, :, :1]), value)
    with pytest.raises(TypeError, match="dtype of the queries"):
        kernel(scores._replace(bias=Offsets(scores.bias.values.float())), value)
    with pytest.raises(ValueError, match="has no past"):
        kernel(*given((2, 3), Mask(causal=True)))
    with pytest.raises(ValueError, match="serves 6 tokens, got 5"):
        toeplitz_product(table((6,)), drawn(1, 2, 5, 3))
