"""Strategies, one a file: what protects old tasks."""

from continual.strategies.agem import AGEM
from continual.strategies.alone import Alone
from continual.strategies.cumulative import Cumulative
from continual.strategies.cumulative_restart import CumulativeRestart
from continual.strategies.der import DER
from continual.strategies.er import ER, Concat, Sum
from continual.strategies.ewc import EWC
from continual.strategies.gdumb import GDumb
from continual.strategies.gpm import GPM
from continual.strategies.hlop import HLOP
from continual.strategies.hlop_replay import HLOPReplay
from continual.strategies.joint import Joint
from continual.strategies.lwf import LwF
from continual.strategies.mas import MAS
from continual.strategies.naive import Naive
from continual.strategies.naive_frozen import NaiveFrozen
from continual.strategies.ncm import NCM
from continual.strategies.nscl import NSCL, FrobeniusScaled, NullSpaceMap, Unscaled
from continual.strategies.ogd import OGD
from continual.strategies.online_ewc import OnlineEWC
from continual.strategies.owm import OWMOnline, OWMTaskEnd
from continual.strategies.sgp import SGP
from continual.strategies.si import SI
from continual.strategies.strategy import LayerRank, Setting, Strategy

__all__ = [
    "AGEM",
    "DER",
    "ER",
    "EWC",
    "GPM",
    "HLOP",
    "MAS",
    "NCM",
    "NSCL",
    "OGD",
    "SGP",
    "SI",
    "Alone",
    "Concat",
    "Cumulative",
    "CumulativeRestart",
    "FrobeniusScaled",
    "GDumb",
    "HLOPReplay",
    "Joint",
    "LayerRank",
    "LwF",
    "Naive",
    "NaiveFrozen",
    "NullSpaceMap",
    "OWMOnline",
    "OWMTaskEnd",
    "OnlineEWC",
    "Setting",
    "Strategy",
    "Sum",
    "Unscaled",
]
