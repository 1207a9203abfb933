"""Dated events: what each kind moves, worked by hand; what it leaves alone; nothing before its week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.build import build
from experiments.scenario import Scenario
from market.events import DemandChange, demand_shift_ln, happen, in_order, leaving_rows
from market.model import MarketModel
from market.opening import Delivery
from market.units import Term
from tests.worlds import (
    assert_same_tables,
    by_week,
    cloud_gpus,
    event_cells,
    few_sellers,
    hold_prices,
    list_price,
    played,
    table_file,
    tables_of,
)

SEGMENTS = ("developer", "small_inference")


def dated(scenario: Scenario, **events: Mapping[str, Any]) -> Scenario:
    return scenario.with_(event_cells(events))


def few(**events: Mapping[str, Any]) -> Scenario:
    return dated(few_sellers(), **events)


def at(week: int, scenario: Scenario, seed: int = 0) -> MarketModel:
    """The market at the beginning of a week, its events applied and nothing else."""
    model = played(scenario, seed, week - 1)
    model.open_week()
    happen(model)
    return model


# ------------------------------------------------------------------------------------------------ all kinds

EVENTS: dict[str, dict[str, Any]] = {
    "list-price": {"kind": "list-price", "provider_class": "neocloud", "factor": 0.7},
    "chip": {"kind": "chip", "sku": "MI355X", "slip_weeks": 10},
    "demand": {"kind": "demand", "size": -0.3},
    "demand for a time": {"kind": "demand", "size": 0.5, "segment": "developer", "weeks": 2},
    "tenant-leaves": {"kind": "tenant-leaves", "seller": "Lambda", "share": 0.3},
    "policy": {"kind": "policy", "key": "lepton.take_rate", "value": 0.6},
}
NOTHING: dict[str, dict[str, Any]] = {
    "list-price": {"factor": 1.0},
    "chip": {"slip_weeks": 0},
    "demand": {"size": 0.0},
    "tenant-leaves": {"share": 0.0},
    "policy": {"value": 0.1},
}


@pytest.mark.parametrize("name", EVENTS)
def test_before_its_week_an_event_changes_nothing_and_then_it_does(name: str) -> None:
    week = 5
    with_event = tables_of(few(one={**EVENTS[name], "week": week}), weeks=16)
    without = tables_of(few(), weeks=16)
    assert_same_tables(without, with_event, before_week=week)
    with pytest.raises(AssertionError):
        assert_same_tables(without, with_event)


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize("week", [1, 6])
def test_an_event_of_no_size_changes_nothing(kind: str, week: int) -> None:
    nothing = few(one={**EVENTS[kind], **NOTHING[kind], "week": week})
    assert_same_tables(tables_of(few(), weeks=12), tables_of(nothing, weeks=12))


def test_events_apply_in_order_of_week_then_name() -> None:
    cut = {"kind": "policy", "key": "lepton.take_rate"}
    scenario = few(
        b={**cut, "week": 3, "value": 0.2}, a={**cut, "week": 3, "value": 0.3}, c={**cut, "week": 2, "value": 0.4}
    )
    assert list(in_order(scenario.events)) == ["c", "a", "b"]
    pools = [vendor.pool for vendor in at(3, scenario).vendors if vendor.pool is not None]
    assert [pool.parameters.take_rate for pool in pools] == [0.2]


# ------------------------------------------------------------------------------------------------ list prices


def _seller(model: MarketModel, name: str) -> int:
    return model.suppliers.names.index(name)


def test_a_list_price_change_moves_sheet_quote_and_premium_by_the_factor_and_nobody_elses() -> None:
    before = at(4, few()).suppliers
    model = at(4, few(cut={"kind": "list-price", "week": 4, "seller": "Lambda", "factor": 0.56}))
    after, row = model.suppliers, _seller(model, "Lambda")
    held = ~np.isnan(before.list_ln[row])
    for column in ("list_ln", "shadow_ln"):
        moved = getattr(after, column) - getattr(before, column)
        expected = np.maximum(np.log(0.56), np.log(model.hardware.floor_usd) - getattr(before, column)[row])
        np.testing.assert_allclose(moved[row, held], expected[held], err_msg=column)
        others = np.delete(moved, row, axis=0)
        assert (np.nan_to_num(others) == 0.0).all()
    np.testing.assert_allclose((after.sku_premium_ln - before.sku_premium_ln)[row], np.log(0.56))
    assert (after.quality_ln == before.quality_ln).all()
    assert (after.premium_ln == before.premium_ln).all()


def test_a_class_and_a_sku_can_be_meant() -> None:
    before = at(4, few()).suppliers
    model = at(
        4, few(rise={"kind": "list-price", "week": 4, "provider_class": "neocloud", "sku": "H100", "factor": 1.5})
    )
    moved = np.nan_to_num(model.suppliers.list_ln - before.list_ln) != 0.0
    neoclouds = np.array([name in ("Lambda", "Vultr", "DigitalOcean") for name in before.names])  # those with H100
    assert moved[:, model.tables.sku_index["H100"]].tolist() == neoclouds.tolist()
    assert moved.sum() == neoclouds.sum()


@pytest.mark.parametrize("rule", ["target", "follow"])
def test_a_rule_that_prices_around_its_premium_does_not_undo_a_cut(rule: str) -> None:
    quiet = {
        "pricing.neocloud_rule": rule,
        "pricing.noise_sd": 0.0,
        "lepton.mode": "off",
        "developer_cloud.cap_gpus": 0,
    }
    world = few_sellers({**quiet, "pricing.adjust_per_week": 0.0})
    cut = dated(world, cut={"kind": "list-price", "week": 2, "seller": "Lambda", "sku": "H100", "factor": 0.8})
    prices = []
    for scenario in (world, cut):
        model = played(scenario, weeks=40)
        prices.append(model.suppliers.shadow_ln[_seller(model, "Lambda"), model.tables.sku_index["H100"]])
    assert prices[1] - prices[0] == pytest.approx(np.log(0.8), abs=1e-9)


def test_no_list_price_falls_under_the_floor() -> None:
    model = at(4, few(cut={"kind": "list-price", "week": 4, "provider_class": "neocloud", "factor": 0.01}))
    listed = np.exp(model.suppliers.list_ln)
    assert (np.isnan(listed) | (listed >= model.hardware.floor_usd * (1 - 1e-12))).all()


def test_terms_follow_a_cut_in_the_week_it_comes() -> None:
    changes = {f"pricing.{name}_rule": "fixed" for name in ("neocloud", "marketplace", "hyperscaler")}
    cut = {"kind": "list-price", "week": 3, "seller": "Lambda", "sku": "H100", "factor": 0.9}
    models = [played(scenario, weeks=3) for scenario in (few_sellers(changes), dated(few_sellers(changes), cut=cut))]
    lot = (_seller(models[0], "Lambda"), models[0].tables.sku_index["H100"])
    before, after = (model.book.price_usd[lot] for model in models)
    np.testing.assert_allclose(after / before, 0.9)


# ------------------------------------------------------------------------------------------------ chips


def test_a_slip_moves_a_chip_and_its_successors_and_orders_on_their_way() -> None:
    order = {"seller": "TensorWave", "sku": "MI355X", "gpus": "100", "as_of": "2025-06", "source": "assumption"}
    rows = [{**order, "week": week, "confidence": "assumption", "note": ""} for week in (5, 8, 30)]
    world = few_sellers({"data.deliveries": table_file("deliveries", rows)})
    slips = dated(
        world,
        late={"kind": "chip", "week": 3, "sku": "MI355X", "slip_weeks": 20},
        vr={"kind": "chip", "week": 3, "sku": "VR200", "slip_weeks": -10},
        ultra={"kind": "chip", "week": 4, "sku": "MI500", "slip_weeks": 7},
    )
    before, model = played(world, weeks=2), at(4, slips)
    index = model.tables.sku_index
    slip = {name: model.hardware.launch_week[index[name]] - before.hardware.launch_week[index[name]] for name in index}
    moved = {"MI355X": 20, "VR200": -10, "VR300": -10, "MI500": 7}  # a successor does not move its forerunner
    assert {name: weeks for name, weeks in slip.items() if weeks} == moved
    # Launch in week 26 instead of 6: what was due before waits for it, what was due later keeps its day.
    assert [delivery.week for delivery in model.pipeline] == [26, 26, 30]


def test_an_early_chip_brings_forward_orders_that_waited_for_it_but_not_their_lead_time() -> None:
    world = few_sellers({"data.hardware.MI355X.launch_week": 20})
    model = build(dated(world, early={"kind": "chip", "week": 5, "sku": "MI355X", "slip_weeks": -12}), 0)
    model.run(4)
    sku = model.tables.sku_index["MI355X"]
    ready = (3, 8, 15, 25)  # by lead time
    model.pipeline = [Delivery(0, sku, max(week, 20), 10.0, week) for week in ready]
    model.open_week()
    happen(model)
    assert model.hardware.launch_week[sku] == 8
    assert [order.week for order in model.pipeline] == [8, 8, 15, 25]


@pytest.mark.parametrize("slip_weeks", [-12, -260])
def test_no_chip_launches_before_the_week_in_which_its_new_date_is_known(slip_weeks: int) -> None:
    early = {"kind": "chip", "week": 60, "sku": "VR200", "slip_weeks": slip_weeks}
    model = build(few(early=early), 0)
    model.week = 60
    happen(model)
    assert model.hardware.launch_week[model.tables.sku_index["VR200"]] == 60


def test_a_chip_that_has_launched_slips_no_more() -> None:
    late = few(late={"kind": "chip", "week": 6, "sku": "MI355X", "slip_weeks": 20})  # it launches in week 6
    assert_same_tables(tables_of(few(), weeks=12), tables_of(late, weeks=12))


# ------------------------------------------------------------------------------------------------ demand


def test_changes_of_demand_add_up_in_logs_and_end() -> None:
    events = [
        DemandChange(kind="demand", week=3, size=-0.5),
        DemandChange(kind="demand", week=4, size=1.0, segment="developer", weeks=2),
    ]
    shifts = [demand_shift_ln(events, week, SEGMENTS).tolist() for week in range(2, 8)]
    half, double = np.log(0.5), np.log(2.0)
    assert shifts == [[0, 0], [half, half], [half + double, half], [half + double, half], [half, half], [half, half]]


def test_wanted_work_moves_by_the_size_of_a_change() -> None:
    world = few_sellers({"demand.intensive_elasticity": 0.0, "demand.commitment_mean_weeks": 1})
    change = {"kind": "demand", "week": 4, "size": -0.3, "segment": "fine_tuning", "weeks": 3}
    models = [played(scenario, weeks=5) for scenario in (world, dated(world, fall=change))]
    ratio = models[1].tenants.wanted_h100e / models[0].tenants.wanted_h100e
    hit = models[0].tenants.segment == 3
    np.testing.assert_allclose(ratio[hit], 0.7)
    np.testing.assert_allclose(ratio[~hit], 1.0)
    for model in models:
        model.run(2)
    np.testing.assert_allclose(models[1].tenants.wanted_h100e, models[0].tenants.wanted_h100e)


def test_prices_fall_when_demand_does() -> None:
    fall = few(fall={"kind": "demand", "week": 3, "size": -0.6})
    prices = [list_price(tables_of(scenario, weeks=30), "H100", slice(20, 31)) for scenario in (few(), fall)]
    assert prices[1] < 0.97 * prices[0]


# ------------------------------------------------------------------------------------------------ tenants that leave


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.sampled_from([0.0, 1.0, 2.0, 5.5, 100.0])),
    st.floats(0.0, 1.0),
)
def test_the_fewest_largest_holders_that_reach_the_share_leave(held: np.ndarray, share: float) -> None:
    gone = leaving_rows(held, share)
    assert len(set(gone.tolist())) == len(gone)
    if not len(gone):
        assert share == 0.0 or held.sum() == 0.0
        return
    assert held[gone].sum() >= share * held.sum() - 1e-9
    assert held[gone[:-1]].sum() < share * held.sum()
    stay = np.setdiff1d(np.arange(len(held)), gone)
    assert held[stay].max(initial=0.0) <= held[gone].min()


def test_who_leaves_ends_all_its_leases_and_wants_nothing_any_more() -> None:
    scenario = few(exit={"kind": "tenant-leaves", "week": 4, "seller": "Lambda", "share": 0.5})
    before, model = at(4, few()), at(4, scenario)
    seller = before.leases.lot // len(before.tables.skus) == _seller(before, "Lambda")
    held = np.bincount(before.leases.tenant, before.leases.gpus * seller, len(before.tenants))
    gone = leaving_rows(held, 0.5)
    assert held[gone].sum() >= 0.5 * held.sum()
    kept = ~np.isin(before.leases.tenant, gone)
    np.testing.assert_array_equal(model.leases.gpus, before.leases.gpus[kept])
    for _ in range(20):
        model.step()
        assert not np.isin(model.leases.tenant, gone).any()
        assert (model.tenants.wanted_h100e[gone] == 0.0).all()


def test_the_public_learns_of_a_departure_by_its_consequences_alone() -> None:
    scenario = few(exit={"kind": "tenant-leaves", "week": 4, "seller": "Lambda", "share": 0.5})
    quoted = [tables_of(world, weeks=4)["seller_week"] for world in (few(), scenario)]
    last = [rows["week"] == 4 for rows in quoted]
    # Prices of its own week are those of a market in which nobody has left.
    np.testing.assert_array_equal(*(rows["list_usd_per_gpu_hour"][now] for rows, now in zip(quoted, last, strict=True)))
    sold = [
        float(rows["sold_gpus"][now & (rows["seller"] == "Lambda")].sum())
        for rows, now in zip(quoted, last, strict=True)
    ]
    assert sold[1] < sold[0]


# ------------------------------------------------------------------------------------------------ policies


def test_a_smaller_cap_ends_leases_of_the_developer_cloud_in_proportion() -> None:
    world = few_sellers({"developer_cloud.cap_gpus": 1500.0, "developer_cloud.price_usd_per_gpu_hour": 0.5})
    cut = {"kind": "policy", "week": 8, "key": "developer_cloud.cap_gpus"}
    sold = cloud_gpus(tables_of(dated(world, cut={**cut, "value": 100.0}), weeks=12))
    assert sold[7] > 300.0
    assert (sold[8:] <= 100.0 * (1 + 1e-9)).all()
    assert cloud_gpus(tables_of(dated(world, cut={**cut, "value": 0}), weeks=12))[8:].max() == 0.0


def test_a_cloud_that_opens_later_by_policy_sells_from_that_week_on() -> None:
    world = few_sellers({"developer_cloud.cap_gpus": 0.0})
    opens = dated(world, open={"kind": "policy", "week": 6, "key": "developer_cloud.cap_gpus", "value": 1000})
    sold = cloud_gpus(tables_of(opens, weeks=10))
    assert sold[:6].max() == 0.0
    assert sold[6:].min() > 0.0


@pytest.mark.parametrize(("mode", "members"), [("off", 0), ("mandatory", 5)])
def test_another_mode_of_the_pool_has_members_decide_in_its_week(mode: str, members: int) -> None:
    # Reviews fall on weeks 4 and 17; week 7 is one only by the change.
    scenario = few(start={"kind": "policy", "week": 7, "key": "lepton.mode", "value": mode})
    rows = tables_of(scenario, weeks=7)["seller_week"]
    now = (rows["week"] == 7) & rows["pool_member"]
    assert len(set(rows["seller"][now])) == members


def test_growth_goes_on_from_the_level_reached() -> None:
    world = few_sellers({"demand.growth_first_per_year": 1.0})
    slower = dated(world, slow={"kind": "policy", "week": 11, "key": "demand.growth_first_per_year", "value": 0.0})
    grown = []
    for scenario in (world, slower):
        model = played(scenario, weeks=10)
        levels = []
        for _ in range(2):
            model.step()
            levels.append(model.demand.growth_ln(model.world.demand, model.week))
        grown.append(levels)
    week = 168.0 / 8760.0
    np.testing.assert_allclose(grown, [[11 * week, 12 * week], [10 * week, 10 * week]])


def test_covers_granted_before_a_policy_run_on() -> None:
    scenario = few(end={"kind": "policy", "week": 5, "key": "leaseback.share", "value": 0.0})
    model = played(scenario, weeks=4)
    before = model.accounts.covers.gpus.sum()
    model.run(6)
    assert before > 0.0
    assert model.accounts.covers.gpus.sum() == before
    promised = [vendor.covers.promised_share(0, 11).sum() for vendor in model.vendors if vendor.covers is not None]
    assert promised == [0.0, 0.0]


def test_cheaper_switching_moves_every_tenant_in_proportion_and_sellers_know() -> None:
    model = at(3, few(cheap={"kind": "policy", "week": 3, "key": "tenants.switching_cost", "value": 0.05}))
    before = build(few(), 0)
    np.testing.assert_allclose(model.tenants.switching_ln, 0.5 * before.tenants.switching_ln)
    np.testing.assert_allclose(model.forecast.tenants.switching_ln, 0.5 * before.forecast.tenants.switching_ln)


def test_a_dearer_kilowatt_hour_raises_running_cost_by_its_part() -> None:
    dear = few(dear={"kind": "policy", "week": 3, "key": "costs.electricity_usd_per_kwh", "value": 0.18})
    before, after = build(few(), 0), at(3, dear)
    p = before.world.costs
    kilowatts = np.array([sku.power_kw for sku in before.tables.skus])
    rise = kilowatts * p.power_usage_effectiveness * p.load_busy * (0.18 - p.electricity_usd_per_kwh)
    np.testing.assert_allclose(after.hardware.running_usd - before.hardware.running_usd, rise)
    assert (after.hardware.floor_usd > before.hardware.floor_usd).all()


def test_rent_is_paid_at_the_new_list_price_in_the_week_of_a_cut() -> None:
    cut = few(cut={"kind": "list-price", "week": 5, "seller": "Lambda", "factor": 0.5})
    models = [build(scenario, 0) for scenario in (few(), cut)]
    for model in models:
        model.run(4)
        hold_prices(model)
        model.step()
    at_lambda = [model.leases.lot // len(model.tables.skus) == _seller(model, "Lambda") for model in models]
    on_demand = [model.leases.term == Term.ON_DEMAND for model in models]
    paid = [
        set(model.prices_paid()[lambda_ & term].round(9))
        for model, lambda_, term in zip(models, at_lambda, on_demand, strict=True)
    ]
    assert max(paid[1]) < max(paid[0])
    assert by_week(models[1].recorder.tables()["book_week"], "rent_usd")[5] > 0.0
