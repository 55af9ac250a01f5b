"""Projection and synapses: trace side = weight side = the formula, and nothing but the weight gradient changes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neuro_oracles import orthonormal, orthonormality_error
from torch.nn.functional import linear

from neuro import Linear
from neuro.lateral import Projector, projected_weight_gradient
from neuro.lateral.projection import complement, smaller_projector

TOLERANCES = [(torch.float64, 1e-12), (torch.float32, 1e-5)]


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def both_kinds(basis):
    """The same projector held as what is protected and as what is free."""
    return [Projector(basis), Projector(complement(basis), free=True)]


@pytest.mark.parametrize("rank", [1, 4, 9])
@pytest.mark.parametrize("num_rows", [3, 8, 40], ids=["R<out", "R=out", "R>out"])
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_trace_side_is_weight_side_is_the_formula(dtype, tolerance, num_rows, rank):
    basis = orthonormal(rank, 10, dtype=dtype)
    errors, rows = drawn(num_rows, 8, dtype=dtype), drawn(num_rows, 10, seed=1, dtype=dtype)
    gradient = errors.mT.double() @ rows.double()
    formula = gradient - gradient @ basis.double().mT @ basis.double()
    scale = float(gradient.abs().max())
    for projector in both_kinds(basis):
        sides = [
            projector(errors.mT @ rows),
            errors.mT @ projector(rows),
            projected_weight_gradient(errors, rows, projector),
        ]
        for side in sides:
            assert side.dtype == dtype
            assert float((side.double() - formula).abs().max()) < tolerance * scale


@pytest.mark.parametrize(("num_rows", "on_rows"), [(3, True), (8, False), (40, False)])
def test_the_side_with_fewer_rows_is_projected(num_rows, on_rows):
    seen = []

    class Watching(Projector):
        def __call__(self, rows):
            seen.append(rows.shape)
            return super().__call__(rows)

    projected_weight_gradient(drawn(num_rows, 8), drawn(num_rows, 10), Watching(orthonormal(2, 10)))
    assert seen == [(num_rows, 10) if on_rows else (8, 10)]


@given(width=st.integers(1, 14), data=st.data(), seed=st.integers(0, 1000))
def test_a_projector_is_idempotent_and_never_lengthens_a_row(width, data, seed):
    rank = data.draw(st.integers(0, width))
    basis, rows = orthonormal(rank, width, seed), drawn(6, width, seed=seed + 1)
    for projector in both_kinds(basis):
        once = projector(rows)
        torch.testing.assert_close(projector(once), once, rtol=1e-12, atol=1e-12)
        assert (once.norm(dim=1) <= rows.norm(dim=1) * (1 + 1e-12)).all()
        assert float((once @ basis.mT).abs().max() if rank else 0.0) < 1e-12
        torch.testing.assert_close(projector(rows @ basis.mT @ basis), torch.zeros_like(rows), rtol=0, atol=1e-12)


@given(width=st.integers(1, 14), data=st.data(), seed=st.integers(0, 1000))
def test_a_complement_is_orthonormal_and_fills_the_space(width, data, seed):
    basis = orthonormal(data.draw(st.integers(0, width)), width, seed)
    free = complement(basis)
    assert free.shape == (width - len(basis), width)
    assert orthonormality_error(torch.cat([basis, free])) < 1e-12


@pytest.mark.parametrize(("rank", "free", "held"), [(1, False, 1), (5, False, 5), (6, True, 4), (10, True, 0)])
def test_the_smaller_of_basis_and_complement_is_held(rank, free, held):
    projector = smaller_projector(orthonormal(rank, 10))
    assert projector.free is free
    assert projector.directions.shape == (held, 10)
    assert projector.multiply_accumulates(7) == 2 * 7 * held * 10


def test_a_full_subspace_lets_through_exact_zeros():
    projector = smaller_projector(orthonormal(10, 10, dtype=torch.float32))
    errors, rows = drawn(4, 8, dtype=torch.float32), drawn(4, 10, dtype=torch.float32) * 1e6
    assert torch.equal(projected_weight_gradient(errors, rows, projector), torch.zeros(8, 10))


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_a_bfloat16_gradient_is_projected_in_the_directions_precision(precision):
    basis, rows = orthonormal(3, 10, dtype=precision), drawn(6, 10, dtype=torch.bfloat16)
    projected = smaller_projector(basis)(rows)
    exact = rows.double() - rows.double() @ basis.double().mT @ basis.double()
    assert projected.dtype == torch.bfloat16
    torch.testing.assert_close(projected.double(), exact, rtol=2**-8, atol=1e-6)


def test_a_double_precision_gradient_keeps_its_precision_under_single_precision_directions():
    """Rounding a weight update to float32 would move weights by what the projector was never asked to touch."""
    basis, rows = torch.eye(4)[:1], drawn(6, 4)
    expected = rows.clone()
    expected[:, 0] = 0
    torch.testing.assert_close(smaller_projector(basis)(rows), expected, rtol=1e-14, atol=1e-14)


def gradients(layer, inputs, projector):
    layer.zero_grad()
    layer.projectors = [projector]
    inputs = inputs.clone().requires_grad_()
    outputs = layer(inputs)
    outputs.square().sum().backward()
    layer.projectors = None
    bias = None if layer.bias is None else layer.bias.grad.clone()
    return outputs.detach(), inputs.grad, layer.weight.grad.clone(), bias


@pytest.mark.parametrize("shape", [(3, 10), (40, 10), (2, 3, 10), (5, 4, 3, 10)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_projector_changes_the_weight_gradient_and_nothing_else(bias, shape):
    torch.manual_seed(0)
    layer, inputs, basis = Linear(10, 8, bias=bias), drawn(*shape, dtype=torch.float32), orthonormal(4, 10)
    free = gradients(layer, inputs, None)
    held = gradients(layer, inputs, Projector(basis.float()))
    assert torch.equal(free[0], held[0])
    assert torch.equal(free[1], held[1])
    if bias:
        assert torch.equal(free[3], held[3])
    assert not torch.allclose(free[2], held[2])
    expected = free[2].double() - free[2].double() @ basis.mT @ basis
    torch.testing.assert_close(held[2].double(), expected, rtol=1e-5, atol=1e-5 * float(free[2].abs().max()))


def test_a_single_unbatched_row_can_be_learned_from_too():
    layer, row, basis = Linear(4, 3, dtype=torch.float64), drawn(4), orthonormal(1, 4)
    layer.projectors = [Projector(basis)]
    layer(row).sum().backward()
    expected = torch.ones(3, 1, dtype=torch.float64) @ row[None]
    torch.testing.assert_close(layer.weight.grad, expected - expected @ basis.mT @ basis)


def test_a_protected_layer_trains_under_autocast_as_an_unprotected_one_does():
    torch.manual_seed(0)
    layer, rows = Linear(10, 8), drawn(6, 10, dtype=torch.float32)
    taken = []
    for projector in (None, Projector(torch.eye(10)[:4])):
        layer.projectors, inputs = [projector], rows.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = layer(inputs)
        layer.zero_grad()
        outputs.float().square().sum().backward()
        taken.append((outputs.detach(), inputs.grad, layer.weight.grad))
    (free_outputs, free_inputs, free_weight), (outputs, inputs, weight) = taken
    assert torch.equal(outputs, free_outputs)
    torch.testing.assert_close(inputs, free_inputs, rtol=2**-6, atol=1e-2)
    assert weight.dtype == free_weight.dtype == torch.float32
    assert float(weight[:, :4].abs().max()) < 1e-2 * float(free_weight.abs().max())
    torch.testing.assert_close(
        weight[:, 4:], free_weight[:, 4:], rtol=2**-6, atol=2**-6 * float(free_weight.abs().max())
    )


def test_the_gradient_through_a_protected_layer_passes_gradcheck_on_its_input():
    layer = Linear(5, 3, bias=True, dtype=torch.float64)
    layer.projectors = [Projector(orthonormal(2, 5))]
    assert torch.autograd.gradcheck(lambda rows: layer(rows), (drawn(4, 5).requires_grad_(),))


def test_without_a_projector_it_is_torchs_linear():
    layer, inputs = Linear(5, 3, bias=True), torch.rand(4, 5)
    assert torch.equal(layer(inputs), linear(inputs, layer.weight, layer.bias))
    assert layer.take_projected_rows() == 0


def test_projected_rows_are_counted_on_the_smaller_side_once_and_only_while_learning():
    layer = Linear(10, 8)
    layer.projectors = [Projector(torch.eye(10)[:2])]
    layer(torch.rand(3, 10))
    layer(torch.rand(5, 4, 10))
    with torch.no_grad():
        layer(torch.rand(3, 10))
    assert layer.take_projected_rows() == 3 + 8
    assert layer.take_projected_rows() == 0
