"""Intervals for what a t interval does not fit, against laws of known truth."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from experiments.measure.intervals import (
    bootstrap_t_interval,
    false_alarms,
    fieller_interval,
    paired_binary_interval,
    quantile_interval,
    ratio_bootstrap_interval,
    runs_for_width,
    skewness,
    too_skewed,
    warm_up,
)
from experiments.measure.sequential import STEP, half_width, stop_at
from experiments.measure.stats import paired, t_interval, welch_interval, wilson_interval

EXPERIMENTS = 400
NOISE = 4 * np.sqrt(0.95 * 0.05 / EXPERIMENTS)  # four standard errors of a measured coverage


def coverage(interval, draw, truth, n):
    generator = np.random.default_rng(n)
    found = [interval(draw(generator, n)) for _ in range(EXPERIMENTS)]
    return np.mean([(f.low is None or f.low <= truth) and (f.high is None or truth <= f.high) for f in found])


def test_skewness_is_scipys_and_equal_values_have_none():
    values = np.random.default_rng(1).lognormal(size=40)
    assert skewness(values) == pytest.approx(scipy_stats.skew(values), rel=1e-12)
    assert skewness([2.0, 2.0, 2.0]) == 0.0
    assert not too_skewed([1.0, 5.0])


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (lambda g, n: g.normal(size=n), 0.0, 0.08),
        (lambda g, n: g.lognormal(size=n), 0.5, 1.0),
        (lambda g, n: (g.random(n) < 0.1).astype(float), 0.6, 1.0),
    ],
)
def test_the_warning_is_rare_on_symmetric_outcomes_and_usual_on_skewed_ones(draw, least, most):
    generator = np.random.default_rng(2)
    warned = np.mean([too_skewed(draw(generator, 16)) for _ in range(EXPERIMENTS)])
    assert least <= warned <= most


@pytest.mark.parametrize("n", [16, 64])
def test_a_quantile_interval_covers_at_least_as_often_as_it_says_for_any_law(n):
    for share, truth in ((0.5, 1.0), (0.9, float(np.exp(scipy_stats.norm.ppf(0.9))))):
        found = coverage(lambda v, s=share: quantile_interval(v, s), lambda g, n: g.lognormal(size=n), truth, n)
        assert found >= 0.95 - NOISE


def test_a_quantile_beyond_the_sample_has_an_open_side_and_says_why():
    found = quantile_interval(range(16), 0.05)
    assert found.low is None
    assert found.high is not None
    assert found.reason == "16 values are too few for this quantile"


def test_the_median_of_fifteen_lies_between_its_fourth_and_twelfth_value():
    found = quantile_interval(range(1, 16), 0.5)  # P(3 or fewer of 15 heads) = 1.8 %
    assert (found.low, found.high) == (4.0, 12.0)


def changes(up, down):
    def draw(generator, n):
        u = generator.random(n)
        return np.where(u < up, 1, np.where(u > 1 - down, -1, 0))

    return draw


@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize(("up", "down"), [(0.05, 0.0), (0.3, 0.1), (0.5, 0.4)])
def test_the_exact_paired_interval_covers_at_least_as_often_as_it_says(n, up, down):
    def interval(moves):
        return paired_binary_interval((moves > 0).astype(float), (moves < 0).astype(float))

    assert coverage(interval, changes(up, down), up - down, n) >= 0.95 - NOISE


def test_seeds_that_answer_alike_leave_an_interval_around_zero():
    found = paired_binary_interval([1, 0, 1, 0], [1, 0, 1, 0])
    assert found.mean == 0.0
    assert found.low == -found.high
    assert paired_binary_interval([None], [1]).reason == "no value"
    with pytest.raises(ValueError, match="0 or 1"):
        paired_binary_interval([0.5], [1])


@pytest.mark.parametrize("interval", [fieller_interval, ratio_bootstrap_interval])
def test_a_cost_per_share_point_covers_the_ratio_and_is_null_where_the_share_may_not_move(interval):
    def draw(generator, n):
        luck = generator.normal(size=n)
        return np.array([10.0 + luck + generator.normal(size=n), 5.0 + luck])

    generator, found = np.random.default_rng(3), []
    for _ in range(EXPERIMENTS // 4):
        costs, gains = draw(generator, 32)
        found.append(interval(costs, gains))
    assert np.mean([one.low <= 2.0 <= one.high for one in found]) >= 0.95 - 2.5 * NOISE
    nothing = interval([1.0, 2.0, 3.0, 4.0], [-1.0, 1.0, -1.0, 1.0])
    assert (nothing.mean, nothing.low) == (None, None)
    assert nothing.reason == "the difference in the denominator may be zero"


def test_fieller_on_numbers_one_can_redo():
    # Means 6 and 2; no covariance; squared errors 1/3 of 1 and 0: bounds where (6 - 2 r)^2 = t^2 / 3.
    half = scipy_stats.t.ppf(0.975, 2) * np.sqrt(1 / 3) / 2
    found = fieller_interval([5.0, 6.0, 7.0], [2.0, 2.0, 2.0])
    assert (found.mean, found.low, found.high) == pytest.approx((3.0, 3.0 - half, 3.0 + half))


def test_so_many_runs_and_no_fewer_make_an_interval_so_narrow():
    values = np.random.default_rng(4).normal(0.0, 3.0, 16)
    spread = values.std(ddof=1)
    for wanted in (10.0, 2.0, 0.5, 0.05):
        n = runs_for_width(values, wanted)
        widths = [scipy_stats.t.ppf(0.975, m - 1) * spread / np.sqrt(m) for m in (n - 1, n) if m > 1]
        assert widths[-1] <= wanted
        assert n == 2 or widths[0] > wanted
    with pytest.raises(ValueError, match="not positive"):
        runs_for_width(values, 0.0)


def test_twenty_comparisons_raise_one_false_alarm_on_average():
    assert false_alarms(20) == pytest.approx(1.0)


def test_the_warm_up_ends_where_the_series_has_settled():
    weeks = np.arange(150)
    noise = np.random.default_rng(5).normal(0.0, 0.1, 150)
    assert 15 <= warm_up(5.0 * np.exp(-weeks / 8.0) + noise) <= 45
    assert warm_up(noise) <= 30
    assert warm_up([1.0, 2.0]) == 0


# ------------------------------------------------------------------------------------------------ the stop by width


def test_the_rule_looks_at_the_minimum_and_every_step_and_ends_at_the_maximum():
    values = np.random.default_rng(6).normal(size=200)
    n = stop_at(values, 0.3, maximum=200)
    assert (n - 16) % STEP == 0
    assert half_width(values[:n]) <= 0.3
    assert n == 16 or half_width(values[: n - STEP]) > 0.3
    assert stop_at(values, 1e-9, maximum=50) == 50
    assert stop_at(values[:20], 1e-9, maximum=50) is None
    assert stop_at(values, 100.0, maximum=200) == 16


def test_the_stop_by_width_covers_nearly_as_often_as_it_says_and_fresh_seeds_do():
    generator, at_stop, fresh = np.random.default_rng(7), [], []
    for _ in range(1000):
        values = generator.normal(size=128)
        n = stop_at(values, 0.35, maximum=128)
        for kept, sample in ((at_stop, values[:n]), (fresh, generator.normal(size=n))):
            found = t_interval(sample)
            kept.append(found.low <= 0.0 <= found.high)
    error = 3 * np.sqrt(0.95 * 0.05 / 1000)
    assert np.mean(at_stop) >= 0.93 - error
    assert np.mean(fresh) == pytest.approx(0.95, abs=error)


# ------------------------------------------------------------------------------------------------ the usual ones


def test_bootstrap_t_covers_a_skewed_mean_more_often_than_t():
    def skewed(g, n):
        return g.lognormal(size=n)

    t = coverage(t_interval, skewed, np.exp(0.5), 16)
    assert coverage(lambda v: bootstrap_t_interval(v, resamples=499), skewed, np.exp(0.5), 16) > t + 0.02


def test_bootstrap_t_leans_with_the_skew_and_draws_the_same_twice():
    values = np.random.default_rng(5).lognormal(0.0, 1.0, 30)
    found = bootstrap_t_interval(values)
    assert found == bootstrap_t_interval(values)
    assert found.high - found.mean > found.mean - found.low
    assert bootstrap_t_interval([2.0, 2.0, 2.0]).high == 2.0
    assert bootstrap_t_interval([2.0]).low is None


def test_wilson_covers_a_rare_event_where_t_does_not():
    def rare(g, n):
        return (g.random(n) < 0.05).astype(float)

    assert coverage(lambda v: wilson_interval(int(v.sum()), len(v)), rare, 0.05, 16) >= 0.93 - NOISE
    assert coverage(t_interval, rare, 0.05, 16) < 0.8


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_pairing_narrows_the_interval_by_the_factor_of_theory(rho):
    generator, widths = np.random.default_rng(8), []
    for _ in range(EXPERIMENTS):
        luck, own = generator.normal(size=16), generator.normal(size=(2, 16))
        arm, base = (np.sqrt(rho) * luck + np.sqrt(1 - rho) * mine for mine in own)
        widths.append([f.high - f.low for f in (welch_interval(arm, base), paired(arm, base))])
    apart, together = np.square(widths).mean(axis=0)
    theory = (scipy_stats.t.ppf(0.975, 29) / scipy_stats.t.ppf(0.975, 15)) ** 2 / (1 - rho)
    assert apart / together == pytest.approx(theory, rel=0.12)
