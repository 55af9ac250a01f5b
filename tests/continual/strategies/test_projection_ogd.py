"""OGD: output gradients in closed form, Gram-Schmidt, first-order guarantees with controls, and what it holds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from projection_runs import OPTIMISERS, PlainRun, linear_network, relu_network, three_tasks
from tiny_runs import foreign_network, launch, same_tensors, weights_of
from torch import nn

import continual.strategies.ogd
from continual.batches import TrainingData
from continual.errors import UserError
from continual.output_directions import EveryLogit, MeanLogit, TrueLogit
from continual.seeding import stream
from continual.strategies import OGD, Naive
from continual.strategies.ogd import gram_schmidt
from neuro import LIF
from neuro.models import spiking_mlp


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def span(rows):
    return rows.T @ rows


def flat(weights):
    return torch.cat([tensor.flatten() for tensor in weights.values()])


def slow_gradients(model, inputs, outputs):
    """∂ outputs(logits of one sample)/∂θ, sample by sample and output by output, flat."""
    rows = []
    for one, own in zip(inputs, outputs, strict=True):
        scores = own(model(one[None])[0])
        found = [torch.autograd.grad(score, list(model.parameters()), retain_graph=True) for score in scores]
        rows += [torch.cat([part.flatten() for part in gradient]) for gradient in found]
    return torch.stack(rows)


@given(num=st.integers(1, 6), old=st.integers(0, 4), seed=st.integers(0, 50))
def test_law_gram_schmidt_adds_what_qr_adds_and_keeps_old_rows_to_the_bit(num, old, seed):
    basis = torch.linalg.qr(drawn(8, 8, seed=seed))[0][:old]
    vectors = drawn(num, 8, seed=seed + 1) * torch.logspace(-6, 6, num, dtype=torch.float64)[:, None]
    found = gram_schmidt(basis, vectors)
    assert len(found) == min(8, old + num)
    assert torch.equal(found[:old], basis)
    torch.testing.assert_close(found @ found.T, torch.eye(len(found)).double(), rtol=0, atol=1e-9)
    stacked = torch.cat([basis, vectors / vectors.norm(dim=1, keepdim=True)])[: len(found)]
    torch.testing.assert_close(span(found), span(torch.linalg.qr(stacked.T)[0].T), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_combination_of_earlier_vectors_and_a_zero_add_nothing(dtype):
    vectors = drawn(4, 500).to(dtype)
    dependent = torch.cat([vectors, 1e3 * vectors[:1] - vectors[1:2], torch.zeros(1, 500, dtype=dtype), vectors[3:]])
    assert len(gram_schmidt(torch.zeros(0, 500, dtype=dtype), dependent)) == 4


CHOICES = {
    "true": (TrueLogit, lambda label: lambda logits: [logits[label]]),
    "every": (EveryLogit, lambda label: lambda logits: list(logits)),
    "mean": (MeanLogit, lambda label: lambda logits: [logits.mean()]),
}


@pytest.mark.parametrize("choice", sorted(CHOICES))
def test_directions_span_the_output_gradients_of_the_drawn_samples_over_two_tasks(choice):
    make, outputs_of = CHOICES[choice]
    run, gathered = PlainRun(OGD(6, make(), chunk_size=4), relu_network(bias=True), three_tasks()), []
    for index in (0, 1):
        run.learn(index)
        data = run.data(index)
        order = torch.randperm(60, generator=stream(0, "consolidation", index))[:6]
        outputs = [outputs_of(label) for label in data.targets[order]]
        gathered.append(slow_gradients(run.model, data.inputs[order], outputs))
        run.end(index)
        expected = gram_schmidt(torch.zeros(0, gathered[0].shape[1]).double(), torch.cat(gathered))
        directions = run.strategy.state_dict()["directions"]
        assert len(directions) == len(expected) > 0
        torch.testing.assert_close(span(directions), span(expected), rtol=0, atol=1e-8)
        assert run.strategy.ranks()[0].rank == len(expected)


def test_for_a_linear_network_the_gradient_of_a_logit_is_the_input_in_its_row():
    run = PlainRun(OGD(1, TrueLogit()), linear_network(), three_tasks())
    run.end(0)
    data = run.data(0)
    chosen = torch.randperm(60, generator=stream(0, "consolidation", 0))[0]
    expected = torch.zeros(3, 16).double()
    expected[data.targets[chosen]] = data.inputs[chosen] / data.inputs[chosen].norm()
    torch.testing.assert_close(run.strategy.state_dict()["directions"], expected.flatten()[None])


@pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))
def test_invariant_09_no_applied_step_has_a_component_along_a_kept_direction(optimiser):
    run = PlainRun(OGD(10), relu_network(bias=True), three_tasks())
    run.learn(0, optimiser)
    run.end(0)
    directions = run.strategy.state_dict()["directions"]
    run.learn(1, optimiser)
    for applied, wanted, _ in run.steps:
        step, free = flat(applied), flat(wanted)
        torch.testing.assert_close(step, free - directions.T @ (directions @ free), rtol=1e-9, atol=1e-12)
        assert float((directions @ step).norm() / step.norm()) < 1e-9


@pytest.mark.parametrize("optimiser", ["decay", "adam", "adamw"])
def test_invariant_09_control_projecting_the_gradient_alone_fails_where_the_optimiser_is_not_linear(
    optimiser, monkeypatch
):
    monkeypatch.setattr(continual.strategies.ogd, "linear_in_gradient", lambda optimizer: True)
    run = PlainRun(OGD(10), relu_network(bias=True), three_tasks())
    run.learn(0, optimiser)
    run.end(0)
    directions = run.strategy.state_dict()["directions"]
    run.learn(1, optimiser)
    assert max(float((directions @ flat(step)).norm() / flat(step).norm()) for step, _, _ in run.steps) > 1e-2


def test_true_logits_of_kept_samples_stay_in_a_linear_network_and_the_others_need_every_logit():
    drifts = {}
    for name, outputs in (("true", TrueLogit()), ("every", EveryLogit())):
        run = PlainRun(OGD(6, outputs), linear_network(), three_tasks())
        run.learn(0)
        run.end(0)
        data, kept = run.data(0), torch.randperm(60, generator=stream(0, "consolidation", 0))[:6]
        before = run.model(data.inputs[kept]).detach()
        run.learn(1)
        change = (run.model(data.inputs[kept]).detach() - before).abs()
        own = torch.nn.functional.one_hot(data.targets[kept], 3).bool()
        drifts[name] = float(change[own].max()), float(change[~own].max())
    assert drifts["true"][0] < 1e-9
    assert drifts["true"][1] > 1e-3
    assert max(drifts["every"]) < 1e-9


def kept_outputs_move(num_samples, rate):
    """How far one step against a drawn gradient moves the true logits of ten samples of task 1, on average."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    run = PlainRun(OGD(num_samples), model, three_tasks())
    run.end(0)
    data, kept = run.data(0), torch.randperm(60, generator=stream(0, "consolidation", 0))[:10]
    optimizer = torch.optim.SGD(model.parameters(), rate)
    run.strategy.before_task(run.sequence.tasks[1], optimizer)
    with torch.no_grad():
        before = model(data.inputs[kept]).gather(1, data.targets[kept, None])
        for seed, parameter in enumerate(model.parameters()):
            parameter.grad = drawn(*parameter.shape, seed=seed)
        run.strategy.after_backward(model)
        optimizer.step()
        return float((model(data.inputs[kept]).gather(1, data.targets[kept, None]) - before).abs().mean())


def test_in_a_nonlinear_network_the_kept_outputs_move_to_second_order_only():
    """A step of half the size moves them a quarter as far; unprotected ones move half as far."""
    moved = {(held, rate): kept_outputs_move(held, rate) for held in (10, 0) for rate in (2e-3, 1e-3)}
    assert moved[10, 2e-3] / moved[10, 1e-3] == pytest.approx(4, rel=0.1)
    assert moved[0, 2e-3] / moved[0, 1e-3] == pytest.approx(2, rel=0.1)
    assert moved[10, 1e-3] < moved[0, 1e-3] / 10


def test_without_samples_it_is_naive_to_the_bit_norm_layers_among_it(tmp_path):
    runs = [launch(tmp_path, own={"strategy": s, "model": foreign_network()}) for s in (OGD(0), Naive())]
    assert all(same_tensors(*pair) for pair in zip(*(weights_of(run.folder) for run in runs), strict=True))
    assert runs[0].metrics["stored_bytes"] == runs[0].metrics["learning_operations"] == 0


def test_biases_and_affine_parameters_learn_on_and_statistics_stand_still(tmp_path):
    model = foreign_network()
    first, second = weights_of(launch(tmp_path, own={"strategy": OGD(20), "model": model}).folder)
    moved = {name for name, tensor in first.items() if not torch.equal(tensor, second[name])}
    assert {"1.weight", "1.bias", "2.weight", "2.bias", "5.weight", "5.bias"} == moved
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("optimiser", ["momentum", "adamw"])
def test_heads_of_other_tasks_stand_still_and_are_no_part_of_the_directions(optimiser):
    run = PlainRun(OGD(10), relu_network(num_classes=9, bias=True), three_tasks("task"))
    run.learn(0, optimiser)
    run.end(0)
    assert run.strategy.state_dict()["directions"].shape[1] == 16 * 12 + 12
    before = run.weights()
    run.learn(1, optimiser)
    after = run.weights()
    for name in ("2.weight", "2.bias"):
        assert torch.equal(after[name][:3], before[name][:3])
        assert torch.equal(after[name][6:], before[name][6:])
        assert not torch.equal(after[name][3:6], before[name][3:6])


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_memory_is_directions_times_parameters_and_told_beforehand(optimiser):
    run = PlainRun(OGD(5), relu_network(), three_tasks())
    parameters = 16 * 12 + 12 * 3
    (notice,) = run.strategy.notices()
    assert notice.startswith(f"OGD keeps up to 15 logit_gradients of {parameters} parameters: 0.0 MiB")
    assert run.strategy.stored_bytes == 0
    run.learn(0, optimiser)
    run.end(0)
    assert run.strategy.stored_bytes == 5 * parameters * 8
    run.learn(1, optimiser)
    anchors = 0 if optimiser == "sgd" else (parameters + 12 * 3) * 8
    assert run.strategy.stored_bytes == 5 * parameters * 8 + anchors
    assert run.strategy.notices() == []
    spiking = PlainRun(OGD(5), spiking_mlp([16], 3, hidden=[6], neuron=LIF(), time_steps=2).double(), three_tasks())
    assert "surrogate_logit_gradients" in spiking.strategy.notices()[0]
    every = PlainRun(OGD(5, EveryLogit()), relu_network(), three_tasks())
    assert "up to 45 " in every.strategy.notices()[0]


def test_operations_are_counted_by_hand():
    run = PlainRun(OGD(5), relu_network(), three_tasks())
    parameters = 16 * 12 + 12 * 3
    run.learn(0)
    assert run.strategy.operations == 0
    run.end(0)
    learned = 5 * 3 * parameters + 4 * 5 * 5 * parameters  # passes forward and back; Gram-Schmidt twice
    assert run.strategy.operations == learned
    run.learn(1)
    assert run.strategy.operations == learned + 6 * 2 * 5 * parameters


def test_rows_that_do_not_compete_take_no_part():
    active = torch.tensor([[True, True, False], [True, False, False]])
    data = TrainingData(torch.zeros(2, 1), torch.tensor([1, 0]), active, torch.zeros(2, dtype=torch.int64))
    logits = torch.tensor([1.0, 2.0, 4.0])
    every = EveryLogit()(data)
    assert every.num_scores == 2
    assert every.score(logits, active[0]).tolist() == [1, 2]
    assert every.score(logits, active[1]).tolist() == [1, 0]
    assert float(MeanLogit()(data).score(logits, active[0])) == 1.5
    assert float(TrueLogit()(data).score(logits, active[0], torch.tensor(1))) == 2


def test_what_it_cannot_work_with_is_refused_at_the_start(tmp_path):
    with pytest.raises(UserError, match=r"torch.func sees through.*written by hand"):
        launch(tmp_path, "strategy=ogd", "rule=dsr")
    alone = nn.Sequential(nn.Flatten(), nn.Linear(64, 20))
    with pytest.raises(UserError, match="Tasks share no parameter that trains"):
        launch(tmp_path, "strategy=ogd", "scenario.mode=task", own={"model": alone})
    with pytest.raises(ValueError, match="num_samples must be 0 or more, got -1"):
        OGD(-1)
    with pytest.raises(ValueError, match="chunk_size must be at least 1, got 0"):
        OGD(chunk_size=0)
