"""Margins by hand, and the death of the worst seller."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.outcomes import outcomes

NEOCLOUD = {"provider_class": "neocloud"}
PRICES = {(name, "H100"): np.full(53, 2.0) for name in ("a", "b", "c")}


def test_margins_stop_at_their_own_line_of_the_books(made):
    table = outcomes(made.fabricate(PRICES), weeks=52)
    assert made.value(table, "ebitda_margin", **NEOCLOUD) == pytest.approx(0.63)
    assert made.value(table, "operating_margin", **NEOCLOUD) == pytest.approx(0.33)
    assert made.value(table, "pretax_margin", **NEOCLOUD) == pytest.approx(0.18)
    assert made.value(table, "net_margin", **NEOCLOUD) == pytest.approx(0.15)


def test_leaseback_and_pool_receipts_are_revenue(made):
    books = {"pool_usd": {"a": 60.0, "b": 60.0, "c": 60.0}, "leaseback_usd": {"a": 40.0, "b": 40.0, "c": 40.0}}
    table = outcomes(made.fabricate(PRICES, books=books), weeks=52)
    assert made.value(table, "ebitda_margin", **NEOCLOUD) == pytest.approx(1 - 37 / 200)


def test_group_margins_are_sums_over_sums(made):
    table = outcomes(made.fabricate(PRICES, books={"rent_usd": {"a": 1_000.0}}), weeks=52)
    assert made.value(table, "ebitda_margin", **NEOCLOUD) == pytest.approx((1_200 - 3 * 37) / 1_200)


def test_amd_heavy_and_nvidia_heavy_part_the_neoclouds(made):
    tables = made.fabricate(PRICES, heavy={"a": "amd"}, books={"rent_usd": {"a": 50.0}}, classes={"c": "hyperscaler"})
    table = outcomes(tables, weeks=52)
    assert made.value(table, "ebitda_margin", provider_class="neocloud amd-heavy") == pytest.approx(13 / 50)
    assert made.value(table, "ebitda_margin", provider_class="neocloud nvidia-heavy") == pytest.approx(0.63)
    assert made.value(table, "ebitda_margin", **NEOCLOUD) == pytest.approx((150 - 74) / 150)
    assert made.value(table, "ebitda_margin", provider_class="all") == pytest.approx((250 - 111) / 250)


def test_vendors_are_in_no_margin(made):
    books = {"rent_usd": {"AMD": 1e9}, "leaseback_paid_usd": {"AMD": 7.0}, "developer_cloud_rent_usd": {"AMD": 3.0}}
    table = outcomes(made.fabricate(PRICES, classes={"AMD": "vendor"}, books=books), weeks=52)
    assert made.value(table, "ebitda_margin", provider_class="all") == pytest.approx(0.63)
    assert made.value(table, "leaseback_cost", vendor="amd") == pytest.approx(7.0 * 52)
    assert made.value(table, "vendor_net_cost", vendor="amd") == pytest.approx(4.0 * 52)


def test_a_known_trend_is_recovered(made):
    rent = 100.0 / (1.0 + 0.1 * np.arange(53) * 168 / 8760)  # costs over rent rise by .037 a year
    table = outcomes(made.fabricate(PRICES, books={"rent_usd": dict.fromkeys("abc", rent)}), weeks=52)
    assert made.value(table, "ebitda_margin_trend", **NEOCLOUD) == pytest.approx(-0.037)
    assert made.value(table, "ebitda_margin_trend_cohort", **NEOCLOUD) == pytest.approx(-0.037)


def test_a_short_run_has_no_trend(made):
    prices = {key: price[:6] for key, price in PRICES.items()}
    table = outcomes(made.fabricate(prices), weeks=5)
    row = table.filter(pl.col("metric") == "ebitda_margin_trend").row(0, named=True)
    assert (row["value"], row["reason"]) == (None, "fewer than 8 weeks")


def with_a_death(made, worst_costs):
    """Three sellers of which the worst dies in week 30; tables with and without its death."""
    dies = np.arange(53) < 30
    costs = {"running_usd": {"c": worst_costs}}
    flows = ("rent_usd", "running_usd", "overhead_usd", "depreciation_usd", "interest_usd", "tax_usd")
    usual = dict(zip(flows, (100.0, worst_costs, 17.0, 30.0, 15.0, 3.0), strict=True))
    dead = {column: {"c": np.where(dies, number, 0.0)} for column, number in usual.items()} | {"alive": {"c": dies}}
    return (outcomes(made.fabricate(PRICES, books=books), weeks=52) for books in (costs, dead))


@pytest.mark.parametrize("worst_costs", [40.0, 150.0])
@pytest.mark.parametrize("margin", ["ebitda_margin", "operating_margin", "pretax_margin", "net_margin"])
def test_the_death_of_the_worst_seller_mends_no_cohort(made, margin, worst_costs):
    lives, dies = with_a_death(made, worst_costs)
    assert made.value(dies, f"{margin}_survivors", **NEOCLOUD) > made.value(lives, margin, **NEOCLOUD)
    assert made.value(dies, margin, **NEOCLOUD) > made.value(lives, margin, **NEOCLOUD)
    cohort = [made.value(table, f"{margin}_cohort", **NEOCLOUD) for table in (lives, dies)]
    assert cohort[1] <= cohort[0] + 1e-12
    trend = margin.replace("margin", "margin_trend")
    assert made.value(dies, trend, **NEOCLOUD) > 0.0
    assert made.value(dies, f"{trend}_cohort", **NEOCLOUD) <= 1e-9


def test_a_profitable_failure_earns_nothing_on_its_old_revenue(made):
    _, dies = with_a_death(made, 40.0)
    expected = (2 * 52 * 63 + 29 * 43) / (3 * 52 * 100)
    assert made.value(dies, "ebitda_margin_cohort", **NEOCLOUD) == pytest.approx(expected)


def test_a_failure_is_counted_once_in_its_window(made):
    _, dies = with_a_death(made, 40.0)
    assert made.value(dies, "defaults", **NEOCLOUD, window_last=52, window_first=1) == 1.0
    assert made.value(dies, "default_rate", **NEOCLOUD, window_first=1) == pytest.approx(1 / 3)
    assert made.value(dies, "defaults", provider_class="hyperscaler") is None


def test_without_failures_defaults_are_zero(made):
    table = outcomes(made.fabricate(PRICES), weeks=52)
    assert made.value(table, "defaults", provider_class="all") == 0.0


def test_margins_over_cost_are_of_the_realised_price(made):
    table = outcomes(made.fabricate({("a", "H100"): np.full(53, 2.0), ("b", "MI300X"): np.full(53, 1.0)}), weeks=52)
    assert made.value(table, "lerner_margin", sku="H100", **NEOCLOUD) == pytest.approx(0.75)
    assert made.value(table, "lerner_margin", sku="all", **NEOCLOUD) == pytest.approx((3.0 - 1.0) / 3.0)
    assert made.value(table, "margin_over_full_cost", sku="MI300X", **NEOCLOUD) == pytest.approx(-0.5)
    assert made.value(table, "lerner_margin_trend", **NEOCLOUD) == pytest.approx(0.0, abs=1e-12)
