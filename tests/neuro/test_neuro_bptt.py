"""The rule BPTT: one filling of the gradients a batch, from the objective and a strategy's terms."""

from typing import NamedTuple

import pytest
import torch
from torch import nn

from neuro import IF, LIF, LeakyReadout, Linear, SpikingSequential
from neuro.learning import BPTT
from neuro.models import spiking_mlp


class Batch(NamedTuple):
    inputs: torch.Tensor
    targets: torch.Tensor


class CrossEntropy:
    def prepare(self, forward, batch):
        return batch

    def loss(self, outputs, prepared):
        return nn.functional.cross_entropy(outputs, prepared.targets)


def setting():
    torch.manual_seed(0)
    model = spiking_mlp([6], 3, hidden=[9], neuron=LIF(threshold=0.3), time_steps=4)
    return model, Batch(torch.rand(5, 6), torch.tensor([0, 1, 2, 0, 1]))


def test_it_yields_once_with_the_gradients_of_a_plain_backward():
    model, batch = setting()
    updates = list(BPTT().updates(model, batch, CrossEntropy(), lambda outputs, prepared: None))
    filled = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    outputs = model(batch.inputs)
    loss = nn.functional.cross_entropy(outputs, batch.targets)
    loss.backward()
    assert len(updates) == 1
    assert torch.equal(updates[0].outputs, outputs)
    assert torch.equal(updates[0].loss, loss)
    assert not updates[0].outputs.requires_grad
    assert updates[0].batch is batch
    assert all(torch.equal(ours, parameter.grad) for ours, parameter in zip(filled, model.parameters(), strict=True))


def test_a_strategys_term_is_added():
    model, batch = setting()
    (plain,) = BPTT().updates(model, batch, CrossEntropy(), lambda outputs, prepared: None)
    model.zero_grad()
    (update,) = BPTT().updates(model, batch, CrossEntropy(), lambda outputs, prepared: outputs.square().sum())
    assert float(update.loss) == pytest.approx(float(plain.loss + plain.outputs.square().sum()), rel=1e-6)


def test_gradients_are_there_when_the_update_is_yielded():
    model, batch = setting()
    for _ in BPTT().updates(model, batch, CrossEntropy(), lambda outputs, prepared: None):
        assert all(parameter.grad is not None for parameter in model.parameters())


def test_every_neuron_of_ours_is_accepted_and_a_narrower_rule_names_what_it_refuses():
    network = SpikingSequential(fc=Linear(3, 4), cells=IF(), head=Linear(4, 2), out=LeakyReadout())
    BPTT().check(network)
    BPTT().check(nn.Linear(2, 2))

    class ForLIF(BPTT):
        name = "for_lif"
        accepts = (LIF,)

    with pytest.raises(ValueError, match=r"for_lif cannot train layer 'cells' \(IF\); it accepts LIF"):
        ForLIF().check(network)
