"""OWM against the paper's recursion one mean at a time, the inverse it stands for, and a loop as released."""

import sys
from pathlib import Path

import pytest
import torch
from projection_runs import PlainRun, relu_network, three_tasks
from tiny_runs import POISSON, described, launch, small_data
from torch import nn

from continual.assembly import make_parts
from continual.batches import Batch, as_tensors, gather
from continual.config import RunConfig
from continual.objectives import CrossEntropy
from continual.seeding import stream
from continual.strategies import OWMOnline, OWMTaskEnd
from neuro import LIF, Conv2d
from neuro.lateral.recursive import absorb, absorb_operations
from neuro.models import spiking_mlp

sys.path.append(str(Path(__file__).parents[2] / "neuro"))

from slow_patches import slow_rows

LAYERS = ("0", "2")


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_absorb(matrix, mean, damping):
    """The paper's step for one mean input."""
    k = matrix @ mean
    return matrix - torch.outer(k, k) / (damping + mean @ k)


@pytest.mark.parametrize("damping", [1e-6, 0.3, 100.0])
def test_several_rows_at_once_are_the_papers_steps_one_by_one_in_any_order_and_the_inverse(damping):
    start, rows = torch.eye(7).double() / 2, drawn(5, 7)
    block, slow, backwards = start.clone(), start.clone(), start.clone()
    absorb(block, rows, damping)
    for row in rows:
        slow = slow_absorb(slow, row, damping)
    for row in rows.flip(0):
        absorb(backwards, row[None], damping)
    inverse = torch.linalg.inv(2 * torch.eye(7).double() + rows.T @ rows / damping)
    for found in (block, slow, backwards):
        torch.testing.assert_close(found, inverse, rtol=1e-6, atol=1e-9)


def test_a_direction_keeps_damping_over_damping_plus_energy():
    matrix = torch.eye(3).double() / 0.5
    absorb(matrix, torch.tensor([[2.0, 0, 0], [0, 1.0, 0]]).double(), 0.1)
    kept = [0.1 / (0.1 * 0.5 + energy) for energy in (4.0, 1.0, 0.0)]
    torch.testing.assert_close(matrix, torch.diag(torch.tensor(kept).double()))


def test_in_single_precision_rows_that_are_out_already_do_no_harm():
    """Thousands of rows of a subspace under a damping far below rounding: P stays finite, symmetric, not below zero."""
    matrix, generator = torch.eye(20), torch.Generator().manual_seed(0)
    for _ in range(300):
        absorb(matrix, 10 * torch.rand(40, 6, generator=generator) @ torch.eye(20)[:6], 1e-12)
    assert torch.isfinite(matrix).all()
    energies = torch.linalg.eigvalsh((matrix + matrix.T).double() / 2)
    assert float(energies[0]) > -1e-5
    torch.testing.assert_close(matrix, torch.diag(torch.tensor([0.0] * 6 + [1.0] * 14)), rtol=0, atol=1e-4)


# What is absorbed


def matrices_of(run):
    return {name: held.matrix.clone() for name, held in run.strategy._matrices.maps.items()}


def released(run, num_tasks, alpha, damping, decays, learning_rate=0.3):
    """The released loop: P moves with a batch's mean, then projects that batch's gradient; plain SGD."""
    model = relu_network()
    P = {name: torch.eye(width).double() / alpha for name, width in zip(LAYERS, (16, 12), strict=True)}
    for index in range(num_tasks):
        steps = 0
        for epoch in range(run.epochs):
            for batch in run.data(index).batches(run.batch_size, stream(run.seed, "order", index, epoch)):
                seen = {"0": batch.inputs, "2": model[1](model[0](batch.inputs)).detach()}
                for name, decay in zip(LAYERS, decays, strict=True):
                    P[name] = slow_absorb(P[name], seen[name].mean(0), damping * decay ** (steps / (6 * run.epochs)))
                model.zero_grad()
                CrossEntropy().loss(model(batch.inputs), batch).backward()
                with torch.no_grad():
                    for name in LAYERS:
                        weight = model.get_parameter(f"{name}.weight")
                        weight -= learning_rate * weight.grad @ P[name].T
                steps += 1
    return model, P


@pytest.mark.parametrize(("decay", "decays"), [(1.0, (1, 1)), (0.1, (0.1, 0.1)), ([1e-3, 0.5], (1e-3, 0.5))])
def test_online_is_the_released_loop_over_two_tasks(decay, decays):
    run = PlainRun(OWMOnline(2.0, 0.5, decay), relu_network(), three_tasks(), epochs=2)
    model, P = released(run, 2, 2.0, 0.5, decays)
    for index in (0, 1):
        run.learn(index)
        run.end(index)
    for name in LAYERS:
        torch.testing.assert_close(run.weights()[f"{name}.weight"], model.get_parameter(f"{name}.weight").detach())
        torch.testing.assert_close(matrices_of(run)[name], P[name], rtol=1e-7, atol=1e-10)


def test_at_a_tasks_end_the_means_of_the_drawn_batches_go_out_and_nothing_moves_while_it_learns():
    run = PlainRun(OWMTaskEnd(1.0, 0.2, 0.5, max_samples=35, batch_size=10), relu_network(), three_tasks())
    P = {name: torch.eye(width).double() for name, width in zip(LAYERS, (16, 12), strict=True)}
    for index in range(2):
        run.learn(index)
        for name in LAYERS:
            assert torch.allclose(matrices_of(run)[name], P[name], rtol=1e-9, atol=1e-12), "still as before the task"
        inputs = run.data(index).inputs
        order = torch.randperm(len(inputs), generator=stream(0, "consolidation", index, 0))[:35]
        for number, chosen in enumerate(order.split(10)):
            for name in LAYERS:
                mean = run.inputs_of(name, inputs[chosen]).mean(0)
                P[name] = slow_absorb(P[name], mean, 0.2 * 0.5 ** (number / 4))
        run.end(index)
        for name in LAYERS:
            torch.testing.assert_close(matrices_of(run)[name], P[name], rtol=1e-8, atol=1e-11)


def inputs_of(strategy):
    """The inputs of the first task."""
    split = strategy._path.setting.sequence.tasks[0].train
    return as_tensors(split, torch.device("cpu"), torch.float64)[0]


def test_a_convolution_takes_out_one_mean_a_position_and_a_group_its_own(tmp_path):
    torch.manual_seed(0)
    convolution = Conv2d(2, 4, 3, groups=2)
    model = nn.Sequential(nn.Unflatten(1, (2, 4)), convolution, nn.Flatten(), nn.Linear(48, 10, bias=False))
    strategy = OWMTaskEnd(damping=0.1, batch_size=200)
    launch(tmp_path, "scenario.num_tasks=1", "dtype=float64", own={"strategy": strategy, "model": model})
    images = inputs_of(strategy).unflatten(1, (2, 4))
    for group in (0, 1):
        means = slow_rows(convolution, images, group).reshape(200, 12, 9).mean(0)
        expected = torch.eye(9).double()
        for mean in means:
            expected = slow_absorb(expected, mean, 0.1)
        torch.testing.assert_close(strategy._matrices.maps[f"1[{group}]"].matrix, expected, rtol=1e-6, atol=1e-8)


def test_a_spiking_layer_takes_out_one_mean_a_tick(tmp_path):
    torch.manual_seed(0)
    model = spiking_mlp([8, 8], 10, hidden=[6], neuron=LIF(threshold=0.2), time_steps=3).double()
    strategy, spikes = OWMTaskEnd(damping=0.1, batch_size=200), []
    launch(tmp_path, "scenario.num_tasks=1", "dtype=float64", own={"strategy": strategy, "model": model})
    model.network.head.register_forward_pre_hook(lambda _, inputs: spikes.append(inputs[0]))
    model(inputs_of(strategy))
    expected = torch.eye(6).double()
    for tick in torch.cat(spikes).reshape(3, 200, 6):
        assert tick.sum() > 0
        expected = slow_absorb(expected, tick.mean(0), 0.1)
    torch.testing.assert_close(strategy._matrices.maps["network.head"].matrix, expected, rtol=1e-7, atol=1e-9)


def test_absorbing_moves_no_stream_of_training():
    config = RunConfig.from_dict(described("strategy=owm_online", *POISSON) | {"data": small_data()})
    parts = make_parts(config)
    model, task = parts.model.train(), parts.sequence.tasks[0]
    parts.strategy.before_task(task, torch.optim.SGD(model.parameters(), lr=0.1))
    data = gather([task], task, parts.sequence, torch.device("cpu"), torch.float32)
    encoder, streams = model.encoder, torch.get_rng_state()
    drawn_before = encoder.generator.get_state() if encoder.generator is not None else None
    before = {name: held.matrix.clone() for name, held in parts.strategy._matrices.maps.items()}
    parts.strategy.mix(Batch(data.inputs[:20], data.targets[:20], None, data.task[:20]))
    assert torch.equal(torch.get_rng_state(), streams)
    after = encoder.generator.get_state() if encoder.generator is not None else None
    assert (drawn_before is None and after is None) or torch.equal(drawn_before, after)
    assert all(module.training for module in model.modules())
    assert all(not torch.equal(held.matrix, before[name]) for name, held in parts.strategy._matrices.maps.items())


def test_a_matrix_that_never_moves_still_scales_by_alpha():
    free = PlainRun(OWMTaskEnd(1.0, float("inf")), relu_network(), three_tasks())
    halved = PlainRun(OWMOnline(2.0, float("inf")), relu_network(), three_tasks())
    free.learn(0)
    halved.learn(0)
    assert free.strategy._matrices.maps == {}
    applied, wanted, _ = halved.steps[0]
    for name in ("0.weight", "2.weight"):
        torch.testing.assert_close(applied[name], wanted[name] / 2)
    assert halved.strategy.operations > 0
    assert free.strategy.operations == 0


def test_the_head_is_projected_within_a_task_only_where_another_task_trains_it_too():
    for mode, projected in (("domain", True), ("task", False)):
        run = PlainRun(
            OWMOnline(damping=0.3), relu_network(num_classes=3 if mode == "domain" else 9), three_tasks(mode)
        )
        run.learn(0)
        assert ("2.weight" in run.steps[0][2]) == projected
        assert "0.weight" in run.steps[0][2]


def test_bytes_and_operations_are_counted_by_hand():
    run = PlainRun(OWMTaskEnd(damping=0.3, max_samples=40, batch_size=10), relu_network(), three_tasks())
    assert run.strategy.stored_bytes == 8 * (16**2 + 12**2)
    run.learn(0, "adam")
    assert run.strategy.operations == 0
    run.end(0)
    passes = 40 * (16 * 12 + 12 * 3)
    moving = 4 * (absorb_operations(1, 16) + absorb_operations(1, 12))
    assert run.strategy.operations == passes + moving
    assert absorb_operations(1, 16) == 2 * 16**2 + 2 * 16
    run.learn(1, "sgd")
    assert run.strategy.operations == passes + moving + 6 * (12 * 16**2 + 3 * 12**2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0"),
        ({"damping": 0}, "damping must be above 0"),
        ({"decay": 0}, r"decay must be in \(0, 1\]"),
        ({"decay": [0.5, 1.5]}, r"decay must be in \(0, 1\]"),
    ],
)
@pytest.mark.parametrize("kind", [OWMOnline, OWMTaskEnd])
def test_settings_out_of_range_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


def test_decays_that_do_not_fit_the_layers_are_refused():
    with pytest.raises(ValueError, match=r"decay names 3 layers, the network has 2 to protect \(0, 2\)"):
        PlainRun(OWMOnline(decay=[0.1] * 3), relu_network(), three_tasks())
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        OWMTaskEnd(batch_size=0)
