"""Objectives that learn from noise: what the network sees, and the loss by hand."""

import pytest
import torch
import torch.nn.functional as F
from contracts.objective import ObjectiveContract
from torch import nn

from continual.batches import Batch
from continual.objectives import Gaussian, SmoothAdversarial, Stability
from continual.objectives.copies import repeated, sample_weights


class TestGaussian(ObjectiveContract):
    def make(self):
        return Gaussian(0.25)


def batch_of(rows=40, pixels=6, weights=None):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(rows, pixels, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (rows,), generator=generator)
    return Batch(inputs, targets, None, torch.zeros(rows, dtype=torch.int64), weights)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


def begun(objective, seed=0, epoch=0):
    objective.begin_epoch(epoch, torch.Generator().manual_seed(seed))
    return objective


def test_copies_stand_whole_behind_one_another():
    batch = batch_of(3, weights=torch.tensor([0.5, 0.2, 0.3]))._replace(active=torch.rand(3, 3) < 0.9)
    found = repeated(batch, 4)
    assert torch.equal(found.targets.view(4, 3), batch.targets.expand(4, 3))
    assert torch.equal(found.inputs.view(4, 3, 6), batch.inputs.expand(4, 3, 6))
    assert torch.equal(found.active.view(4, 3, 3), batch.active.expand(4, 3, 3))
    torch.testing.assert_close(sample_weights(found, 4), batch.weights)
    assert repeated(batch, 1) is batch


def test_noise_has_its_width_and_is_fresh_at_every_step_and_the_same_from_the_same_stream():
    objective, batch = begun(Gaussian(0.5, copies=3)), batch_of(400)
    first, second = (objective.prepare(lambda inputs: inputs, batch) for _ in range(2))
    noise = first.inputs - batch.inputs.repeat(3, 1)
    assert float(noise.std()) == pytest.approx(0.5, rel=0.03)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert not torch.equal(first.inputs, second.inputs)
    again = begun(Gaussian(0.5, copies=3)).prepare(lambda inputs: inputs, batch)
    assert torch.equal(again.inputs, first.inputs)
    other = begun(Gaussian(0.5, copies=3), seed=1).prepare(lambda inputs: inputs, batch)
    assert not torch.equal(other.inputs, first.inputs)


def test_the_loss_is_the_mean_over_copies():
    objective, batch, model = begun(Gaussian(0.5, copies=3)), batch_of(), network().eval()
    prepared = objective.prepare(model, batch)
    outputs = model(prepared.inputs)
    wanted = torch.stack([F.cross_entropy(part, batch.targets) for part in outputs.chunk(3)]).mean()
    torch.testing.assert_close(objective.loss(outputs, prepared), wanted)


@pytest.mark.parametrize("weighted", [False, True])
def test_stability_is_clean_cross_entropy_and_the_cross_entropy_between_two_answers(weighted):
    weights = torch.rand(40, dtype=torch.float64) if weighted else None
    batch, model = batch_of(weights=weights), network().eval()
    objective = begun(Stability(0.5, strength=3.0))
    prepared = objective.prepare(model, batch)
    clean, moved = model(batch.inputs), model(prepared.inputs[40:])
    assert torch.equal(prepared.inputs[:40], batch.inputs)
    each = F.cross_entropy(clean, batch.targets, reduction="none") + 3 * F.cross_entropy(
        moved, clean.softmax(1), reduction="none"
    )
    wanted = each.mean() if weights is None else (weights * each).sum()
    torch.testing.assert_close(objective.loss(torch.cat([clean, moved]), prepared), wanted)


@pytest.mark.parametrize("objective", [Stability(0.5), SmoothAdversarial(0.5, draws=1)])
def test_inactive_rows_get_exactly_no_gradient(objective):
    active = torch.tensor([True, True, False])
    batch = batch_of()._replace(active=active)
    batch = batch._replace(targets=batch.targets % 2)
    prepared = begun(objective).prepare(nn.Linear(6, 3).double(), batch)
    outputs = torch.randn(len(prepared.targets), 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(objective.loss(outputs, prepared), outputs)
    assert torch.isfinite(gradient).all()
    assert (gradient[:, 2] == 0).all()
    assert (gradient[:, :2] != 0).all()


def test_smooth_adversarial_uses_the_same_noise_for_attack_and_update_inside_the_ball_and_raises_the_loss():
    model, batch = network().eval(), batch_of()
    strong, none = (begun(SmoothAdversarial(0.3, epsilon, draws=4, steps=5)) for epsilon in (0.5, 0.0))
    attacked, plain = (objective.prepare(model, batch) for objective in (strong, none))
    moved = (attacked.inputs - plain.inputs).view(4, 40, 6)
    torch.testing.assert_close(moved, moved[:1].expand(4, 40, 6))
    assert float(moved.norm(dim=2).max()) <= 0.5 + 1e-9
    image = batch.inputs + moved[0]
    assert float(image.min()) >= -1e-12
    assert float(image.max()) <= 1 + 1e-12
    smoothed = [
        -prepared.inputs.new_tensor(0) - model(prepared.inputs).view(4, 40, 3).softmax(2).mean(0)
        .gather(1, batch.targets[:, None]).log()
        for prepared in (attacked, plain)
    ]  # fmt: skip
    assert float(smoothed[0].mean()) > float(smoothed[1].mean()) + 0.05


def test_smooth_adversarial_warms_its_radius_up():
    model, batch = network().eval(), batch_of()
    objective = SmoothAdversarial(0.3, epsilon=0.4, draws=1, steps=2, warmup_epochs=4)
    lengths = []
    for epoch in (0, 1, 3, 9):
        noise = begun(SmoothAdversarial(0.3, 0.0, 1, 1)).prepare(model, batch).inputs
        found = begun(objective, epoch=epoch).prepare(model, batch).inputs
        lengths.append(float((found - noise).norm(dim=1).max()))
    assert lengths == pytest.approx([0.1, 0.2, 0.4, 0.4], rel=1e-6)


def test_the_attack_leaves_modes_statistics_and_gradients_alone():
    model, batch = network().train(), batch_of()
    model[1].eval()  # a norm layer the user froze
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    begun(SmoothAdversarial(0.3)).prepare(model, batch)
    assert model.training
    assert not model[1].training
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("make", [Gaussian, Stability, SmoothAdversarial])
@pytest.mark.parametrize("sigma", [0, -0.1, float("nan"), float("inf"), "0.25", None])
def test_sigma_must_be_above_zero(make, sigma):
    with pytest.raises(ValueError, match="sigma"):
        make(sigma)
