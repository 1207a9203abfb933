"""Estimators of revisions and loans on series of known answer; traps that a convincing estimate falls into."""

import numpy as np
import polars as pl
import pytest

from experiments.engine.runner import TABLES
from experiments.measure.outcomes import OUTCOMES, Records, Window, outcomes

HEADLINE = "neocloud+marketplace"
WEEKS_PER_MONTH = 8760 / 168 / 12


def value(made, tables, metric, provider_class="neocloud"):
    """A metric of all SKUs over the whole run."""
    weeks = int(tables["seller_week"]["week"].max())
    cells = OUTCOMES[metric].measure(Records.of(tables, weeks), Window(1, weeks))
    return next(cell.value for cell in cells if cell.sku == "all" and cell.provider_class == provider_class)


def rare_revisions(rng, close_share, common_sd=0.0, own_sd=0.1, weeks=600, sellers=15, hazard=0.06):
    """ln list prices that, in weeks drawn for each seller, close a share of the gap to what it would ask today."""
    market = np.cumsum(rng.normal(0.0, common_sd, weeks))[:, None]
    asks = market + rng.normal(0.0, 0.2, sellers) + rng.normal(0.0, own_sd, (weeks, sellers))
    logs = asks.copy()
    for week in range(1, weeks):
        revises = rng.random(sellers) < hazard
        logs[week] = logs[week - 1] + close_share * revises * (asks[week] - logs[week - 1])
    return logs


def mean_gap_closed(made, close_share, **options):
    drawn = [rare_revisions(np.random.default_rng([5, run]), close_share, **options) for run in range(5)]
    return np.mean([value(made, made.fabricate(made.panel(logs)), "revision_gap_closed") for logs in drawn])


@pytest.mark.parametrize("close_share", [0.3, 0.6, 1.0])
def test_the_closed_share_of_the_gap_is_recovered_under_luck_of_their_own(made, close_share):
    assert mean_gap_closed(made, close_share) == pytest.approx(close_share, rel=0.1)


def test_few_revisions_a_seller_overstate_the_closed_share(made):
    """The usual place is a mean over the seller's own few prices, so that each looks like a return to it."""
    assert mean_gap_closed(made, 0.3, weeks=60) > 0.45


def test_rivals_whose_lists_lag_a_moving_market_do_not_mislead_much(made):
    assert mean_gap_closed(made, 0.3, common_sd=0.02, own_sd=0.02) == pytest.approx(0.3, rel=0.2)


def test_premia_are_no_gap(made):
    """Sellers far apart that move together close no gap of their own: there is none to close."""
    logs = np.linspace(-0.5, 0.5, 6) + np.repeat(np.arange(6) * 0.05, 10)[:, None]
    tables = made.fabricate(made.panel(logs))
    assert value(made, tables, "revision_gap_closed") == pytest.approx(1.0)


def test_frozen_prices_close_no_gap_and_have_no_dates(made):
    tables = made.fabricate(made.panel(np.tile(np.linspace(0.5, 1.5, 6), (53, 1))))
    assert value(made, tables, "revision_gap_closed") is None
    assert value(made, tables, "revision_date_hazard") == 0.0
    assert value(made, tables, "revision_hazard") == 0.0


def test_a_sheet_of_two_skus_is_one_date(made):
    steps = np.where(np.arange(53) < 20, 2.0, 1.8)
    prices = {("a", "H100"): steps, ("a", "H200"): steps, ("b", "H100"): np.full(53, 3.0)}
    tables = made.fabricate(prices)
    assert value(made, tables, "revision_date_hazard") == pytest.approx(1 / (2 * 52 / WEEKS_PER_MONTH))
    assert value(made, tables, "revision_hazard") == pytest.approx(2 / (3 * 52 / WEEKS_PER_MONTH))


def with_loans(made, loans):
    tables = made.fabricate({("a", "H100"): np.full(53, 2.0)})
    rows = [(week, "a", "neocloud", "H100", usd, rate, share, share) for week, usd, rate, share in loans]
    return tables | {"loan_week": pl.DataFrame(rows, schema=TABLES["loan_week"], orient="row")}


def test_rates_weigh_loans_by_their_size_and_what_stands_behind_them(made):
    tables = with_loans(made, [(1, 300.0, 0.07, 0.9), (9, 100.0, 0.09, 0.8), (9, 50.0, 0.13, 0.1), (9, 9.0, 0.1, 0.5)])
    assert value(made, tables, "loan_rate_contracted", "all") == pytest.approx(0.075)
    assert value(made, tables, "loan_rate_uncontracted", "all") == pytest.approx(0.13)


def test_without_a_loan_there_is_no_rate_and_loans_outside_the_window_do_not_count(made):
    tables = with_loans(made, [(9, 100.0, 0.09, 0.8)])
    cells = OUTCOMES["loan_rate_contracted"].measure(Records.of(tables, 52), Window(10, 52))
    assert [found.reason for found in cells] == ["no such loan is drawn"]


# ------------------------------------------------------------------------------------------------ traps


def leases_of_a_year(weeks=105, step_week=52):
    """A seller whose list price steps up; a 52nd of its leases ends and is signed anew each week."""
    week = np.arange(weeks)
    listed = np.where(week > step_week, 3.0, 2.0)
    renewed = np.clip(week - step_week, 0, 52) / 52
    return listed, 500.0 * 168 * (2.0 + renewed)


def test_margins_follow_leases_and_not_the_list_price(made):
    """A step in list prices moves the margin over running cost by what the renewed 52nds bring, no more."""
    listed, rent = leases_of_a_year()
    tables = made.fabricate({("a", "H100"): listed}, lots={"revenue_usd": {("a", "H100"): rent}})
    weekly = [
        made.value(outcomes(tables, weeks=104, spans=[Window(week, week)]), "lerner_margin", sku="H100")
        for week in (52, 53, 104)
    ]
    assert weekly == pytest.approx([1 - 0.5 / 2, 1 - 0.5 / (2 + 1 / 52), 1 - 0.5 / 3])


def test_a_cheap_entrant_lowers_the_mean_and_no_seller_converged(made):
    """Frozen prices and an entrant: mean and spread move, within is exactly zero, beta has nothing to measure."""
    late = np.where(np.arange(53) < 26, np.nan, 1.0)
    frozen = {(name, "H100"): np.full(53, price) for name, price in (("a", 2.0), ("b", 3.0), ("c", 4.0))}
    table = outcomes(made.fabricate(frozen | {("late", "H100"): late}), weeks=52)
    of = {"sku": "H100", "provider_class": HEADLINE}
    assert made.value(table, "price_mean_change", **of) < -0.4
    assert made.value(table, "price_mean_change_within", **of) == 0.0
    assert made.value(table, "price_cv_change_within", **of) == 0.0
    assert made.value(table, "price_change", **of) == 0.0
    assert made.value(table, "beta", **of) is None


def test_constant_prices_have_no_half_life_no_drift_and_no_revisions(made):
    table = outcomes(made.fabricate(made.panel(np.tile(np.linspace(0.5, 1.5, 6), (53, 1)))), weeks=52)
    of = {"sku": "H100", "provider_class": HEADLINE}
    assert made.value(table, "half_life", **of) is None
    assert made.value(table, "price_drift", **of) == pytest.approx(0.0, abs=1e-12)
    assert made.value(table, "revision_size_median", provider_class=HEADLINE) is None


def test_random_walks_do_not_shrink_the_spread(made):
    """Independent walks from equal premia spread out: sigma says so, though beta's interval covers zero."""
    rng = np.random.default_rng(41)
    logs = 1.0 + rng.normal(0.0, 0.05, 20) + np.cumsum(rng.normal(0.0, 0.03, (105, 20)), axis=0)
    table = outcomes(made.fabricate(made.panel(logs)), weeks=104)
    of = {"sku": "H100", "provider_class": HEADLINE}
    assert made.value(table, "sigma_trend", **of) > 0.2
    row = table.filter(pl.col("metric") == "beta", pl.col("sku") == "H100", pl.col("provider_class") == HEADLINE)
    assert abs(row["value"][0]) < 2.5 * row["std_error"][0]


def test_maturity_raises_work_and_moves_no_share(made):
    """AMD's software does more with the GPUs it has: held work rises by a half, no share of hours, units or spend."""
    skus = {("a", "H100"): np.full(53, 2.0), ("a", "MI300X"): np.full(53, 1.5)}
    choices = {"amd_gpus": 2.0, "nvidia_gpus": 6.0, "amd_new_work_h100e": 1.0, "nvidia_new_work_h100e": 5.0}
    plain, mature = (
        outcomes(made.fabricate(skus, segments=choices | {"held_h100e": held, "amd_maturity": level}), weeks=52)
        for held, level in ((8.0, 0.6), (12.0, 0.9))
    )
    assert plain.filter(pl.col("metric").str.starts_with("amd_")).equals(
        mature.filter(pl.col("metric").str.starts_with("amd_"))
    )


def test_a_sold_out_bargain_is_posted_and_not_open(made):
    """The cheapest seller is full: posted spread and mean see it, what a tenant can have today does not."""
    prices = {("bargain", "H100"): np.full(53, 1.0), ("a", "H100"): np.full(53, 2.0), ("b", "H100"): np.full(53, 3.0)}
    table = outcomes(made.fabricate(prices, lots={"open_gpus": {("bargain", "H100"): 0.0}}), weeks=52)
    of = {"sku": "H100", "provider_class": HEADLINE}
    assert made.value(table, "price_mean", **of) == pytest.approx(2.0)
    assert made.value(table, "price_open", **of) == pytest.approx(2.5)
    assert made.value(table, "price_range", **of) == pytest.approx(3.0)


def test_compression_is_minus_the_trend_and_the_dead_do_not_mend_it(made):
    """Rents fall at fixed cost, then the worst dies: the trend of the living lies, the cohort's does not."""
    weeks = np.arange(105)
    rent = 100.0 * np.exp(-0.1 * weeks * 168 / 8760)
    poor = np.where(weeks < 52, 0.6 * rent, 0.0)
    books = {"rent_usd": {"a": rent, "b": rent, "poor": poor}, "alive": {"poor": weeks < 52}}
    for cost, usd in (
        ("running_usd", 20.0),
        ("overhead_usd", 17.0),
        ("depreciation_usd", 30.0),
        ("interest_usd", 15.0),
    ):
        books[cost] = {"poor": np.where(weeks < 52, usd, 0.0)}
    tables = made.fabricate({(name, "H100"): np.full(105, 2.0) for name in ("a", "b", "poor")}, books=books)
    table = outcomes(tables, weeks=104)
    trend, survivors, cohort = (
        made.value(table, f"operating_margin_trend{of}", provider_class="neocloud", window_last=104)
        for of in ("", "_survivors", "_cohort")
    )
    mean_rent = rent[1:].mean()
    assert survivors == pytest.approx(-0.1 * 67 / mean_rent, rel=0.05)
    assert trend > 0.5 * survivors > cohort
