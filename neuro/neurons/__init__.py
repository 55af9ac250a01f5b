"""Neurons, one a file; copy `lif.py` for your own."""

from neuro.neurons.integrate_fire import IF
from neuro.neurons.leaky import LeakyNeuron, LeakyState
from neuro.neurons.lif import LIF
from neuro.neurons.neuron import Neuron
from neuro.neurons.readout import LeakyReadout

__all__ = ["IF", "LIF", "LeakyNeuron", "LeakyReadout", "LeakyState", "Neuron"]
