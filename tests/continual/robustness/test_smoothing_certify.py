"""Certificates: the laws they obey, on networks whose smoothed classifier is known."""

import numpy as np
import pytest
import torch
from contracts.smoothing import (
    Coin,
    Constant,
    at_distance,
    half_space,
    jittering_target,
    poisson_target,
    small_images,
    small_network,
    spiking,
)
from scipy.special import ndtri
from scipy.stats import binomtest, norm
from torch import nn

from continual.robustness import (
    AboveRadii,
    FixedSample,
    Looks,
    MixtureSequence,
    Target,
    WithinTolerance,
    certify,
    smoothed_predict,
)
from continual.robustness.smoothing import guaranteed_accuracy
from continual.robustness.smoothing.predict import decide

RADII = (0.0, 0.1, 0.2, 0.4)
RULES = [
    (FixedSample(400), None),
    (Looks((100, 400)), AboveRadii(RADII)),
    (MixtureSequence(400), AboveRadii(RADII)),
    (MixtureSequence(400, every=128), WithinTolerance(0.05)),
]


def labels_of(model, images):
    with torch.no_grad():
        return model(images).argmax(1)


def certified(number=40, sigma=0.5, **settings):
    model, images = small_network(), small_images(number)
    return certify(model, images, sigma, labels_of(model, images), rule=FixedSample(1000), **settings)


def test_radius_is_sigma_times_the_quantile_of_the_lower_bound_or_it_abstains():
    """pL < 1/2 if and only if it abstains, and then the prediction is −1 and the radius 0; else R = sigma Φ⁻¹(pL)."""
    found = certified()
    lower = found.column("lower")
    assert 0 < found.abstained.sum() < len(found)
    assert np.array_equal(found.abstained, lower < 0.5)
    assert np.array_equal(found.predicted == -1, found.abstained)
    assert (found.radii[found.abstained] == 0).all()
    assert np.array_equal(found.radii[~found.abstained], 0.5 * ndtri(lower[~found.abstained]))
    assert np.array_equal(lower, FixedSample(1000).lower(found.column("agreeing"), 1000))
    assert np.array_equal(found.abstained, found.column("agreeing") < FixedSample(1000).least_agreeing)


@pytest.mark.parametrize("distance", [0.05, 0.2, 0.4])
def test_on_a_half_space_the_exact_radius_is_the_distance_and_few_certificates_exceed_it(distance):
    """A linear classifier: sigma Φ⁻¹(p_A) is the true distance; certified radii exceed it with chance alpha at most."""
    sigma, alpha, number = 0.25, 0.05, 1000
    assert sigma * ndtri(norm.cdf(distance / sigma)) == pytest.approx(distance, rel=1e-14)
    model, images = half_space(), at_distance(distance).repeat(number, 1)
    for seed in (0, 1, 2):
        found = certify(model, images, sigma, rule=FixedSample(200, alpha), n0=10, seed=seed, batch_size=20_000)
        named = found.column("selected") == 1
        exceeded = int((found.radii[named] > distance).sum()) + int((~named & ~found.abstained).sum())
        assert binomtest(exceeded, number, alpha, alternative="greater").pvalue > 0.001


def test_on_a_half_space_the_radius_grows_to_the_distance_with_the_sample():
    model, images = half_space(), at_distance(0.3)
    found = [certify(model, images, 0.25, rule=FixedSample(n), batch_size=20_000) for n in (100, 1000, 10_000, 200_000)]
    radii = [float(one.radii[0]) for one in found]
    assert radii == sorted(radii)
    assert 0.3 * 0.99 < radii[-1] <= 0.3
    assert radii[0] < 0.3 * 0.9


@pytest.mark.parametrize(("rule", "goal"), RULES)
def test_sequential_rules_on_a_half_space_are_wrong_at_most_as_often_as_stated(rule, goal):
    """The radius just above the distance must not be certified, whenever sampling stops."""
    rule = type(rule)(**{**vars(rule), "alpha": 0.05})
    images = at_distance(0.19).repeat(400, 1)
    found = certify(half_space(), images, 0.25, rule=rule, goal=goal, n0=30, batch_size=20_000)
    exceeded = int(((found.radii > 0.19) & (found.column("selected") == 1)).sum())
    assert binomtest(exceeded, 400, 0.05, alternative="greater").pvalue > 0.001


def test_the_curve_falls_and_acr_is_the_mean_radius_of_the_right_ones_and_the_area_below_the_curve():
    model, images = small_network(), small_images(40)
    labels = labels_of(model, images)
    labels[::5] = (labels[::5] + 1) % 4
    found = certify(model, images, 0.5, labels, rule=FixedSample(1000))
    grid = np.linspace(0, found.budget.ceiling, 2001)
    curve = np.array([found.certified_accuracy(radius) for radius in grid])
    assert (np.diff(curve) <= 0).all()
    acr = found.average_certified_radius
    assert acr == np.mean(found.radii * found.correct)
    step = grid[1] - grid[0]
    assert step * curve[1:].sum() <= acr <= step * curve[:-1].sum()
    assert step * (curve[0] - curve[-1]) < 0.01 * acr  # the two sums are close, so the law is no empty one
    assert curve[0] == found.correct.mean()
    assert found.certified_accuracy(float(found.radii.max())) > 0  # at r itself it still counts: R >= r


@pytest.mark.parametrize(("rule", "goal"), RULES)
def test_no_radius_exceeds_the_ceiling_and_the_report_carries_the_budget(rule, goal):
    model, images = Constant(), small_images(3)
    found = certify(model, images, 0.25, rule=rule, goal=goal, seed=7, n0=50)
    assert (found.radii <= found.budget.ceiling).all()
    described = found.budget.describe()
    assert described["sigma"] == 0.25
    assert described["alpha"] == 0.001
    assert described["n0"] == 50
    assert described["seed"] == 7
    assert "ceiling radius" in str(found.budget)
    assert set(found.versions) == {"palimpsest", "torch", "python"}


def test_a_constant_classifier_never_abstains_and_reaches_the_ceiling():
    found = certify(Constant(), small_images(5), 0.3, torch.full((5,), 2), rule=FixedSample(500))
    assert (found.predicted == 2).all()
    assert found.radii == pytest.approx([found.budget.ceiling] * 5)
    assert found.average_certified_radius == pytest.approx(found.budget.ceiling)
    assert (smoothed_predict(Constant(), small_images(5), 0.3, n=100) == 2).all()


def test_a_classifier_that_tosses_a_coin_is_abstained_on():
    """Fresh independent randomness of the network's own is valid: p_A is 1/2, so nothing is certified."""
    target = Target(Coin(), stochastic=True)
    for seed in (0, 1, 2):
        assert certify(target, small_images(8), 0.3, rule=FixedSample(400), seed=seed).abstained.all()
        assert (smoothed_predict(target, small_images(8), 0.3, n=200, seed=seed) == -1).all()


@pytest.mark.parametrize(
    ("votes", "answer"), [((66, 34), -1), ((67, 33), 0), ((0, 10), -1), ((0, 11), 1), ((0, 0, 0), -1), ((5, 80, 9), 1)]
)
def test_predict_answers_where_an_exact_binomial_test_does(votes, answer):
    assert decide(votes, 0.001) == answer


def test_predict_names_the_class_of_the_smoothed_classifier():
    images = torch.cat([at_distance(0.3), at_distance(-0.3), at_distance(0.0)])
    assert smoothed_predict(half_space(), images, 0.25, n=1000).tolist() == [1, 0, -1]


def watched(seen):
    """A network that tells what it sees."""
    model = small_network()

    def network(images):
        seen.append(images.clone())
        return model(images)

    return network


def test_choice_and_estimate_share_no_draw():
    """Selection and estimation draws are disjoint, and neither repeats one of its own."""
    seen = []
    certify(watched(seen), small_images(2), 0.5, rule=FixedSample(300), n0=100, batch_size=100)
    copies = torch.cat([batch for batch in seen if len(batch) == 100]).flatten(1)
    assert len(copies) == 2 * 400
    assert len(torch.unique(copies, dim=0)) == len(copies)


def test_each_image_has_noise_of_its_own_that_its_index_names():
    model, image = half_space(), at_distance(0.1)
    found = certify(model, image.repeat(200, 1), 0.25, rule=FixedSample(100), batch_size=20_000)
    spread = found.column("agreeing").std()
    chance = norm.cdf(0.1 / 0.25)
    assert 0.8 < spread / (100 * chance * (1 - chance)) ** 0.5 < 1.2  # independent draws; shared ones would give 0
    again = certify(model, image, 0.25, rule=FixedSample(100), indices=[137])
    assert again.rows[0] == found.rows[137]


def test_noise_has_the_stated_deviation_and_no_mean():
    seen, image = [], small_images(1)
    certify(watched(seen), image, 0.5, rule=FixedSample(10_000), batch_size=5000)
    noise = torch.cat([batch for batch in seen if len(batch) >= 100]).double() - image
    number = noise.numel()
    assert abs(float(noise.mean())) < 5 * 0.5 / number**0.5
    assert abs(float(noise.std()) / 0.5 - 1) < 5 / (2 * number) ** 0.5


@pytest.mark.parametrize("make", [small_network, spiking, poisson_target, jittering_target])
@pytest.mark.parametrize(("rule", "goal"), RULES)
def test_batches_order_and_neighbours_decide_nothing(make, rule, goal):
    """Same seed, same bits; batch size, order and the other images leave every count as it is."""
    model, images = make(), small_images(4)

    def rows(places=(0, 1, 2, 3), **settings):
        places = list(places)
        found = certify(model, images[places], 0.5, rule=rule, goal=goal, n0=70, indices=places, **settings)
        return {row.sample: row for row in found.rows}

    whole = rows()
    assert rows() == whole
    assert rows(batch_size=33) == whole
    assert rows(batch_size=2500) == whole
    assert rows((3, 0, 2, 1)) == whole
    assert rows((3, 1)) == {place: whole[place] for place in (1, 3)}
    assert rows(seed=1) != whole


def test_a_larger_sample_begins_with_the_smaller_one():
    model, images = small_network(), small_images(8)
    short, long = (certify(model, images, 0.5, rule=Looks((n, 450)), goal=AboveRadii([9.0])) for n in (130, 250))
    assert short.rows[0].draws < 450  # radius 9 is out of reach, so it stops at the first look
    fixed = [certify(model, images, 0.5, rule=FixedSample(n)).column("agreeing") for n in (130, 250)]
    assert np.array_equal(short.column("agreeing"), fixed[0])
    assert np.array_equal(long.column("agreeing"), fixed[1])
    grown = fixed[1] - fixed[0]
    assert ((grown >= 0) & (grown <= 120)).all()


def test_no_attack_shorter_than_the_radius_changes_the_smoothed_answer():
    """l2 attacks on the smoothed classifier (mean soft-max over noise), inside R: no other class is ever answered."""
    model, images = small_network(), small_images(40)
    labels = labels_of(model, images)
    found = certify(model, images, 0.5, labels, rule=FixedSample(1000))
    kept = found.radii > 0.02
    assert kept.sum() > 15
    places, radii = torch.as_tensor(kept.nonzero()[0]), torch.as_tensor(found.radii[kept], dtype=torch.float32)
    named = torch.as_tensor(found.predicted[kept])
    inside = attacked(model, images[places], named, 0.99 * radii, 0.5)
    answers = smoothed_predict(model, inside.clamp(0, 1), 0.5, n=5000)
    assert ((answers == named.numpy()) | (answers == -1)).all()
    far = attacked(model, images[places], named, 4 * radii + 1, 0.5)  # negative control: the attack can do something
    changed = smoothed_predict(model, far.clamp(0, 1), 0.5, n=5000)
    assert ((changed != named.numpy()) & (changed != -1)).mean() > 0.2


def attacked(model, images, labels, radii, sigma, steps=20, draws=32):
    """Raise the loss of the mean soft-max over fixed noise inside a ball, in the box."""
    noise = sigma * torch.randn(draws, *images.shape, generator=torch.Generator().manual_seed(5))
    radii = radii.view(-1, 1, 1, 1)
    found = images.clone()
    for _ in range(steps):
        found.requires_grad_(True)
        chances = torch.stack([model(found + one).softmax(1) for one in noise]).mean(0)
        (gradient,) = torch.autograd.grad(nn.functional.nll_loss(chances.log(), labels, reduction="sum"), found)
        with torch.no_grad():
            unit = gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, 1, 1, 1)
            moved = (found + 2 * radii / steps * unit).clamp(0, 1) - images
            length = moved.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            found = images + moved * (radii / length.clamp_min(1e-12)).clamp(max=1)
    return found.detach()


def test_a_sequence_decides_as_the_fixed_sample_with_fewer_draws():
    model, images = small_network(), small_images(8)
    fixed = certify(model, images, 0.5, rule=FixedSample(10_000), batch_size=5000)
    goal = AboveRadii([0.0, 0.2, 0.4])
    spent = []
    for rule in (MixtureSequence(10_000), Looks()):
        found = certify(model, images, 0.5, rule=rule, goal=goal, batch_size=5000)
        spent.append(found.column("draws").mean())
        assert np.isnan(found.average_certified_radius)  # ACR is of fixed samples alone
        for radius in goal.radii:
            settled = ~found.undecided(radius)
            above = ~found.abstained & (found.radii >= radius)
            assert np.array_equal(above[settled], (~fixed.abstained & (fixed.radii >= radius))[settled])
            stopped = found.column("draws") < 10_000
            assert settled[stopped].all()
    assert spent[0] < spent[1] < 10_000


def test_within_a_tolerance_the_radius_is_that_close_to_what_is_possible():
    found = certify(Constant(), small_images(2), 0.5, rule=MixtureSequence(10_000), goal=WithinTolerance(0.3))
    gap = np.minimum(found.possible_radii, found.budget.ceiling) - found.radii
    assert (gap <= 0.3).all()
    assert (found.column("draws") < 10_000).all()


def test_a_state_that_is_carried_is_reset_before_every_pass():
    class Membrane(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.membrane = small_network(), 0.0

        def reset(self):
            self.membrane = 0.0

        def forward(self, images):
            out = self.inner(images) + self.membrane
            self.membrane = self.membrane + 10 * torch.eye(4)[0]
            return out

    model = Membrane()
    with pytest.raises(ValueError, match="answers the same images differently"):
        certify(model, small_images(3), 0.5, rule=FixedSample(200))
    found = certify(Target(model, reset=model.reset), small_images(3), 0.5, rule=FixedSample(200))
    own = certify(small_network(), small_images(3), 0.5, rule=FixedSample(200))
    assert np.array_equal(found.column("agreeing"), own.column("agreeing"))


def test_the_network_and_all_random_streams_come_back_as_they_were():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    certify(model, small_images(3), 0.5, rule=FixedSample(100))
    smoothed_predict(Target(model, stochastic=True), small_images(3), 0.5, n=100)
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_slice_of_the_head_answers_in_the_numbering_of_the_head():
    found = certify(Target(Constant(), classes=[1, 3]), small_images(2), 0.5, rule=FixedSample(100))
    assert (found.predicted == 3).all()
    assert (smoothed_predict(Target(Constant(), classes=[1, 3]), small_images(2), 0.5, n=100) == 3).all()


def test_guaranteed_accuracy_is_below_the_measured_one_and_near_it_for_many_images():
    assert guaranteed_accuracy(0.8, 500, 0.001) == pytest.approx(
        0.8 - 0.001 - (0.001 * 0.999 * np.log(100) / 500) ** 0.5 - np.log(100) / 1500
    )
    assert 0.8 - guaranteed_accuracy(0.8, 100_000, 0.001) < 0.0015


class Broken(nn.Module):
    """NaN where a pixel is above 1.8: never on the images themselves."""

    def forward(self, images):
        logits = images.flatten(1)[:, :4].clone()
        logits[(images.flatten(1) > 1.8).any(1)] = torch.nan
        return logits


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sigma": 0.0}, "sigma must be above 0 and finite"),
        ({"sigma": -0.5}, "sigma must be above 0 and finite"),
        ({"sigma": None}, "sigma, the standard deviation of the noise in raw pixel units, is missing"),
        ({"images": small_images(2) * 255}, r"Images must lie in the box \[0, 1\]"),
        ({"images": small_images(2) / 0}, "Images must be finite"),
        ({"labels": torch.zeros(3, dtype=torch.long)}, r"Labels must be \[2\]"),
        ({"model": Broken()}, r"NaN or infinite logits on \d+ noisy copies of image \d"),
        ({"model": lambda images: images.sum((1, 2, 3))}, r"logits \[2, C\] with at least 2 classes"),
        ({"model": Coin()}, "Target\\(model, stochastic=True\\)"),
        ({"n0": 0}, "n0 must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"indices": [4, 4]}, "indices must be 2 different whole numbers"),
        ({"rule": MixtureSequence(1000)}, "may stop early, but nothing says for what"),
    ],
)
def test_bad_input_is_refused_with_its_repair(change, sentence):
    call = {"model": small_network(), "images": small_images(2), "sigma": 0.5, "rule": FixedSample(1000)} | change
    with pytest.raises(ValueError, match=sentence):
        certify(call.pop("model"), call.pop("images"), call.pop("sigma"), call.pop("labels", None), **call)


def test_a_missing_sigma_is_no_default():
    with pytest.raises(TypeError, match="sigma"):
        certify(small_network(), small_images(2))
    with pytest.raises(TypeError, match="sigma must be a number"):
        certify(small_network(), small_images(2), "0.5")
    with pytest.raises(ValueError, match=r"alpha.* must lie in \(0, 1\)"):
        smoothed_predict(small_network(), small_images(2), 0.5, alpha=1.5)
