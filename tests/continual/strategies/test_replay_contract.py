"""Replay strategies keep the contract of every strategy."""

from contracts.strategy import StrategyContract


class TestER(StrategyContract):
    choice = "er"
    acts_from_task_two = False


class TestERSum(StrategyContract):
    choice = "er_sum"
    acts_from_task_two = False


class TestDER(StrategyContract):
    choice = "der"
    acts_from_task_two = False


class TestDERPlusPlus(StrategyContract):
    choice = "derpp"
    acts_from_task_two = False


class TestAGEM(StrategyContract):
    choice = "agem"


class TestHLOPReplay(StrategyContract):
    choice = "hlop_replay"


class TestNCM(StrategyContract):
    choice = "ncm"
    acts_from_task_two = False  # it predicts by means from the first task on
    learns_later_tasks = False


class TestGDumb(StrategyContract):
    choice = "gdumb"  # its memory holds all of a single task
