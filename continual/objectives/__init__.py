"""Objectives, one a file: what is minimised."""

from continual.objectives.cross_entropy import CrossEntropy, masked_logits

__all__ = ["CrossEntropy", "masked_logits"]
