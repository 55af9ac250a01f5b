"""MACER: a value worked out by hand, the hinge, what may not become infinite, and finite differences."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from continual.batches import Batch
from continual.objectives import MACER
from continual.objectives.macer import soft_radius

LOGITS = [[2.0, 0.0, -1.0], [1.5, 0.5, 0.0], [0.2, 0.1, 0.0]]


def batch_of(targets, copies, active=None, dtype=torch.float64):
    targets = torch.tensor(targets)
    rows = targets.repeat(copies)
    return Batch(torch.zeros(len(rows), 4, dtype=dtype), rows, active, torch.zeros_like(rows))


def scored(objective, logits, targets=(0,), active=None):
    """Logits [copies, B, classes]."""
    prepared = batch_of(list(targets), logits.shape[0], active, logits.dtype)
    return objective.loss(logits.reshape(-1, logits.shape[-1]), prepared)


def test_the_value_worked_out_by_hand():
    logits = torch.tensor(LOGITS, dtype=torch.float64)[:, None].requires_grad_()
    loss = scored(MACER(0.25, 3, 12.0, 8.0, 16.0), logits)
    assert float(loss.detach()) == pytest.approx(7.810326, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits)
    wanted = [[-0.071653, 0.052383, 0.019270], [-0.126941, 0.079022, 0.047920], [-19.548407, 18.212697, 1.335710]]
    torch.testing.assert_close(gradient[:, 0], torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=0)


def test_its_parts_are_the_mean_softmax_and_the_soft_radius():
    logits = torch.tensor(LOGITS, dtype=torch.float64)[:, None]
    found = soft_radius(logits, 16.0)
    assert float(found.xi) == pytest.approx(3.119198, abs=1e-6)
    assert 0.25 / 2 * float(found.xi) == pytest.approx(0.389900, abs=1e-6)
    assert float(scored(MACER(0.25, 3, strength=0.0), logits)) == pytest.approx(0.48912292, abs=1e-7)


def test_beyond_the_hinge_or_misclassified_only_cross_entropy_has_a_gradient():
    sure = torch.tensor([[[3.0, 0.0, 0.0]]] * 2, dtype=torch.float64)
    wrong = torch.tensor([[[0.0, 0.4, 0.0]]] * 2, dtype=torch.float64)
    for logits in (sure, wrong):
        pushed, plain = (MACER(0.5, 2, strength) for strength in (7.0, 0.0))
        gradients = []
        for objective in (pushed, plain):
            watched = logits.clone().requires_grad_()
            gradients.append(torch.autograd.grad(scored(objective, watched), watched)[0])
        assert torch.equal(*gradients)
        assert float(pushed.shares["pushed"]) == 0


def test_exactly_on_the_hinge_a_sample_is_still_pushed():
    logits = torch.tensor([[[0.3, 0.1, 0.0]]], dtype=torch.float64, requires_grad=True)
    xi = float(soft_radius(logits, 16.0).xi.detach())
    on, below = MACER(0.5, 1, 5.0, gamma=xi), MACER(0.5, 1, 5.0, gamma=math.nextafter(xi, 0))
    pushed, left = (torch.autograd.grad(scored(objective, logits), logits)[0] for objective in (on, below))
    assert not torch.equal(pushed, left)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_answers_stay_finite(scale, dtype):
    generator = torch.Generator().manual_seed(1)
    logits = (scale * torch.randn(4, 9, 5, generator=generator, dtype=dtype)).requires_grad_()
    loss = scored(MACER(0.25, 4), logits, [0, 1, 2, 3, 4, 0, 1, 2, 3])
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_one_class_alone_cannot_be_certified_and_costs_nothing_strange():
    active = torch.tensor([True, False, False])
    logits = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = scored(MACER(0.25, 2), logits, [0, 0, 0], active)
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
    assert torch.isfinite(torch.autograd.grad(loss, logits)[0]).all()


def test_a_constant_added_to_all_logits_changes_nothing():
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    objective = MACER(0.25, 3)
    moved = scored(objective, logits + 17.0, [0, 1, 2, 3, 0, 1])
    torch.testing.assert_close(moved, scored(objective, logits, [0, 1, 2, 3, 0, 1]), rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_raised_to_single(dtype):
    half = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(2)).to(dtype)
    objective = MACER(0.25, 3)
    torch.testing.assert_close(
        scored(objective, half, [0, 1, 2, 3, 0, 1]), scored(objective, half.float(), [0, 1, 2, 3, 0, 1])
    )


def test_one_copy_and_no_second_term_is_cross_entropy():
    logits = torch.randn(1, 8, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    targets = [0, 1, 2, 3, 4, 0, 1, 2]
    wanted = F.cross_entropy(logits[0], torch.tensor(targets))
    torch.testing.assert_close(scored(MACER(0.25, 1, 0.0), logits, targets), wanted, rtol=1e-8, atol=0)


def test_the_second_term_starts_when_it_is_told():
    logits, objective = torch.tensor(LOGITS, dtype=torch.float64)[:, None], MACER(0.25, 3, robust_from_epoch=2)
    losses = []
    for epoch in range(4):
        objective.begin_epoch(epoch, torch.Generator())
        losses.append(float(scored(objective, logits)))
    assert losses[0] == losses[1] == pytest.approx(0.48912292, abs=1e-7)
    assert losses[2] == losses[3] == pytest.approx(7.810326, abs=1e-6)


def test_finite_differences_agree_on_a_small_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    inputs = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    objective = MACER(0.25, 2, beta=2.0)
    prepared = batch_of([0, 1, 2, 0, 1], 2)
    assert torch.autograd.gradcheck(lambda seen: objective.loss(network(seen), prepared), inputs)


def test_weights_of_samples_weigh_both_terms():
    logits = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    targets, objective = [0, 1, 2, 0], MACER(0.25, 3, 12.0)
    one_by_one = torch.stack([scored(objective, logits[:, [i]], targets[i : i + 1]) for i in range(4)])
    weights = torch.tensor([0.1, 0.0, 2.0, 0.5], dtype=torch.float64)
    prepared = batch_of(targets, 3)._replace(weights=weights.repeat(3) / 3)
    found = objective.loss(logits.reshape(-1, 3), prepared)
    torch.testing.assert_close(found, (weights * one_by_one).sum(), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"sigma": 0}, "sigma"), ({"sigma": -1.0}, "sigma"), ({"copies": 0}, "copies"), ({"strength": -1}, "strength"),
     ({"gamma": float("nan")}, "gamma"), ({"robust_from_epoch": -1}, "robust_from_epoch")],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        MACER(**({"sigma": 0.25} | setting))


def test_sigma_has_no_default():
    with pytest.raises(TypeError, match="sigma"):
        MACER()  # pyright: ignore[reportCallIssue]
