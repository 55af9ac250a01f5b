"""Learning rules, one a file: how gradients arise."""

from neuro.learning.bptt import BPTT, Objective, Terms, Update

__all__ = ["BPTT", "Objective", "Terms", "Update"]
