"""Every configured strategy keeps the contract."""

from contracts.strategy import StrategyContract

from continual.compose import choices


class TestNaive(StrategyContract):
    choice = "naive"


class TestNaiveFrozen(StrategyContract):
    choice = "naive_frozen"


class TestJoint(StrategyContract):
    choice = "joint"


class TestCumulative(StrategyContract):
    choice = "cumulative"


class TestHLOP(StrategyContract):
    choice = "hlop"


class TestHLOPHebbian(StrategyContract):
    choice = "hlop_hebbian"


class TestHLOPEigen(StrategyContract):
    choice = "hlop_eigen"


def test_no_configured_strategy_is_forgotten_here():
    tested = {member.choice for member in StrategyContract.__subclasses__()}
    assert tested == set(choices("strategy"))
