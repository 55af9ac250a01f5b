"""What every learning rule owes the runner; a member's test class inherits this."""

import pytest
import torch
from torch import nn

from continual.batches import Batch
from continual.objectives import CrossEntropy
from neuro import IF, LIF, Linear, Neuron
from neuro.models import spiking_mlp


class RuleContract:
    """Inherit, define `make`, and name a neuron that the rule accepts."""

    neuron: type[Neuron] = LIF

    def make(self):
        raise NotImplementedError

    def network(self, neuron=None, seed=0):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            template = (neuron or self.neuron)(threshold=0.3)
            return spiking_mlp((6,), 3, hidden=(12, 10), neuron=template, time_steps=4).double()

    def batch(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.rand(9, 6, generator=generator, dtype=torch.float64)
        return Batch(inputs, torch.randint(0, 3, (9,), generator=generator), None, torch.zeros(9, dtype=torch.int64))

    def gradients(self, model, batch, terms=lambda outputs, batch: None, **parts):
        """Sum of what every update of a batch fills in."""
        total = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for _ in self.make().updates(model, batch, parts.get("objective", CrossEntropy()), terms):
            for held, parameter in zip(total, model.parameters(), strict=True):
                held += parameter.grad
                parameter.grad = None
        return total

    def test_accepts_its_neurons_and_networks_without_any(self):
        self.make().check(self.network())
        self.make().check(nn.Sequential(Linear(3, 3), nn.ReLU()))

    def test_refuses_other_neurons_by_the_name_of_their_layer(self):
        rule = self.make()
        narrowed = type("Narrowed", (type(rule),), {"accepts": (LIF,)})()
        narrowed.check(self.network(LIF))
        with pytest.raises(ValueError, match=r"network\.neuron1.*\(IF\).*accepts LIF"):
            narrowed.check(self.network(IF))

    def test_every_update_fills_all_gradients_and_gives_detached_outputs(self):
        model, batch, updates = self.network(), self.batch(), 0
        for update in self.make().updates(model, batch, CrossEntropy(), lambda outputs, batch: None):
            updates += 1
            assert update.outputs.shape == (9, 3)
            assert not update.outputs.requires_grad
            assert update.loss.shape == ()
            assert not update.loss.requires_grad
            assert torch.equal(update.batch.targets, batch.targets)
            for parameter in model.parameters():
                assert parameter.grad is not None
                assert torch.isfinite(parameter.grad).all()
                parameter.grad = None
        assert updates >= 1

    def test_nothing_is_remembered_between_batches(self):
        model = self.network()
        first = self.gradients(model, self.batch(0))
        self.gradients(model, self.batch(1))
        again = self.gradients(model, self.batch(0))
        assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))

    def test_extra_terms_add_to_loss_and_gradient(self):
        model, batch = self.network(), self.batch()
        plain = self.gradients(model, batch)
        doubled = self.gradients(model, batch, lambda outputs, batch: CrossEntropy().loss(outputs, batch))
        for once, twice in zip(plain, doubled, strict=True):
            torch.testing.assert_close(twice, 2 * once, rtol=1e-10, atol=1e-14)

    def test_gradients_exist(self):
        assert all(gradient.abs().sum() > 0 for gradient in self.gradients(self.network(), self.batch()))
