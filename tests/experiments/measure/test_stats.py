"""Intervals against scipy and against their own promise; summaries and effects by arm and seed."""

import numpy as np
import polars as pl
import pytest
from scipy import stats as scipy_stats

from experiments.measure.outer import arm_of_draw, range_over_draws
from experiments.measure.stats import (
    EFFECTS_SCHEMA,
    SUMMARY_SCHEMA,
    bca_interval,
    display_name,
    effects,
    paired,
    summarise,
    t_interval,
    welch_interval,
    wilson_interval,
)


def drawn(seed, n=16):
    return np.random.default_rng(seed).normal(3.0, 2.0, n)


@pytest.mark.parametrize("n", [2, 3, 16, 64])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_t_interval_is_scipys(n, level):
    values = drawn(n, n)
    low, high = scipy_stats.t.interval(level, n - 1, values.mean(), scipy_stats.sem(values))
    found = t_interval(values, level)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high), rel=1e-12, abs=1e-12)
    assert found.n == n


def test_one_value_has_a_mean_and_no_interval_and_none_has_neither():
    one, none = t_interval([2.0, None]), t_interval([None, float("nan")])
    assert (one.mean, one.low, one.high, one.n) == (2.0, None, None, 1)
    assert (none.mean, none.low, none.n) == (None, None, 0)
    assert one.reason
    assert none.reason


def test_paired_is_the_interval_of_the_differences():
    arm, base = drawn(1), drawn(2)
    low, high = scipy_stats.ttest_rel(arm, base).confidence_interval(0.9)
    found = paired(arm, base, 0.9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert paired([1.0, 2.0, None], [1.0, None, 2.0]).n == 1
    with pytest.raises(ValueError, match="zip"):
        paired([1.0], [1.0, 2.0])


def test_welch_is_scipys():
    one, two = drawn(3, 9), 4.0 * drawn(4, 21)
    low, high = scipy_stats.ttest_ind(one, two, equal_var=False).confidence_interval(0.95)
    found = welch_interval(one, two)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert welch_interval([1.0], [2.0, 3.0]).low is None
    assert welch_interval([1.0, 1.0], [2.0, 2.0]).high == -1.0


def test_wilson_is_scipys_and_stays_inside():
    bounds = scipy_stats.binomtest(3, 16).proportion_ci(0.95, method="wilson")
    found = wilson_interval(3, 16)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high), rel=1e-12)
    assert wilson_interval(0, 16).low == 0.0
    assert wilson_interval(0, 0).mean is None
    with pytest.raises(ValueError, match="5 successes in 4 trials"):
        wilson_interval(5, 4)


def test_bca_leans_with_the_skew_and_draws_the_same_twice():
    values = np.random.default_rng(5).lognormal(0.0, 1.0, 30)
    found, again = bca_interval(values), bca_interval(values)
    assert found == again
    assert found.high - found.mean > found.mean - found.low
    assert bca_interval([2.0, 2.0, 2.0]).high == 2.0


@pytest.mark.parametrize("interval", [t_interval, bca_interval])
@pytest.mark.parametrize("level", [0.0, 1.0, -0.5])
def test_levels_outside_the_open_unit_interval_are_refused(interval, level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval([1.0, 2.0], level)


def test_the_t_interval_covers_as_often_as_it_says():
    values = np.random.default_rng(7).normal(1.0, 2.0, (4_000, 16))
    found = [t_interval(row) for row in values]
    share = np.mean([interval.low <= 1.0 <= interval.high for interval in found])
    assert share == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 4_000))


def test_the_t_interval_of_skewed_outcomes_loses_a_few_points_at_sixteen_seeds():
    values = np.random.default_rng(8).exponential(1.0, (4_000, 16))
    share = np.mean([interval.low <= 1.0 <= interval.high for interval in map(t_interval, values)])
    assert 0.89 <= share < 0.95


def stored(arms=("none", "offer"), seeds=8, metrics=("price_mean", "beta"), shift=0.5, failed=()):
    """Outcomes and runs of an experiment; the seed's luck is common to the arms."""
    runs, rows = [], []
    for a, arm in enumerate(arms):
        for seed in range(seeds):
            run, lost = f"{arm} {seed}", (arm, seed) in failed
            runs.append({"id": run, "arm": arm, "seed": seed, "status": "failed" if lost else "ok"})
            luck = np.random.default_rng([9, seed]).normal(0, 1, len(metrics))
            noise = np.random.default_rng([10, a, seed]).normal(0, 0.01, len(metrics))
            rows += [
                {
                    "run": run,
                    "metric": metric,
                    "vendor": "nvidia",
                    "sku": "H100",
                    "segment": "all",
                    "provider_class": "neocloud+marketplace",
                    "window_first": 1,
                    "window_last": 52,
                    "value": float(luck[m] + noise[m] + shift * a),
                    "std_error": None,
                    "reason": None,
                }
                for m, metric in enumerate(metrics)
                if not lost
            ]
    schema = {"window_first": pl.Int32, "window_last": pl.Int32, "std_error": pl.Float64, "reason": pl.String}
    return pl.DataFrame(rows, schema_overrides=schema), pl.DataFrame(runs)


def test_the_summary_is_scipys_interval_for_every_row():
    outcomes, runs = stored(failed={("offer", 3)})
    table = summarise(outcomes, runs, 0.9, experiment="developer-cloud")
    assert table.schema == pl.Schema(SUMMARY_SCHEMA)
    assert table.height == 4
    for row in table.iter_rows(named=True):
        mine = outcomes.filter(pl.col("run").str.starts_with(row["arm"]), pl.col("metric") == row["metric"])["value"]
        low, high = scipy_stats.t.interval(0.9, len(mine) - 1, mine.mean(), scipy_stats.sem(mine))
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((mine.mean(), low, high), rel=1e-12)
        lost = 1 if row["arm"] == "offer" else 0
        assert (row["runs"], row["failed"], row["experiment"]) == (8 - lost, lost, "developer-cloud")
    assert table["unit"].to_list() == ["USD/GPU-h", "per 4 weeks"] * 2


def test_effects_pair_by_seed_and_drop_what_has_no_partner():
    outcomes, runs = stored(failed={("offer", 3)})
    table = effects(outcomes, runs, [("total", "offer", "none")], 0.95)
    assert table.schema == pl.Schema(EFFECTS_SCHEMA)
    values = {run: value for run, value in outcomes.filter(pl.col("metric") == "beta").select("run", "value").rows()}
    kept = [seed for seed in range(8) if seed != 3]
    arm, base = ([values[f"{name} {seed}"] for seed in kept] for name in ("offer", "none"))
    low, high = scipy_stats.ttest_rel(arm, base).confidence_interval(0.95)
    row = table.filter(pl.col("metric") == "beta").row(0, named=True)
    assert row["pairs"] == 7
    assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-12)
    assert (row["contrast"], row["arm"], row["base"]) == ("total", "offer", "none")


def test_the_same_luck_in_both_arms_makes_the_effect_sharper_than_the_summary():
    outcomes, runs = stored()
    effect = effects(outcomes, runs, [("total", "offer", "none")]).row(0, named=True)
    summary = summarise(outcomes, runs).row(0, named=True)
    assert effect["high"] - effect["low"] < 0.1 * (summary["high"] - summary["low"])
    assert effect["low"] < 0.5 < effect["high"]


def test_equal_arms_differ_by_exactly_nothing():
    outcomes, runs = stored(arms=("none",))
    both = pl.concat([runs, runs.with_columns(arm=pl.lit("copy"))])
    table = effects(outcomes, both, [("placebo", "copy", "none")])
    assert table.select("difference", "low", "high").unique().rows() == [(0.0, 0.0, 0.0)]


def test_an_outcome_undefined_in_some_runs_says_in_how_many():
    outcomes, runs = stored(metrics=("half_life",))
    undefined = (pl.col("run") == "none 0") | pl.col("run").str.starts_with("offer")
    outcomes = outcomes.with_columns(
        value=pl.when(~undefined).then("value"), reason=pl.when(undefined).then(pl.lit("no price moved"))
    )
    none, offer = summarise(outcomes, runs).iter_rows(named=True)
    assert (none["runs"], none["reason"]) == (7, "undefined in 1 of 8 runs: no price moved")
    assert (offer["mean"], offer["low"], offer["runs"], offer["reason"]) == (None, None, 0, "no price moved")
    effect = effects(outcomes, runs, [("total", "offer", "none")]).row(0, named=True)
    assert (effect["difference"], effect["pairs"], effect["reason"]) == (None, 0, "no price moved")


def test_one_seed_gives_a_mean_without_an_interval():
    outcomes, runs = stored(seeds=1)
    row = summarise(outcomes, runs).row(0, named=True)
    assert row["mean"] is not None
    assert (row["low"], row["high"], row["runs"]) == (None, None, 1)
    assert row["reason"]


def test_unknown_arms_and_repeated_seeds_are_refused():
    outcomes, runs = stored()
    with pytest.raises(ValueError, match="no arm 'offre' among none, offer"):
        effects(outcomes, runs, [("total", "offre", "none")])
    with pytest.raises(ValueError, match="a seed stands twice"):
        summarise(outcomes, pl.concat([runs, runs]))


def test_without_contrasts_the_effects_are_empty_and_keep_their_columns():
    outcomes, runs = stored()
    assert effects(outcomes, runs, []).schema == pl.Schema(EFFECTS_SCHEMA)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("price_cv[H100]", {"metric": "price_cv", "sku": "H100", "provider_class": "neocloud+marketplace"}),
        ("price_cv[H100, all]", {"metric": "price_cv", "sku": "H100", "provider_class": "all"}),
        ("ebitda_margin[neocloud amd-heavy]", {"metric": "ebitda_margin", "provider_class": "neocloud amd-heavy"}),
        ("amd_hour_share", {"metric": "amd_hour_share", "provider_class": "all", "vendor": "amd"}),
        ("unmet_work[developer]", {"metric": "unmet_work", "segment": "developer", "provider_class": "all"}),
        ("leaseback_cost[amd]", {"metric": "leaseback_cost", "vendor": "amd", "provider_class": "all"}),
        ("price_mean[H100]", {"metric": "price_mean", "sku": "H100", "vendor": "nvidia"}),
    ],
)
def test_display_names_say_what_is_not_usual(name, arguments):
    assert display_name(**arguments) == name


# ------------------------------------------------------------------------------------------------ the second interval


def drawn_experiment(draws, seeds, outer_seeds, effect_sd=0.5, luck_sd=1.0):
    """An effect of 1 plus what the draw's parameters add, in two arms; arms of the experiment and of each draw."""
    rng = np.random.default_rng([11, draws, seeds])
    shifts = scipy_stats.norm.ppf((np.arange(draws) + 0.5) / draws) * effect_sd
    runs, rows = [], []
    for draw, shift in enumerate([0.0, *shifts]):
        for arm, effect in (("none", 0.0), ("offer", 1.0 + shift)):
            name = arm_of_draw(arm, draw, draws) if draw else arm
            for seed in range(outer_seeds if draw else seeds):
                run = f"{name} {seed}"
                runs.append({"id": run, "arm": name, "seed": seed, "status": "ok"})
                rows.append({"run": run, "value": effect + luck_sd * float(rng.normal()) / 2**0.5})
    one = stored(arms=("none",), seeds=1, metrics=("price_mean",))[0].drop("run", "value")
    return pl.DataFrame(rows).join(one, how="cross"), pl.DataFrame(runs)


def both_intervals(draws=400, **sizes):
    outcomes, runs = drawn_experiment(draws, **sizes)
    row = effects(outcomes, runs, [("total", "offer", "none")]).row(0, named=True)
    return row, row["high"] - row["low"], row["range_high"] - row["range_low"]


def test_four_times_the_seeds_halve_the_first_interval_and_leave_the_second():
    row, first, second = both_intervals(seeds=64, outer_seeds=4)
    more, halved, same = both_intervals(seeds=256, outer_seeds=16)
    assert (row["draws"], more["draws"]) == (400, 400)
    assert halved == pytest.approx(first / 2, rel=0.2)
    assert same == pytest.approx(second, rel=0.12)


def test_the_range_is_that_of_the_parameters_and_not_of_luck():
    _, _, found = both_intervals(seeds=16, outer_seeds=4)
    assert found == pytest.approx(2 * 1.96 * 0.5, rel=0.15)
    _, _, nothing = both_intervals(seeds=16, outer_seeds=4, effect_sd=0.0)
    assert nothing < 1.0  # luck alone spreads means of four by 2.0
    _, _, alone = both_intervals(seeds=16, outer_seeds=1)
    assert alone > 1.5 * found


def test_few_draws_that_cannot_tell_parameters_from_luck_do_not_make_a_sure_range():
    """Eight draws of four seeds, parameters as strong as luck: too wide on the median, hardly ever a point."""
    rng, cases = np.random.default_rng(31), 400
    effect = np.repeat(rng.normal(0.0, 0.5, (cases, 8)), 4, axis=1)
    values = effect + rng.normal(0.0, 1.0, (cases, 32))
    case, draw = np.repeat(np.arange(cases), 32), np.tile(np.repeat(np.arange(8), 4), cases)
    found = range_over_draws(pl.DataFrame({"case": case, "draw": draw, "value": values.ravel()}), ["case"], 0.95)
    widths = (found["range_high"] - found["range_low"]).to_numpy()
    true = np.ptp(np.quantile(effect[:, ::4], [0.025, 0.975], axis=1), axis=0)
    assert np.mean(widths < true) < 0.3
    assert np.median(widths / true) < 1.6
    assert np.mean(widths < 0.2) < 0.02


def test_draws_are_in_the_range_alone_and_without_them_it_is_null():
    outcomes, runs = drawn_experiment(5, 8, 2)
    assert summarise(outcomes, runs)["arm"].to_list() == ["none", "offer"]
    kept = runs.filter(~pl.col("arm").str.contains("draw"))
    with_draws, without = (
        effects(outcomes, each, [("total", "offer", "none")]).row(0, named=True) for each in (runs, kept)
    )
    assert (without["range_low"], without["range_high"], without["draws"]) == (None, None, None)
    same = ("difference", "low", "high", "pairs", "reason")
    assert [with_draws[name] for name in same] == [without[name] for name in same]
    assert with_draws["range_low"] < with_draws["range_high"]


def test_draws_whose_runs_failed_are_not_counted_and_too_few_have_no_range():
    outcomes, runs = drawn_experiment(5, 8, 2)
    lost = runs.with_columns(
        status=pl.when(pl.col("arm") == "offer @ draw 2").then(pl.lit("failed")).otherwise("status")
    )
    assert effects(outcomes, lost, [("total", "offer", "none")])["draws"].to_list() == [4]
    few = runs.filter(~pl.col("arm").str.contains("draw [345]"))
    row = effects(outcomes, few, [("total", "offer", "none")]).row(0, named=True)
    assert (row["draws"], row["range_low"]) == (2, None)
