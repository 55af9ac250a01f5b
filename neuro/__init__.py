"""How neurons compute and learn: neurons, synapses, lateral circuits, learning rules, encoders, probes."""

from neuro.decoding import LastTick, MaxOverTime, MeanOverTime
from neuro.encoding import ConstantCurrent, Poisson
from neuro.network import SpikingSequential
from neuro.neurons import IF, LIF, LeakyReadout, Neuron
from neuro.probes import record
from neuro.reset import HardReset, SoftReset
from neuro.statistics import measure_activity
from neuro.surrogate import ATan, Custom, FastSigmoid, Rectangle, Sigmoid, Triangle, spike
from neuro.synapses import Linear
from neuro.types import Activity, State, Static

__all__ = [
    "IF",
    "LIF",
    "ATan",
    "Activity",
    "ConstantCurrent",
    "Custom",
    "FastSigmoid",
    "HardReset",
    "LastTick",
    "LeakyReadout",
    "Linear",
    "MaxOverTime",
    "MeanOverTime",
    "Neuron",
    "Poisson",
    "Rectangle",
    "Sigmoid",
    "SoftReset",
    "SpikingSequential",
    "State",
    "Static",
    "Triangle",
    "measure_activity",
    "record",
    "spike",
]
