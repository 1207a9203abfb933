"""Shares, utilisation, the developer cloud and tenants on numbers that can be redone on paper."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.outcomes import outcomes

H100, MI300X = ("a", "H100"), ("a", "MI300X")
PRICES = {H100: np.full(53, 2.0), MI300X: np.full(53, 1.0)}


def test_the_shares_measure_what_their_names_say(made):
    lots = {
        "installed_gpus": {H100: 9_000.0, MI300X: 1_000.0},
        "sold_gpus": {H100: 600.0, MI300X: 150.0},
        "pool_gpus": {H100: 200.0},
        "developer_cloud_gpus": {MI300X: 50.0},
        "vendor_use_gpus": {MI300X: 300.0},
        "revenue_usd": {H100: 700.0, MI300X: 100.0},
        "pool_revenue_usd": {H100: 150.0},
        "delivered_gpus": {H100: 3.0, MI300X: 1.0},
    }
    segments = {"amd_new_work_h100e": 1.0, "nvidia_new_work_h100e": 7.0, "amd_gpus": 2.0, "nvidia_gpus": 3.0}
    tables = made.fabricate(PRICES, lots=lots, segments=segments, desk={"rent_usd": 50.0})
    table = outcomes(tables, weeks=52)
    assert made.value(table, "amd_hour_share", provider_class="all") == pytest.approx(0.2)
    assert made.value(table, "amd_spend_share", provider_class="all") == pytest.approx(0.15)
    assert made.value(table, "amd_unit_share", provider_class="all") == pytest.approx(0.1)
    assert made.value(table, "amd_shipment_share", provider_class="all") == pytest.approx(0.25)
    assert made.value(table, "amd_new_work_share", provider_class="all") == pytest.approx(0.125)
    assert made.value(table, "amd_hour_share", segment="developer") == pytest.approx(0.4)
    assert made.value(table, "pool_hour_share", provider_class="all") == pytest.approx(0.2)
    assert made.value(table, "hhi_vendor", provider_class="all") == pytest.approx(0.2**2 + 0.8**2)
    assert made.value(table, "hhi_seller", provider_class="all") == pytest.approx(1.0)


def test_maturity_alone_moves_no_share(made):
    """More work from the same choices changes what is held, not who was chosen."""
    choices = {"amd_new_work_h100e": 1.0, "nvidia_new_work_h100e": 7.0, "amd_gpus": 2.0, "nvidia_gpus": 3.0}
    low, high = (
        outcomes(made.fabricate(PRICES, segments=choices | {"held_h100e": held}), weeks=52)
        .filter(pl.col("metric").str.starts_with("amd_"))
        .drop_nulls("value")
        for held in (5.0, 9.0)
    )
    assert low.height > 0
    assert low.equals(high)


def test_the_vendors_own_use_is_no_utilisation_and_firm_gpus_are_not_available(made):
    lots = {
        "available_gpus": {MI300X: 400.0},
        "firm_gpus": {MI300X: 600.0},
        "sold_gpus": {MI300X: 300.0},
        "developer_cloud_gpus": {MI300X: 100.0},
        "vendor_use_gpus": {MI300X: 500.0},
    }
    table = outcomes(made.fabricate(PRICES, lots=lots), weeks=52)
    assert made.value(table, "utilisation", sku="MI300X", provider_class="neocloud") == pytest.approx(0.75)
    assert made.value(table, "utilisation", provider_class="neocloud") == pytest.approx(800 / 1_400)


def test_nothing_delivered_or_rented_is_no_share_of_zero(made):
    nothing = {H100: 0.0, MI300X: 0.0}
    table = outcomes(made.fabricate(PRICES, lots={"sold_gpus": nothing}), weeks=52)
    assert made.value(table, "amd_shipment_share", provider_class="all") is None
    assert made.value(table, "amd_hour_share", provider_class="all") is None


def test_the_cap_binds_where_nearly_all_of_it_is_sold(made):
    weeks = np.arange(53)
    cap = np.where(weeks < 3, 0.0, 1_000.0)
    sold = np.where(weeks < 28, np.minimum(cap, 990.0), 500.0)
    lots = {"developer_cloud_gpus": {MI300X: sold}}
    table = outcomes(made.fabricate(PRICES, lots=lots, desk={"cap_gpus": cap, "sold_gpus": sold}), weeks=52)
    assert made.value(table, "developer_cloud_hours") == pytest.approx((25 * 990 + 25 * 500) * 168)
    assert made.value(table, "developer_cloud_bind_share") == pytest.approx(0.5)
    assert made.value(table, "developer_cloud_fill") == pytest.approx((0.99 + 0.5) / 2)


def test_without_a_desk_there_are_no_hours_and_nothing_to_fill(made):
    table = outcomes(made.fabricate(PRICES), weeks=52)
    assert made.value(table, "developer_cloud_hours") == 0.0
    for metric in ("developer_cloud_fill", "developer_cloud_bind_share", "developer_cloud_queue"):
        assert made.value(table, metric) is None


def test_the_queue_is_what_was_asked_and_not_filled(made):
    tables = made.fabricate(PRICES, desk={"requested_gpus": 80.0})
    tables["desk_week"] = tables["desk_week"].with_columns(filled_gpus=60.0)
    assert made.value(outcomes(tables, weeks=52), "developer_cloud_queue") == pytest.approx(0.25)


def test_tenants_surplus_unmet_work_and_switching_add_over_the_window(made):
    segments = {"surplus_usd": 10.0, "unmet_h100e": 2.0, "wanted_h100e": 50.0, "movers": 8.0, "switchers": 2.0}
    tables = made.fabricate(PRICES, segments=segments)
    table = outcomes(tables, weeks=52)
    assert made.value(table, "tenant_surplus") == pytest.approx(520.0)
    assert made.value(table, "unmet_work") == pytest.approx(2.0 * 52 * 168)
    assert made.value(table, "unmet_share", segment="developer") == pytest.approx(0.04)
    assert made.value(table, "switching_share") == pytest.approx(0.25)
    assert made.value(table, "switching_rate") is None
    tables["segment_week"] = tables["segment_week"].with_columns(tenants=200.0)
    assert made.value(outcomes(tables, weeks=52), "switching_rate") == pytest.approx(0.01 * 8760 / 168)


def test_surplus_without_an_outside_option_is_null(made):
    table = outcomes(made.fabricate(PRICES, segments={"surplus_usd": np.nan}), weeks=52)
    assert made.value(table, "tenant_surplus") is None
