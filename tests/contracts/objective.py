"""What every objective owes a rule; a member's test class inherits this."""

import pytest
import torch

from continual.batches import Batch

CLASSES, ROWS = 7, 11


class ObjectiveContract:
    """Inherit and define `make`."""

    def make(self):
        raise NotImplementedError

    def batch(self, active=None, targets=None, seed=0):
        generator = torch.Generator().manual_seed(seed)
        if targets is None:
            targets = torch.randint(0, 3, (ROWS,), generator=generator)
        inputs = torch.rand(ROWS, 5, generator=generator, dtype=torch.float64)
        return Batch(inputs, targets, active, torch.zeros(ROWS, dtype=torch.int64))

    def logits(self, seed=1):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64).requires_grad_()

    def score(self, logits, batch):
        objective = self.make()
        return objective.loss(logits, objective.prepare(lambda inputs: logits, batch))

    def gradient(self, logits, batch):
        (found,) = torch.autograd.grad(self.score(logits, batch), logits)
        return found

    def test_has_a_name(self):
        assert isinstance(self.make().name, str)

    def test_a_loss_is_a_finite_scalar_with_a_gradient(self):
        loss = self.score(self.logits(), self.batch())
        assert loss.shape == ()
        assert torch.isfinite(loss)
        assert self.gradient(self.logits(), self.batch()).abs().sum() > 0

    def test_prepare_gives_what_the_network_will_see(self):
        batch = self.batch()
        prepared = self.make().prepare(lambda inputs: self.logits(), batch)
        assert prepared.inputs.shape[1:] == batch.inputs.shape[1:]
        assert torch.equal(batch.inputs, self.batch().inputs), "the batch itself is not changed"

    @pytest.mark.parametrize("per_sample", [False, True])
    def test_inactive_rows_get_exactly_zero_gradient(self, per_sample):
        active = torch.zeros(CLASSES, dtype=torch.bool)
        active[:4] = True
        mask = active.expand(ROWS, -1) if per_sample else active
        gradient = self.gradient(self.logits(), self.batch(mask))
        assert (gradient[:, 4:] == 0).all()
        assert (gradient[:, :4] != 0).all()

    def test_inactive_logits_do_not_matter(self):
        active = torch.tensor([True] * 4 + [False] * 3)
        moved = self.logits().detach().clone()
        moved[:, 4:] = 1e6
        assert torch.equal(self.score(moved, self.batch(active)), self.score(self.logits(), self.batch(active)))

    def test_no_mask_is_a_mask_of_all(self):
        everything = torch.ones(CLASSES, dtype=torch.bool)
        assert torch.equal(self.score(self.logits(), self.batch()), self.score(self.logits(), self.batch(everything)))

    def test_the_order_of_samples_does_not_matter(self):
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))
        batch, logits = self.batch(), self.logits()
        moved = Batch(batch.inputs[order], batch.targets[order], None, batch.task[order])
        assert float(self.score(logits[order], moved)) == pytest.approx(float(self.score(logits, batch)), rel=1e-12)

    def test_a_step_against_the_gradient_lowers_the_loss(self):
        logits, batch = self.logits(), self.batch()
        stepped = (logits - 0.1 * self.gradient(logits, batch)).detach()
        assert self.score(stepped, batch) < self.score(logits, batch)
