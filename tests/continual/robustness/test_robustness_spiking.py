"""Spiking networks: the way forward stays, the way back varies, and the worst case over ways is the answer."""

import pytest
import torch
from contracts.attack import answers, generator
from torch import nn

from continual.robustness import (
    PGD,
    Square,
    StraightThrough,
    Surrogated,
    Target,
    ThroughRates,
    Transfer,
    WorstCase,
    linf,
    networks_behind,
    over_surrogates,
    surrogate_family,
)
from continual.robustness.attacks.surrogates import straight_through, surrogate_replaced, through_rates
from neuro import LIF
from neuro.encoding import Poisson
from neuro.models import cnn, spiking_mlp
from neuro.neurons import DSRLIF, IF, AdaptiveLIF, ParametricLIF, Synaptic
from neuro.surrogate import Rectangle, Sigmoid, Triangle

QUICK = PGD(steps=6, restarts=1)


def spiking_network(neuron=None, encoder=None, time_steps=6, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = spiking_mlp((8,), 4, [24, 24], neuron=neuron, time_steps=time_steps, encoder=encoder).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def images(number=30, seed=1):
    return torch.rand(number, 8, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "neuron", [LIF(tau=1.0), LIF(), LIF(tau=5.0), IF(), AdaptiveLIF(), Synaptic(), ParametricLIF()]
)
def test_no_way_back_changes_the_way_forward(neuron):
    model, x = spiking_network(neuron), images()
    expected = model(x)
    for view in (surrogate_replaced([model], Triangle(0.1)), through_rates([model])):
        with view:
            assert torch.equal(model(x), expected)
    assert torch.equal(model(x), expected)


def test_a_view_changes_the_gradient_and_gives_the_old_one_back():
    model, x = spiking_network(), images()

    def gradient():
        variable = x.clone().requires_grad_()
        return torch.autograd.grad(model(variable).square().sum(), variable)[0]

    before, found = gradient(), []
    for view in (surrogate_replaced([model], Triangle(2.0)), through_rates([model])):
        with view:
            found.append(gradient())
    assert torch.equal(gradient(), before)
    assert all(not torch.equal(one, before) and bool(one.abs().sum() > 0) for one in found)
    assert "simulate" not in vars(model.network.neuron1)
    assert model.network.neuron1.surrogate == Sigmoid()


def test_the_gradient_through_rates_is_that_of_the_rate_function():
    """One layer: dL/dx of L(r) with dr/dī = 1[r > 0] at every tick alike."""
    weight = torch.tensor([[0.9, 0.2], [0.1, 0.05]], dtype=torch.float64)
    layer, x = LIF(tau=2.0), torch.tensor([[0.8, 0.3]], dtype=torch.float64, requires_grad=True)
    with through_rates([layer]):
        spikes, _ = layer.simulate((x @ weight.T).expand(5, 1, 2))
    rate = spikes.mean(0)
    assert rate[0, 0] > 0
    assert rate[0, 1] == 0
    (found,) = torch.autograd.grad((rate * torch.tensor([3.0, 7.0])).sum(), x)
    torch.testing.assert_close(found, 3 * weight[:1])


def test_foreign_layers_with_a_spike_grad_are_dressed_too():
    import snntorch

    layer = snntorch.Leaky(beta=0.5, init_hidden=True)
    u = torch.tensor([[-0.3, 0.0, 0.2]], requires_grad=True)
    expected = layer.spike_grad(u.detach())
    with surrogate_replaced([layer], Rectangle(1.0)):
        spikes = layer.spike_grad(u)
        (gradient,) = torch.autograd.grad(spikes.sum(), u)
    assert torch.equal(spikes, expected)
    assert torch.equal(gradient, torch.ones(1, 3))


def test_all_surrogates_of_a_family_have_area_one_and_the_height_of_their_width():
    ends = torch.tensor([-1e9, 1e9], dtype=torch.float64)
    for number, surrogate in enumerate(surrogate_family(0.8)):
        width = 0.8 * (0.5, 1, 2)[number // 4]
        assert float(surrogate(torch.zeros(1, dtype=torch.float64))) == pytest.approx(1 / width)
        low, high = surrogate.primitive(ends)
        assert float(high - low) == pytest.approx(1)


def test_the_worst_over_surrogates_is_at_most_each_single_one():
    model, x = spiking_network(), images()
    labels = answers(model, x)
    members = over_surrogates(QUICK)
    alone = [member(model, x, labels, linf(0.05), generator()) for member in members]
    worst = WorstCase(members)(model, x, labels, linf(0.05), generator())
    assert torch.equal(worst.success, torch.stack([found.success for found in alone]).any(0))
    assert worst.accuracy < 1
    assert len({found.accuracy for found in alone}) > 1, "the surrogates make no difference: a vacuous check"
    assert torch.equal(worst.predictions, answers(model, worst.images))


def test_a_dead_surrogate_looks_robust_alone_and_does_not_in_company():
    """A window so narrow that no membrane is ever in it masks every gradient."""
    model, x = spiking_network(LIF(surrogate=Rectangle(1e-9))), images()
    labels = answers(model, x)
    masked = QUICK(model, x, labels, linf(0.1), generator())
    assert masked.cost.zero_gradients == 1
    worst = WorstCase([QUICK, *over_surrogates(QUICK)])(model, x, labels, linf(0.1), generator())
    assert worst.accuracy < masked.accuracy


def test_two_evaluations_are_identical_and_stored_images_score_the_same():
    model, x = spiking_network(), images()
    labels = answers(model, x)
    first, second = (ThroughRates(QUICK)(model, x, labels, linf(0.05), generator()) for _ in range(2))
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.predictions, answers(model, first.images))


def test_a_gradient_free_attack_and_a_relu_twin_reach_spiking_networks():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = cnn((2, 8, 8), 4, [8, 8], time_steps=4)
        twin = cnn((2, 8, 8), 4, [8, 8], neuron=nn.ReLU(), time_steps=1)
    twin.load_state_dict(model.state_dict())
    x = torch.rand(10, 2, 8, 8, generator=generator())
    labels = answers(model.eval(), x)
    for attack in (Square(queries=60), Transfer(twin, QUICK)):
        found = attack(model, x, labels, linf(0.5), generator())
        assert found.cost.backward_passes == 0
        assert found.accuracy <= 1


def test_poisson_spikes_are_passed_straight_through_and_the_draws_stay():
    encoder, x = Poisson(3), images(5).requires_grad_()
    expected = Poisson(3)(x, 7)
    with straight_through([encoder]):
        spikes = encoder(x, 7)
    assert torch.equal(spikes, expected)
    (gradient,) = torch.autograd.grad(spikes.mean(0).sum(), x)
    torch.testing.assert_close(gradient, torch.ones_like(gradient))


def test_without_straight_through_a_poisson_encoder_hides_every_gradient():
    model, x = spiking_network(encoder=Poisson()), images()
    labels = answers(model, x)
    target = Target(model, stochastic=True, gradient_draws=5, decision_draws=15)
    blind = QUICK(target, x, labels, linf(0.2), generator())
    seeing = StraightThrough(QUICK)(target, x, labels, linf(0.2), generator())
    assert blind.cost.zero_gradients == 1
    assert seeing.cost.zero_gradients == 0
    assert seeing.accuracy < blind.accuracy


def test_the_gradient_of_a_poisson_network_converges_with_the_draws():
    from continual.robustness.losses import CrossEntropyLoss
    from continual.robustness.oracle import Oracle

    model, x = spiking_network(encoder=Poisson()), images(10)
    labels = torch.arange(10) % 4

    def agreement(draws):
        with straight_through(networks_behind(model)):
            oracle = Oracle(Target(model, stochastic=True, gradient_draws=draws), 4)
            halves = [oracle.gradient(x, lambda z: CrossEntropyLoss()(z, labels)).gradient for _ in range(2)]
        return float(torch.cosine_similarity(*(half.flatten(1) for half in halves), dim=1).mean())

    found = [agreement(draws) for draws in (1, 8, 64)]
    assert found == sorted(found)
    assert found[-1] > 0.9


def test_a_wrapper_that_would_do_nothing_is_refused():
    model, x = nn.Linear(8, 3).double(), images()
    for attack, wanted in (
        (Surrogated(QUICK, Triangle()), "no spiking layer with a surrogate"),
        (ThroughRates(QUICK), "no spiking neurons"),
        (StraightThrough(QUICK), "no Poisson encoder"),
    ):
        with pytest.raises(ValueError, match=wanted):
            attack(model, x, answers(model, x), linf(0.1), generator())


def test_neurons_that_already_differentiate_their_rate_are_left_alone():
    model = spiking_network(DSRLIF())
    with pytest.raises(ValueError, match="no spiking neurons"), through_rates([model]):
        pass
