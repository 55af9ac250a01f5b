"""What passes through a network cost: multiply-accumulates, counted densely.

Every value at a synapse's input counts once per outgoing connection and tick, whether it is a spike or not: that is
what the passes of learning spend on a dense processor. A static input is counted once, because it is computed once. A
backward pass costs twice the forward pass (the error and the weight gradient).
"""

import numpy as np
import torch
from torch import nn

from continual.batches import as_tensors
from continual.scenarios import TaskSequence
from continual.seeding import apart
from neuro.lateral import evaluating, modules_of, readable_sites, tapped
from neuro.statistics import outgoing_connections

FORWARD, FORWARD_AND_BACKWARD = 1, 3


def forward_operations(model: nn.Module, sequence: TaskSequence) -> int:
    """Count the multiply-accumulates of one sample's forward pass; modes and random streams stay as they are.

    Args:
        model: the network.
        sequence: its first training sample is shown.
    """
    reference, synapses = next(model.parameters()), modules_of(readable_sites(model))
    inputs, _ = as_tensors(sequence.tasks[0].train.select(np.array([0])), reference.device, reference.dtype)
    total = 0

    def count(name: str, seen: torch.Tensor) -> None:
        nonlocal total
        total += int(outgoing_connections(synapses[name], seen).expand(seen.shape).sum(dtype=torch.float64))

    with evaluating(model), apart(model, 0, "cost"), tapped(synapses, count):
        model(inputs)
    return total
