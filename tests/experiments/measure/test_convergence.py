"""Convergence estimators on series of known answer, and on the traps that fool them."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.estimators import newey_west_slope
from experiments.measure.outcomes import OUTCOMES, Records, Window, outcomes

HEADLINE = "neocloud+marketplace"
WEEKS_PER_YEAR = 8760 / 168


def measure(made, logs, metric, sku="H100", **options):
    """A metric over a whole fabricated run: value, standard error, reason."""
    tables = made.fabricate(made.panel(logs), **options)
    weeks = len(logs) - 1
    cells = OUTCOMES[metric].measure(Records.of(tables, weeks), Window(1, weeks))
    return next(cell for cell in cells if cell.sku == sku and cell.provider_class == HEADLINE)[:3]


def autoregressive(rng, weeks, sellers, persistence, sd):
    deviations = rng.normal(0, sd, (weeks, sellers))
    shocks = rng.normal(0, sd * np.sqrt(1 - persistence**2), (weeks, sellers))
    for week in range(1, weeks):
        deviations[week] = persistence * deviations[week - 1] + shocks[week]
    return deviations


CHANGES = ["beta", "beta_within", "half_life", "half_life_within"]


@pytest.mark.parametrize("metric", CHANGES)
def test_frozen_prices_have_no_speed(made, metric):
    logs = np.tile(np.linspace(0.5, 1.5, 6), (53, 1))
    value, error, reason = measure(made, logs, metric)
    assert value is None
    assert error is None
    assert reason == "no price moved"


@pytest.mark.parametrize("metric", [*CHANGES, "sigma_trend", "price_premium_share"])
def test_equal_prices_have_neither_speed_nor_trend(made, metric):
    rising = np.tile(np.linspace(0.5, 1.5, 53)[:, None], (1, 6))
    value, _, reason = measure(made, rising, metric)
    assert value is None
    assert "no spread" in reason


@pytest.mark.parametrize("metric", [*CHANGES, "sigma_trend", "price_premium_share"])
def test_two_sellers_are_too_few(made, metric):
    value, _, reason = measure(made, np.cumsum(np.full((53, 2), [[0.01, 0.02]]), axis=0), metric)
    assert value is None
    assert "fewer than three sellers" in reason


def test_frozen_premia_have_a_flat_spread_and_explain_all_of_it(made):
    logs = np.tile(np.linspace(0.5, 1.5, 6), (53, 1))
    assert measure(made, logs, "sigma_trend")[0] == pytest.approx(0.0, abs=1e-12)
    assert measure(made, logs, "price_premium_share")[0] == pytest.approx(1.0, abs=1e-12)


def test_a_common_move_is_no_convergence(made):
    logs = np.linspace(0.5, 1.5, 6) + np.linspace(0.0, 0.4, 53)[:, None]
    assert measure(made, logs, "beta")[0] == pytest.approx(0.0, abs=1e-9)
    value, _, reason = measure(made, logs, "half_life")
    assert value is None
    assert reason == "beta is not between -1 and 0"


def test_deterministic_convergence_is_recovered_exactly(made):
    decay = 0.97
    logs = 1.0 + np.linspace(-0.5, 0.5, 6) * decay ** np.arange(105)[:, None]
    assert measure(made, logs, "beta")[0] == pytest.approx(decay**4 - 1, rel=1e-9)
    assert measure(made, logs, "half_life")[0] == pytest.approx(np.log(2) / -np.log(decay), rel=1e-9)
    assert measure(made, logs, "sigma_trend")[0] == pytest.approx(np.log(decay) * WEEKS_PER_YEAR, rel=1e-9)


def test_diverging_prices_have_no_half_life(made):
    logs = 1.0 + np.linspace(-0.5, 0.5, 6) * 1.01 ** np.arange(53)[:, None]
    assert measure(made, logs, "beta")[0] == pytest.approx(1.01**4 - 1, rel=1e-9)
    assert measure(made, logs, "half_life")[0] is None


def test_known_reversion_to_known_premia_is_recovered(made):
    rng = np.random.default_rng(11)
    persistence, sd, premium_sd = 0.9, 0.1, 0.2
    premia = rng.normal(0, premium_sd, 60)
    premia *= premium_sd / premia.std()
    logs = 1.0 + premia + autoregressive(rng, 1_001, 60, persistence, sd)
    expected = persistence**4 - 1
    transitory = sd**2 / (sd**2 + premium_sd**2)
    within = measure(made, logs, "beta_within")[0]
    assert within == pytest.approx(expected, rel=0.05)
    assert measure(made, logs, "half_life_within")[0] == pytest.approx(np.log(2) / -np.log(persistence), rel=0.1)
    assert measure(made, logs, "beta")[0] == pytest.approx(expected * transitory, rel=0.1)
    assert measure(made, logs, "price_premium_share")[0] == pytest.approx(1 - transitory, rel=0.05)


def test_seller_effects_bias_a_short_panel_downwards(made):
    rng = np.random.default_rng(12)
    walks = [1.0 + np.cumsum(rng.normal(0, 0.03, (53, 20)), axis=0) for _ in range(20)]
    assert np.mean([measure(made, logs, "beta_within")[0] for logs in walks]) < -0.1


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_two_way_fit_equals_least_squares_on_dummies(made, holes):
    rng = np.random.default_rng(13)
    logs = 1.0 + np.cumsum(rng.normal(0, 0.05, (40, 6)), axis=0)
    logs[rng.random(logs.shape) < holes] = np.nan
    start, change = logs[1:-4], logs[5:] - logs[1:-4]
    week, seller = np.nonzero(np.isfinite(change))
    dummies = np.hstack([np.eye(35)[week], np.eye(6)[seller]])
    design = np.hstack([start[week, seller][:, None], dummies])
    expected = np.linalg.lstsq(design, change[week, seller], rcond=None)[0][0]
    assert measure(made, logs, "beta_within")[0] == pytest.approx(expected, rel=1e-8)


def coverage(made, metric, draw, runs, level=0.95):
    """Share of seeded runs whose interval, value ± quantile × error, covers 0."""
    from scipy.stats import t

    inside = 0
    for run in range(runs):
        logs = draw(np.random.default_rng([17, run]))
        value, error, _ = measure(made, logs, metric)
        inside += abs(value) <= t.ppf(0.5 + level / 2, logs.shape[1] - 1) * error
    return inside / runs


def test_beta_of_random_walks_covers_zero(made):
    def walks(rng):
        return rng.normal(1.0, 0.3, 20) + np.cumsum(rng.normal(0, 0.03, (53, 20)), axis=0)

    assert coverage(made, "beta", walks, 300) == pytest.approx(0.93, abs=0.04)  # 4,000 runs give .930


@pytest.mark.parametrize(("persistence", "covers"), [(0.0, 0.92), (0.5, 0.87), (0.7, 0.81)])
def test_the_error_of_a_trend_covers_as_stated_and_whites_does_not(persistence, covers):
    years = np.arange(52) / WEEKS_PER_YEAR
    series = autoregressive(np.random.default_rng(19), 52, 2_000, persistence, 1.0).T
    robust, white = ([newey_west_slope(values, years, lags) for values in series] for lags in (None, 0))
    share = [np.mean([abs(s.value) <= 1.96 * s.std_error for s in slopes]) for slopes in (robust, white)]
    assert share[0] == pytest.approx(covers, abs=0.03)
    assert persistence == 0.0 or share[1] < share[0] - 0.1


def test_newey_west_without_lags_is_whites_error():
    rng = np.random.default_rng(23)
    x, y = np.arange(30.0), rng.normal(0, 1, 30)
    slope = newey_west_slope(y, x, lags=0)
    fit = np.polyfit(x, y, 1)
    centred = x - x.mean()
    expected = np.sqrt(((centred * (y - np.polyval(fit, x))) ** 2).sum() * 30 / 28) / (centred @ centred)
    assert slope.value == pytest.approx(fit[0])
    assert slope.std_error == pytest.approx(expected)


def test_newey_west_weighs_neighbours_by_bartlett():
    rng = np.random.default_rng(29)
    x, y = np.arange(12.0), rng.normal(0, 1, 12)
    centred = x - x.mean()
    scores = centred * (y - np.polyval(np.polyfit(x, y, 1), x))
    variance = scores @ scores + 2 * (2 / 3 * scores[1:] @ scores[:-1] + 1 / 3 * scores[2:] @ scores[:-2])
    fixed_b = (1.96 + 2.9694 / 6 + 0.4160 / 36 - 0.5324 / 216) / 1.96
    expected = fixed_b * np.sqrt(variance * 12 / 10) / (centred @ centred)
    assert newey_west_slope(y, x, lags=2).std_error == pytest.approx(expected)


def parts(made, tables, weeks, prefix="price_mean_change"):
    table = outcomes(tables, weeks=weeks, spans=[Window(1, weeks)])
    names = [name for name in OUTCOMES if name.startswith(prefix)]
    return {
        name.removeprefix(prefix).lstrip("_") or "total": made.value(table, name, sku="H100", provider_class=HEADLINE)
        for name in names
    }


def test_frozen_prices_and_an_entrant_have_no_within_part(made):
    late = np.where(np.arange(53) < 30, np.nan, 1.3)
    prices = {("a", "H100"): np.full(53, 2.1), ("b", "H100"): np.full(53, 4.3), ("late", "H100"): late}
    found = parts(made, made.fabricate(prices), 52)
    assert found["within"] == 0.0
    assert found["between"] == 0.0
    assert found["exit"] == 0.0
    assert found["entry"] == pytest.approx((1.3 - 3.2) / 3)
    assert found["total"] == pytest.approx((2.1 + 4.3 + 1.3) / 3 - 3.2)


def test_an_exit_counts_against_those_who_stay(made):
    gone = np.where(np.arange(53) < 30, 6.0, np.nan)
    prices = {("a", "H100"): np.full(53, 2.0), ("b", "H100"): np.full(53, 4.0), ("gone", "H100"): gone}
    found = parts(made, made.fabricate(prices), 52)
    assert (found["within"], found["entry"]) == (0.0, 0.0)
    assert found["exit"] == pytest.approx(3.0 - 4.0)


def test_the_parts_add_up_to_the_change_of_the_weighted_mean(made):
    rng = np.random.default_rng(31)
    logs = 1.0 + np.cumsum(rng.normal(0, 0.05, (53, 8)), axis=0)
    logs[:20, 6], logs[35:, 7] = np.nan, np.nan
    prices = made.panel(logs)
    gpus = {key: rng.uniform(100, 900, 53) for key in prices}
    found = parts(made, made.fabricate(prices, lots={"available_gpus": gpus}), 52)
    means = [
        np.average(level[known], weights=fleet[known])
        for level, fleet in (
            (np.array([price[week] for price in prices.values()]), np.array([fleet[week] for fleet in gpus.values()]))
            for week in (1, 52)
        )
        for known in [np.isfinite(level)]
    ]
    assert found["total"] == pytest.approx(means[1] - means[0], rel=1e-10)
    assert sum(found[part] for part in ("within", "between", "entry", "exit")) == pytest.approx(found["total"])
    assert all(found[part] != 0.0 for part in found)


def test_a_spread_that_only_the_entrant_moves_is_composition(made):
    late = np.where(np.arange(53) < 30, np.nan, 3.0)
    prices = {("a", "H100"): np.full(53, 2.0), ("b", "H100"): np.full(53, 4.0), ("late", "H100"): late}
    found = parts(made, made.fabricate(prices), 52, "price_cv_change")
    assert found["within"] == 0.0
    assert found["composition"] == found["total"] == pytest.approx(1 / 3 - 2**0.5 / 3)


def test_drift_is_the_common_slope_whoever_comes_and_goes(made):
    logs = np.linspace(-0.5, 0.5, 6) - 0.15 * np.arange(53)[:, None] / WEEKS_PER_YEAR
    logs[:40, 5], logs[20:, 0] = np.nan, np.nan
    value, error, _ = measure(made, logs, "price_drift")
    assert value == pytest.approx(-0.15)
    assert error == pytest.approx(0.0, abs=1e-9)


def test_pooled_beta_gives_each_sku_its_own_mean(made):
    decay = 0.97 ** np.arange(53)[:, None]
    near, far = 1.0 + np.linspace(-0.5, 0.5, 6) * decay, 3.0 + np.linspace(-0.2, 0.2, 6) * decay
    tables = made.fabricate(made.panel(near) | made.panel(far, "B200"))
    table = outcomes(tables, weeks=52)
    pooled = table.filter(pl.col("metric") == "beta", pl.col("sku") == "all")["value"].to_list()
    assert pooled == pytest.approx([0.97**4 - 1] * len(pooled))
