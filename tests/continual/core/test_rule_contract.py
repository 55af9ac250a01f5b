"""BPTT against a plain loop in torch, and at the runner's door."""

import pytest
import torch
import torch.nn.functional as F
from contracts.rule import RuleContract
from tiny_runs import described

from continual.assembly import make_parts
from continual.config import RunConfig
from continual.errors import UserError
from continual.models import relu_mlp
from continual.objectives import CrossEntropy
from neuro import IF, LIF
from neuro.learning import BPTT


class TestBPTT(RuleContract):
    def make(self):
        return BPTT()


class TestBPTTWithIF(TestBPTT):
    neuron, other = IF, LIF


def plain_loop(model, inputs, leak, threshold, slope=4.0, time_steps=4):
    """A spiking MLP as nested loops: the spike is a step forward, σ' backward; the soft reset lets no gradient by."""
    layers = dict(model.named_parameters())
    first, second, head = layers.values()
    membranes = [torch.zeros(len(inputs), len(weight), dtype=inputs.dtype) for weight in (first, second)]
    outputs = []
    for _ in range(time_steps):
        activity = inputs
        for number, weight in enumerate((first, second)):
            membrane = leak * membranes[number] + activity @ weight.T
            smooth = torch.sigmoid(slope * (membrane - threshold))
            spikes = (membrane >= threshold).to(inputs) + smooth - smooth.detach()
            membranes[number] = membrane - threshold * spikes.detach()
            activity = spikes
        outputs.append(activity @ head.T)
    return torch.stack(outputs).mean(0)


@pytest.mark.parametrize(("neuron", "leak"), [(LIF, 0.5), (IF, 1.0)])
def test_bptt_equals_a_plain_loop(neuron, leak):
    contract = TestBPTT()
    model, batch = contract.network(neuron), contract.batch()
    found = contract.gradients(model, batch)
    loss = F.cross_entropy(plain_loop(model, batch.inputs, leak, 0.3), batch.targets)
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    for ours, plain in zip(found, wanted, strict=True):
        assert plain.abs().max() > 1e-4
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-14)


def test_bptt_on_a_network_without_neurons_is_backpropagation():
    contract = TestBPTT()
    model, batch = relu_mlp((6,), 3, hidden=(8,)).double(), contract.batch()
    found = contract.gradients(model, batch)
    wanted = torch.autograd.grad(F.cross_entropy(model(batch.inputs), batch.targets), list(model.parameters()))
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


def test_bptt_yields_once():
    contract = TestBPTT()
    updates = BPTT().updates(contract.network(), contract.batch(), CrossEntropy(), lambda outputs, batch: None)
    assert len(list(updates)) == 1


def test_a_rule_that_does_not_fit_the_network_is_refused_at_the_start():
    class OnlyLIF(BPTT):
        name = "only_lif"
        accepts = (LIF,)

    overrides = described("strategy=naive")
    make_parts(RunConfig.from_dict(overrides | {"rule": OnlyLIF()}))
    spiking_if = {"_target_": "neuro.neurons.IF", "threshold": 0.5}
    other = overrides | {"model": overrides["model"] | {"neuron": spiking_if}, "rule": OnlyLIF()}
    with pytest.raises(UserError, match=r"only_lif cannot train layer 'network\.neuron1' \(IF\); it accepts LIF"):
        make_parts(RunConfig.from_dict(other))
