"""Spiking models from injected parts."""

from neuro.models.classifier import Normalise, SpikingClassifier
from neuro.models.mlp import spiking_mlp

__all__ = ["Normalise", "SpikingClassifier", "spiking_mlp"]
