"""What every way to learn a subspace owes its users; a member's test class inherits this and states its precision."""

import pytest
import torch
from neuro_oracles import gaussian_rows, largest_angle, leading_eigenspace, orthonormal, orthonormality_error

from neuro.lateral import LateralSubspace

WIDTH = 24
SPECTRUM = [20.0, 16.0, 12.0, 9.0, 7.0, *[0.05] * (WIDTH - 5)]


class LearningContract:
    """Inherit, define `make`, and state how close `energies` and `angle` come.

    Attributes:
        energy_error: largest relative error of a row's energy against E[(h·x)²] recomputed over all rows shown.
        angle: largest principal angle to the leading eigenspace after `batches` batches, in degrees.
        missed: largest share of the energy of data of low rank that ten rows may leave out.
        batches: how many of 64 rows it is shown.
    """

    energy_error: float
    angle: float
    missed: float
    batches = 60

    def make(self):
        raise NotImplementedError

    def batches_of(self, seed=0, num_rows=64, spectrum=SPECTRUM):
        axes, generator = orthonormal(WIDTH, WIDTH, seed + 100), torch.Generator().manual_seed(seed)
        return [gaussian_rows(num_rows, spectrum, axes, generator).float() for _ in range(self.batches)]

    def learn(self, batches, num_rows=5, frozen=None, seed=0, scale=1.0):
        learning = self.make()
        frozen = torch.zeros(0, WIDTH) if frozen is None else frozen
        state = learning.begin(num_rows, frozen, len(batches), torch.Generator().manual_seed(seed))
        for batch in batches:
            state = learning.observe(state, batch * scale)
        return learning.finish(state)

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_rows_are_orthonormal_and_orthogonal_to_the_frozen_ones(self, seed):
        frozen = orthonormal(4, WIDTH, seed + 7, dtype=torch.float32)
        rows = self.learn(self.batches_of(seed), frozen=frozen, seed=seed).rows
        assert rows.shape == (5, WIDTH)
        assert orthonormality_error(rows) < 1e-6
        assert float((rows @ frozen.mT).abs().max()) < 1e-6

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_rows_span_the_leading_eigenspace_of_what_the_frozen_rows_leave(self, seed):
        frozen, batches = orthonormal(2, WIDTH, seed + 7, dtype=torch.float32), self.batches_of(seed)
        shown = torch.cat(batches).double()
        left = shown - shown @ frozen.double().mT @ frozen.double()
        space = leading_eigenspace(left.mT @ left, 5)
        assert largest_angle(self.learn(batches, frozen=frozen, seed=seed).rows, space) < self.angle

    @pytest.mark.parametrize("with_frozen", [False, True])
    def test_energies_are_sorted_and_those_of_the_rows(self, with_frozen):
        frozen = orthonormal(3, WIDTH, 7, dtype=torch.float32) if with_frozen else None
        batches = self.batches_of()
        learned, shown = self.learn(batches, frozen=frozen), torch.cat(batches).double()
        assert (learned.energies.diff() <= 0).all()
        assert (learned.energies >= 0).all()
        recomputed = (shown @ learned.rows.double().mT).square().mean(0)
        error = (learned.energies.double() - recomputed).abs() / recomputed
        assert float(error.max()) < self.energy_error
        total = float(shown.square().sum(1).mean())
        assert float(learned.total_energy) == pytest.approx(total, rel=self.energy_error)
        captured = float((shown @ frozen.double().mT).square().sum(1).mean()) if with_frozen else 0.0
        assert float(learned.frozen_energy) == pytest.approx(captured, rel=self.energy_error, abs=1e-9)

    def test_the_order_of_rows_and_their_duplicates_do_not_matter(self):
        batches, order = self.batches_of(), torch.randperm(64, generator=torch.Generator().manual_seed(5))
        plain = self.learn(batches)
        for changed in ([batch[order] for batch in batches], [batch.repeat(2, 1) for batch in batches]):
            other = self.learn(changed)
            difference = plain.rows.mT @ plain.rows - other.rows.mT @ other.rows
            assert float(difference.abs().max()) < 1e-3
            torch.testing.assert_close(other.energies, plain.energies, rtol=1e-3, atol=0)

    def test_the_scale_of_the_input_does_not_matter(self):
        batches = self.batches_of()
        plain = self.learn(batches)
        for scale in (1e-3, 1e3):
            scaled = self.learn(batches, scale=scale)
            assert largest_angle(scaled.rows, plain.rows) < 0.1
            torch.testing.assert_close(scaled.energies, plain.energies * scale**2, rtol=1e-2, atol=0)

    def test_the_same_generator_gives_the_same_rows(self):
        batches = self.batches_of()[:3]
        assert torch.equal(self.learn(batches, seed=4).rows, self.learn(batches, seed=4).rows)

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_rows_beyond_the_rank_of_the_data_are_pruned(self, seed):
        subspace = LateralSubspace(WIDTH, self.make())
        subspace.grow(10, self.batches, torch.Generator().manual_seed(seed))
        batches = self.batches_of(seed, spectrum=[9.0, 8.0, 7.0, 6.0, 5.0, 4.0, *[0.0] * (WIDTH - 6)])
        for batch in batches:
            subspace.learn(batch)
        consolidation = subspace.consolidate()
        assert (consolidation.learned, consolidation.pruned, consolidation.rank) == (6, 4, 6)
        assert consolidation.captured_energy == pytest.approx(1, abs=self.missed)
        shown = torch.cat(batches)
        assert float(subspace.project(shown).square().sum() / shown.square().sum()) < self.missed

    @pytest.mark.parametrize("num_rows", [1, 3, WIDTH])
    def test_a_layer_that_never_receives_anything_learns_no_rows(self, num_rows):
        subspace = LateralSubspace(WIDTH, self.make())
        subspace.grow(num_rows, 2, torch.Generator().manual_seed(0))
        for _ in range(2):
            subspace.learn(torch.zeros(8, WIDTH))
        assert subspace.consolidate()[:3] == (0, num_rows, 0)
        assert subspace.projector is None

    def test_a_block_without_rows_learns_nothing(self):
        learned = self.learn(self.batches_of()[:2], num_rows=0)
        assert learned.rows.shape == (0, WIDTH)
        assert learned.energies.shape == (0,)
        assert learned.total_energy > 0

    def test_the_frozen_rows_are_not_written_to(self):
        frozen = orthonormal(3, WIDTH, 7, dtype=torch.float32)
        before = frozen.clone()
        self.learn(self.batches_of()[:3], frozen=frozen)
        assert torch.equal(frozen, before)

    def test_a_full_layer_is_learned_whole(self):
        learned = self.learn(self.batches_of(), num_rows=WIDTH)
        assert orthonormality_error(learned.rows) < 1e-6
        share = float(learned.energies.sum() / learned.total_energy)
        assert share == pytest.approx(1, abs=self.energy_error)

    def test_it_learns_on_every_device(self, device):
        subspace = LateralSubspace(WIDTH, self.make(), device)
        subspace.grow(5, self.batches, torch.Generator().manual_seed(0))
        batches = self.batches_of()
        for batch in batches:
            subspace.learn(batch.to(device))
        assert subspace.consolidate().rank == 5
        assert subspace.basis.device.type == device.type
        assert largest_angle(subspace.basis.cpu(), self.learn(batches).rows) < 1

    def test_activity_that_is_not_finite_is_never_taken_for_silence(self):
        subspace = LateralSubspace(WIDTH, self.make())
        subspace.grow(3, 1, torch.Generator().manual_seed(0))
        with pytest.raises((ValueError, RuntimeError)):
            self.show(subspace, torch.full((8, WIDTH), float("nan")))

    def show(self, subspace, rows):
        subspace.learn(rows)
        subspace.consolidate()
