"""Price levels and spread on numbers that can be redone on paper."""

import numpy as np
import pytest

from experiments.measure.outcomes import Window, outcomes

HEADLINE = "neocloud+marketplace"


def two_sellers(made, **options):
    return made.fabricate({("a", "H100"): np.full(53, 2.0), ("b", "H100"): np.full(53, 4.0)}, **options)


def test_mean_weights_by_available_gpus_and_spread_counts_sellers_once(made):
    tables = two_sellers(made, lots={"available_gpus": {("a", "H100"): 3_000.0, ("b", "H100"): 1_000.0}})
    table = outcomes(tables, weeks=52)
    assert made.value(table, "price_mean", sku="H100", provider_class=HEADLINE) == pytest.approx(2.5)
    assert made.value(table, "price_cv", sku="H100", provider_class=HEADLINE) == pytest.approx(2**0.5 / 3)
    assert made.value(table, "price_range", sku="H100", provider_class=HEADLINE) == 2.0


def test_a_sold_out_seller_parts_posted_from_open_prices(made):
    table = outcomes(two_sellers(made, lots={"open_gpus": {("a", "H100"): 0.0}}), weeks=52)
    assert made.value(table, "price_mean", sku="H100", provider_class=HEADLINE) == 3.0
    assert made.value(table, "price_open", sku="H100", provider_class=HEADLINE) == 4.0


def test_everybody_sold_out_leaves_no_open_price(made):
    table = outcomes(two_sellers(made, lots={"open_gpus": {("a", "H100"): 0.0, ("b", "H100"): 0.9}}), weeks=52)
    assert made.value(table, "price_open", sku="H100", provider_class=HEADLINE) is None


def test_hyperscalers_count_in_all_and_not_in_the_headline(made):
    table = outcomes(two_sellers(made, classes={"b": "hyperscaler"}), weeks=52)
    assert made.value(table, "price_mean", sku="H100", provider_class=HEADLINE) == 2.0
    assert made.value(table, "price_mean", sku="H100", provider_class="all") == 3.0
    assert made.value(table, "price_cv", sku="H100", provider_class=HEADLINE) is None
    assert made.value(table, "price_multiple", sku="H100") == 2.0


def test_a_step_in_price_with_one_year_leases_moves_realised_by_a_fifty_second_a_week(made):
    weeks = np.arange(105)
    share_new = np.clip(weeks - 52, 0, 52) / 52  # the price steps from 2 to 3 after week 52; a 52nd of leases renews
    rent = 500.0 * 168 * (2.0 + share_new)
    tables = made.fabricate(
        {("a", "H100"): np.where(weeks > 52, 3.0, 2.0)},
        lots={
            "revenue_usd": {("a", "H100"): rent},
            "new_gpus": {("a", "H100"): 500.0 / 52},
            "new_revenue_usd": {("a", "H100"): 500.0 / 52 * 168 * np.where(weeks > 52, 3.0, 2.0)},
        },
    )
    weekly = [
        made.value(outcomes(tables, weeks=104, spans=[Window(week, week)]), "price_realised", sku="H100")
        for week in (52, 53, 54, 104)
    ]
    assert weekly == pytest.approx([2.0, 2.0 + 1 / 52, 2.0 + 2 / 52, 3.0])
    table = outcomes(tables, weeks=104, spans=[Window(53, 53)])
    assert made.value(table, "price_new_lease", sku="H100") == pytest.approx(3.0)
    assert made.value(table, "price_mean", sku="H100") == pytest.approx(3.0)


def test_without_leases_nothing_is_realised(made):
    table = outcomes(two_sellers(made, lots={"sold_gpus": {("a", "H100"): 0.0, ("b", "H100"): 0.0}}), weeks=52)
    assert made.value(table, "price_realised", sku="H100") is None
    assert made.value(table, "price_new_lease", sku="H100") is None


def test_an_entrant_moves_cv_but_not_the_balanced_panel(made):
    late = np.where(np.arange(53) < 30, np.nan, 9.0)
    prices = {("a", "H100"): np.full(53, 2.0), ("b", "H100"): np.full(53, 4.0), ("late", "H100"): late}
    table = outcomes(made.fabricate(prices), weeks=52)
    assert made.value(table, "price_cv_balanced", sku="H100") == pytest.approx(2**0.5 / 3)
    assert made.value(table, "price_cv", sku="H100") > 2**0.5 / 3 + 0.05


def test_the_ratio_of_vendors_compares_the_same_seller(made):
    prices = {
        ("a", "H100"): np.full(53, 2.0),
        ("a", "MI300X"): np.full(53, 1.5),
        ("b", "H100"): np.full(53, 9.0),
        ("c", "MI300X"): np.full(53, 9.0),
        ("d", "H100"): np.full(53, 4.0),
        ("d", "MI300X"): np.full(53, 2.0),
    }
    table = outcomes(made.fabricate(prices), weeks=52)
    assert made.value(table, "price_ratio", sku="MI300X/H100") == pytest.approx((0.75 + 0.5) / 2)
    assert made.value(table, "price_ratio", sku="MI300X/H200") is None


def test_term_ratio_is_one_year_over_list(made):
    sheet = {"one_year_usd_per_gpu_hour": {("a", "H100"): 1.3, ("b", "H100"): np.nan}}
    table = outcomes(two_sellers(made, lots=sheet), weeks=52)
    assert made.value(table, "term_ratio", sku="H100") == pytest.approx(0.65)


def test_spot_is_over_the_same_sellers_list_and_who_has_no_tier_is_left_out(made):
    sheet = {"spot_usd_per_gpu_hour": {("a", "H100"): 1.0, ("b", "H100"): 1.0}}
    table = outcomes(two_sellers(made, lots=sheet), weeks=52)
    assert made.value(table, "spot_over_on_demand", sku="H100") == pytest.approx((0.5 + 0.25) / 2)
    sheet["spot_usd_per_gpu_hour"]["b", "H100"] = np.nan
    table = outcomes(two_sellers(made, lots=sheet), weeks=52)
    assert made.value(table, "spot_over_on_demand", sku="H100") == pytest.approx(0.5)


def test_a_change_of_price_is_that_of_sellers_at_both_ends(made):
    weeks = np.arange(53)
    cut, late = np.where(weeks < 20, 3.0, 2.4), np.where(weeks < 30, np.nan, 9.0)
    prices = {("a", "H100"): cut, ("b", "H100"): np.full(53, 4.0), ("late", "H100"): late}
    table = outcomes(made.fabricate(prices), weeks=52, spans=[Window(20, 45)])
    assert made.value(table, "price_change", sku="H100", provider_class=HEADLINE) == pytest.approx(-0.1)
    table = outcomes(made.fabricate(prices), weeks=52, spans=[Window(21, 45)])
    assert made.value(table, "price_change", sku="H100", provider_class=HEADLINE) == 0.0


def test_the_gap_to_one_price_is_relative_to_what_tenants_pay(made):
    segments = {"mean_paid_usd_per_h100e_hour": 2.0, "cheapest_open_usd_per_h100e_hour": 1.5}
    table = outcomes(two_sellers(made, segments=segments), weeks=52)
    assert made.value(table, "law_of_one_price_gap", segment="developer") == pytest.approx(0.25)
    segments["cheapest_open_usd_per_h100e_hour"] = np.nan
    table = outcomes(two_sellers(made, segments=segments), weeks=52)
    assert made.value(table, "law_of_one_price_gap", segment="developer") is None


def test_revisions_are_counted_per_month_posted(made):
    steps = np.full(53, 2.0)
    steps[10:] = 1.8
    steps[30:] = 1.98
    table = outcomes(made.fabricate({("a", "H100"): steps, ("b", "H100"): np.full(53, 3.0)}), weeks=52)
    assert made.value(table, "revision_hazard", provider_class="neocloud") == pytest.approx(2 / (104 / (8760 / 2016)))
    assert made.value(table, "revision_size_median", provider_class="neocloud") == pytest.approx(0.10)
    assert made.value(table, "revision_cut_share", provider_class="neocloud") == 0.5
    assert made.value(table, "revision_cut_share", provider_class="hyperscaler") is None


def test_an_entrant_is_no_revision(made):
    late = np.where(np.arange(53) < 30, np.nan, 9.0)
    table = outcomes(made.fabricate({("a", "H100"): np.full(53, 2.0), ("late", "H100"): late}), weeks=52)
    assert made.value(table, "revision_hazard", provider_class="neocloud") == 0.0
    assert made.value(table, "revision_size_median", provider_class="neocloud") is None
