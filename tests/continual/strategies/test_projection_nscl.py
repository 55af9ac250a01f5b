"""Adam-NSCL: the null space by hand, covariances that add up over tasks, and the released code's two switches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from projection_runs import PlainRun, relu_network, three_tasks

from continual.seeding import stream
from continual.strategies import NSCL, FrobeniusScaled, Unscaled
from continual.strategies.nscl import null_space
from neuro.lateral import BatchMean, EveryRow

LAYERS = ("0", "2")


def covariance(spectrum, seed=0):
    """A covariance of a given spectrum, and its eigenvectors as rows, in the order of the spectrum."""
    width = len(spectrum)
    drawn = torch.randn(width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    axes = torch.linalg.qr(drawn)[0]
    return axes.T @ torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ axes, axes


@pytest.mark.parametrize(("factor", "kept"), [(1.0, 1), (3.9, 1), (4.1, 2), (99.0, 3), (101.0, 4), (1e9, 5)])
def test_directions_up_to_so_many_times_the_smallest_eigenvalue_are_free(factor, kept):
    matrix, axes = covariance([1.0, 4.0, 50.0, 100.0, 1e4])
    free = null_space(matrix, factor)
    assert len(free) == kept
    torch.testing.assert_close(free.T @ free, axes[:kept].T @ axes[:kept])
    torch.testing.assert_close(free @ free.T, torch.eye(kept).double())


def test_inputs_that_are_always_dark_are_free_all_of_them_and_nothing_else():
    matrix = torch.diag(torch.tensor([0.0, 0.0, 1e-20, 3.0, 5.0], dtype=torch.float64))
    free = null_space(matrix, 10.0)
    torch.testing.assert_close(free.T @ free, torch.diag(torch.tensor([1.0, 1, 1, 0, 0]).double()))
    assert len(null_space(torch.zeros(4, 4).double(), 10.0)) == 4


@given(seed=st.integers(0, 50), small=st.floats(1, 1e3), more=st.floats(1, 1e3))
def test_law_a_larger_factor_frees_more_and_scale_does_not_matter(seed, small, more):
    matrix, _ = covariance([1.0, 2.0, 10.0, 300.0, 1e4, 1e5], seed)
    few, many = null_space(matrix, small), null_space(matrix, small * more)
    assert 1 <= len(few) <= len(many)
    outside = few - few @ many.T @ many
    assert float(outside.abs().max()) < 1e-9
    assert len(null_space(1e-6 * matrix, small)) == len(few)


def slow_covariances(run, index, mean):
    order = torch.randperm(60, generator=stream(0, "consolidation", index, 0))
    found = {}
    for name in LAYERS:
        rows = run.inputs_of(name, run.data(index).inputs[order])
        rows = torch.stack([batch.mean(0) for batch in rows.split(7)]) if mean else rows
        found[name] = sum(torch.outer(row, row) for row in rows)
    return found


@pytest.mark.parametrize("mean", [False, True], ids=["every row", "batch means"])
def test_covariances_add_up_over_the_tasks(mean):
    strategy = NSCL(10.0, BatchMean() if mean else EveryRow(), batch_size=7)
    run = PlainRun(strategy, relu_network(), three_tasks())
    totals = dict.fromkeys(LAYERS, 0.0)
    for index in range(3):
        run.learn(index)
        new = slow_covariances(run, index, mean)
        run.end(index)
        for name in LAYERS:
            totals[name] = totals[name] + new[name]
            state = run.strategy.state_dict()
            torch.testing.assert_close(state[f"covariance.{name}"], totals[name])
            free = null_space(totals[name], 10.0)
            torch.testing.assert_close(run.matrices()[f"{name}.weight"], free.T @ free, rtol=0, atol=1e-6)
            layer = next(layer for layer in run.strategy.ranks() if layer.name == name)
            assert layer.rank == layer.width - len(free)
            captured = 1 - float((free @ new[name] @ free.T).trace() / new[name].trace())
            assert layer.captured_energy == pytest.approx(captured, abs=1e-9)


@pytest.mark.parametrize("num_free", [2, 7])
def test_the_released_map_is_the_projection_shrunk_by_its_frobenius_norm(num_free):
    _, axes = covariance([1.0] * 9)
    free, eye = axes[:num_free], torch.eye(9).double()
    exact = free.T @ free
    torch.testing.assert_close(Unscaled()(free)(eye), exact)
    torch.testing.assert_close(FrobeniusScaled()(free)(eye), exact / num_free**0.5)
    assert len(Unscaled()(free).directions) == min(num_free, 9 - num_free)


def test_the_first_task_is_untouched_and_the_name_says_which_switches_are_on():
    assert NSCL().name == NSCL(rows=BatchMean()).name == NSCL(null_space_map=FrobeniusScaled()).name == "nscl"
    assert NSCL(rows=BatchMean(), null_space_map=FrobeniusScaled()).name == "nscl_legacy"
    run = PlainRun(NSCL(), relu_network(), three_tasks())
    run.learn(0, "adam")
    assert all(torch.equal(applied[name], wanted[name]) for applied, wanted, _ in run.steps for name in applied)


def test_a_state_of_a_run_that_has_not_begun_goes_back_too():
    strategies = [PlainRun(NSCL(), relu_network(), three_tasks()).strategy for _ in range(2)]
    strategies[1].load_state_dict(strategies[0].state_dict())
    assert strategies[1].stored_bytes == 0


def test_bytes_and_operations_are_counted_by_hand():
    run = PlainRun(NSCL(30.0, max_samples=40), relu_network(), three_tasks())
    run.learn(0)
    run.end(0)
    state = run.strategy.state_dict()
    held = sum(part.nbytes for name, part in state.items() if name != "counters")
    beside = sum(projector.directions.nbytes for name, projector in run.strategy._maps.items() if not projector.free)
    assert run.strategy.stored_bytes == held + beside
    passes, moments, eigen = 40 * (16 * 12 + 12 * 3), 40 * (16**2 + 12**2), 9 * (16**3 + 12**3)
    assert run.strategy.operations == passes + moments + eigen


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"factor must be at least 1.*got 0.5"):
        NSCL(0.5)
    with pytest.raises(ValueError, match="max_samples must be at least 1"):
        NSCL(max_samples=0)
