"""Cross-entropy against torch's, on the rows that are active."""

import pytest
import torch
import torch.nn.functional as F
from contracts.objective import CLASSES, ROWS, ObjectiveContract

from continual.objectives import CrossEntropy, masked_logits


class TestCrossEntropy(ObjectiveContract):
    def make(self):
        return CrossEntropy()


class TestCrossEntropySmoothed(ObjectiveContract):
    def make(self):
        return CrossEntropy(label_smoothing=0.2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("rows", [[0, 1, 2], [0, 1, 2, 5, 6], list(range(CLASSES))])
def test_equals_torchs_on_the_active_slice(rows, smoothing):
    contract = ObjectiveContract()
    active = torch.zeros(CLASSES, dtype=torch.bool)
    active[rows] = True
    batch, logits = contract.batch(active), contract.logits()
    loss = CrossEntropy(smoothing).loss(logits, batch)
    (gradient,) = torch.autograd.grad(loss, logits)
    slice_of = logits.detach()[:, rows].clone().requires_grad_()
    wanted = F.cross_entropy(slice_of, batch.targets, label_smoothing=smoothing)  # targets 0, 1, 2 keep their place
    (wanted_gradient,) = torch.autograd.grad(wanted, slice_of)
    assert float(loss) == pytest.approx(float(wanted), rel=1e-12)
    torch.testing.assert_close(gradient[:, rows], wanted_gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_each_sample_competes_among_its_own_rows(smoothing):
    contract = ObjectiveContract()
    generator = torch.Generator().manual_seed(4)
    active = torch.rand(ROWS, CLASSES, generator=generator) < 0.4
    batch, logits = contract.batch(), contract.logits()
    active[torch.arange(ROWS), batch.targets] = True
    loss = CrossEntropy(smoothing).loss(logits, batch._replace(active=active))
    one_by_one = []
    for row in range(ROWS):
        kept = active[row].nonzero().flatten()
        place = (kept == batch.targets[row]).nonzero()[0]
        one_by_one.append(F.cross_entropy(logits[row : row + 1, kept], place, label_smoothing=smoothing))
    assert float(loss) == pytest.approx(float(torch.stack(one_by_one).mean()), rel=1e-12)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_smoothing_out_of_range_is_refused(smoothing):
    with pytest.raises(ValueError, match="label_smoothing"):
        CrossEntropy(smoothing)


def test_a_target_outside_the_active_rows_costs_infinitely_much():
    contract = ObjectiveContract()
    active = torch.tensor([False] + [True] * (CLASSES - 1))
    batch = contract.batch(active, targets=torch.zeros(ROWS, dtype=torch.int64))
    assert CrossEntropy().loss(contract.logits(), batch) == float("inf")


def test_masking_leaves_active_logits_alone():
    logits, active = torch.randn(3, 4), torch.tensor([True, False, True, False])
    masked = masked_logits(logits, active)
    assert torch.equal(masked[:, active], logits[:, active])
    assert (masked[:, ~active] == float("-inf")).all()
    assert masked_logits(logits, None) is logits
