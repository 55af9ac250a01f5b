"""Soft and dense maps, and the guard that applies any map once, on the side that fits the optimiser."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neuro_oracles import orthonormal
from torch import nn

from neuro import LIF, Conv2d, Linear
from neuro.lateral import (
    DenseProjector,
    HeadRows,
    Projector,
    SoftProjector,
    WeightGuard,
    freeze_statistics,
    projected_weight_gradient,
)
from neuro.lateral.projection import complement
from neuro.learning import OTTT
from neuro.models import spiking_mlp


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def soft(rank=4, width=10, dtype=torch.float64):
    return SoftProjector(orthonormal(rank, width, dtype=dtype), torch.linspace(0.2, 1, rank, dtype=dtype))


def dense(width=10, dtype=torch.float64, seed=3):
    half = drawn(width, width, seed=seed)
    return DenseProjector((half @ half.mT / width).to(dtype))


def matrix_of(projector, dtype=torch.float64):
    """M of rows x → x M, element by element from the definition."""
    if isinstance(projector, DenseProjector):
        return projector.matrix.to(dtype)
    basis, width = projector.directions.to(dtype), projector.directions.shape[1]
    if isinstance(projector, Projector):
        kept = sum((torch.outer(h, h) for h in basis), torch.zeros(width, width, dtype=dtype))
        return kept if projector.free else torch.eye(width, dtype=dtype) - kept
    taken = zip(projector.shares.to(dtype), basis, strict=True)
    return torch.eye(width, dtype=dtype) - sum(s * torch.outer(h, h) for s, h in taken)


@pytest.mark.parametrize("make", [soft, dense])
@pytest.mark.parametrize("num_rows", [3, 40], ids=["R<out", "R>out"])
def test_a_map_on_rows_is_the_map_on_the_gradient_is_the_formula(make, num_rows):
    projector = make()
    errors, rows = drawn(num_rows, 8), drawn(num_rows, 10, seed=1)
    expected = errors.mT @ rows @ matrix_of(projector)
    for found in (
        projector(errors.mT @ rows),
        errors.mT @ projector(rows),
        projected_weight_gradient(errors, rows, projector),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert not projector.rows_only


@given(rank=st.integers(1, 10), seed=st.integers(0, 99))
def test_law_a_soft_map_lies_between_none_and_the_hard_one(rank, seed):
    basis, rows = orthonormal(rank, 10, seed), drawn(5, 10, seed=seed + 1)
    shares = torch.rand(rank, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    mapped = SoftProjector(basis, shares)(rows)
    torch.testing.assert_close(mapped @ basis.mT, (1 - shares) * (rows @ basis.mT), rtol=1e-9, atol=1e-12)
    if rank < 10:
        outside = complement(basis)
        torch.testing.assert_close(mapped @ outside.mT, rows @ outside.mT, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(SoftProjector(basis, torch.ones_like(shares))(rows), Projector(basis)(rows))
    assert torch.equal(SoftProjector(basis, torch.zeros_like(shares))(rows), rows)


@pytest.mark.parametrize("make", [soft, dense])
def test_the_product_runs_in_the_finer_precision_and_comes_back_in_the_rows_own(make):
    rows = drawn(4, 10, dtype=torch.bfloat16)
    found = make(dtype=torch.float32)(rows)
    assert found.dtype == torch.bfloat16
    exact = rows.float() @ matrix_of(make(dtype=torch.float32), torch.float32)
    torch.testing.assert_close(found, exact.to(torch.bfloat16))
    assert make()(drawn(4, 10, dtype=torch.float32)).dtype == torch.float32


def test_operations_are_counted_by_hand():
    assert soft(rank=4).multiply_accumulates(7) == 7 * (2 * 4 * 10 + 4)
    assert dense().multiply_accumulates(7) == 7 * 10 * 10


# The guard


def network(kind=nn.Linear, dtype=torch.float64, bias=False):
    torch.manual_seed(0)
    return nn.Sequential(kind(10, 8, bias=bias), nn.ReLU(), kind(8, 4, bias=bias)).to(dtype)


OPTIMISERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}, True),
    "nesterov": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}, True),
    "decay": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}, False),
    "adam": (torch.optim.Adam, {"lr": 0.02}, False),
    "adamw": (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.1}, False),
}
MAPS = {
    "hard": lambda: {"0": Projector(orthonormal(3, 10)), "2": Projector(orthonormal(2, 8), free=True)},
    "soft": lambda: {"0": soft(), "2": soft(3, 8)},
    "dense": lambda: {"0": dense(), "2": dense(8)},
}


def steps(guard, model, name, call, num=6):
    """Train; give per step and weight what was applied and what the optimiser alone would have applied.

    A twin of the model is put on the same weights before every step and gets the raw gradient, so its optimiser has
    the history of the raw gradients.
    """
    kind, options, _ = OPTIMISERS[name]
    twin = copy.deepcopy(model)
    for module in twin.modules():
        module.projectors = None
    optimizer, free = kind(model.parameters(), **options), kind(twin.parameters(), **options)
    for step in range(num):
        inputs, before = drawn(5, 10, seed=step), [p.detach().clone() for p in model.parameters()]
        twin.load_state_dict(model.state_dict())
        for trained, stepped in ((twin, free), (model, optimizer)):
            stepped.zero_grad()
            trained(inputs).sub(1).square().mean().backward()
            if trained is model and call == "after_backward":
                guard.after_backward()
            stepped.step()
        if call == "after_step":
            guard.after_step()
        weights = zip(model.parameters(), twin.parameters(), before, strict=True)
        yield [(own.detach() - old, other.detach() - old) for own, other, old in weights]


@pytest.mark.parametrize("maps", sorted(MAPS))
@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_what_is_applied_is_the_map_of_what_the_optimiser_wanted_once(name, maps):
    model = network()
    guard = WeightGuard(model)
    guard.enforce(MAPS[maps]())
    matrices = [matrix_of(guard.maps["0"]), matrix_of(guard.maps["2"])]
    for step in steps(guard, model, name, "after_backward" if OPTIMISERS[name][2] else "after_step"):
        for (applied, wanted), matrix in zip(step, matrices, strict=True):
            assert wanted.abs().max() > 1e-4
            torch.testing.assert_close(applied, wanted @ matrix, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("maps", sorted(MAPS))
@pytest.mark.parametrize("name", ["decay", "adam", "adamw"])
def test_control_the_same_does_not_hold_for_projected_gradients_of_other_optimisers(name, maps):
    model = network()
    guard = WeightGuard(model)
    guard.enforce(MAPS[maps]())
    matrix, worst = matrix_of(guard.maps["0"]), 0.0
    for (applied, wanted), _ in steps(guard, model, name, "after_backward"):
        worst = max(worst, float((applied - wanted @ matrix).abs().max() / wanted.abs().max()))
    assert worst > 1e-2


@pytest.mark.parametrize("maps", sorted(MAPS))
def test_our_synapses_apply_any_linear_map_in_their_own_backward_and_only_there(maps):
    model = network(Linear)
    guard = WeightGuard(model, trace_side=True)
    guard.enforce(MAPS[maps]())
    assert model[0].projectors is not None
    for step in steps(guard, model, "nesterov", "after_backward"):
        for (applied, wanted), name in zip(step, ("0", "2"), strict=True):
            torch.testing.assert_close(applied, wanted @ matrix_of(guard.maps[name]), rtol=1e-9, atol=1e-12)
    rows = 6 * 5  # five input rows a step are fewer than the eight outputs; the head has four outputs
    counted = guard.maps["0"].multiply_accumulates(rows) + guard.maps["2"].multiply_accumulates(6 * 4)
    assert guard.projecting == counted


def test_a_dense_map_that_moves_in_place_is_applied_as_it_is_then():
    model = network(Linear)
    guard = WeightGuard(model, trace_side=True)
    held = DenseProjector(torch.eye(10, dtype=torch.float64))
    guard.enforce({"0": held})
    for scale in (1.0, 0.5, 0.0):
        held.matrix.copy_(scale * torch.eye(10))
        model.zero_grad()
        model(drawn(5, 10)).square().sum().backward()
        guard.after_backward()
        first = model[0].weight.grad if scale == 1 else first
        torch.testing.assert_close(model[0].weight.grad, scale * first)


def test_every_group_of_a_convolution_goes_through_a_map_of_its_own():
    torch.manual_seed(0)
    model = nn.Sequential(Conv2d(4, 6, 2, groups=2), nn.Flatten(), nn.Linear(24, 3, bias=False)).double()
    guard, images = WeightGuard(model), drawn(5, 4, 3, 3)
    maps = {"0[0]": dense(8, seed=1), "0[1]": soft(3, 8)}
    model(images).square().sum().backward()
    raw = model[0].weight.grad.clone().flatten(1)
    guard.enforce(maps)
    guard.after_backward()
    expected = torch.cat([raw[:3] @ matrix_of(maps["0[0]"]), raw[3:] @ matrix_of(maps["0[1]"])])
    torch.testing.assert_close(model[0].weight.grad.flatten(1), expected)


def test_a_map_is_applied_once_to_a_gradient_that_gathers_over_ticks():
    """OTTT goes back once a tick; a map that halves must not halve what other ticks have left."""
    gradients = []
    for scale in (1.0, 0.5):
        torch.manual_seed(0)
        model = spiking_mlp([10], 3, hidden=[8], neuron=LIF(threshold=0.3), time_steps=4)
        guard = WeightGuard(model, trace_side=True)
        guard.enforce({"network.head": DenseProjector(scale * torch.eye(8))})
        batch = type("Batch", (), {"inputs": torch.rand(5, 10, generator=torch.Generator().manual_seed(0))})
        objective = type("Square", (), {"prepare": lambda s, f, b: b, "loss": lambda s, o, b: o.sub(1).square().mean()})
        for _ in OTTT().updates(model, batch, objective(), lambda outputs, seen: None):
            guard.after_backward()
        gradients.append(model.network.head.weight.grad.clone())
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[1], 0.5 * gradients[0])


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_rows_of_the_head_are_projected_as_told(name):
    model = network(bias=True)
    guard = WeightGuard(model)
    shared, active, told = (torch.tensor(rows) for rows in ([1, 0, 0, 0], [1, 1, 0, 1], [1, 1, 0, 0]))
    guard.begin_task(HeadRows(shared.bool(), active.bool(), told.bool()))
    guard.enforce(MAPS["dense"](), freeze=False)
    matrix = matrix_of(guard.maps["2"])
    for parts in steps(guard, model, name, "after_backward" if OPTIMISERS[name][2] else "after_step", num=2):
        applied, wanted = parts[2]
        torch.testing.assert_close(applied[:2], wanted[:2] @ matrix, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(applied[2:], wanted[2:], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(parts[1][0], parts[1][1], rtol=1e-9, atol=1e-12)  # nothing is frozen yet
    guard.enforce(MAPS["dense"]())
    before = model[2].weight.detach().clone(), model[2].bias.detach().clone()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = OPTIMISERS[name][0](trained, lr=0.1)
    model(drawn(5, 10)).sub(1).square().mean().backward()
    if OPTIMISERS[name][2]:
        guard.after_backward()
    optimizer.step()
    if not OPTIMISERS[name][2]:
        guard.after_step()
    assert torch.equal(model[2].weight[2], before[0][2])
    assert (model[2].bias != before[1]).tolist() == [False, True, False, True]
    assert not model[0].bias.requires_grad


@pytest.mark.parametrize("call", ["after_backward", "after_step"])
def test_a_guard_without_maps_and_one_with_free_sites_touch_nothing(call):
    for maps in (None, {}, {"0": None}):
        model = network()
        guard = WeightGuard(model)
        if maps is not None:
            guard.enforce(maps)
        for step in steps(guard, model, "adam" if call == "after_step" else "sgd", call):
            assert all(torch.equal(applied, wanted) for applied, wanted in step)
        assert guard.projecting == 0


def test_lifted_projectors_stand_aside_until_the_maps_are_enforced_again():
    model = network(Linear)
    guard = WeightGuard(model, trace_side=True)
    maps = MAPS["soft"]()
    guard.enforce(maps)
    guard.lift()
    assert model[0].projectors is None
    guard.enforce(maps)
    assert model[0].projectors == [maps["0"]]


def test_frozen_statistics_stay_whatever_the_mode_and_parameters_still_train():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    freeze_statistics(model)
    before = model[1].running_mean.clone()
    model.train()
    model(torch.rand(8, 4))
    assert torch.equal(model[1].running_mean, before)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not model[1].training
