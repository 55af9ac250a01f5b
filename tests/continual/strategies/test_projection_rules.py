"""The projection family under every learning rule, on convolutions, on every device and in low precision."""

import pytest
import torch
from projection_runs import PlainRun, relu_network, three_tasks
from test_projection_guarantees import FAMILY
from tiny_runs import launch, weights_of
from torch import nn

from continual.strategies import GPM, NSCL, OGD, SGP, Naive, OWMOnline
from neuro import Conv2d
from neuro.lateral import GrowingShare
from neuro.learning import BPTT, DSR, OTTT, SLTT, EProp

RULES = {"ottt": lambda: OTTT(every_tick=True), "sltt": SLTT, "dsr": DSR, "eprop": EProp, "bptt": BPTT}
OGD_RULES = {name: make for name, make in RULES.items() if name != "dsr"}


def change_of_task_two(folder):
    first, second = weights_of(folder)
    return {name: (second[name] - first[name]).double() for name in first}


def rule_run(folder, rule, strategy):
    own = {"rule": RULES[rule](), "strategy": strategy}
    return change_of_task_two(launch(folder, f"rule={rule}", "model.time_steps=3", own=own).folder)


def keeping_maps(strategy):
    """Note a strategy's maps at each task's end, as matrices."""
    kept, original = [], strategy.after_task

    def after_task(task, data):
        original(task, data)
        guard = strategy._protection if isinstance(strategy, GPM) else strategy._path.guard
        widths = {site.name: site.width for site in guard.sites}
        maps = {name: held(torch.eye(widths[name]).double()) for name, held in guard.maps.items() if held is not None}
        kept.append(maps)

    strategy.after_task = after_task
    return kept


@pytest.mark.parametrize("rule", sorted(RULES))
def test_hard_maps_hold_under_every_rule(rule, tmp_path):
    for strategy in (GPM(GrowingShare(0.6)), NSCL(1e3)):
        kept = keeping_maps(strategy)
        change = rule_run(tmp_path / strategy.name, rule, strategy)
        moved = 0.0
        assert len(kept[0]) >= 2
        for name, matrix in kept[0].items():
            own = change[f"{name}.weight"]
            assert float((own - own @ matrix).norm()) <= 1e-5 * float(own.norm())
            moved += float(own.norm())
        assert moved > 1e-2


@pytest.mark.parametrize("rule", sorted(RULES))
def test_soft_maps_learn_less_along_what_old_tasks_used_most(rule, tmp_path):
    naive = rule_run(tmp_path / "naive", rule, Naive())["network.fc1.weight"]
    for strategy in (SGP(GrowingShare(0.99), 10.0), OWMOnline(damping=0.01)):
        kept = keeping_maps(strategy)
        ours = rule_run(tmp_path / strategy.name, rule, strategy)["network.fc1.weight"]
        most = torch.linalg.eigh(kept[0]["network.fc1"])[1][:, 0]
        assert 0 < float((ours @ most).norm()) < 0.2 * float((naive @ most).norm())


@pytest.mark.parametrize("rule", sorted(OGD_RULES))
def test_the_flat_projection_holds_under_every_rule_that_per_sample_gradients_allow(rule, tmp_path):
    strategy = OGD(10)
    kept, original = [], strategy.after_task
    strategy.after_task = lambda task, data: (original(task, data), kept.append(strategy._directions.double()))
    change = rule_run(tmp_path, rule, strategy)
    flat = torch.cat([change[name].flatten() for name in strategy._names])
    assert float((kept[0] @ flat).norm()) < 1e-5 * float(flat.norm())
    assert len(kept[0]) == 10


@pytest.mark.parametrize("member", [*sorted(FAMILY), "ogd"])
def test_convolutions_learn_two_tasks_and_keep_what_their_maps_say(member, tmp_path):
    torch.manual_seed(0)
    layers = [nn.Unflatten(1, (1, 8)), Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(100, 10))
    strategy = OGD(10) if member == "ogd" else FAMILY[member]()
    change = change_of_task_two(launch(tmp_path, own={"strategy": strategy, "model": model}).folder)
    assert all(torch.isfinite(part).all() for part in change.values())
    assert all(float(change[f"{name}.weight"].abs().max()) > 0 for name in (1, 5))
    names = [layer.name for layer in strategy.ranks()]
    assert names in ([], ["1", "3[0]", "3[1]", "5"], ["shared parameters"])


@pytest.mark.parametrize("member", [*sorted(FAMILY), "ogd"])
def test_every_device_and_a_low_precision(member, device):
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        strategy = OGD(10) if member == "ogd" else FAMILY[member]()
        run = PlainRun(strategy, relu_network().to(device, dtype), three_tasks())
        for optimiser in ("sgd", "adam"):
            index = ("sgd", "adam").index(optimiser)
            run.learn(index, optimiser)
            run.end(index)
        assert all(torch.isfinite(weight).all() for weight in run.weights().values())
        run.learn(2, "sgd")
        applied, wanted, matrices = run.steps[0]
        for name, matrix in matrices.items():
            difference = (applied[name] - wanted[name] @ matrix).norm() / wanted[name].norm()
            assert float(difference) < tolerance
        assert {part.dtype for name, part in strategy.state_dict().items() if name.startswith("counters")} == {
            torch.int64
        }
