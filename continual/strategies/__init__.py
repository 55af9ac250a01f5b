"""Strategies, one a file: what protects old tasks."""

from continual.strategies.cumulative import Cumulative
from continual.strategies.hlop import HLOP
from continual.strategies.joint import Joint
from continual.strategies.naive import Naive
from continual.strategies.naive_frozen import NaiveFrozen
from continual.strategies.strategy import LayerRank, Setting, Strategy

__all__ = ["HLOP", "Cumulative", "Joint", "LayerRank", "Naive", "NaiveFrozen", "Setting", "Strategy"]
