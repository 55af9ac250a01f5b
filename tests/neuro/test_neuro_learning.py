"""The three ways to learn a subspace: the inherited contract, their arguments, their counts, and real pixels."""

import numpy as np
import pytest
import torch
from contracts.learning import LearningContract
from neuro_oracles import largest_angle, orthonormal, orthonormality_error

from continual.data.mnist5k import mnist5k
from neuro.lateral import Eigen, Hebbian, HebbianAccumulated
from neuro.lateral.hebbian import HebbianState, deflate, hebbian_update, orthonormalise, random_block


class TestEigen(LearningContract):
    energy_error, angle, missed = 1e-4, 0.01, 1e-5

    def make(self):
        return Eigen()


class TestHebbianAccumulated(LearningContract):
    energy_error, angle, missed = 1e-4, 1.0, 1e-3

    def make(self):
        return HebbianAccumulated()


class TestHebbian(LearningContract):
    """It needs many more updates to leave its saddles; its energies are a moving average over some twenty batches."""

    energy_error, angle, missed, batches = 0.25, 2.0, 1e-2, 200

    def make(self):
        return Hebbian(iterations=5)


@pytest.fixture(scope="module")
def pixels():
    images = mnist5k().train.inputs.reshape(-1, 784)
    return torch.from_numpy(images.astype(np.float32) / 255)


def learned_from(learning, pixels, num_rows):
    batches = pixels.split(256)
    state = learning.begin(num_rows, torch.zeros(0, 784), len(batches), torch.Generator().manual_seed(0))
    for batch in batches:
        state = learning.observe(state, batch)
    return learning.finish(state)


def test_on_real_digits_the_accumulated_rule_captures_what_the_eigenspace_does_and_the_online_rule_nearly(pixels):
    captured = {}
    for learning in (Eigen(), HebbianAccumulated(), Hebbian(iterations=5)):
        rows = learned_from(learning, pixels, 80).rows
        assert orthonormality_error(rows) < 1e-5
        captured[learning.name] = float((pixels @ rows.mT).square().sum() / pixels.square().sum())
    assert 0.8 < captured["eigen"] < 1
    assert 0.99 * captured["eigen"] <= captured["hebbian_accumulated"] <= captured["eigen"] + 1e-6
    assert 0.8 * captured["eigen"] <= captured["hebbian"] <= captured["eigen"] + 1e-6


def test_on_real_digits_eigens_energies_are_those_of_a_plain_eigendecomposition(pixels):
    learned = learned_from(Eigen(), pixels, 40)
    values = np.linalg.eigvalsh((pixels.double().mT @ pixels.double() / len(pixels)).numpy())[::-1][:40]
    np.testing.assert_allclose(learned.energies.numpy(), values, rtol=1e-4)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_not_above_zero_is_refused(rate):
    with pytest.raises(ValueError, match=f"rate must be above 0, got {rate}"):
        Hebbian(rate=rate)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_a_momentum_outside_its_range_is_refused(momentum):
    with pytest.raises(ValueError, match=rf"momentum must be in \[0, 1\), got {momentum}"):
        Hebbian(momentum=momentum)


@pytest.mark.parametrize("learning", [Hebbian, HebbianAccumulated])
def test_no_iteration_is_refused(learning):
    with pytest.raises(ValueError, match="iterations must be at least 1, got 0"):
        learning(iterations=0)


def test_operations_are_the_products_counted_by_hand():
    # R = 10 rows of width n = 6, k = 2 new beside 3 frozen. Online, per iteration: y and x̂ for all five, D for two.
    assert Hebbian(iterations=4).multiply_accumulates(10, 2, 3, 6) == 4 * (10 * 6 * (2 * 5 + 2))
    # C once; then H C [2·6·6], y by old rows and back [2 · 2·3·6], H C Hᵀ and times H [2 · 2·2·6]
    assert HebbianAccumulated(iterations=4).multiply_accumulates(10, 2, 3, 6) == 360 + 4 * (72 + 72 + 48)
    # C; two deflations of an n × n matrix by 3 rows; the eigenproblem
    assert Eigen().multiply_accumulates(10, 2, 3, 6) == 360 + 2 * (2 * 3 * 36) + 9 * 216


def test_the_three_labels_differ():
    assert {Eigen().name, Hebbian().name, HebbianAccumulated().name} == {"eigen", "hebbian", "hebbian_accumulated"}


def test_deflation_is_the_formula():
    frozen, rows = orthonormal(3, 8), torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(deflate(rows, frozen), rows @ (torch.eye(8, dtype=torch.float64) - frozen.mT @ frozen))


def test_orthonormalising_keeps_the_span_and_the_sense_of_rows():
    frozen = orthonormal(2, 9, seed=1)
    rows = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    straight = orthonormalise(rows, frozen)
    assert orthonormality_error(torch.cat([frozen, straight])) < 1e-12
    assert largest_angle(deflate(rows, frozen), straight) < 1e-5
    already = orthonormal(4, 9)
    torch.testing.assert_close(orthonormalise(already, already[:0]), already)


def test_rows_that_lie_in_the_frozen_span_but_for_rounding_still_come_out_orthonormal():
    frozen = orthonormal(3, 9, dtype=torch.float32)
    rows = frozen[:2] + 1e-6 * torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    assert orthonormality_error(torch.cat([frozen, orthonormalise(rows, frozen)])) < 1e-6


def test_a_random_block_is_orthonormal_beside_the_frozen_rows_and_repeats():
    frozen = orthonormal(5, 12, dtype=torch.float32)
    blocks = [random_block(7, frozen, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert orthonormality_error(torch.cat([frozen, blocks[0]])) < 1e-6
    assert torch.equal(*blocks)


def test_one_update_is_the_rule_by_hand():
    inputs = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frozen, rows = orthonormal(2, 6, seed=1), orthonormal(3, 6, seed=2) * 0.9
    momentum = torch.full((3, 6), 0.1, dtype=torch.float64)
    state = hebbian_update(HebbianState(frozen, rows, momentum, torch.zeros((), dtype=torch.float64)), inputs, 0.3, 0.8)
    every = torch.cat([frozen, rows])
    direction = torch.zeros(3, 6, dtype=torch.float64)
    for x in inputs:
        y = every @ x
        direction += torch.outer(y[2:], x - every.T @ y) / len(inputs)
    largest = max(float((inputs @ row).square().mean()) for row in rows)
    average = 0.8 * momentum + 0.2 * direction / largest
    torch.testing.assert_close(state.momentum, average, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(state.rows, rows + 0.3 * average, rtol=1e-12, atol=1e-14)
    assert float(state.energy) == pytest.approx(largest, rel=1e-12)
    assert state.frozen is frozen
