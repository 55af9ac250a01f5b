"""What each attack promises on its own, against closed forms and slow references."""

import math
from itertools import pairwise

import pytest
import torch
from contracts.attack import answers, generator, pictures, smooth_network
from torch import nn

from continual.robustness import (
    APGD,
    DLR,
    FAB,
    FGSM,
    MIFGSM,
    PGD,
    Boundary,
    CarliniWagner,
    CrossEntropyLoss,
    Margin,
    Square,
    Target,
    TargetedAPGD,
    TargetedDLR,
    TargetedMargin,
    Transfer,
    WorstCase,
    l2,
    linf,
    randomised,
    standard,
)
from continual.robustness.attacks import checkpoints
from continual.robustness.attacks.mi_fgsm import unit_l1
from continual.robustness.attacks.square import square_share
from continual.robustness.norms import filling_time


def linear_network(num_classes=3, features=6, seed=0):
    """Logits W (x − 1/2): no class is far away in the middle of the box."""
    weight = torch.randn(num_classes, features, generator=generator(seed), dtype=torch.float64)

    def network(x):
        return (x.flatten(1) - 0.5) @ weight.T

    return network, weight


def grey(number, features=6, seed=2):
    """Images in the middle of the box, so that it stops nobody."""
    return 0.4 + 0.2 * torch.rand(number, features, generator=generator(seed), dtype=torch.float64)


def exact_linear_accuracy(weight, network, images, labels, threat):
    """Robust accuracy of linear logits off the box: every pair's margin minus ε times the dual norm of its normal."""
    logits = network(images)
    right = 0
    for row, label in zip(logits, labels, strict=True):
        margins = [
            row[label] - row[k] - threat.epsilon * threat.norm.dual_length((weight[k] - weight[label])[None])[0]
            for k in range(len(weight))
            if k != label
        ]
        right += all(margin > 0 for margin in margins)
    return right / len(labels)


@pytest.mark.parametrize("threat", [linf(0.05), l2(0.1)])
def test_fgsm_on_two_linear_logits_attains_the_exact_margin_in_one_step(threat):
    network, weight = linear_network(2)
    images = grey(20)
    labels = answers(network, images)
    found = FGSM()(network, images, labels, threat, generator())
    sign = 1 - 2 * labels
    before, after = (sign * (network(x)[:, 0] - network(x)[:, 1]) for x in (images, found.images))
    dual = threat.norm.dual_length((weight[0] - weight[1])[None])
    torch.testing.assert_close(after, before - threat.epsilon * dual, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threat", [linf(0.015), l2(0.03)])
@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_strong_attacks_reach_the_exact_accuracy_of_linear_logits(threat, num_classes):
    network, weight = linear_network(num_classes)
    images = grey(60)
    labels = answers(network, images)
    exact = exact_linear_accuracy(weight, network, images, labels, threat)
    assert 0.1 < exact < 0.95
    targeted = TargetedAPGD(steps=30, loss=TargetedMargin())
    worst = WorstCase(standard(num_classes, steps=20, queries=50))
    for attack in (targeted, FAB(steps=10), worst):
        assert attack(network, images, labels, threat, generator()).accuracy == pytest.approx(exact)
    untargeted = APGD(steps=30, loss=Margin())(network, images, labels, threat, generator()).accuracy
    assert untargeted == pytest.approx(exact) if num_classes == 2 else untargeted >= exact


def test_a_ten_class_head_sliced_to_two_is_judged_exactly_and_a_masked_one_refused():
    network, weight = linear_network(10)
    rows, images, threat = [4, 8], grey(60), linf(0.02)
    labels = torch.as_tensor(rows)[answers(lambda x: network(x)[:, rows], images)]
    exact = exact_linear_accuracy(weight[rows], lambda x: network(x)[:, rows], images, (labels == 8).long(), threat)
    assert 0.1 < exact < 0.95
    found = WorstCase(standard(2, steps=20, queries=50))(
        Target(network, classes=rows), images, labels, threat, generator()
    )
    assert found.accuracy == pytest.approx(exact)

    def masked(x):
        rest = torch.ones(10, dtype=torch.bool)
        rest[rows] = False
        return network(x).masked_fill(rest, -torch.inf)

    with pytest.raises(ValueError, match=r"8 of 10 logits are masked.*slice instead.*classes="):
        PGD()(masked, images, labels, threat, generator())


def test_fab_finds_the_distance_to_a_linear_boundary():
    network, weight = linear_network(2)
    images = grey(20)
    labels = answers(network, images)
    for threat in (linf(0.5), l2(1.0)):
        found = FAB(steps=20)(network, images, labels, threat, generator())
        gap = (network(images)[:, 0] - network(images)[:, 1]).abs()
        exact = gap / threat.norm.dual_length((weight[0] - weight[1])[None])
        assert bool((found.lengths >= exact).all())
        assert bool((found.lengths <= exact * 1.06).all())


def test_boundary_and_carlini_wagner_come_close_to_the_distance_of_a_linear_boundary():
    network, weight = linear_network(2)
    images, threat = grey(10), l2(2.0)
    labels = answers(network, images)
    exact = (network(images)[:, 0] - network(images)[:, 1]).abs() / (weight[0] - weight[1]).norm()
    walked = Boundary(steps=400, starts=50)(network, images, labels, threat, generator())
    assert walked.accuracy == 0
    assert float((walked.lengths / exact).median()) < 1.5
    descended = CarliniWagner(steps=100, searches=8, learning_rate=0.02)(network, images, labels, threat, generator())
    assert bool((descended.lengths >= exact * (1 - 1e-9)).all())
    assert float((descended.lengths / exact).median()) < 1.05


def test_pgd_is_not_half_hearted_on_a_nearly_linear_problem():
    network, weight = linear_network(2)
    images, threat = grey(40), linf(0.06)
    labels = answers(network, images)
    exact = exact_linear_accuracy(weight, network, images, labels, threat)
    assert PGD(steps=10, restarts=1)(network, images, labels, threat, generator()).accuracy == exact


@pytest.mark.parametrize("threat", [linf(0.1), l2(0.2)])
def test_more_steps_and_more_restarts_can_only_find_more(threat):
    model, images = smooth_network(), pictures(40)
    labels = answers(model, images)
    by_steps = [
        PGD(steps=steps, restarts=1)(model, images, labels, threat, generator()).success for steps in (1, 3, 10, 30)
    ]
    by_restarts = [
        PGD(steps=3, restarts=restarts)(model, images, labels, threat, generator()).success for restarts in (1, 2, 5)
    ]
    for found in (by_steps, by_restarts):
        assert all(bool((fewer <= more).all()) for fewer, more in pairwise(found))
    assert by_steps[-1].sum() > by_steps[0].sum()


def test_the_best_loss_never_falls_from_step_to_step():
    model, images = smooth_network(), pictures(10)
    labels = answers(model, images)
    values = []
    for steps in (1, 2, 4, 8):
        found = PGD(steps=steps, restarts=1)(model, images, labels, linf(0.01), generator())
        values.append(torch.where(found.success, torch.inf, CrossEntropyLoss()(model(found.images), labels).detach()))
    assert all(bool((a <= b).all()) for a, b in pairwise(values))


def test_a_larger_radius_lowers_accuracy():
    model, images = smooth_network(), pictures(60)
    labels = answers(model, images)
    accuracy = [APGD(steps=20)(model, images, labels, linf(e), generator()).accuracy for e in (0, 0.05, 0.1, 0.2, 0.4)]
    assert accuracy == sorted(accuracy, reverse=True)
    assert accuracy[0] == 1
    assert accuracy[-1] < 0.5


def test_the_whole_box_leaves_chance_at_most():
    model, images = smooth_network(5), pictures(60)
    labels = answers(model, images)
    found = APGD(steps=50)(model, images, labels, linf(1.0), generator())
    assert found.accuracy <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 60)


def test_the_worst_case_is_at_most_each_member_and_equals_its_images_scored_again():
    model, images = smooth_network(), pictures(40)
    labels = answers(model, images)
    members = [FGSM(), MIFGSM(), FAB(steps=5), Square(queries=50)]
    worst = WorstCase(members)(model, images, labels, linf(0.08), generator())
    alone = [member(model, images, labels, linf(0.08), generator()) for member in members]
    assert all(bool((found.success <= worst.success).all()) for found in alone)
    assert torch.equal(worst.success, torch.stack([found.success for found in alone]).any(0))
    assert worst.accuracy == float((answers(model, worst.images) == labels).double().mean())


def test_checkpoints_stand_where_the_paper_puts_them():
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(1) == []


def test_apgd_halves_its_step_at_checkpoints_and_nowhere_else():
    """A gradient that changes sign at every point never lets the loss rise for long."""
    seen = []

    def zigzag(x):
        seen.append(x.detach().clone())
        return torch.stack([torch.cos(60 * x.flatten(1)).sum(1), 4 + x.new_zeros(len(x))], 1)

    images = torch.full((1, 4), 0.5, dtype=torch.float64)
    APGD(steps=100, rho=1.0)(zigzag, images, torch.ones(1, dtype=torch.long), linf(0.2), generator())
    from continual.robustness.attacks.apgd import Ascent, ascend
    from continual.robustness.oracle import Oracle

    steps = []

    class Watched(Oracle):
        pass

    original = Ascent.propose
    try:
        Ascent.propose = lambda self: (steps.append(float(self.step[0])), original(self))[1]
        oracle = Watched(Target(zigzag), 2)
        ascend(
            oracle,
            images,
            torch.ones(1, dtype=torch.long),
            linf(0.2),
            images + 0.01,
            lambda z: z[:, 0] - z[:, 1],
            (100, 1.0),
        )
    finally:
        Ascent.propose = original
    halvings = [number for number in range(1, 100) if steps[number] < steps[number - 1]]
    assert halvings == checkpoints(100)
    assert steps[0] == pytest.approx(0.4)
    assert steps[-1] == pytest.approx(0.4 / 2 ** len(halvings))


def test_dlr_is_unmoved_by_shifting_and_scaling_the_logits():
    logits = torch.randn(50, 6, generator=generator(), dtype=torch.float64)
    labels = torch.randint(6, (50,), generator=generator())
    targets = (labels + 1) % 6
    for scale, shift in ((3.0, 5.0), (1e-3, -2.0), (1e4, 0.0)):
        moved = scale * logits + shift
        torch.testing.assert_close(DLR()(moved, labels), DLR()(logits, labels), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            TargetedDLR()(moved, labels, targets), TargetedDLR()(logits, labels, targets), rtol=1e-9, atol=1e-9
        )


def test_losses_have_the_values_of_a_hand_table():
    logits = torch.tensor([[-5.0, -7.0, -9.0, -6.0]])
    label = torch.tensor([0])
    assert float(Margin()(logits, label)) == -1
    assert float(DLR()(logits, label)) == pytest.approx(-1 / 2)
    assert float(TargetedDLR()(logits, label, torch.tensor([2]))) == pytest.approx(-4 / 3)
    assert float(CrossEntropyLoss()(logits, label)) == pytest.approx(
        math.log(1 + math.exp(-2) + math.exp(-4) + math.exp(-1)), rel=1e-6
    )


def test_dlr_refuses_heads_that_are_too_small_and_names_the_margin():
    model, images = smooth_network(2), pictures()
    with pytest.raises(ValueError, match=r"at least 3 classes, this head has 2; use loss=Margin"):
        APGD(loss=DLR())(model, images, answers(model, images), linf(0.1), generator())
    model = smooth_network(3)
    with pytest.raises(ValueError, match=r"at least 4 classes, this head has 3; use loss=TargetedMargin"):
        TargetedAPGD()(model, images, answers(model, images), linf(0.1), generator())


@pytest.mark.parametrize("num_classes", [2, 3, 4])
def test_every_default_selection_runs_on_small_heads(num_classes):
    model, images = smooth_network(num_classes), pictures()
    labels = answers(model, images)
    for attack in [*standard(num_classes, steps=5, queries=10), *randomised(num_classes, steps=5)]:
        assert attack(model, images, labels, linf(0.1), generator()).accuracy <= 1


def test_one_zero_gradient_does_not_stop_momentum():
    calls = []

    def shy(logits, labels):
        calls.append(1)
        return CrossEntropyLoss()(logits, labels) * (0.0 if len(calls) == 2 else 1.0)

    model, images = smooth_network(), pictures()
    labels = answers(model, images)
    found = MIFGSM(steps=6, loss=shy)(model, images, labels, linf(0.1), generator())
    assert float(found.cost.zero_gradients) == pytest.approx(1 / 6)
    assert bool((found.lengths[~found.success] > 0.09).all())


def test_unit_l1_takes_each_sample_alone_and_leaves_zeros():
    gradient = torch.tensor([[1.0, -3.0], [0.0, 0.0], [1e-30, 1e-30]])
    torch.testing.assert_close(unit_l1(gradient), torch.tensor([[0.25, -0.75], [0.0, 0.0], [0.5, 0.5]]))


def test_square_asks_no_gradient_and_keeps_to_its_budget():
    model, images = smooth_network(), pictures()
    labels = answers(model, images)
    asked = []

    def watched(x):
        assert not torch.is_grad_enabled()
        asked.append(len(x))
        return model(x)

    for threat in (linf(0.001), l2(0.001)):
        asked.clear()
        found = Square(queries=30)(watched, images, labels, threat, generator())
        assert found.cost.backward_passes == 0
        checks, clean, decision = 2 * 8, 12, 12
        assert sum(asked) == checks + 2 * clean + 30 * 12 + decision


def test_the_share_of_squares_is_halved_at_the_stated_queries():
    changes = [q for q in range(1, 10_000) if square_share(0.8, q, 10_000) != square_share(0.8, q - 1, 10_000)]
    assert changes == [11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001]
    assert square_share(0.8, 60, 10_000) == pytest.approx(0.2)


def test_square_uses_the_whole_radius():
    model, images = smooth_network(), 0.3 + 0.4 * pictures()
    labels = answers(model, images)
    found = Square(queries=10)(model, images, labels, linf(0.05), generator())
    torch.testing.assert_close((found.images - images).abs(), torch.full_like(images, 0.05), rtol=0, atol=1e-9)
    found = Square(queries=10)(model, images, labels, l2(0.05), generator())
    torch.testing.assert_close(found.lengths, torch.full((12,), 0.05, dtype=torch.float64), rtol=1e-6, atol=0)


def test_transfer_asks_the_target_for_no_gradient_and_leaves_the_source_as_it_was():
    source, target, images = smooth_network(seed=0), smooth_network(seed=0), pictures()
    source.train()
    labels = answers(target, images)
    found = Transfer(source, APGD(steps=10))(target, images, labels, linf(0.2), generator())
    assert found.cost.backward_passes == 0
    assert source.training
    own = APGD(steps=10)(target, images, labels, linf(0.2), generator())
    assert torch.equal(found.images, own.images)
    with pytest.raises(ValueError, match=r"share their classes, the source has 4 and the target 5"):
        Transfer(smooth_network(4), FGSM())(target, images, labels, linf(0.2), generator())


def test_a_stand_in_carries_gradients_past_a_step_that_has_none():
    model, images = smooth_network(), pictures(24)

    def rounded(x):
        return model((x * 16).round() / 16)

    labels = answers(rounded, images)
    blocked = PGD(steps=10, restarts=1)(rounded, images, labels, linf(0.2), generator())
    assert blocked.cost.zero_gradients == 1
    adaptive = PGD(steps=10, restarts=1)(Target(rounded, backward=model), images, labels, linf(0.2), generator())
    assert adaptive.cost.zero_gradients == 0
    assert adaptive.accuracy < blocked.accuracy
    assert torch.equal(adaptive.predictions, answers(rounded, adaptive.images))


def test_an_own_loss_is_what_the_attack_raises():
    network, weight = linear_network(5)
    images = grey(12)
    labels = answers(network, images)
    found = FGSM(loss=lambda logits, labels: logits[:, 4])(network, images, labels, linf(0.01), generator())
    torch.testing.assert_close(found.images, images + 0.01 * weight[4].sign())


def test_gradients_are_averaged_over_draws():
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    draws = []

    def noisy(x):
        noise = torch.randn(x.shape, dtype=x.dtype)
        draws.append(noise)
        return (x + noise) @ weight * 3

    images, labels = torch.full((4, 2), 0.5, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    target = Target(noisy, stochastic=True, gradient_draws=5, decision_draws=3)
    found = FGSM()(target, images, labels, linf(0.1), generator())
    attackable = int((found.clean_predictions == labels).sum())
    assert found.cost.backward_passes == 5 * attackable
    first, second = (FGSM()(target, images, labels, linf(0.1), generator(1)).predictions for _ in range(2))
    assert torch.equal(first, second)


def test_a_stochastic_answer_is_decided_by_most_of_many_draws():
    """A coin that names the label 7 times of 10 is right at nearly every decision of 101 draws."""

    def coin(x):
        right = (torch.rand(len(x)) < 0.7).to(x.dtype)
        return torch.stack([right, 1 - right], 1) * 2 - 0.5

    images, labels = torch.rand(200, 3, generator=generator()), torch.zeros(200, dtype=torch.long)
    found = FGSM()(Target(coin, stochastic=True, decision_draws=101), images, labels, linf(0.1), generator())
    assert found.accuracy > 0.98
    lucky = FGSM()(Target(coin, stochastic=True, decision_draws=1), images, labels, linf(0.1), generator())
    assert 0.35 < lucky.accuracy < 0.65


def test_filling_time_is_that_of_a_slow_bisection():
    rates = torch.rand(20, 7, generator=generator(), dtype=torch.float64)
    limits = torch.rand(20, 7, generator=generator(1), dtype=torch.float64)
    rates[0], limits[1] = 0.0, 0.0
    rates[:, 3] = 0
    amount = (rates * limits).sum(1) * torch.linspace(0, 1.2, 20, dtype=torch.float64)
    amount[0] = 0.3
    found = filling_time(rates, limits, amount)
    for sample in range(20):
        low, high = 0.0, 2.0
        for _ in range(80):
            middle = (low + high) / 2
            enough = float((rates[sample] * limits[sample].clamp(max=middle)).sum()) >= float(amount[sample])
            low, high = (low, middle) if enough else (middle, high)
        if (rates[sample] * limits[sample]).sum() < amount[sample]:
            assert found[sample] == torch.inf
        else:
            assert float(found[sample]) == pytest.approx(high, abs=1e-9)


def test_flat_and_three_dimensional_images_can_be_attacked():
    for shape in ((12, 8), (12, 2, 4), (12, 1, 2, 2, 2)):
        model = smooth_network()
        images = torch.rand(shape, generator=generator(), dtype=torch.float64)
        labels = answers(model, images)
        for attack in (Square(queries=30), APGD(steps=5), FAB(steps=3)):
            for threat in (linf(0.2), l2(0.3)):
                assert attack(model, images, labels, threat, generator()).images.shape == shape


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PGD(steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: PGD(relative_step=0), "relative_step must be above 0"),
        (lambda: APGD(rho=2), r"rho must lie in \[0, 1\], got 2"),
        (lambda: CarliniWagner(confidence=-1), "confidence must be at least 0, got -1"),
        (lambda: WorstCase([]), "at least one attack"),
        (lambda: standard(1), "At least 2 classes are needed, got 1"),
        (lambda: Square(queries=1.5), "queries must be a whole number"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_cross_entropy_takes_label_and_prediction_the_right_way_round():
    """Raising the loss has to lower the label's logit."""
    model = nn.Linear(4, 3).double()
    images = torch.full((5, 4), 0.5, dtype=torch.float64)
    labels = answers(model, images)
    found = APGD(steps=10)(model, images, labels, linf(0.01), generator())
    before, after = (model(x).softmax(1).gather(1, labels[:, None]) for x in (images, found.images))
    assert bool((after < before).all())
