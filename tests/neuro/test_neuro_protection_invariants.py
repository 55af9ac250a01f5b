"""Acceptance invariants 7 to 14, 20 and 21 of the HLOP specification: what protection promises."""

import copy
import math

import pytest
import torch
from neuro_oracles import gaussian_rows, orthonormal
from torch import nn

from neuro import LIF, Linear
from neuro.lateral import (
    Eigen,
    HeadRows,
    Hebbian,
    HebbianAccumulated,
    LateralSubspace,
    ListedSizes,
    NoRows,
    Projector,
    Protection,
    linear_in_gradient,
    projected_weight_gradient,
    protect,
)
from neuro.models import spiking_mlp

LEARNINGS = [Eigen(), HebbianAccumulated(), Hebbian()]


def learned_subspace(learning, width=20, rank=6, dtype=torch.float32, tasks=2):
    subspace = LateralSubspace(width, learning, dtype=dtype)
    generator, axes = torch.Generator().manual_seed(0), orthonormal(width, width)
    for task in range(tasks):
        subspace.grow(rank // tasks, 30, generator)
        spectrum = [float(max(0.3, 10 - 3 * abs(i - 3 * task))) for i in range(width)]
        for _ in range(30):
            subspace.learn(gaussian_rows(64, spectrum, axes, generator).to(dtype))
        subspace.consolidate()
    return subspace


@pytest.mark.parametrize("rank", [6, 14], ids=["basis", "complement"])
@pytest.mark.parametrize("learning", LEARNINGS, ids=lambda learning: learning.name)
def test_invariant_07_nothing_of_a_projected_gradient_lies_in_the_frozen_span(learning, rank):
    subspace = learned_subspace(learning, rank=rank)
    gradient = torch.randn(9, 20, generator=torch.Generator().manual_seed(1))
    projected = subspace.project(gradient)
    assert float((projected @ subspace.basis.mT).norm() / gradient.norm()) < 1e-5
    assert float(projected.norm() / gradient.norm()) > 0.3


@pytest.mark.parametrize("rank", [6, 14], ids=["basis", "complement"])
@pytest.mark.parametrize("learning", LEARNINGS, ids=lambda learning: learning.name)
def test_invariant_08_the_projector_is_idempotent_and_never_lengthens(learning, rank):
    subspace = learned_subspace(learning, rank=rank)
    matrix = subspace.project(torch.eye(20))
    assert float(torch.linalg.matrix_norm(matrix @ matrix - matrix, 2)) < 1e-5
    assert float(torch.linalg.matrix_norm(matrix, 2)) < 1 + 1e-5
    gradients = torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    assert (subspace.project(gradients).norm(dim=1) <= gradients.norm(dim=1) * (1 + 1e-6)).all()


@pytest.mark.parametrize("num_rows", [3, 200])
def test_invariant_09_projecting_rows_is_projecting_the_gradient(num_rows):
    subspace = learned_subspace(Eigen())
    generator = torch.Generator().manual_seed(1)
    errors, rows = torch.randn(num_rows, 9, generator=generator), torch.randn(num_rows, 20, generator=generator)
    on_rows, on_weight = errors.mT @ subspace.project(rows), subspace.project(errors.mT @ rows)
    chosen = projected_weight_gradient(errors, rows, subspace.projector)
    for other in (on_rows, chosen):
        assert float((other - on_weight).norm() / on_weight.norm()) < 1e-5


def test_invariant_10_a_projector_leaves_outputs_and_input_gradients_of_a_spiking_network_alone():
    torch.manual_seed(0)
    model = spiking_mlp([12], 4, hidden=[20, 16], neuron=LIF(threshold=0.4), time_steps=4)
    images, taken = torch.rand(6, 12), []
    for protected in (False, True):
        for layer in (model.network.fc1, model.network.fc2):
            basis = orthonormal(5, layer.in_features, dtype=torch.float32)
            layer.projectors = [Projector(basis)] if protected else None
        inputs = images.clone().requires_grad_()
        model.zero_grad()
        outputs = model(inputs)
        outputs.square().sum().backward()
        taken.append((outputs.detach(), inputs.grad, [parameter.grad for parameter in model.parameters()]))
    (outputs, input_gradient, free), (same_outputs, same_gradient, held) = taken
    assert torch.equal(outputs, same_outputs)
    assert input_gradient.abs().sum() > 0
    torch.testing.assert_close(input_gradient, same_gradient, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(free[2], held[2], rtol=1e-6, atol=1e-7)
    for index in (0, 1):
        assert not torch.allclose(free[index], held[index])


@pytest.mark.parametrize("trace_side", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_invariant_11_outputs_on_inputs_in_the_span_do_not_move_under_sgd(momentum, trace_side):
    torch.manual_seed(0)
    model = nn.Sequential(Linear(20, 30), nn.ReLU(), Linear(30, 4))
    axes = orthonormal(20, 20, dtype=torch.float32)
    old = torch.rand(40, 5) @ axes[:5]  # rank 5 in the first layer, whatever it makes of it in the second
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[20, 30]]), trace_side=trace_side)
    summary = protection.end_task(old)
    assert summary["0"].rank == 5
    basis = protection.subspaces["2"].basis
    inside = model[1](model[0](old)).detach() @ basis.mT @ basis  # of the hidden layer, what its subspace holds
    before = [model[0](old).detach(), model[2](inside).detach()]
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)
    new = torch.rand(40, 20)
    for _ in range(50):
        optimizer.zero_grad()
        model(new).sub(1).square().mean().backward()
        protection.after_backward()
        optimizer.step()
    for weight, parameter in zip(weights, model.parameters(), strict=True):
        assert float((parameter.detach() - weight).abs().max()) > 1e-3
    for now, then in zip([model[0](old), model[2](inside)], before, strict=True):
        assert float((now.detach() - then).norm() / then.norm()) < 1e-5


SGD = {"lr": 0.02}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, SGD, True),
    "momentum": (torch.optim.SGD, SGD | {"momentum": 0.9}, True),
    "nesterov": (torch.optim.SGD, SGD | {"momentum": 0.9, "nesterov": True}, True),
    "weight_decay": (torch.optim.SGD, SGD | {"momentum": 0.9, "weight_decay": 1e-2}, False),
    "adam": (torch.optim.Adam, {"lr": 0.02}, False),
    "adamw": (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 1e-2}, False),
}


def linear_toy(optimizer_name, call, sizes=None):
    """Train a linear map on a rank-10 task, then on another: the largest change of an old output, in float64."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 5, bias=False)).double()
    generator, axes = torch.Generator().manual_seed(0), orthonormal(30, 30)
    old = torch.randn(60, 10, generator=generator, dtype=torch.float64) @ axes[:10]
    new = torch.randn(60, 30, generator=generator, dtype=torch.float64)
    targets = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    protection = protect(model, learning=Eigen(), sizes=sizes or ListedSizes([[12]]))
    kind, options, _ = OPTIMIZERS[optimizer_name]
    before = None
    for inputs in (old, new):
        optimizer = kind(model.parameters(), **options)
        for _ in range(300):
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            if call == "after_backward":
                protection.after_backward()
            optimizer.step()
            if call == "after_step":
                protection.after_step()
        if before is None:
            before = model(old).detach()
            assert protection.end_task(old)["0"].rank == (10 if sizes is None else 0)
    return float((model(old).detach() - before).abs().max())


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov"])
def test_invariant_12_gradient_projection_forgets_nothing_where_the_optimiser_is_linear(name):
    assert linear_toy(name, "after_backward") < 1e-10


@pytest.mark.parametrize("name", ["weight_decay", "adam", "adamw"])
def test_invariant_12_control_gradient_projection_forgets_where_the_optimiser_is_not_linear(name):
    assert linear_toy(name, "after_backward") > 1e-2


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_invariant_12_projecting_the_step_forgets_nothing_under_any_optimiser(name):
    assert linear_toy(name, "after_step") < 1e-10


def test_invariant_12_control_without_lateral_neurons_the_toy_forgets():
    assert linear_toy("momentum", "after_step", NoRows()) > 1e-1


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_invariant_12_the_linear_optimisers_are_told_apart(name):
    kind, options, is_linear = OPTIMIZERS[name]
    assert linear_in_gradient(kind([nn.Parameter(torch.zeros(1))], **options)) is is_linear


@pytest.mark.parametrize("call", ["after_backward", "after_step"])
@pytest.mark.parametrize("sizes", [NoRows(), ListedSizes([[0, 0, 0]] * 2)], ids=["none", "zeros"])
def test_invariant_13_without_lateral_rows_the_trajectory_is_the_unprotected_one(sizes, call):
    finals = []
    for protected in (False, True):
        torch.manual_seed(0)
        model = spiking_mlp([8], 3, hidden=[12, 10], neuron=LIF(threshold=0.3), time_steps=3)
        protection = protect(model, sizes=sizes) if protected else None
        for task in range(2):
            generator = torch.Generator().manual_seed(task)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for _ in range(10):
                images, labels = torch.rand(8, 8, generator=generator), torch.randint(3, (8,), generator=generator)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                if protection and call == "after_backward":
                    protection.after_backward()
                optimizer.step()
                if protection and call == "after_step":
                    protection.after_step()
            if protection:
                protection.end_task(torch.rand(16, 8, generator=generator))
        finals.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*finals, strict=True))


@pytest.mark.parametrize(("call", "kind"), [("after_backward", torch.optim.SGD), ("after_step", torch.optim.Adam)])
@pytest.mark.parametrize("trace_side", [False, True])
def test_invariant_14_a_full_layer_does_not_change_at_all(call, kind, trace_side):
    if trace_side and call == "after_step":
        pytest.skip("rows are projected with after_backward only")
    torch.manual_seed(0)
    model = nn.Sequential(Linear(6, 9), nn.ReLU(), Linear(9, 4))
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[6, 1]]), trace_side=trace_side)
    protection.end_task(torch.randn(50, 6))
    assert protection.ranks == {"0": 6, "2": 1}
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = kind(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(5, 6)).square().sum().backward()
        if call == "after_backward":
            protection.after_backward()
        optimizer.step()
        if call == "after_step":
            protection.after_step()
    assert torch.equal(model[0].weight, before[0])
    assert not torch.equal(model[2].weight, before[1])


@pytest.mark.parametrize(("call", "kind"), [("after_backward", torch.optim.SGD), ("after_step", torch.optim.Adam)])
def test_invariant_20_training_a_task_leaves_every_old_head_alone(call, kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6))
    protection, features = protect(model, shared_head=False), torch.rand(7, 9)
    none, old_logits = torch.zeros(6, dtype=torch.bool), {}
    for task in range(3):
        active = none.clone()
        active[2 * task : 2 * task + 2] = True
        protection.begin_task(HeadRows(shared=none, active=active))
        start = model[2](features).detach()
        optimizer, inputs = kind(model.parameters(), lr=0.1), torch.rand(20, 6)
        for _ in range(10):
            optimizer.zero_grad()
            model(inputs).sub(2).square().mean().backward()
            if call == "after_backward":
                protection.after_backward()
            optimizer.step()
            if call == "after_step":
                protection.after_step()
        logits = model[2](features).detach()
        assert not torch.equal(logits[:, active], start[:, active])
        for rows, kept in old_logits.items():
            assert torch.equal(logits[:, list(rows)], kept)
        old_logits[(2 * task, 2 * task + 1)] = logits[:, active]
        protection.end_task(inputs)


@pytest.mark.parametrize("learning", LEARNINGS, ids=lambda learning: learning.name)
@pytest.mark.parametrize(("call", "kind"), [("after_backward", torch.optim.SGD), ("after_step", torch.optim.Adam)])
def test_invariant_21_a_saved_run_continues_as_if_it_had_not_been_interrupted(call, kind, learning, tmp_path):
    def task(model, protection, number):
        generator = torch.Generator().manual_seed(number)
        optimizer = kind(model.parameters(), lr=0.05)
        for _ in range(8):
            images, labels = torch.rand(8, 8, generator=generator), torch.randint(3, (8,), generator=generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            if call == "after_backward":
                protection.after_backward()
            optimizer.step()
            if call == "after_step":
                protection.after_step()
        protection.end_task(torch.rand(40, 8, generator=generator), batch_size=8)

    def fresh(seed):
        torch.manual_seed(seed)
        model = spiking_mlp([8], 3, hidden=[12, 10], neuron=LIF(threshold=0.3), time_steps=3)
        sizes = ListedSizes([[3, 3, 2], [2, 2, 2], [1, 1, 1]])
        return model, Protection(model, learning, sizes, seed=5)

    model, protection = fresh(0)
    task(model, protection, 0)
    task(model, protection, 1)
    torch.save({"model": model.state_dict(), "protection": protection.state_dict()}, tmp_path / "checkpoint")
    task(model, protection, 2)

    resumed, resumed_protection = fresh(99)
    saved = torch.load(tmp_path / "checkpoint", weights_only=True)
    resumed.load_state_dict(saved["model"])
    resumed_protection.load_state_dict(saved["protection"])
    assert resumed_protection.num_tasks == 2
    task(resumed, resumed_protection, 2)

    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters(), strict=True))
    assert resumed_protection.ranks == protection.ranks
    assert resumed_protection.operations == protection.operations
    for key, value in protection.state_dict().items():
        assert torch.equal(resumed_protection.state_dict()[key], value)


def test_invariant_21_the_saved_state_is_not_written_to_afterwards():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))
    protection = protect(model, sizes=ListedSizes([[2, 2]] * 2))
    protection.end_task(torch.rand(20, 6))
    saved = protection.state_dict()
    copied = copy.deepcopy(saved)
    protection.end_task(torch.rand(20, 6))
    assert all(torch.equal(saved[key], copied[key]) for key in copied)
    assert math.isclose(float(saved["counters"][0]), 1)
