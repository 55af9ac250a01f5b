"""Neurons, one a file; copy `lif.py` for your own, or give `StepNeuron` a function."""

from neuro.neurons.adaptive_lif import AdaptiveLIF, AdaptiveState
from neuro.neurons.custom import StepNeuron
from neuro.neurons.dsr import DSRIF, DSRLIF, RepresentationNeuron
from neuro.neurons.integrate_fire import IF
from neuro.neurons.leaky import LeakyNeuron, LeakyState
from neuro.neurons.lif import LIF
from neuro.neurons.neuron import Neuron
from neuro.neurons.parametric_lif import ParametricLIF
from neuro.neurons.readout import LeakyReadout
from neuro.neurons.recurrent import Recurrent
from neuro.neurons.synaptic import Synaptic, SynapticState

__all__ = [
    "DSRIF",
    "DSRLIF",
    "IF",
    "LIF",
    "AdaptiveLIF",
    "AdaptiveState",
    "LeakyNeuron",
    "LeakyReadout",
    "LeakyState",
    "Neuron",
    "ParametricLIF",
    "Recurrent",
    "RepresentationNeuron",
    "StepNeuron",
    "Synaptic",
    "SynapticState",
]
