"""Spiking lateral neurons: a rate code with 2N + 1 levels that projects presynaptic rows and is kept off gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neuro_oracles import gaussian_rows, largest_angle, orthonormal
from slow_patches import flat_errors, slow_rows
from torch import nn

from neuro import Conv2d, Linear
from neuro.lateral import (
    Eigen,
    HeadRows,
    Hebbian,
    LateralSpikes,
    LateralSubspace,
    ListedSizes,
    Projector,
    SpikingProjector,
    protect,
    weight_sites,
)

SPIKING = Hebbian(spikes=LateralSpikes())


def drawn(*shape, seed=0, scale=1.0, dtype=torch.float64):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# Invariant 15: the rate code


@given(
    ticks=st.integers(1, 2000),
    scale=st.floats(0.01, 100),
    responses=st.lists(st.floats(-300, 300), min_size=1, max_size=20),
)
def test_invariant_15_responses_lie_on_the_grid_within_half_a_step_and_saturate(ticks, scale, responses):
    responses = torch.tensor(responses, dtype=torch.float64)
    coded = LateralSpikes(scale, ticks)(responses)
    step, levels = scale / ticks, coded * ticks / scale
    torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-9)
    assert (levels.round().abs() <= ticks).all()
    within = responses.abs() <= scale
    assert ((coded - responses)[within].abs() <= step / 2 * (1 + 1e-9)).all()
    assert torch.equal(levels[~within].round(), ticks * responses[~within].sign())
    assert torch.equal(LateralSpikes(scale, ticks)(-responses), -coded)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ticks", [40, 1000])
def test_invariant_15_the_papers_grids_are_exact(ticks, dtype):
    levels = torch.arange(-ticks, ticks + 1, dtype=torch.float64)
    grid = (levels * 20 / ticks).to(dtype)
    coded = LateralSpikes(20.0, ticks)(torch.linspace(-40, 40, 20_001, dtype=dtype))
    assert torch.equal(coded.unique(), grid)
    assert torch.equal(LateralSpikes(20.0, ticks)(grid), grid)
    assert LateralSpikes(20.0, ticks)(torch.tensor([1e9, -1e9], dtype=dtype)).tolist() == [20.0, -20.0]


def test_invariant_15_the_levels_of_a_small_code_by_hand():
    coded = LateralSpikes(scale=2.0, ticks=4)(torch.tensor([0.0, 0.24, 0.26, -0.74, -0.76, 1.99, 2.5, -3.0]))
    assert coded.tolist() == [0.0, 0.0, 0.5, -0.5, -1.0, 2.0, 2.0, -2.0]


def test_invariant_15_with_ever_more_ticks_it_becomes_the_linear_projector():
    basis, rows = orthonormal(4, 10), drawn(50, 10, scale=3)
    linear, errors = Projector(basis)(rows), []
    for ticks in (10, 100, 1000, 10**4, 10**6):
        spiking = SpikingProjector(basis, LateralSpikes(20.0, ticks))(rows)
        errors.append(float((spiking - linear).norm(dim=1).max()))
        assert errors[-1] <= 4**0.5 * 20 / (2 * ticks) * (1 + 1e-9)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 3e-5


# The row side


def slow_spiking_gradient(errors, rows, basis, spikes):
    """Σ δ (x − Hᵀ q(H x))ᵀ, row by row and neuron by neuron."""
    total = torch.zeros(errors.shape[1], rows.shape[1], dtype=torch.float64)
    for delta, row in zip(errors.double(), rows.double(), strict=True):
        left = row.clone()
        for lateral in basis.double():
            response = float(lateral @ row)
            clipped = max(-spikes.scale, min(spikes.scale, response))
            left -= round(clipped / spikes.scale * spikes.ticks) / spikes.ticks * spikes.scale * lateral
        total += delta[:, None] * left[None]
    return total


def backward(layer, inputs, errors):
    layer.zero_grad()
    inputs = inputs.clone().requires_grad_()
    outputs = layer(inputs)
    outputs.backward(errors)
    return outputs.detach(), inputs.grad, layer.weight.grad.clone()


@pytest.mark.parametrize("shape", [(3, 10), (40, 10), (4, 5, 10)], ids=["R<out", "R>out", "over time"])
@pytest.mark.parametrize("spikes", [LateralSpikes(), LateralSpikes(1.0, 3)])
def test_a_linear_layer_projects_its_rows_with_spikes_and_nothing_else_changes(spikes, shape):
    torch.manual_seed(0)
    layer, basis, inputs = Linear(10, 8, dtype=torch.float64), orthonormal(4, 10), drawn(*shape, scale=2)
    errors = drawn(*shape[:-1], 8, seed=1)
    outputs, input_gradient, free = backward(layer, inputs, errors)
    layer.projectors = [SpikingProjector(basis, spikes)]
    same, same_gradient, held = backward(layer, inputs, errors)
    assert torch.equal(outputs, same)
    torch.testing.assert_close(same_gradient, input_gradient, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(held, free)
    expected = slow_spiking_gradient(errors.flatten(0, -2), inputs.flatten(0, -2), basis, spikes)
    torch.testing.assert_close(held, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": (2, 3), "stride": 2, "padding": (0, 1), "dilation": (2, 1)},
        {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2},
        {"kernel_size": 2, "groups": 4},
    ],
    ids=["plain", "geometry", "groups", "depthwise"],
)
def test_a_convolution_projects_its_patches_with_spikes_and_nothing_else_changes(options):
    torch.manual_seed(0)
    layer, inputs, spikes = Conv2d(4, 8, **options).double(), drawn(3, 4, 5, 6, scale=2), LateralSpikes(6.0, 9)
    sites = weight_sites(nn.Sequential(layer))
    bases = [orthonormal(min(3, site.width), site.width, site.group) for site in sites]
    errors = drawn(*layer(inputs).shape, seed=1)
    outputs, input_gradient, free = backward(layer, inputs, errors)
    layer.projectors = [SpikingProjector(basis, spikes) for basis in bases]
    same, same_gradient, held = backward(layer, inputs, errors)
    assert torch.equal(outputs, same)
    torch.testing.assert_close(same_gradient, input_gradient, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(held, free)
    for site, basis in zip(sites, bases, strict=True):
        rows, delta = slow_rows(layer, inputs, site.group), flat_errors(errors, site.group, layer.groups)
        expected = slow_spiking_gradient(delta, rows, basis, spikes)
        torch.testing.assert_close(site.part(held).flatten(1), expected, rtol=1e-10, atol=1e-10)


def test_a_group_without_spikes_beside_one_with_them():
    torch.manual_seed(0)
    layer, inputs = Conv2d(4, 8, 3, groups=2).double(), drawn(3, 4, 5, 5, scale=3)
    errors, basis = drawn(3, 8, 3, 3, seed=1), orthonormal(2, 18)
    *_, free = backward(layer, inputs, errors)
    layer.projectors = [None, SpikingProjector(basis, LateralSpikes())]
    *_, held = backward(layer, inputs, errors)
    torch.testing.assert_close(held[:4], free[:4])
    expected = slow_spiking_gradient(flat_errors(errors, 1, 2), slow_rows(layer, inputs, 1), basis, LateralSpikes())
    torch.testing.assert_close(held[4:].flatten(1), expected, rtol=1e-10, atol=1e-10)


# Learning with spikes

SPECTRUM = [20, 17, 14, 11, 8, 6] + [0.3] * 14


def learned(spikes, seed):
    """Learn six rows with spiking lateral neurons: the subspace, the true one, and fresh rows to project."""
    axes, generator = orthonormal(20, 20, seed), torch.Generator().manual_seed(seed)
    subspace = LateralSubspace(20, Hebbian(spikes=spikes), dtype=torch.float64)
    subspace.grow(6, 150, torch.Generator().manual_seed(seed + 1))
    for _ in range(150):
        subspace.learn(gaussian_rows(64, SPECTRUM, axes, generator))
    subspace.consolidate()
    return subspace, axes[:6], gaussian_rows(2000, SPECTRUM, axes, generator)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_spikes_learn_the_subspace_of_linear_neurons_and_leave_the_energy_of_their_step(seed):
    """One accuracy for all; what stays inside after projecting is k steps of variance (S/N)²/12."""
    angles, left = [], []
    for spikes in (LateralSpikes(20.0, 40), LateralSpikes(20.0, 1000), None):
        subspace, true, rows = learned(spikes, seed)
        assert subspace.rank == 6
        angles.append(largest_angle(subspace.basis, true))
        inside = subspace.project(rows) @ subspace.basis.mT
        left.append(float(inside.square().sum() / (rows @ subspace.basis.mT).square().sum()))
    assert max(angles) < 3
    assert max(angles) - min(angles) < 0.3
    for ticks, share in zip((40, 1000), left, strict=False):
        assert share == pytest.approx(6 * (20 / ticks) ** 2 / 12 / sum(SPECTRUM[:6]), rel=0.15 if ticks == 40 else 2)
    assert left[0] > 100 * left[1] > 100 * left[2]
    assert left[2] < 1e-20


# The silent combination


def test_control_on_a_gradient_of_usual_size_spikes_are_silent_and_everything_is_let_through():
    """Why the combination is refused: with linear neurons nothing of the protected part is left, with spiking all."""
    basis, gradient = orthonormal(5, 20), drawn(8, 20, scale=0.02)
    spiking, linear = SpikingProjector(basis, LateralSpikes()), Projector(basis)
    assert spiking.rows_only
    assert not linear.rows_only
    assert torch.equal(spiking(gradient), gradient)
    assert float((gradient @ basis.mT).norm()) > 0.1
    assert float((linear(gradient) @ basis.mT).norm()) < 1e-15


@pytest.mark.parametrize(("faint", "learned"), [(1e-3, 0), (1.0, 3)])
def test_inputs_too_faint_for_lateral_spikes_teach_no_direction_rather_than_random_ones(faint, learned):
    """No neuron ever fires, so the rows are those of the start; the control is loud enough."""
    inputs = faint * drawn(64, 3) @ drawn(3, 20)
    for spikes in (LateralSpikes(), None):
        subspace = LateralSubspace(20, Hebbian(spikes=spikes), dtype=torch.float64)
        subspace.grow(3)
        for _ in range(4):
            subspace.learn(inputs)
        found = subspace.consolidate()
        assert (found.learned, subspace.rank) == ((learned,) * 2 if spikes else (3, 3))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (nn.Linear(16, 16), "stem"),
        (nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv2d(1, 1, 1), nn.Flatten()), r"stem\.1"),
        (nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten()), r"stem\.0"),
    ],
    ids=["linear", "conv2d", "conv1d"],
)
def test_layers_that_cannot_project_rows_are_refused_by_name(body, name):
    model = nn.Sequential()
    model.add_module("ours", Linear(16, 16))
    model.add_module("stem", body)
    model.add_module("head", Linear(16, 2))
    with pytest.raises(ValueError, match=rf"layer '{name}' cannot; use neuro\.Linear or neuro\.Conv2d"):
        protect(model, SPIKING, trace_side=True)
    protect(model, Hebbian(), trace_side=True)


def ours():
    torch.manual_seed(0)
    return nn.Sequential(Linear(12, 9), nn.ReLU(), Linear(9, 4))


def spiking_protection(sizes=None):
    protection = protect(ours(), SPIKING, sizes or ListedSizes([[4, 3]] * 2), trace_side=True)
    protection.end_task(drawn(40, 12, scale=4, dtype=torch.float32))
    return protection


def test_the_weight_side_and_the_update_are_refused():
    with pytest.raises(ValueError, match=r"never gradients or updates.*trace_side=True and call after_backward"):
        protect(ours(), SPIKING)
    protection = spiking_protection()
    with pytest.raises(RuntimeError, match="trace_side projects gradients already"):
        protection.after_step()


def test_switching_to_the_weight_side_is_refused_and_the_rows_stay_protected():
    protection = spiking_protection()
    with pytest.raises(ValueError, match="never gradients or updates"):
        protection.set_trace_side(False)
    assert isinstance(protection.model[0].projectors[0], SpikingProjector)


def test_a_projector_of_rows_that_meets_a_gradient_is_refused_with_the_layers_name():
    """Behind the checks at the door there is one at the place itself."""
    protection = spiking_protection()
    protection.model[0].weight.grad = torch.rand(9, 12)
    site, projector = protection.sites[0], protection.subspaces["0"].projector
    with pytest.raises(RuntimeError, match=r"Layer '0': spiking lateral neurons cannot project a gradient"):
        protection._project(site, projector, site.weight.grad)


def test_a_head_of_which_tasks_share_a_part_is_refused_before_it_is_trained():
    """Its rows would have to be projected for some outputs and not for others, which only a gradient can be."""
    protection = spiking_protection()
    some, everything = torch.tensor([True, True, False, False]), torch.ones(4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"head '2'.*share"):
        protection.begin_task(HeadRows(some, everything))
    protection.begin_task(HeadRows(everything, everything))
    protection.begin_task(HeadRows(~everything, everything))


def test_spiking_rows_hold_back_what_old_inputs_would_lose():
    """Not exactly, as linear neurons do, but nearly all of it; the control trains without."""
    old, new = drawn(40, 12, scale=4, dtype=torch.float32), drawn(40, 12, seed=1, scale=4, dtype=torch.float32)
    old = old[:, :3] @ torch.eye(12)[:3]
    moved = []
    for learning, rank in ((SPIKING, 3), (Hebbian(), 3), (Hebbian(), 0)):
        protection = protect(ours(), learning, ListedSizes([[3, 0]]), trace_side=True)
        model, before = protection.model, protection.model[0](old).detach()
        bases = {"basis.0": torch.eye(12)[:rank], "basis.2": torch.zeros(0, 9)}
        protection.load_state_dict({"counters": torch.tensor([1, 0, 0]), **bases})
        for _ in range(10):
            model.zero_grad()
            model(new).square().mean().backward()
            protection.after_backward()
            torch.optim.SGD(model.parameters(), lr=0.02).step()
        moved.append(float((model[0](old).detach() - before).norm()))
    spiking, linear, free = moved
    assert linear < 1e-4
    assert linear < spiking < free / 10


def test_invariant_14_a_full_layer_does_not_change_under_spiking_lateral_neurons_either():
    """The notice says that it stands still; the residue of a rate code would move it."""
    protection = spiking_protection(ListedSizes([[12, 3]]))
    assert protection.ranks["0"] == 12
    model = protection.model
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for seed in range(5):
        optimizer.zero_grad()
        model(drawn(20, 12, seed=seed, scale=4, dtype=torch.float32)).square().mean().backward()
        protection.after_backward()
        optimizer.step()
    assert torch.equal(model[0].weight, before[0])
    assert not torch.equal(model[2].weight, before[1])


def test_rows_are_counted_as_linear_ones_are():
    projector = SpikingProjector(orthonormal(3, 10), LateralSpikes())
    assert projector.multiply_accumulates(7) == Projector(projector.directions).multiply_accumulates(7) == 2 * 7 * 30


def test_a_subspace_projects_with_the_spikes_it_learned_with():
    subspace, rows = LateralSubspace(10, SPIKING, dtype=torch.float64), drawn(30, 10, scale=4)
    subspace.grow(3)
    subspace.learn(rows)
    assert subspace.consolidate().rank == 3
    expected = rows - LateralSpikes(20.0, 40)(rows @ subspace.basis.mT) @ subspace.basis
    torch.testing.assert_close(subspace.project(rows), expected)
    assert subspace.stored_bytes == subspace.basis.nbytes
    assert Eigen().spikes is None
