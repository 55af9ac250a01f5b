"""Strategies, one a file: what protects old tasks."""

from continual.strategies.agem import AGEM
from continual.strategies.cumulative import Cumulative
from continual.strategies.der import DER
from continual.strategies.er import ER, Concat, Sum
from continual.strategies.ewc import EWC
from continual.strategies.hlop import HLOP
from continual.strategies.hlop_replay import HLOPReplay
from continual.strategies.joint import Joint
from continual.strategies.lwf import LwF
from continual.strategies.mas import MAS
from continual.strategies.naive import Naive
from continual.strategies.naive_frozen import NaiveFrozen
from continual.strategies.ncm import NCM
from continual.strategies.online_ewc import OnlineEWC
from continual.strategies.si import SI
from continual.strategies.strategy import LayerRank, Setting, Strategy

__all__ = [
    "AGEM",
    "DER",
    "ER",
    "EWC",
    "HLOP",
    "MAS",
    "NCM",
    "SI",
    "Concat",
    "Cumulative",
    "HLOPReplay",
    "Joint",
    "LayerRank",
    "LwF",
    "Naive",
    "NaiveFrozen",
    "OnlineEWC",
    "Setting",
    "Strategy",
    "Sum",
]
