"""Spiking models from injected parts; with `torch.nn.ReLU()` for the neuron each gives its ReLU twin."""

from neuro.models.classifier import Normalise, SpikingClassifier
from neuro.models.cnn import cnn
from neuro.models.mlp import spiking_mlp
from neuro.models.resnet import resnet18
from neuro.models.vgg import vgg

__all__ = ["Normalise", "SpikingClassifier", "cnn", "resnet18", "spiking_mlp", "vgg"]
