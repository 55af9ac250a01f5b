"""How neurons compute and learn: neurons, synapses, lateral circuits, learning rules, encoders, probes."""

from neuro.decoding import LastTick, MaxOverTime, MeanOverTime, WeightedRate
from neuro.encoding import ConstantCurrent, Frames, Poisson
from neuro.error_paths import Exact, FeedbackAlignment, SignSymmetric
from neuro.network import SpikingSequential
from neuro.neurons import (
    DSRIF,
    DSRLIF,
    IF,
    LIF,
    AdaptiveLIF,
    LeakyReadout,
    Neuron,
    ParametricLIF,
    Recurrent,
    StepNeuron,
    Synaptic,
)
from neuro.probes import record
from neuro.reset import HardReset, SoftReset
from neuro.residual import Residual
from neuro.statistics import firing_rates, measure_activity
from neuro.surrogate import ATan, Custom, FastSigmoid, Rectangle, Sigmoid, Triangle, spike
from neuro.synapses import Conv2d, Linear
from neuro.temporal import Temporal
from neuro.types import Activity, State, Static

__all__ = [
    "DSRIF",
    "DSRLIF",
    "IF",
    "LIF",
    "ATan",
    "Activity",
    "AdaptiveLIF",
    "ConstantCurrent",
    "Conv2d",
    "Custom",
    "Exact",
    "FastSigmoid",
    "FeedbackAlignment",
    "Frames",
    "HardReset",
    "LastTick",
    "LeakyReadout",
    "Linear",
    "MaxOverTime",
    "MeanOverTime",
    "Neuron",
    "ParametricLIF",
    "Poisson",
    "Rectangle",
    "Recurrent",
    "Residual",
    "Sigmoid",
    "SignSymmetric",
    "SoftReset",
    "SpikingSequential",
    "State",
    "Static",
    "StepNeuron",
    "Synaptic",
    "Temporal",
    "Triangle",
    "WeightedRate",
    "firing_rates",
    "measure_activity",
    "record",
    "spike",
]
