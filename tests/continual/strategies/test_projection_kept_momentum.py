"""An optimiser that goes on over tasks carries old gradients, and still no step leaves the projection."""

import sys

import pytest
import torch
from projection_runs import PlainRun, relu_network, three_tasks
from test_projection_guarantees import FAMILY, MODULE, worst_deviation

from continual.strategies import HLOP, OGD
from neuro import Linear
from neuro.lateral import linear_in_gradient

KEEPING = ("momentum", "decay", "adam")
MEMBERS = FAMILY | {"hlop": HLOP}


def second_task(member, optimiser):
    """The second task, learned by an optimiser that remembers the first."""
    run = PlainRun(
        MEMBERS[member](), relu_network(Linear if optimiser == "momentum" else torch.nn.Linear), three_tasks()
    )
    run.learn(0, optimiser)
    run.end(0)
    run.learn(1, optimiser, keep=True)
    return run


@pytest.mark.parametrize("optimiser", KEEPING)
@pytest.mark.parametrize("member", sorted(MEMBERS))
def test_what_is_applied_is_the_map_of_what_the_optimiser_wanted(member, optimiser):
    run = second_task(member, optimiser)
    assert any(key.endswith(("momentum_buffer", "exp_avg")) for key in run.kept[0])
    assert worst_deviation(run) < (1e-5 if member == "hlop" else 1e-9)


@pytest.mark.parametrize("member", sorted(set(MEMBERS) - {"owm_online"}))
def test_control_projecting_gradients_alone_lets_old_momentum_through(member, monkeypatch):
    def without_memory(optimizer):
        return isinstance(optimizer, torch.optim.SGD)

    module = sys.modules[f"continual.strategies.{MODULE.get(member, member)}"]
    monkeypatch.setattr(module, "linear_in_gradient", without_memory)
    assert worst_deviation(second_task(member, "momentum")) > 1e-3


@pytest.mark.parametrize("optimiser", KEEPING)
def test_ogd_keeps_its_directions_too(optimiser):
    run = PlainRun(OGD(20), relu_network(), three_tasks())
    run.learn(0, optimiser)
    run.end(0)
    run.learn(1, optimiser, keep=True)
    directions = run.strategy.state_dict()["directions"]
    for applied, wanted, _ in run.steps:
        flat, free = (torch.cat([one[name].flatten() for name in applied]) for one in (applied, wanted))
        assert float((directions @ flat).norm()) < 1e-9 * float(free.norm())
    assert float((directions @ free).norm()) > 1e-3 * float(free.norm()), "there was something to keep out"


def test_only_an_optimiser_without_old_momentum_is_linear_in_the_gradients_to_come():
    parameter = torch.nn.Parameter(torch.ones(2))
    plain, momentum = torch.optim.SGD([parameter], 0.1), torch.optim.SGD([parameter], 0.1, 0.9)
    assert linear_in_gradient(plain)
    assert linear_in_gradient(momentum)
    parameter.grad = torch.ones(2)
    plain.step()
    momentum.step()
    assert linear_in_gradient(plain)
    assert not linear_in_gradient(momentum)
