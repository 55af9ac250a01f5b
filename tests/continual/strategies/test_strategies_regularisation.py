"""EWC in five estimates, online EWC, SI, MAS, LwF keep the contract of a strategy."""

from contracts.strategy import StrategyContract


class TestEWC(StrategyContract):
    choice = "ewc"


class TestEWCSampled(StrategyContract):
    choice = "ewc_sampled"


class TestEWCEmpirical(StrategyContract):
    choice = "ewc_empirical"


class TestEWCArgmax(StrategyContract):
    choice = "ewc_argmax"


class TestEWCBatchMean(StrategyContract):
    choice = "ewc_batch_mean"


class TestOnlineEWC(StrategyContract):
    choice = "online_ewc"


class TestSI(StrategyContract):
    choice = "si"


class TestMAS(StrategyContract):
    choice = "mas"


class TestLwF(StrategyContract):
    choice = "lwf"
