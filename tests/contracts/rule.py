"""What every learning rule owes the runner; a member's test class inherits this."""

import pytest
import torch
from torch import nn

from continual.batches import Batch
from continual.objectives import CrossEntropy
from neuro import IF, LIF, Linear, Neuron
from neuro.models import spiking_mlp


class RuleContract:
    """Inherit, define `make`, and name a neuron that the rule accepts and another one.

    A rule with neurons of its own names their threshold, and gives the decoder that it wants.
    """

    neuron: type[Neuron] = LIF
    other: type[Neuron] = IF
    threshold = 0.3

    def make(self):
        raise NotImplementedError

    def decoder(self):
        """None: the model's own, the mean over time."""
        return

    def network(self, neuron=None, seed=0):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            template = (neuron or self.neuron)(threshold=self.threshold)
            parts = {"neuron": template, "time_steps": 4, "decoder": self.decoder()}
            return spiking_mlp((6,), 3, hidden=(12, 10), **parts).double()

    def batch(self, seed=0, active=None):
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.rand(9, 6, generator=generator, dtype=torch.float64)
        targets = torch.randint(0, 3 if active is None else int(active.sum()), (9,), generator=generator)
        return Batch(inputs, targets, active, torch.zeros(9, dtype=torch.int64))

    def gradients(self, model, batch, terms=lambda outputs, batch: None, **parts):
        """Sum of what every update of a batch fills in; 0 where it fills in nothing."""
        total = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for _ in self.make().updates(model, batch, parts.get("objective", CrossEntropy()), terms):
            for held, parameter in zip(total, model.parameters(), strict=True):
                held += parameter.grad if parameter.grad is not None else 0
                parameter.grad = None
        return total

    def test_accepts_its_neurons_and_networks_without_any(self):
        self.make().check(self.network())
        self.make().check(nn.Sequential(Linear(3, 3), nn.ReLU()))

    def test_refuses_other_neurons_by_the_name_of_their_layer(self):
        rule = self.make()
        narrowed = type("Narrowed", (type(rule),), {"accepts": (self.neuron,)})()
        narrowed.check(self.network(self.neuron))
        pattern = rf"network\.neuron1.*\({self.other.__name__}\).*accepts {self.neuron.__name__}"
        with pytest.raises(ValueError, match=pattern):
            narrowed.check(self.network(self.other))

    def test_every_update_fills_all_gradients_and_gives_detached_outputs(self):
        rule, model, batch, updates = self.make(), self.network(), self.batch(), 0
        for update in rule.updates(model, batch, CrossEntropy(), lambda outputs, batch: None):
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
        assert updates == rule.updates_per_batch(model) >= 1

    def test_the_outputs_of_a_batchs_updates_average_to_the_models_logits(self):
        model, batch = self.network(), self.batch()
        updates = self.make().updates(model, batch, CrossEntropy(), lambda outputs, batch: None)
        outputs = torch.stack([update.outputs for update in updates])
        torch.testing.assert_close(outputs.mean(0), model(batch.inputs).detach(), rtol=1e-12, atol=1e-14)

    def test_nothing_is_remembered_between_batches(self):
        model = self.network()
        first = self.gradients(model, self.batch(0))
        self.gradients(model, self.batch(1))
        again = self.gradients(model, self.batch(0))
        assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))

    def test_a_batch_that_was_left_unfinished_changes_nothing_in_the_next(self):
        model = self.network()
        first = self.gradients(model, self.batch(0))
        updates = self.make().updates(model, self.batch(1), CrossEntropy(), lambda outputs, batch: None)
        next(updates)
        updates.close()
        model.zero_grad()
        again = self.gradients(model, self.batch(0))
        assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))

    def test_extra_terms_add_to_loss_and_gradient(self):
        model, batch = self.network(), self.batch()
        plain = self.gradients(model, batch)
        doubled = self.gradients(model, batch, lambda outputs, batch: CrossEntropy().loss(outputs, batch))
        for once, twice in zip(plain, doubled, strict=True):
            torch.testing.assert_close(twice, 2 * once, rtol=1e-10, atol=1e-14)

    def test_gradients_add_to_what_is_there(self):
        model, batch = self.network(), self.batch()
        plain = self.gradients(model, batch)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.25)
        for _ in self.make().updates(model, batch, CrossEntropy(), lambda outputs, batch: None):
            pass
        for parameter, gradient in zip(model.parameters(), plain, strict=True):
            torch.testing.assert_close(parameter.grad, gradient + 0.25, rtol=1e-10, atol=1e-14)

    def test_gradients_exist(self):
        assert all(gradient.abs().sum() > 0 for gradient in self.gradients(self.network(), self.batch()))

    def test_a_small_step_of_the_readout_against_its_gradient_lowers_the_loss(self):
        model, batch = self.network(), self.batch()
        before = CrossEntropy().loss(model(batch.inputs), batch)
        step = -0.05 * self.gradients(model, batch)[-1]
        with torch.no_grad():
            list(model.parameters())[-1].add_(step)
        assert CrossEntropy().loss(model(batch.inputs), batch) < before

    def test_inactive_rows_of_the_head_get_exactly_zero_gradient(self):
        model, active = self.network(), torch.tensor([True, True, False])
        head = self.gradients(model, self.batch(active=active))[-1]
        assert (head[2] == 0).all()
        assert (head[:2] != 0).any(1).all()

    @pytest.mark.parametrize("frozen", [0, 1, 2])
    def test_a_frozen_weight_gets_no_gradient_and_the_others_theirs(self, frozen):
        model, batch = self.network(), self.batch()
        wanted = self.gradients(model, batch)
        weights = [name for name, _ in model.named_parameters() if name.endswith("weight")]
        model.get_parameter(weights[frozen]).requires_grad_(False)
        for _ in self.make().updates(model, batch, CrossEntropy(), lambda outputs, batch: None):
            assert model.get_parameter(weights[frozen]).grad is None
        for (name, parameter), gradient in zip(model.named_parameters(), wanted, strict=True):
            if name != weights[frozen] and self.make().updates_per_batch(model) == 1:
                torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-14)

    def test_a_network_without_neurons_is_trained_by_plain_backpropagation(self):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            models = [
                spiking_mlp((6,), 3, hidden=(8,), neuron=nn.ReLU(), time_steps=1).double(),
                nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double(),
            ]
        for model in models:
            batch = self.batch()
            found = self.gradients(model, batch)
            wanted = torch.autograd.grad(CrossEntropy().loss(model(batch.inputs), batch), list(model.parameters()))
            for ours, plain in zip(found, wanted, strict=True):
                torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-15)
