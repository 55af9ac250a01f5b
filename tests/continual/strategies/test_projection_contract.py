"""Strategies of the projection family keep the contract of every strategy."""

from contracts.strategy import StrategyContract


class TestGPM(StrategyContract):
    choice = "gpm"


class TestGPMLegacy(StrategyContract):
    choice = "gpm_legacy"


class TestSGP(StrategyContract):
    choice = "sgp"


class TestOWMOnline(StrategyContract):
    choice = "owm_online"
    acts_from_task_two = False


class TestOWMTaskEnd(StrategyContract):
    choice = "owm_taskend"


class TestNSCL(StrategyContract):
    choice = "nscl"


class TestNSCLLegacy(StrategyContract):
    choice = "nscl_legacy"


class TestOGD(StrategyContract):
    choice = "ogd"
