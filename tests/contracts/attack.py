"""What every attack owes its users; a member's test class inherits this and says how to build itself."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

from continual.robustness import Target, l2, linf
from continual.robustness.attacks import Attack


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def smooth_network(num_classes=5, features=8, seed=0, dtype=torch.float64):
    """A small smooth classifier of images [2, 2, 2] on which attacks have something to find."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Flatten(), nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, num_classes))
        model = nn.Sequential(*layers).to(dtype)
    with torch.no_grad():
        for layer in (model[1], model[3]):
            layer.weight.mul_(4)
    return model.eval()


def pictures(number=12, seed=1, dtype=torch.float64):
    return torch.rand(number, 2, 2, 2, generator=generator(seed), dtype=torch.float64).to(dtype)


def answers(model, images):
    with torch.no_grad():
        return model(images).argmax(1)


def norm_network():
    """A convolutional network with batch norm, dropout and a part that its owner froze."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4)
        )
    model.train()
    model[1].eval()
    model[0].weight.requires_grad_(False)
    return model


class AttackContract:
    """Inherit, and define `make`.

    Attributes:
        threats: whose ball the attack is tried in.
        exact_in_batches: whether the attack gives each sample the same whatever its batch.
    """

    threats = (linf(0.15), l2(0.3))
    exact_in_batches = True

    def make(self) -> Attack:
        raise NotImplementedError

    def run(self, model, images, labels, threat, seed=0):
        return self.make()(model, images, labels, threat, generator(seed))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_stays_in_ball_and_box_and_never_helps_the_network(self, dtype):
        model, images = smooth_network(dtype=dtype), pictures(dtype=dtype)
        images[0], images[1] = 0.0, 1.0
        labels = answers(model, images)
        labels[2] = (labels[2] + 1) % 5
        for threat in self.threats:
            found = self.run(model, images, labels, threat)
            lengths = threat.norm.length(found.images.double() - images.double())
            assert bool((lengths <= threat.epsilon * (1 + 1e-6) + 1e-7).all())
            assert 0 <= found.images.min() <= found.images.max() <= 1
            assert found.images.dtype == dtype
            assert found.accuracy <= found.clean_accuracy == 11 / 12
            assert torch.equal(found.predictions, answers(model, found.images))
            assert bool(found.success[2])
            assert torch.equal(found.images[2], images[2])

    def test_finds_most_of_what_there_is_to_find(self):
        model, images = smooth_network(), pictures(24)
        labels = answers(model, images)
        for threat in self.threats:
            found = self.run(model, images, labels, threat.with_epsilon(threat.epsilon * 3))
            assert found.accuracy <= 0.5

    def test_radius_zero_changes_nothing(self):
        model, images = smooth_network(), pictures()
        labels = answers(model, images)
        labels[0] = (labels[0] + 1) % 5
        for threat in self.threats:
            found = self.run(model, images, labels, threat.with_epsilon(0.0))
            assert torch.equal(found.images, images)
            assert found.accuracy == found.clean_accuracy == 11 / 12

    def test_a_seed_gives_the_same_images(self):
        model, images = smooth_network(), pictures()
        labels = answers(model, images)
        for threat in self.threats:
            first, second = (self.run(model, images, labels, threat, seed=5).images for _ in range(2))
            assert torch.equal(first, second)

    def test_a_sample_does_not_depend_on_its_batch(self):
        if not self.exact_in_batches:
            pytest.skip("this attack decides for the whole batch")
        model, images = smooth_network(), pictures(6)
        labels = answers(model, images)
        labels[1] = (labels[1] + 1) % 5
        for threat in self.threats:
            whole = self.run(model, images, labels, threat)
            one_stream = generator()
            singles = [self.make()(model, images[i : i + 1], labels[i : i + 1], threat, one_stream) for i in range(6)]
            assert torch.equal(whole.predictions, torch.cat([single.predictions for single in singles]))
            torch.testing.assert_close(
                whole.images, torch.cat([single.images for single in singles]), rtol=0, atol=1e-9
            )

    @pytest.mark.parametrize("num_classes", [2, 3, 4])
    def test_small_heads_work(self, num_classes):
        model, images = smooth_network(num_classes), pictures()
        labels = answers(model, images)
        for threat in self.threats:
            found = self.run(model, images, labels, threat)
            assert found.accuracy <= 1
            assert bool(found.images.isfinite().all())

    def test_a_slice_of_the_head_is_attacked_as_a_head_of_its_own(self):
        model, images = smooth_network(10), pictures()
        rows = [3, 7]
        labels = torch.as_tensor(rows)[answers(lambda x: model(x)[:, rows], images)]
        threat = self.threats[0]
        sliced = self.run(Target(model, classes=rows), images, labels, threat)
        own = self.run(lambda x: model(x)[:, rows], images, (labels == 7).long(), threat)
        assert torch.equal(sliced.images, own.images)
        assert set(sliced.predictions.tolist()) <= set(rows)

    def test_the_network_is_left_exactly_as_it_was(self):
        model = norm_network()
        images = torch.rand(6, 2, 2, 2, generator=generator(4))
        before = copy.deepcopy(model.state_dict())
        modes = [module.training for module in model.modules()]
        wanted = [parameter.requires_grad for parameter in model.parameters()]
        model[5].weight.grad = torch.ones_like(model[5].weight)
        streams = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
        self.run(model, images, torch.zeros(6, dtype=torch.long), self.threats[0])
        assert [module.training for module in model.modules()] == modes
        assert [parameter.requires_grad for parameter in model.parameters()] == wanted
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert torch.equal(model[5].weight.grad, torch.ones_like(model[5].weight))
        assert torch.equal(torch.get_rng_state(), streams[0])
        assert random.getstate() == streams[1]
        assert np.array_equal(np.random.get_state()[1], streams[2])  # noqa: NPY002

    def test_what_came_in_is_not_written_to(self):
        model, images = smooth_network(), pictures()
        labels = answers(model, images)
        copies = images.clone(), labels.clone()
        found = self.run(model, images, labels, self.threats[0])
        assert torch.equal(images, copies[0])
        assert torch.equal(labels, copies[1])
        assert not found.images.requires_grad

    def test_a_network_without_gradients_is_survived(self):
        images = pictures()
        labels = torch.zeros(12, dtype=torch.long)

        def flat(x):
            return (x.flatten(1).sum(1, keepdim=True) >= 100).to(x.dtype) * x.new_ones(1, 3) + x.new_tensor([2.0, 0, 0])

        found = self.run(flat, images, labels, self.threats[0])
        assert bool(found.images.isfinite().all())
        assert found.accuracy == 1
        if self.make().uses_gradients:
            assert found.cost.zero_gradients == 1

    def test_counts_what_it_asked(self):
        model, images = smooth_network(), pictures()
        found = self.run(model, images, answers(model, images), self.threats[0])
        assert found.cost.forward_passes >= 3 * 12
        assert (found.cost.backward_passes > 0) == self.make().uses_gradients

    def test_is_named_with_what_was_set(self):
        assert self.make().name.startswith(type(self.make()).__name__ + "(")
