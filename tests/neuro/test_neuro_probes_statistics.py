"""Probes and statistics: recorded by name, replayed exactly, and operations counted by hand."""

import pytest
import torch
from torch import nn

from neuro import IF, LIF, LeakyReadout, Linear, Poisson, SpikingSequential, measure_activity, record
from neuro.models import spiking_mlp
from neuro.probes import neuron_layers, replay_membrane


def mlp(seed=0, **parts):
    torch.manual_seed(seed)
    return spiking_mlp([6], 3, hidden=[8, 7], neuron=LIF(threshold=0.3), time_steps=5, **parts)


def test_spikes_are_recorded_by_layer_name():
    model, images = mlp(), torch.rand(4, 6)
    with record(model) as probe:
        logits = model(images)
    assert {name: tuple(spikes.shape) for name, spikes in probe.spikes.items()} == {
        "network.neuron1": (5, 4, 8),
        "network.neuron2": (5, 4, 7),
    }
    assert probe.membranes == {}
    assert not probe.spikes["network.neuron1"].requires_grad
    torch.testing.assert_close(model.network.head(probe.spikes["network.neuron2"].mean(0)), logits)


def test_recording_ends_with_its_context_and_changes_no_output():
    model, images = mlp(), torch.rand(4, 6)
    with record(model, membranes=True) as probe:
        inside = model(images)
    kept = probe.spikes["network.neuron1"]
    assert torch.equal(inside, model(torch.flip(images, [0])).flip(0))
    assert probe.spikes["network.neuron1"] is kept
    assert not model.network.neuron1._forward_hooks


def test_a_second_pass_replaces_the_first():
    model = mlp()
    with record(model) as probe:
        model(torch.rand(4, 6))
        model(torch.rand(2, 6))
    assert probe.spikes["network.neuron1"].shape == (5, 2, 8)


@pytest.mark.parametrize(
    "neuron", [LIF(tau=2.0, threshold=0.6), IF(0.7), LeakyReadout(3.0)], ids=["lif", "if", "readout"]
)
def test_replayed_membranes_are_the_states_of_simulate(neuron):
    network = SpikingSequential(cells=neuron)
    current = torch.rand(6, 3, 4, generator=torch.Generator().manual_seed(0))
    with record(network, membranes=True) as probe:
        network(current)
    for tick in range(6):
        _, state = neuron.simulate(current[: tick + 1])
        assert torch.equal(probe.membranes["cells"][tick], state[0])


def test_a_replay_starts_from_the_state_that_the_layer_was_given():
    neuron, current = LIF(threshold=0.6), torch.rand(6, 3, 4)
    _, state = neuron.simulate(current[:3])
    whole = replay_membrane(neuron, current)
    assert torch.equal(replay_membrane(neuron, current[3:], state), whole[3:])
    with record(SpikingSequential(cells=neuron), membranes=True) as probe:
        neuron(current[3:], state)
    assert torch.equal(probe.membranes["cells"], whole[3:])


def test_layers_can_be_chosen_and_unknown_names_are_refused():
    model = mlp()
    with record(model, layers=["network.neuron2"]) as probe:
        model(torch.rand(2, 6))
    assert list(probe.spikes) == ["network.neuron2"]
    with (
        pytest.raises(ValueError, match=r"no neuron layer 'neuron9'; choose from network.neuron1, network.neuron2"),
        record(model, layers=["neuron9"]),
    ):
        pass
    assert list(neuron_layers(model)) == ["network.neuron1", "network.neuron2"]


class Replay(nn.Module):
    """A network whose hidden spikes are known: 3 inputs, 2 hidden neurons, 4 outputs, T = 2."""

    def __init__(self, encoder=None):
        super().__init__()
        self.network = SpikingSequential(fc1=Linear(3, 2), cells=IF(1.0), fc2=Linear(2, 4))
        self.encoder = encoder
        with torch.no_grad():
            self.network.fc1.weight.copy_(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]]))

    def forward(self, inputs):
        return self.network(inputs.expand(2, *inputs.shape)).mean(0)


def test_synaptic_operations_of_a_tiny_network_are_those_counted_by_hand():
    # Sample 1 drives both neurons, sample 2 neither. Neuron 1 fires at both ticks (current 1), neuron 2 at the second
    # (0.5 + 0.5). Ticks · samples = 4 rows: 3 spikes in, each with fan-out 4.
    inputs = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    fc1, cells, fc2 = measure_activity(Replay(), inputs)
    assert [layer.name for layer in (fc1, cells, fc2)] == ["network.fc1", "network.cells", "network.fc2"]
    # The input is binary, three ones a tick, two ticks, fan-out 2: 12 additions over two samples.
    assert (fc1.synaptic_operations, fc1.macs, fc1.rate) == (6.0, 0.0, None)
    assert (fc2.synaptic_operations, fc2.macs) == (3 * 4 / 2, 0.0)
    assert cells.rate == pytest.approx(3 / 8)
    assert (cells.silent, cells.saturated) == (0.0, 0.0)
    assert (cells.synaptic_operations, cells.macs) == (0.0, 0.0)


def test_graded_input_is_multiply_accumulates_in_every_row():
    inputs = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.0, 1.0]])
    fc1, _, _ = measure_activity(Replay(), inputs)
    assert (fc1.synaptic_operations, fc1.macs) == (0.0, 2 * 3 * 2)


def test_a_static_graded_input_is_counted_once_not_once_a_tick():
    model = mlp()
    fc1 = measure_activity(model, torch.rand(4, 6))[0]
    assert (fc1.name, fc1.macs, fc1.synaptic_operations) == ("network.fc1", 6 * 8, 0.0)


def test_poisson_input_costs_additions():
    model = mlp(encoder=Poisson(0))
    fc1 = measure_activity(model, torch.ones(4, 6))[0]
    assert (fc1.macs, fc1.synaptic_operations) == (0.0, 5 * 6 * 8)


def test_silent_and_saturated_neurons_are_shares_of_the_layer():
    network = SpikingSequential(cells=LIF(tau=1.0))
    current = torch.zeros(3, 2, 4)
    current[..., 0] = 2.0
    current[0, 1, 1] = 2.0
    (cells,) = measure_activity(network, current)
    assert (cells.silent, cells.saturated) == (0.5, 0.25)
    assert cells.rate == pytest.approx((6 + 1) / 24)


def test_readouts_have_no_rate():
    network = SpikingSequential(fc=Linear(3, 2), out=LeakyReadout())
    assert [layer.name for layer in measure_activity(network, torch.rand(4, 2, 3))] == ["fc"]


def test_counting_leaves_modes_and_hooks_as_they_were():
    model = mlp().train()
    measure_activity(model, torch.rand(4, 6))
    assert model.training
    assert not model.network.neuron1._forward_hooks
    assert not model.network.fc1._forward_pre_hooks


def test_measured_rates_are_those_of_the_probe():
    model, images = mlp(), torch.rand(4, 6)
    with record(model) as probe:
        model(images)
    measured = {layer.name: layer for layer in measure_activity(model, images)}
    for name, spikes in probe.spikes.items():
        assert measured[name].rate == pytest.approx(float(spikes.mean()), rel=1e-5)
    events = float(probe.spikes["network.neuron1"].sum())
    assert measured["network.fc2"].synaptic_operations == pytest.approx(events * 7 / 4)
