"""Everything that an attack borrows comes back as it was."""

import functools
import random

import numpy as np
import pytest
import torch
from contracts.attack import generator, norm_network, pictures, smooth_network
from torch import nn

from continual.robustness import FGSM, PGD, Target, left_as_found, linf, networks_behind
from neuro.encoding import Poisson
from neuro.models import spiking_mlp

GLOBAL_NETWORK = nn.Linear(8, 3)


class Wrapper:
    def __init__(self, network):
        self.network = network

    def __call__(self, x):
        return self.network(x)

    def answer(self, x):
        return self.network(x)


def through_a_global(x):
    return GLOBAL_NETWORK(x)


def test_the_networks_behind_a_callable_are_found():
    network = nn.Linear(8, 3)
    wrapped = Wrapper(network)
    closures = (
        network,
        network.forward,
        lambda x: network(x)[:, :2],
        functools.partial(lambda net, x: net(x), network),
        functools.partial(lambda x, net: net(x), net=network),
        wrapped,
        wrapped.answer,
        lambda x: wrapped(x),
        lambda x: [network][0](x),
    )
    for closure in closures:
        assert networks_behind(closure) == (network,)
    assert networks_behind(through_a_global) == (GLOBAL_NETWORK,)
    assert networks_behind(torch.relu) == ()


def test_batch_norm_behind_a_lambda_is_neither_trained_nor_seen_in_training_mode():
    model = norm_network()
    model[1].train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = []

    def spy(x):
        modes.append(model.training)
        return model(x)[:, :2]

    PGD(steps=3, restarts=1)(spy, torch.rand(5, 2, 2, 2), torch.zeros(5, dtype=torch.long), linf(0.1), generator())
    assert not any(modes)
    assert model.training
    assert model[1].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_failure_inside_gives_everything_back_too():
    model, images = norm_network(), torch.rand(4, 2, 2, 2)
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="Logits must be finite"):
        FGSM()(lambda x: model(x) * float("nan"), images, torch.zeros(4).long(), linf(0.1), generator())

    def fail():
        with left_as_found([model], 0):
            torch.rand(3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)


class Remembering(nn.Module):
    """A foreign spiking layer: a membrane that lives on from call to call, and its own generator and recording."""

    def __init__(self):
        super().__init__()
        self.register_buffer("trace", torch.zeros(3))
        self.membrane = None
        self.own = torch.Generator().manual_seed(1)
        self.recorded = []

    def forward(self, x):
        self.membrane = x if self.membrane is None else 0.5 * self.membrane[: len(x)] + x
        self.trace += 1
        self.recorded.append(self.membrane)
        torch.rand(1, generator=self.own)
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(1)
        return self.membrane


def snapshot(layer):
    return (
        layer.membrane,
        layer.trace.clone(),
        layer.own.get_state(),
        list(layer.recorded),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.get_rng_state(),
    )


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert a is b or (torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b)


def test_membranes_recordings_and_generators_of_foreign_layers_come_back():
    layer = Remembering()
    images, labels = torch.rand(4, 3), torch.zeros(4, dtype=torch.long)

    def fresh():
        layer.membrane = None

    for membrane in (None, torch.full((4, 3), 0.7)):
        layer.membrane = membrane
        before = snapshot(layer)
        PGD(steps=3, restarts=1)(Target(layer, reset=fresh), images, labels, linf(0.1), generator())
        assert_same(before, snapshot(layer))


def test_a_state_that_is_carried_over_is_refused_and_the_reset_named():
    layer = Remembering()
    with pytest.raises(ValueError, match=r"differently from call to call .*stochastic=True.*reset="):
        PGD()(layer, torch.rand(4, 3), torch.zeros(4, dtype=torch.long), linf(0.1), generator())
    assert layer.membrane is None


def test_the_stream_of_a_poisson_encoder_goes_on_where_it_was():
    model = spiking_mlp((8,), 3, [6], encoder=Poisson(5), time_steps=4)
    images, labels = torch.rand(6, 8), torch.zeros(6, dtype=torch.long)
    model(images)
    expected = model.encoder.generator.get_state().clone()
    FGSM()(Target(model, stochastic=True), images, labels, linf(0.1), generator())
    assert model.encoder.seed == 5
    assert torch.equal(model.encoder.generator.get_state(), expected)


def test_frozen_parameters_stay_frozen_and_gradients_untouched():
    model = smooth_network()
    model[1].weight.requires_grad_(False)
    model[3].weight.grad = torch.full_like(model[3].weight, 7.0)
    PGD(steps=2, restarts=1)(model, pictures(), torch.zeros(12, dtype=torch.long), linf(0.1), generator())
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True]
    assert bool((model[3].weight.grad == 7).all())
    assert model[1].weight.grad is None


def test_an_attack_may_be_run_where_gradients_are_off_and_leaves_them_off():
    model, images = smooth_network(), pictures()
    labels = torch.zeros(12, dtype=torch.long)
    with torch.no_grad():
        found = PGD(steps=2, restarts=1)(model, images, labels, linf(0.1), generator())
        assert not torch.is_grad_enabled()
    assert found.cost.zero_gradients == 0 or found.clean_accuracy == 0
    assert torch.is_grad_enabled()
