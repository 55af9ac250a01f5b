"""LateralSubspace: the life of a block, what it stores, how it is saved, and what it refuses."""

import pytest
import torch
from neuro_oracles import gaussian_rows, largest_angle, orthonormal, orthonormality_error

from neuro.lateral import Eigen, Hebbian, HebbianAccumulated, LateralSubspace, Learned

WIDTH = 12
SPECTRUM = [9.0, 7.0, 5.0, 4.0, *[0.2] * 8]


def shown(subspace, num_rows, spectrum=SPECTRUM, seed=0, keep=None, batches=4):
    """Grow, learn and consolidate once."""
    axes, generator = orthonormal(WIDTH, WIDTH, seed), torch.Generator().manual_seed(seed)
    subspace.grow(num_rows, batches, generator)
    for _ in range(batches):
        subspace.learn(gaussian_rows(50, spectrum, axes, generator).to(subspace.basis.dtype))
    return subspace.consolidate(keep)


def test_a_block_grows_learns_and_is_frozen():
    subspace = LateralSubspace(WIDTH, Eigen())
    assert (subspace.rank, subspace.projector, subspace.is_full) == (0, None, False)
    first = shown(subspace, 4)
    assert first[:3] == (4, 0, 4)
    assert 0.85 < first.captured_energy < 1
    assert largest_angle(subspace.basis, orthonormal(WIDTH, WIDTH)[:4]) < 10
    second = shown(subspace, 3, seed=1)
    assert second[:3] == (3, 0, 7)
    assert orthonormality_error(subspace.basis) < 1e-6
    assert subspace.block is None


def test_captured_energy_is_the_share_of_the_task_inside_old_and_new_rows():
    subspace = LateralSubspace(4, Eigen())
    rows = torch.diag(torch.tensor([4.0, 3.0, 2.0, 1.0]))
    subspace.freeze(torch.eye(4)[2:3])
    subspace.grow(1)
    subspace.learn(rows)
    assert subspace.consolidate().captured_energy == pytest.approx((4 + 16) / 30, rel=1e-5)
    subspace.grow(0)
    subspace.learn(rows)
    assert subspace.consolidate().captured_energy == pytest.approx((4 + 16) / 30, rel=1e-5)


def test_keep_decides_how_many_rows_are_frozen_and_the_most_energetic_are():
    seen = []

    def keep(learned):
        seen.append(learned)
        return 2

    subspace = LateralSubspace(4, Eigen())
    subspace.grow(3)
    subspace.learn(torch.diag(torch.tensor([1.0, 4.0, 2.0, 3.0])))
    assert subspace.consolidate(keep)[:3] == (2, 1, 2)
    assert isinstance(seen[0], Learned)
    torch.testing.assert_close(seen[0].energies, torch.tensor([16.0, 9.0, 4.0]) / 4)
    torch.testing.assert_close(subspace.basis.abs(), torch.eye(4)[[1, 3]])


def test_the_pruning_bound_is_a_share_of_the_energy_of_the_task():
    for prune, kept in ((1e-6, 2), (0.02, 1)):
        subspace = LateralSubspace(3, Eigen())
        subspace.grow(3)
        subspace.learn(torch.diag(torch.tensor([10.0, 1.0, 1e-4])))
        assert subspace.consolidate(prune=prune).rank == kept


@pytest.mark.parametrize("learning", [Eigen(), HebbianAccumulated(), Hebbian()], ids=lambda learning: learning.name)
def test_a_block_is_cut_at_what_the_width_leaves_and_a_full_layer_lets_nothing_through(learning):
    subspace = LateralSubspace(WIDTH, learning)
    shown(subspace, 8, [1.0] * WIDTH)
    last = shown(subspace, 12, [1.0] * WIDTH, seed=1)
    assert last[:3] == (4, 0, 12)
    assert subspace.is_full
    assert torch.equal(subspace.project(torch.randn(5, WIDTH)), torch.zeros(5, WIDTH))
    assert shown(subspace, 3)[:3] == (0, 0, 12)


def test_projecting_is_the_formula_below_and_above_half_the_width():
    rows = torch.randn(6, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for rank in (0, 3, 6, 7, 12):
        subspace = LateralSubspace(WIDTH, Eigen(), dtype=torch.float64)
        basis = orthonormal(rank, WIDTH)
        subspace.freeze(basis)
        torch.testing.assert_close(subspace.project(rows), rows - rows @ basis.mT @ basis, rtol=1e-12, atol=1e-12)


def test_stored_bytes_count_the_rows_and_a_complement_where_one_is_kept():
    subspace = LateralSubspace(WIDTH, Eigen())
    assert subspace.stored_bytes == 0
    subspace.freeze(orthonormal(5, WIDTH, dtype=torch.float32))
    assert subspace.stored_bytes == 5 * WIDTH * 4
    subspace.freeze(orthonormal(8, WIDTH, dtype=torch.float32))
    assert subspace.stored_bytes == (8 + 4) * WIDTH * 4


def test_a_grown_subspace_loads_into_a_fresh_module():
    grown, fresh = LateralSubspace(WIDTH, Eigen()), LateralSubspace(WIDTH, Eigen())
    shown(grown, 5)
    assert list(grown.state_dict()) == ["basis"]
    fresh.load_state_dict(grown.state_dict())
    assert torch.equal(fresh.basis, grown.basis)
    assert fresh.basis.data_ptr() != grown.basis.data_ptr()
    rows = torch.rand(3, WIDTH)
    assert torch.equal(fresh.project(rows), grown.project(rows))


def test_loading_replaces_a_projector_that_was_built_before():
    grown, other = LateralSubspace(WIDTH, Eigen()), LateralSubspace(WIDTH, Eigen())
    shown(grown, 5)
    shown(other, 5, seed=1)
    rows = torch.rand(3, WIDTH)
    other.project(rows)
    other.load_state_dict(grown.state_dict())
    assert torch.equal(other.project(rows), grown.project(rows))


def test_a_subspace_inside_a_model_loads_too():
    models = [torch.nn.ModuleDict({"lateral": LateralSubspace(WIDTH, Eigen())}) for _ in range(2)]
    shown(models[0]["lateral"], 3)
    models[1].load_state_dict(models[0].state_dict())
    assert models[1]["lateral"].rank == 3


def test_a_saved_subspace_of_another_width_is_refused():
    grown = LateralSubspace(WIDTH, Eigen())
    shown(grown, 3)
    with pytest.raises(RuntimeError, match="size mismatch"):
        LateralSubspace(WIDTH + 1, Eigen()).load_state_dict(grown.state_dict())


def test_a_projector_follows_its_module_to_another_dtype():
    subspace = LateralSubspace(WIDTH, Eigen())
    shown(subspace, 3)
    assert subspace.projector.directions.dtype == torch.float32
    subspace.double()
    assert subspace.projector.directions.dtype == torch.float64


def test_learning_takes_rows_of_any_floating_dtype():
    subspace = LateralSubspace(WIDTH, Eigen())
    subspace.grow(2)
    subspace.learn(torch.randn(20, WIDTH, dtype=torch.bfloat16))
    subspace.learn(torch.randn(20, WIDTH, dtype=torch.float64))
    assert subspace.consolidate().rank == 2
    assert subspace.basis.dtype == torch.float32


def test_it_keeps_no_graph_of_what_it_is_shown():
    subspace = LateralSubspace(WIDTH, Hebbian())
    subspace.grow(2)
    subspace.learn(torch.randn(20, WIDTH, requires_grad=True))
    subspace.consolidate()
    assert not subspace.basis.requires_grad


def test_growing_beyond_the_width_or_below_zero_is_refused():
    for size in (-1, WIDTH + 1):
        with pytest.raises(ValueError, match=rf"width {WIDTH} can grow by 0 to {WIDTH} rows, got {size}"):
            LateralSubspace(WIDTH, Eigen()).grow(size)


def test_calls_out_of_order_are_refused():
    subspace = LateralSubspace(WIDTH, Eigen())
    with pytest.raises(RuntimeError, match="call grow first"):
        subspace.learn(torch.rand(2, WIDTH))
    with pytest.raises(RuntimeError, match="call grow first"):
        subspace.consolidate()
    subspace.grow(2)
    with pytest.raises(RuntimeError, match="consolidate it before growing another"):
        subspace.grow(2)


@pytest.mark.parametrize("shape", [(4, WIDTH + 1), (WIDTH,), (2, 3, WIDTH)])
def test_rows_of_another_shape_are_refused(shape):
    subspace = LateralSubspace(WIDTH, Eigen())
    subspace.grow(2)
    with pytest.raises(ValueError, match=rf"must be \[R, {WIDTH}\]"):
        subspace.learn(torch.rand(shape))


def test_a_layer_without_inputs_is_refused():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        LateralSubspace(0, Eigen())


def test_it_shows_its_rank():
    assert "rank=0, width=12, learning=eigen" in repr(LateralSubspace(WIDTH, Eigen()))
