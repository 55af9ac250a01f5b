"""Naive fine-tuning: train one task after another and protect nothing; the lower reference."""

from continual.strategies.strategy import Strategy


class Naive(Strategy):
    """Train on the current task alone."""

    name = "naive"
    needs_labels = False
