"""Learning rules, one a file: how gradients arise."""

from neuro.learning.bptt import BPTT
from neuro.learning.dsr import DSR
from neuro.learning.eprop import EProp
from neuro.learning.ottt import OTTT
from neuro.learning.rule import Objective, Presynaptic, Rule, Terms, Update
from neuro.learning.sltt import SLTT

__all__ = ["BPTT", "DSR", "OTTT", "SLTT", "EProp", "Objective", "Presynaptic", "Rule", "Terms", "Update"]
