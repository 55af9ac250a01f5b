"""Adversarial objectives: the inner attack against closed forms, the loss by hand, unlabelled samples apart."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from continual.batches import UNLABELLED, Batch
from continual.objectives import PASS, TRADES, UAT, Adversarial, SelfTraining
from continual.robustness import l2, linf

EVERY = {
    "adversarial": lambda: Adversarial(linf(0.1), 3),
    "trades": lambda: TRADES(linf(0.1), steps=3),
    "pass": lambda: PASS(linf(0.1), steps=3),
    "uat": lambda: UAT(linf(0.1), steps=3),
    "rst": lambda: SelfTraining(linf(0.1), 1, steps=3),
}


def batch_of(rows=30, pixels=6, num_unlabelled=0):
    generator = torch.Generator().manual_seed(0)
    inputs = 0.3 + 0.4 * torch.rand(rows, pixels, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (rows,), generator=generator)
    targets[:num_unlabelled] = UNLABELLED
    return Batch(inputs, targets, None, torch.zeros(rows, dtype=torch.int64))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


def begun(objective, seed=0, epoch=0):
    objective.begin_epoch(epoch, torch.Generator().manual_seed(seed))
    return objective


@pytest.mark.parametrize("threat", [linf(0.1), l2(0.2)])
def test_on_two_linear_classes_the_attack_takes_the_margin_that_geometry_gives(threat):
    torch.manual_seed(0)
    model = nn.Linear(6, 2).double()
    batch = batch_of()
    batch = batch._replace(targets=batch.targets % 2)
    moved = begun(Adversarial(threat, steps=200)).prepare(model, batch).inputs
    direction = model.weight[0] - model.weight[1]

    def margin(inputs):
        logits = model(inputs).detach()
        return logits.gather(1, batch.targets[:, None]) - logits.gather(1, 1 - batch.targets[:, None])

    dual = direction.abs().sum() if threat.norm.name == "linf" else direction.norm()
    torch.testing.assert_close(
        margin(moved), margin(batch.inputs) - threat.epsilon * dual.detach(), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("name", EVERY)
def test_what_the_network_sees_is_inside_the_threat_and_the_network_is_left_alone(name):
    model, batch = network().train(), batch_of()
    model[1].eval()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    prepared = begun(EVERY[name](), epoch=1).prepare(model, batch)
    rounds = len(prepared.inputs) // len(batch.inputs)
    assert float((prepared.inputs - batch.inputs.repeat(rounds, 1)).abs().max()) <= 0.1 + 1e-9
    assert not torch.equal(prepared.inputs[-30:], batch.inputs)
    assert (model.training, model[1].training) == (True, False)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not prepared.inputs.requires_grad


@pytest.mark.parametrize("name", EVERY)
def test_the_same_stream_attacks_the_same_and_another_does_not(name):
    model, batch = network().eval(), batch_of(num_unlabelled=10)
    batch = batch._replace(targets=batch.targets.clamp(min=0)) if name in ("adversarial", "trades") else batch
    one, same, other = (begun(EVERY[name](), seed, 1).prepare(model, batch) for seed in (0, 0, 1))
    assert torch.equal(one.inputs, same.inputs)
    assert not torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize("weighted", [False, True])
def test_trades_is_clean_cross_entropy_and_the_divergence(weighted):
    weights = torch.rand(30, dtype=torch.float64) if weighted else None
    batch, model = batch_of()._replace(weights=weights), network().eval()
    objective = begun(TRADES(linf(0.1), strength=4.0, steps=5))
    prepared = objective.prepare(model, batch)
    clean, moved = model(batch.inputs), model(prepared.inputs[30:])
    kl = F.kl_div(moved.log_softmax(1), clean.log_softmax(1), reduction="none", log_target=True).sum(1)
    each = F.cross_entropy(clean, batch.targets, reduction="none") + 4 * kl
    found = objective.loss(torch.cat([clean, moved]), prepared)
    torch.testing.assert_close(found, each.mean() if weights is None else (weights * each).sum())
    ours, theirs = (torch.autograd.grad(value, clean, retain_graph=True)[0] for value in (found, each.mean()))
    if weights is None:
        torch.testing.assert_close(ours, theirs)


def test_trades_attack_raises_the_divergence_and_reads_no_label():
    model, batch = network().eval(), batch_of()
    objective = TRADES(linf(0.1), steps=8)
    moved = begun(objective).prepare(model, batch).inputs[30:]
    relabelled = begun(objective).prepare(model, batch._replace(targets=(batch.targets + 1) % 3)).inputs[30:]
    assert torch.equal(moved, relabelled)
    noise = batch.inputs + 0.1 * torch.sign(torch.randn(30, 6, dtype=torch.float64))

    def kl(inputs):
        with torch.no_grad():
            pair = model(inputs).log_softmax(1), model(batch.inputs).log_softmax(1)
            return F.kl_div(*pair, reduction="batchmean", log_target=True)

    assert kl(moved) > kl(noise)


@pytest.mark.parametrize("strength", [0.0, 0.3, 2.0])
def test_pass_is_a_mean_over_labelled_and_a_mean_over_unlabelled(strength):
    model, batch = network().eval(), batch_of(num_unlabelled=12)
    objective = begun(PASS(linf(0.1), strength, steps=5))
    prepared = objective.prepare(model, batch)
    with torch.no_grad():
        answers = model(batch.inputs).argmax(1)
    assert torch.equal(prepared.targets[:12], answers[:12])
    outputs = model(prepared.inputs)
    labelled = F.cross_entropy(outputs[12:], batch.targets[12:])
    unlabelled = F.cross_entropy(outputs[:12], answers[:12])
    torch.testing.assert_close(objective.loss(outputs, prepared), labelled + strength * unlabelled)


@pytest.mark.parametrize("name", ["pass", "uat", "rst"])
@pytest.mark.parametrize("num_unlabelled", [0, 30])
def test_a_batch_of_one_kind_alone_is_scored_too(name, num_unlabelled):
    model, batch = network().eval(), batch_of(num_unlabelled=num_unlabelled)
    objective = begun(EVERY[name](), epoch=1)
    prepared = objective.prepare(model, batch)
    loss = objective.loss(model(prepared.inputs), prepared)
    assert torch.isfinite(loss)
    assert float(loss.detach()) > 0
    assert int(prepared.targets.min()) >= 0


def test_pass_without_unlabelled_samples_is_adversarial_training():
    model, batch = network().eval(), batch_of()
    losses = []
    for objective in (PASS(linf(0.1), steps=5), Adversarial(linf(0.1), 5)):
        prepared = begun(objective).prepare(model, batch)
        losses.append(objective.loss(model(prepared.inputs), prepared))
    torch.testing.assert_close(*losses)


def test_uat_holds_answers_to_a_constant_copy():
    model, batch = network().eval(), batch_of(num_unlabelled=12)
    objective = begun(UAT(linf(0.1), 2.0, steps=5))
    prepared = objective.prepare(model, batch)
    with torch.no_grad():
        held = model(batch.inputs[:12]).log_softmax(1)
    outputs = model(prepared.inputs)
    kl = F.kl_div(outputs[:12].log_softmax(1), held, reduction="batchmean", log_target=True)
    wanted = F.cross_entropy(outputs[12:], batch.targets[12:]) + 2 * kl
    torch.testing.assert_close(objective.loss(outputs, prepared), wanted)


def test_self_training_learns_from_labels_first_and_then_from_fixed_answers_of_that_moment():
    model, batch = network().eval(), batch_of(num_unlabelled=12)
    objective = begun(SelfTraining(linf(0.1), teacher_epochs=2, unlabelled_strength=0.5, steps=3), epoch=1)
    prepared = objective.prepare(model, batch)
    outputs = model(prepared.inputs)
    assert torch.equal(prepared.inputs, batch.inputs)
    torch.testing.assert_close(
        objective.loss(outputs, prepared), F.cross_entropy(outputs[12:], batch.targets[12:])
    )  # fmt: skip
    begun(objective, epoch=2)
    fixed = objective.prepare(model, batch).targets[:12].clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_()
    assert not torch.equal(model(batch.inputs[:12]).argmax(1), fixed)
    assert torch.equal(objective.prepare(model, batch).targets[:12], fixed)


def test_unlabelled_samples_teach_nothing_while_the_teacher_learns():
    model, objective = network().eval(), begun(SelfTraining(linf(0.1), 1, steps=2))
    outputs = torch.randn(30, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        objective.loss(outputs, objective.prepare(model, batch_of(num_unlabelled=12))), outputs
    )
    assert (gradient[:12] == 0).all()
    assert (gradient[12:] != 0).any(1).all()


@pytest.mark.parametrize("make", [Adversarial, TRADES, PASS, UAT, SelfTraining])
def test_bad_settings_are_refused(make):
    with pytest.raises(TypeError, match="ThreatModel"):
        make(0.1)
    with pytest.raises(ValueError, match="steps"):
        make(linf(0.1), steps=-1)
    with pytest.raises(ValueError, match="relative_step"):
        make(linf(0.1), relative_step=-0.5)
