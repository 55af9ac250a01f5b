"""Every configured strategy keeps the contract."""

import importlib

import pytest
from contracts.strategy import StrategyContract
from tiny_runs import StopAtStep, assert_same_run, foreign_network, launch

from continual.compose import choices
from continual.errors import UserError


class TestNaive(StrategyContract):
    choice = "naive"


class TestNaiveFrozen(StrategyContract):
    choice = "naive_frozen"


class TestJoint(StrategyContract):
    choice = "joint"


class TestCumulative(StrategyContract):
    choice = "cumulative"


class TestCumulativeRestart(StrategyContract):
    choice = "cumulative_restart"


class TestAlone(StrategyContract):
    choice = "alone"


class TestHLOP(StrategyContract):
    choice = "hlop"


class TestHLOPHebbian(StrategyContract):
    choice = "hlop_hebbian"


class TestHLOPEigen(StrategyContract):
    choice = "hlop_eigen"


class TestHLOPOnline(StrategyContract):
    choice = "hlop_online"


def test_spiking_lateral_neurons_refuse_a_foreign_network(tmp_path):
    with pytest.raises(UserError, match=r"layer '1' cannot; use neuro.Linear"):
        launch(tmp_path, "strategy=hlop_spiking", own={"model": foreign_network()})


def test_spiking_lateral_neurons_stopped_and_resumed_equal_never_stopped(tmp_path):
    whole = launch(tmp_path / "whole", "strategy=hlop_spiking")
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "cut", "strategy=hlop_spiking", progress=StopAtStep(1, 2))
    assert_same_run(whole.folder, launch(tmp_path / "cut", "strategy=hlop_spiking").folder)


def test_no_configured_strategy_is_forgotten_here():
    refuses_foreign_networks = {"hlop_spiking"}
    for family in ("test_projection_contract", "test_replay_contract", "test_strategies_regularisation"):
        importlib.import_module(family)
    tested = {
        member.choice for member in StrategyContract.__subclasses__() if hasattr(member, "choice")
    } | refuses_foreign_networks
    of_presets = {f"gpm_{name.removesuffix('_gpm')}" for name in choices("experiment") if name.endswith("_gpm")}
    assert tested == set(choices("strategy")) - of_presets
