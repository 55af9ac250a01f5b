"""The cost of a pass by hand: a static input counts once, everything behind a neuron at every tick."""

import torch
from tiny_runs import foreign_network, same_tensors, small_data
from torch import nn

from continual.pass_cost import forward_operations
from continual.scenarios import permuted
from neuro import LIF
from neuro.encoding import Poisson
from neuro.models import spiking_mlp

SEQUENCE = permuted(small_data(), 2)


def test_a_plain_network_spends_its_weights():
    assert forward_operations(foreign_network(), SEQUENCE) == 64 * 12 + 12 * 10


def test_behind_a_neuron_every_tick_counts():
    network = spiking_mlp((8, 8), 10, hidden=(12, 7), neuron=LIF(threshold=0.3), time_steps=5)
    assert forward_operations(network, SEQUENCE) == 64 * 12 + 5 * (12 * 7 + 7 * 10)
    silent = spiking_mlp((8, 8), 10, hidden=(12, 7), neuron=LIF(threshold=1e6), time_steps=5)
    assert forward_operations(silent, SEQUENCE) == forward_operations(network, SEQUENCE), "spike or not"


def test_a_convolution_spends_its_kernel_at_every_place_inside_the_image():
    network = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(3 * 36, 10))
    assert forward_operations(network, SEQUENCE) == 36 * 9 * 3 + 3 * 36 * 10


def test_counting_changes_nothing():
    network = spiking_mlp((8, 8), 10, hidden=(12,), neuron=LIF(), time_steps=3, encoder=Poisson())
    network.train()
    before, streams = {k: v.clone() for k, v in network.state_dict().items()}, torch.get_rng_state()
    drawn = [module.generator for module in network.modules() if hasattr(module, "reseed")]
    forward_operations(network, SEQUENCE)
    assert network.training
    assert same_tensors(network.state_dict(), before)
    assert torch.equal(torch.get_rng_state(), streams)
    assert [module.generator for module in network.modules() if hasattr(module, "reseed")] == drawn
