"""LwF: the frozen teacher, the heads it is heard on, and the size of its pull."""

import copy

import pytest
import torch
from test_regularisation_penalties import attached, relu_network, train
from tiny_runs import foreign_network, launch, records_of, same_tensors, small_data
from torch import nn

from continual.batches import gather
from continual.objectives import CrossEntropy
from continual.scenarios import permuted, split
from continual.seeding import stream
from continual.strategies import LwF
from continual.strategies.lwf import divergence, old_heads
from neuro.encoding import Poisson
from neuro.learning import OTTT
from neuro.models import Normalise, spiking_mlp
from neuro.neurons import LIF

CPU = torch.device("cpu")


def moved(model, amount=0.3):
    """Move the weights a little, as learning would."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.linspace(-amount, amount, parameter.numel()).view_as(parameter))


def batch_of(sequence, task, dtype=torch.float64, num=30):
    data = gather([sequence.tasks[task]], sequence.tasks[task], sequence, CPU, dtype)
    return next(data.batches(num, stream(0, "order", task, 0)))


def ready(strategy, model, mode="domain", rule=None):
    """After one task, with the weights moved on, before the second."""
    sequence = attached(strategy, model, mode, rule=rule)
    train(strategy, model, sequence, sequence.tasks[0], rule=rule)
    teacher = copy.deepcopy(model)
    moved(model)
    strategy.before_task(sequence.tasks[1], None)
    return sequence, teacher


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("t_squared", [True, False])
def test_the_term_is_the_divergence_by_hand(temperature, t_squared):
    strategy, model = LwF(strength=0.7, temperature=temperature, t_squared=t_squared), relu_network()
    sequence, teacher = ready(strategy, model)
    batch = batch_of(sequence, 1)
    found = strategy.terms(model(batch.inputs), batch)
    old, new = ((network(batch.inputs) / temperature).softmax(1) for network in (teacher, model))
    by_hand = (old * (old / new).log()).sum() / len(old)
    torch.testing.assert_close(found, 0.7 * (temperature**2 if t_squared else 1.0) * by_hand, rtol=1e-10, atol=1e-14)
    assert found > 0


def test_its_gradient_is_that_of_the_cross_entropy_with_the_old_answers():
    strategy, model = LwF(temperature=3.0), relu_network()
    sequence, teacher = ready(strategy, model)
    batch = batch_of(sequence, 1)
    truth = 9 * nn.functional.cross_entropy(
        model(batch.inputs) / 3.0, (teacher(batch.inputs) / 3.0).softmax(1).detach()
    )
    wanted = torch.autograd.grad(truth, list(model.parameters()))
    found = torch.autograd.grad(strategy.terms(model(batch.inputs), batch), list(model.parameters()))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_before_anything_has_moved_it_pulls_at_nothing():
    strategy, model = LwF(), relu_network()
    sequence = attached(strategy, model)
    train(strategy, model, sequence, sequence.tasks[0])
    strategy.before_task(sequence.tasks[1], None)
    batch = batch_of(sequence, 1)
    term = strategy.terms(model(batch.inputs), batch)
    assert float(term.detach()) == pytest.approx(0, abs=1e-12)
    for gradient in torch.autograd.grad(term, list(model.parameters())):
        assert gradient.abs().max() < 1e-12


def test_for_high_temperatures_t_squared_keeps_the_size():
    strategy, model = LwF(), relu_network()
    sequence, teacher = ready(strategy, model)
    inputs = batch_of(sequence, 1).inputs
    old, new = teacher(inputs).detach(), model(inputs).detach()
    sizes = [float(t**2 * divergence(old, new, t)) for t in (50.0, 500.0)]
    centred = [logits - logits.mean(1, keepdim=True) for logits in (old, new)]
    limit = float((centred[0] - centred[1]).square().sum() / len(old) / (2 * old.shape[1]))
    assert sizes[1] == pytest.approx(limit, rel=0.01)
    assert sizes[0] == pytest.approx(limit, rel=0.1)


def test_old_heads_are_heard_by_themselves_where_the_task_is_known():
    task_mode, class_mode = (split(small_data(), 5, mode=mode) for mode in ("task", "class"))
    found = [heads.tolist() for heads in old_heads(task_mode, task_mode.tasks[2])]
    assert found == [sorted(task_mode.tasks[0].classes), sorted(task_mode.tasks[1].classes)]
    (seen,) = old_heads(class_mode, class_mode.tasks[2])
    assert seen.tolist() == sorted({*class_mode.tasks[0].classes, *class_mode.tasks[1].classes})
    domain = permuted(small_data(), 3, "domain")
    (shared,) = old_heads(domain, domain.tasks[2])
    assert shared.tolist() == list(range(10))
    for sequence in (task_mode, class_mode, domain):
        assert old_heads(sequence, sequence.tasks[0]) == []


def test_the_term_reaches_the_rows_of_old_heads_alone():
    strategy, model = LwF(), relu_network(num_classes=30)
    sequence, _ = ready(strategy, model, "task")
    batch = batch_of(sequence, 1)
    (gradient,) = torch.autograd.grad(strategy.terms(model(batch.inputs), batch), model[3].weight)
    assert gradient[:10].abs().sum(1).min() > 0
    assert gradient[10:].abs().sum() == 0


def test_the_teacher_is_frozen_in_evaluation_mode_and_out_of_reach():
    strategy, model = LwF(), foreign_network(dropout=0.5).double()
    sequence = attached(strategy, model)
    train(strategy, model, sequence, sequence.tasks[0])
    before = copy.deepcopy(strategy._teacher.state_dict())
    assert same_tensors(before, model.state_dict())
    strategy.before_task(sequence.tasks[1], None)
    model.train()
    batch, streams = batch_of(sequence, 1), torch.get_rng_state()
    outputs = model(batch.inputs)
    moved_streams = torch.get_rng_state()
    torch.autograd.backward(strategy.terms(outputs, batch))
    assert torch.equal(torch.get_rng_state(), moved_streams)
    assert not torch.equal(moved_streams, streams), "the network itself has dropout"
    assert same_tensors(strategy._teacher.state_dict(), before)
    assert not strategy._teacher.training
    assert all(not p.requires_grad and p.grad is None for p in strategy._teacher.parameters())


def spiking(encoder=None):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return spiking_mlp((8, 8), 10, (9,), LIF(threshold=0.3), 4, Normalise(), encoder).double()


def test_a_rule_that_scores_every_tick_hears_one_answer_a_batch():
    rule = OTTT(every_tick=True)
    strategy, model = LwF(), spiking()
    sequence, teacher = ready(strategy, model, rule=rule)
    calls = []
    strategy._teacher.register_forward_hook(lambda *_: calls.append(1))
    before = strategy.operations
    for number in (1, 2):
        batch = batch_of(sequence, 1)
        for update in rule.updates(model, batch, CrossEntropy(), strategy.terms):
            wanted = CrossEntropy().loss(update.outputs, batch) + 4 * divergence(
                teacher(batch.inputs), update.outputs, 2.0
            )
            torch.testing.assert_close(4 * update.loss, wanted.detach(), rtol=1e-10, atol=1e-12)
        assert len(calls) == number
    forward = 64 * 9 + 4 * 9 * 10
    assert strategy.operations - before == 2 * 30 * forward


def test_a_teacher_that_draws_spikes_has_streams_of_its_own():
    strategy, model = LwF(), spiking(Poisson(seed=3))
    sequence, _ = ready(strategy, model)
    batch = batch_of(sequence, 1)
    own = model.encoder.generator.get_state()
    outputs = torch.zeros(30, 10, dtype=torch.float64)
    first = strategy.terms(outputs, batch)
    assert torch.equal(model.encoder.generator.get_state(), own)
    again = strategy.terms(outputs, batch_of(sequence, 1))
    assert not torch.equal(first, again), "every batch is encoded anew"
    strategy.before_task(sequence.tasks[1], None)
    assert torch.equal(strategy.terms(outputs, batch_of(sequence, 1)), first), "from a stream named by the task"


def test_the_reported_loss_holds_the_term(tmp_path):
    """Nothing moves at a rate of 0, so the teacher agrees with the network; with it moving, the losses part."""

    def losses(*chosen):
        result = launch(tmp_path, "scenario.num_tasks=2", *chosen)
        return [line["loss"] for line in records_of(result.folder) if line["event"] == "epoch"]

    still = [losses(f"strategy={choice}", "optimizer.lr=0.0") for choice in ("lwf", "naive")]
    assert still[0] == pytest.approx(still[1], abs=1e-6)
    moving = [losses(f"strategy={choice}") for choice in ("lwf", "naive")]
    assert moving[0][0] == moving[1][0]
    assert moving[0][1] > moving[1][1]


def test_stored_bytes_are_those_of_the_teacher():
    strategy, model = LwF(), foreign_network().double()
    sequence = attached(strategy, model)
    assert strategy.stored_bytes == 0
    train(strategy, model, sequence, sequence.tasks[0])
    assert strategy.stored_bytes == sum(tensor.nbytes for tensor in model.state_dict().values())


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"strength": -0.1}, "strength must be at least 0, got -0.1"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"temperature": float("nan")}, "temperature must be above 0, got nan"),
    ],
)
def test_numbers_out_of_range_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        LwF(**keywords)
