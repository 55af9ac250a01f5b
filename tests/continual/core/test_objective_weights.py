"""Per-sample weights in the loss: Σ w_i CE_i, and without them the mean to the bit."""

import pytest
import torch
import torch.nn.functional as F
from contracts.objective import CLASSES, ROWS, ObjectiveContract

from continual.batches import Batch
from continual.objectives import CrossEntropy


def setting(masked):
    contract = ObjectiveContract()
    active = None
    if masked:
        active = torch.rand(ROWS, CLASSES, generator=torch.Generator().manual_seed(4)) < 0.5
        active[torch.arange(ROWS), contract.batch().targets] = True
    return contract.batch(active), contract.logits()


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_is_the_weighted_sum_of_each_samples_own(smoothing, masked):
    batch, logits = setting(masked)
    weights = torch.rand(ROWS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    objective = CrossEntropy(smoothing)
    loss = objective.loss(logits, batch._replace(weights=weights))
    one_by_one = []
    for row in range(ROWS):
        active = None if batch.active is None else batch.active[row]
        own = Batch(batch.inputs[row : row + 1], batch.targets[row : row + 1], active, batch.task[row : row + 1])
        one_by_one.append(objective.loss(logits[row : row + 1], own))
    wanted = (weights * torch.stack(one_by_one)).sum()
    torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=0)
    for found, expected in zip(torch.autograd.grad(loss, logits), torch.autograd.grad(wanted, logits), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_equal_weights_are_the_mean(smoothing):
    batch, logits = setting(False)
    weights = torch.full((ROWS,), 1 / ROWS, dtype=torch.float64)
    objective = CrossEntropy(smoothing)
    weighted = objective.loss(logits, batch._replace(weights=weights))
    torch.testing.assert_close(weighted, objective.loss(logits, batch), rtol=1e-12, atol=0)


def test_without_weights_the_loss_is_torchs_mean_to_the_bit():
    batch, logits = setting(False)
    assert batch.weights is None
    loss = CrossEntropy().loss(logits, batch)
    wanted = F.nll_loss(logits.log_softmax(1), batch.targets)
    assert torch.equal(loss, wanted)
    assert torch.equal(torch.autograd.grad(loss, logits)[0], torch.autograd.grad(wanted, logits)[0])


def test_a_sample_of_weight_zero_teaches_nothing():
    batch, logits = setting(False)
    weights = torch.ones(ROWS, dtype=torch.float64)
    weights[3] = 0
    (gradient,) = torch.autograd.grad(CrossEntropy().loss(logits, batch._replace(weights=weights)), logits)
    assert (gradient[3] == 0).all()
    assert (gradient[4] != 0).all()
