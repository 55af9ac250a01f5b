"""The bounds on p_A: published constants, slow references, and errors counted over thousands of sequences.

Negative control: looking at a fixed-sample bound again and again, at the full alpha each time, does fail.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import binom, binomtest

from continual.robustness import AboveRadii, FixedSample, Looks, MixtureSequence, WithinTolerance
from continual.robustness.smoothing import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    mixture_lower,
    mixture_upper,
    two_sided_lower,
)
from continual.robustness.smoothing.clopper_pearson import radius_of
from continual.robustness.smoothing.mixture import log_evidence

SEEDS, SEQUENCES, HORIZON, ALPHA = (0, 1, 2), 4000, 2000, 0.05


def test_ceilings_and_switches_are_the_known_ones():
    """Spec'd constants: the largest radius in sigma, and the fewest agreeing draws that do not abstain."""
    known = {100: (1.5005, 66), 1000: (2.4633, 550), 10_000: (3.1986, 5156), 100_000: (3.8115, 50_490)}
    for n, (ceiling, least) in known.items():
        rule = FixedSample(n, 0.001)
        assert rule.ceiling == pytest.approx(ceiling, abs=1e-4)
        assert rule.ceiling == pytest.approx(ndtri(0.001 ** (1 / n)), abs=1e-9)
        assert rule.least_agreeing == least
    assert FixedSample(1_000_000, 0.001).ceiling == pytest.approx(4.3468, abs=1e-4)
    assert FixedSample(100_000, 0.01).ceiling == pytest.approx(3.9105, abs=1e-4)
    assert clopper_pearson_lower(99_000, 100_000, 0.001) == pytest.approx(0.988989, abs=1e-6)
    assert radius_of(clopper_pearson_lower(99_000, 100_000, 0.001), 1.0) == pytest.approx(2.2900, abs=1e-4)
    assert clopper_pearson_lower(950, 1000, 0.001) == pytest.approx(0.925047, abs=1e-6)
    assert radius_of(clopper_pearson_lower(950, 1000, 0.001), 1.0) == pytest.approx(1.4399, abs=1e-4)


def test_what_stopping_at_will_costs_in_ceiling():
    """Ten thousand draws that all agree, alpha 0.001: fixed 3.20, three looks 3.16, one-sided 3.12, two-sided 2.95."""
    assert FixedSample(10_000).ceiling == pytest.approx(3.1986, abs=1e-4)
    assert Looks().ceiling == pytest.approx(ndtri((0.001 / 3) ** (1 / 10_000)), abs=1e-9)
    assert Looks().ceiling == pytest.approx(3.1558, abs=1e-4)
    assert MixtureSequence().ceiling == pytest.approx(3.1177, abs=1e-4)
    closed = (0.001 / 10_001) ** (1 / 10_000)  # (t + 1) q^t = alpha
    assert two_sided_lower(10_000, 10_000, 0.001) == pytest.approx(closed, abs=1e-9)
    assert ndtri(closed) == pytest.approx(2.9458, abs=1e-4)


def test_bounds_rise_with_agreement_and_radii_with_draws():
    counts = np.arange(0, 1001, 7)
    for bound in (clopper_pearson_lower, clopper_pearson_upper, mixture_lower, mixture_upper):
        assert (np.diff(bound(counts, 1000, 0.001)) >= 0).all()
    sizes = np.array([100, 1000, 10_000, 100_000])
    for bound in (clopper_pearson_lower, mixture_lower):
        assert (np.diff(bound(sizes * 0.9, sizes, 0.001)) > 0).all()
    assert clopper_pearson_lower(0, 50, 0.01) == mixture_lower(0, 50, 0.01) == 0
    assert clopper_pearson_upper(50, 50, 0.01) == mixture_upper(50, 50, 0.01) == 1


@pytest.mark.parametrize("n", [1, 7, 60])
def test_clopper_pearson_is_where_the_binomial_tail_is_alpha(n):
    for k in range(1, n + 1):
        assert binom.sf(k - 1, n, clopper_pearson_lower(k, n, 0.01)) == pytest.approx(0.01, rel=1e-9)
        assert binom.cdf(k - 1, n, clopper_pearson_upper(k - 1, n, 0.01)) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize(("k", "t"), [(0, 3), (3, 3), (5, 9), (40, 50), (190, 200)])
def test_the_evidence_is_the_integral_it_stands_for(k, t):
    for q in (0.3, 0.6, 0.9):
        direct, _ = quad(lambda p, q=q: (p / q) ** k * ((1 - p) / (1 - q)) ** (t - k) / (1 - q), q, 1, limit=200)
        assert log_evidence(k, t, q) == pytest.approx(np.log(direct), rel=1e-7, abs=1e-9)


def test_the_evidence_falls_in_q_and_the_bound_is_where_it_is_one_over_alpha():
    grid = np.linspace(0.01, 0.99, 99)
    for k, t in ((1, 1), (30, 40), (700, 1000), (1000, 1000)):
        assert (np.diff(log_evidence(k, t, grid)) < 0).all()
    sizes = np.repeat([1, 5, 100, 10_000, 1_000_000], 4)
    counts = np.array([1, 1, 1, 1, 1, 2, 4, 5, 1, 50, 99, 100, 3, 5001, 9990, 10_000, 7, 500_000, 999_990, 1_000_000])
    for alpha in (0.2, 0.001):
        bound = mixture_lower(counts, sizes, alpha)
        assert (log_evidence(counts, sizes, bound) >= -np.log(alpha)).all()  # rounding errs on the safe side
        above = bound * (1 + 1e-8)
        assert (log_evidence(counts, sizes, above) < -np.log(alpha)).all()


@pytest.mark.parametrize("p", [0.5, 0.7, 0.95])
def test_a_further_draw_never_raises_the_evidence_on_average_where_the_hypothesis_holds(p):
    """The step of the proof: over the next draw the mean evidence is at most the evidence now; equal at q = p."""
    for q in (p, 0.5 + p / 2, 0.99):
        for t in (0, 1, 9, 60):
            for k in range(0, t + 1, max(1, t // 5)):
                now = np.exp(log_evidence(k, t, q)) if t else 1.0
                following = p * np.exp(log_evidence(k + 1, t + 1, q)) + (1 - p) * np.exp(log_evidence(k, t + 1, q))
                assert following <= now * (1 + 1e-9)
                if q == p:
                    assert following == pytest.approx(now, rel=1e-9)


def test_neighbours_decide_no_bit_of_a_bound():
    counts, sizes = np.arange(0, 401, 13), np.full(31, 400)
    together = mixture_lower(counts, sizes, 0.001)
    assert together.tolist() == [float(mixture_lower(k, 400, 0.001)) for k in counts]
    assert together[::-1].tolist() == mixture_lower(counts[::-1], sizes, 0.001).tolist()


def least_counts(wrong, horizon):
    """For each t the fewest agreeing draws at which `wrong(k, t)` holds, t + 1 where none does; wrong rises with k."""
    t = np.arange(1, horizon + 1)
    low, high = np.full(horizon, -1), t + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        inside = (middle >= 0) & (middle <= t)
        found = np.where(inside, wrong(np.clip(middle, 0, t), t), middle > t)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high


def ever_wrong(p, least, seed, looks=None):
    """The share of simulated sequences whose count reaches `least` at a look, with the number of them."""
    draws = np.random.default_rng(seed).random((SEQUENCES, len(least))) < p
    reached = draws.cumsum(1) >= least
    return int((reached if looks is None else reached[:, looks]).any(1).sum())


@pytest.mark.parametrize("p", [0.5, 0.8, 0.977])
def test_the_mixture_bound_exceeds_the_truth_in_at_most_alpha_of_sequences_looking_at_every_draw(p):
    least = least_counts(lambda k, t: log_evidence(k, t, p) >= -np.log(ALPHA), HORIZON)
    at = np.array([300, 1000, 1999])
    assert (mixture_lower(least[at], at + 1, ALPHA) > p - 1e-9).all()  # the same event as the public bound's
    assert (mixture_lower(least[at] - 1, at + 1, ALPHA) < p).all()
    errors = [ever_wrong(p, least, seed) for seed in SEEDS]
    assert max(errors) <= ALPHA * SEQUENCES
    assert min(errors) > 0.1 * ALPHA * SEQUENCES  # it could have failed: the error is spent, not given away


@pytest.mark.parametrize("p", [0.5, 0.8, 0.977])
def test_the_upper_end_is_the_mirror_image_and_holds_as_well(p):
    least = least_counts(lambda k, t: log_evidence(k, t, 1 - p) >= -np.log(ALPHA), HORIZON)
    errors = [ever_wrong(1 - p, least, seed) for seed in SEEDS]
    assert max(errors) <= ALPHA * SEQUENCES
    assert mixture_upper(70, 100, ALPHA) == 1 - mixture_lower(30, 100, ALPHA)


@pytest.mark.parametrize("p", [0.5, 0.8, 0.977])
def test_three_looks_hold_with_a_third_of_alpha_each(p):
    rule = Looks((20, 200, 2000), ALPHA)
    least = least_counts(lambda k, t: rule.lower(k, t) > p, HORIZON)
    errors = [ever_wrong(p, least, seed, np.array(rule.looks) - 1) for seed in SEEDS]
    assert max(errors) <= ALPHA * SEQUENCES


@pytest.mark.parametrize("p", [0.5, 0.8, 0.977])
def test_negative_control_plain_peeking_at_a_fixed_sample_bound_fails(p):
    rule = FixedSample(HORIZON, ALPHA)
    least = least_counts(lambda k, t: rule.lower(k, t) > p, HORIZON)
    looks = np.arange(19, HORIZON, 20)
    for seed in SEEDS:
        errors = ever_wrong(p, least, seed, looks)
        assert errors > 2 * ALPHA * SEQUENCES
        assert binomtest(errors, SEQUENCES, ALPHA, alternative="greater").pvalue < 1e-12
        assert ever_wrong(p, least, seed, np.array([HORIZON - 1])) <= 1.2 * ALPHA * SEQUENCES  # one look is sound


def test_goals_stop_when_everything_stated_is_settled():
    radii = AboveRadii([0.0, 0.5])
    certified, possible = np.array([-0.2, 0.6, 0.1, 0.1, -0.5]), np.array([0.3, 0.9, 0.4, 0.7, -0.1])
    assert radii.reached(certified, possible, 2.0).tolist() == [False, True, True, False, True]
    close = WithinTolerance(0.1)
    assert close.reached(np.array([0.5, 0.5, -np.inf, 1.95]), np.array([0.59, 0.61, -0.1, np.inf]), 2.0).tolist() == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FixedSample(1000, 0.0), r"alpha.* must lie in \(0, 1\), got 0.0"),
        (lambda: FixedSample(1000, 1.0), r"alpha.* must lie in \(0, 1\), got 1.0"),
        (lambda: MixtureSequence(1000, -0.1), r"alpha.* must lie in \(0, 1\), got -0.1"),
        (lambda: FixedSample(9), r"With 9 draws at alpha = 0.001 nothing can be certified.*ceiling radius -0.09"),
        (lambda: MixtureSequence(9), "With 9 draws at alpha = 0.001 nothing can be certified"),
        (lambda: FixedSample(0), "n must be a whole number of at least 1, got 0"),
        (lambda: Looks(()), "at least one number of draws"),
        (lambda: Looks((100, 100)), "sizes must ascend"),
        (lambda: AboveRadii([]), "at least one finite number"),
        (lambda: AboveRadii([-0.1]), "at least one finite number"),
        (lambda: WithinTolerance(0.0), "tolerance must be above 0"),
    ],
)
def test_rules_and_goals_refuse_what_makes_no_sense(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_the_smallest_sample_that_can_certify_anything_is_taken():
    assert FixedSample(10).ceiling > 0
    assert FixedSample(10).least_agreeing == 10
