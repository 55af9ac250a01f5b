"""Acceptance invariants 1 to 6, 22 and 24 of the HLOP specification: the learning rule itself."""

import math

import pytest
import torch
from neuro_oracles import (
    gaussian_rows,
    largest_angle,
    leading_eigenspace,
    orthonormal,
    orthonormality_error,
    rows_with_moment,
)

from neuro.lateral import Eigen, Hebbian, HebbianAccumulated, LateralSubspace
from neuro.lateral.hebbian import HebbianState, accumulated_step, hebbian_direction, hebbian_update, start_block

ONE_SEED_FAST = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
NO_ROWS = torch.zeros(0, 20, dtype=torch.float64)
SPECTRUM = [20.0, 15.0, 10.0, 6.0, *[0.3] * 16]


def full_batch_oja(inputs, frozen, rows, iterations=1000, rate=0.2):
    """The plain rule with one constant rate, η λ_max = 0.2, on the whole data: no momentum, no clamp, no QR."""
    step = rate / float(torch.linalg.eigvalsh(inputs.mT @ inputs / len(inputs))[-1])
    for _ in range(iterations):
        rows = rows + step * hebbian_direction(inputs, frozen, rows)[0]
    return rows


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_01_full_batch_oja_converges_to_the_leading_eigenspace(seed):
    inputs, axes = rows_with_moment(SPECTRUM, seed)
    rows = full_batch_oja(inputs, NO_ROWS, orthonormal(4, 20, seed + 50))
    assert largest_angle(rows, axes[:4]) < 1e-4
    assert orthonormality_error(rows) < 1e-8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_01_the_accumulated_rule_converges_there_too(seed):
    inputs, axes = rows_with_moment(SPECTRUM, seed)
    moment, rows = inputs.mT @ inputs / 20, orthonormal(4, 20, seed + 50)
    for _ in range(30):
        rows = accumulated_step(moment, NO_ROWS, rows)
    assert largest_angle(rows, axes[:4]) < 1e-4
    assert orthonormality_error(rows) < 1e-8


@pytest.mark.parametrize("seed", ONE_SEED_FAST)
def test_invariant_02_a_decayed_rate_converges_on_minibatches(seed):
    axes, generator = orthonormal(20, 20, seed), torch.Generator().manual_seed(seed)
    learning = Hebbian(iterations=1)
    state = learning.begin(4, NO_ROWS, 2000, generator)
    for _ in range(2000):
        state = learning.observe(state, gaussian_rows(64, SPECTRUM, axes, generator))
    assert orthonormality_error(state.block.rows) < 1e-3
    assert largest_angle(learning.finish(state).rows, axes[:4]) < 2


def noise_floor(batch, rate, seed):
    """Mean angle over the last 200 of 400 updates at a constant rate, read every ten."""
    axes, generator = orthonormal(20, 20, seed), torch.Generator().manual_seed(seed)
    state, angles = start_block(4, NO_ROWS, torch.Generator().manual_seed(seed)), []
    for update in range(400):
        state = hebbian_update(state, gaussian_rows(batch, SPECTRUM, axes, generator), rate)
        if update >= 200 and update % 10 == 0:
            angles.append(largest_angle(state.rows, axes[:4]))
    return sum(angles) / len(angles)


@pytest.mark.parametrize("seed", ONE_SEED_FAST)
def test_invariant_03_the_noise_floor_of_a_constant_rate_shrinks_with_batch_and_rate(seed):
    floor = noise_floor(64, 0.5, seed)
    assert noise_floor(1024, 0.5, seed) < floor / 2
    assert noise_floor(64, 0.1, seed) < floor


@pytest.mark.parametrize("learning", [Hebbian(), HebbianAccumulated(), Eigen()], ids=lambda learning: learning.name)
def test_invariant_04_old_rows_are_bit_identical_after_any_number_of_later_updates(learning):
    generator, axes = torch.Generator().manual_seed(0), orthonormal(20, 20)
    subspace = LateralSubspace(20, learning)
    for task in range(3):
        old = subspace.basis.clone()
        subspace.grow(4, 10, generator)
        for _ in range(10):
            subspace.learn(gaussian_rows(64, SPECTRUM[task:] + SPECTRUM[:task], axes, generator).float())
            assert torch.equal(subspace.basis, old)
        subspace.consolidate()
        assert subspace.rank == 4 * (task + 1)
        assert torch.equal(subspace.basis[: len(old)], old)


def overlapping_blocks(seed):
    """Frozen rows that are no eigenvectors of C, and new rows that overlap with them."""
    inputs, _ = rows_with_moment(SPECTRUM, seed)
    frozen, rows = orthonormal(3, 20, seed + 60), orthonormal(4, 20, seed + 70)
    assert float((rows @ frozen.mT).abs().max()) > 0.1
    return inputs, frozen, rows


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_05_new_rows_lose_their_overlap_with_old_ones_full_batch(seed):
    inputs, frozen, rows = overlapping_blocks(seed)
    assert float((full_batch_oja(inputs, frozen, rows) @ frozen.mT).abs().max()) < 1e-8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_05_new_rows_lose_their_overlap_with_old_ones_under_the_accumulated_rule(seed):
    inputs, frozen, rows = overlapping_blocks(seed)
    for _ in range(60):
        rows = accumulated_step(inputs.mT @ inputs / 20, frozen, rows)
    assert float((rows @ frozen.mT).abs().max()) < 1e-8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_05_new_rows_lose_their_overlap_with_old_ones_on_minibatches(seed):
    _, frozen, rows = overlapping_blocks(seed)
    axes, generator = orthonormal(20, 20, seed), torch.Generator().manual_seed(seed)
    state = HebbianState(frozen, rows, torch.zeros_like(rows), torch.zeros((), dtype=torch.float64))
    for _ in range(600):
        state = hebbian_update(state, gaussian_rows(64, SPECTRUM, axes, generator), 0.5)
    assert float((state.rows @ frozen.mT).abs().max()) < 1e-3
    assert state.frozen is frozen


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_invariant_06_a_second_block_spans_the_eigenspace_of_the_deflated_moment_not_of_the_moment(seed):
    inputs, frozen, start = overlapping_blocks(seed)
    moment = inputs.mT @ inputs / 20
    left = torch.eye(20, dtype=torch.float64) - frozen.mT @ frozen
    deflated, plain = leading_eigenspace(left @ moment @ left, 4), leading_eigenspace(moment, 4)
    assert largest_angle(deflated, plain) > 5
    accumulated = start
    for _ in range(60):
        accumulated = accumulated_step(moment, frozen, accumulated)
    for rows in (full_batch_oja(inputs, frozen, start, iterations=3000), accumulated):
        assert largest_angle(rows, deflated) < 1e-4
        assert largest_angle(rows, plain) > 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_invariant_22_permuting_or_duplicating_rows_leaves_the_direction_unchanged(dtype):
    inputs, frozen, rows = (part.to(dtype) for part in overlapping_blocks(0))
    direction, energies = hebbian_direction(inputs, frozen, rows)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    for changed in (inputs[order], inputs.repeat(3, 1), inputs.repeat_interleave(2, 0)):
        other, others = hebbian_direction(changed, frozen, rows)
        assert float((other - direction).abs().max() / direction.abs().max()) < 1e-6
        torch.testing.assert_close(others, energies, rtol=1e-5, atol=0)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e3, 1e12])
def test_invariant_24_no_input_amplitude_makes_the_rule_unstable(scale):
    axes, generator = orthonormal(20, 20), torch.Generator().manual_seed(0)
    state = start_block(4, NO_ROWS, generator)
    for _ in range(200):
        state = hebbian_update(state, gaussian_rows(64, SPECTRUM, axes, generator) * scale, 0.5)
    assert largest_angle(state.rows, axes[:4]) < 10
    assert orthonormality_error(state.rows) < 0.1


def test_invariant_24_a_sudden_jump_of_amplitude_is_survived():
    axes, generator = orthonormal(20, 20), torch.Generator().manual_seed(0)
    state = start_block(4, NO_ROWS, generator)
    for update in range(300):
        loud = 1e4 if update >= 100 else 1.0
        state = hebbian_update(state, gaussian_rows(64, SPECTRUM, axes, generator) * loud, 0.5)
        assert state.rows.isfinite().all()
        assert float(state.rows.norm(dim=1).max()) < 3
    assert largest_angle(state.rows, axes[:4]) < 10


@pytest.mark.parametrize("rate", [0.5, 5.0, 50.0])
def test_invariant_24_a_rate_beyond_the_stable_range_ends_in_usable_rows_not_in_nan(rate):
    axes, generator = orthonormal(20, 20), torch.Generator().manual_seed(0)
    learning = Hebbian(rate=rate)
    state = learning.begin(4, NO_ROWS, 50, generator)
    for _ in range(50):
        state = learning.observe(state, gaussian_rows(64, SPECTRUM, axes, generator))
    learned = learning.finish(state)
    assert learned.rows.isfinite().all()
    assert learned.energies.isfinite().all()
    assert orthonormality_error(learned.rows) < 1e-8


def test_invariant_24_the_rule_without_a_scale_free_rate_does_diverge():
    """The control: the same inputs with a constant η far above 2/λ_max."""
    inputs, _ = rows_with_moment(SPECTRUM)
    rows = orthonormal(4, 20, 50)
    for _ in range(50):
        rows = rows + 1.0 * hebbian_direction(inputs, NO_ROWS, rows)[0]
    assert not rows.isfinite().all() or float(rows.abs().max()) > 1e3
    assert math.isfinite(float(full_batch_oja(inputs, NO_ROWS, orthonormal(4, 20, 50), 50).abs().max()))
