"""Luck is keyed: a policy, a price or a further seller changes what people do, never what they draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from experiments.build import build
from experiments.scenario import Scenario
from market.model import MarketModel
from market.randomness import Purpose, agent_key, agent_keys, pair_key, tenant_keys
from market.trade import pricing_luck
from tests.worlds import (
    ARMS,
    FEW_SELLERS,
    FIXED_RIVALS,
    NO_OFFER,
    OFFER,
    SAME_HOURS,
    DrawKey,
    assert_same_tables,
    event_cells,
    few_sellers,
    played,
    record_draws,
    tables_of,
    with_sellers,
)

# Draws that are asked for only when somebody chooses, or is placed: who does depends on the market.
ASKED_BY_CHOICE = {Purpose.TASTE, Purpose.GUMBEL, Purpose.OUTSIDE, Purpose.PRIORITY, Purpose.OPENING_LIFE}
FULL_SIZE = Scenario.load().with_({"tenants.rows": 400})


# ------------------------------------------------------------------------------------------------ arms


@pytest.mark.parametrize("world", [FULL_SIZE, few_sellers()], ids=["all sellers", "few sellers"])
def test_with_a_cap_of_zero_all_three_arms_are_bit_equal(world: Scenario) -> None:
    none, *others = (tables_of(world.with_({**arm, **NO_OFFER}), seed=3, weeks=12) for arm in ARMS.values())
    for other in others:
        assert_same_tables(none, other)


@pytest.mark.parametrize("price_usd", [0.5, 9.0])
def test_with_a_cap_of_zero_the_price_of_the_offer_is_nothing(price_usd: float) -> None:
    priced = {**NO_OFFER, "developer_cloud.price_usd_per_gpu_hour": price_usd}
    assert_same_tables(tables_of(few_sellers(NO_OFFER)), tables_of(few_sellers(priced)))


@pytest.mark.parametrize("anchor_weight", [0.0, 0.8])
@pytest.mark.parametrize("cap_gpus", [300.0, 2000.0])
def test_with_fixed_rivals_an_offer_at_the_partners_median_is_bit_equal_to_same_hours(
    cap_gpus: float, anchor_weight: float
) -> None:
    changes = {**FIXED_RIVALS, "developer_cloud.cap_gpus": cap_gpus, "pricing.anchor_weight": anchor_weight}
    world = few_sellers(changes)
    median = build(world, 5).view.partner_median_usd
    priced = world.with_({**OFFER, "developer_cloud.price_usd_per_gpu_hour": median})
    offer = tables_of(priced, seed=5, weeks=16)
    assert_same_tables(offer, tables_of(world.with_(SAME_HOURS), seed=5, weeks=16))
    assert offer["desk_week"]["sold_gpus"].max() > 0.0


@pytest.mark.parametrize("start_week", [2, 6])
def test_all_weeks_before_the_policy_starts_are_bit_equal_in_all_arms(start_week: int) -> None:
    world = FULL_SIZE.with_({"developer_cloud.start_week": start_week, "developer_cloud.cap_gpus": 5000.0})
    none, *others = (tables_of(world.with_(arm), seed=1, weeks=start_week + 2) for arm in ARMS.values())
    for other in others:
        assert_same_tables(none, other, before_week=start_week)
        first = none["desk_week"]["week"] == start_week
        assert (none["desk_week"]["cap_gpus"][first] != other["desk_week"]["cap_gpus"][first]).all()


def test_the_same_scenario_and_seed_give_the_same_tables_and_another_seed_gives_others() -> None:
    world = few_sellers()
    one = tables_of(world, seed=0)
    assert_same_tables(one, tables_of(world, seed=0))
    with pytest.raises(AssertionError):
        assert_same_tables(one, tables_of(world, seed=1))


# ------------------------------------------------------------------------------------------------ a further seller

LACKING = {
    name: [seller for seller in (*FEW_SELLERS, "Verda", "AWS") if seller != name]
    for name in (
        "Verda",  # a neocloud
        "Hot Aisle",  # of AMD GPUs alone
        "TensorWave",  # whose firm GPUs stand behind the developer cloud
        "Vast.ai",  # a marketplace
        "OCI",  # a hyperscaler, home to some tenants
    )
}


def _without_and_with(newcomer: str) -> tuple[Scenario, Scenario]:
    world = few_sellers({"tenants.rows": 60, "tenants.rows_per_segment_minimum": 10})
    return with_sellers(world, LACKING[newcomer]), with_sellers(world, [*LACKING[newcomer], newcomer])


def _recorded(scenario: Scenario, weeks: int = 6) -> tuple[MarketModel, dict[DrawKey, int]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        draws = record_draws(monkeypatch)
        return played(scenario, seed=11, weeks=weeks), draws


def _of_others(draws: Mapping[DrawKey, int], model: MarketModel, newcomer: str) -> dict[DrawKey, int]:
    """Draws that are not the newcomer's, nor made for its offers."""
    own = agent_key(newcomer)
    skus = agent_keys([sku.name for sku in model.tables.skus])
    keys = {own, *pair_key(own, skus).tolist()}
    return {key: value for key, value in draws.items() if keys.isdisjoint(key[3:])}


def _fixed_in_advance(draws: Iterable[DrawKey]) -> set[DrawKey]:
    return {key for key in draws if key[0] not in ASKED_BY_CHOICE}


@pytest.mark.parametrize("newcomer", LACKING)
def test_a_further_seller_leaves_every_draw_of_everyone_else_bit_equal(newcomer: str) -> None:
    before, after = (_recorded(scenario) for scenario in _without_and_with(newcomer))
    assert newcomer in after[0].suppliers.names
    assert newcomer not in before[0].suppliers.names
    alone, joined = before[1], _of_others(after[1], after[0], newcomer)
    assert len(joined) < len(after[1])
    common = alone.keys() & joined.keys()
    assert {key: alone[key] for key in common} == {key: joined[key] for key in common}
    assert _fixed_in_advance(alone) == _fixed_in_advance(joined)
    for purpose in ASKED_BY_CHOICE:  # most of those who choose do so with and without the newcomer
        assert any(key[0] == purpose for key in common), purpose


def _identities(model: MarketModel) -> tuple[set[int], set[int]]:
    """Keys of all who may draw, and of all that may be drawn for; the keys of nobody and nothing are 0."""
    suppliers, tenants = model.suppliers, model.tenants
    numbers = np.bincount(model.forecast.tenants.segment)
    segment, ordinal = (
        np.concatenate(parts)
        for parts in zip(*((np.full(n, g), np.arange(n)) for g, n in enumerate(numbers)), strict=True)
    )
    public_sample = tenant_keys(segment, -1, ordinal)  # tenants of nobody, from whom sellers learn what demand is like
    skus = agent_keys([sku.name for sku in model.tables.skus])
    pairs = pair_key(suppliers.key[:, None], skus[None, :])
    who = [tenants.key, public_sample, suppliers.key]
    what = [suppliers.key, skus, pairs.ravel()]
    return {0, *np.concatenate(who).tolist()}, {0, *np.concatenate(what).tolist()}


def test_draws_are_keyed_by_who_draws_and_what_for_never_by_a_place_in_a_list() -> None:
    model, draws = _recorded(_without_and_with("Verda")[1])
    who, what = _identities(model)
    assert {Purpose(key[0]).name for key in draws if key[3] not in who or key[4] not in what} == set()
    for purpose in (Purpose.GUMBEL, Purpose.TASTE, Purpose.SEARCH, Purpose.SKU_PREMIUM):  # one draw for each offer
        assert all(key[4] != 0 for key in draws if key[0] == purpose), purpose


TRAITS = (
    "key",
    "segment",
    "weight",
    "term",
    "sensitivity",
    "reservation_usd",
    "lock_in_ln",
    "vendor_taste_ln",
    "switching_ln",
    "quality_weight",
    "own_demand_ln",
)


@pytest.mark.parametrize("newcomer", LACKING)
def test_a_further_seller_changes_no_trait_of_a_tenant_and_no_luck_of_a_seller(newcomer: str) -> None:
    one, other = (played(scenario, seed=11, weeks=4) for scenario in _without_and_with(newcomer))
    for name in TRAITS:
        np.testing.assert_array_equal(getattr(one.tenants, name), getattr(other.tenants, name), err_msg=name)
    rows = [other.suppliers.names.index(name) for name in one.suppliers.names]
    luck, luck_of_others = pricing_luck(one), pricing_luck(other)
    for mine, row in zip(luck, rows, strict=True):
        np.testing.assert_array_equal(mine.noise, luck_of_others[row].noise)
        assert mine.revision == luck_of_others[row].revision
    np.testing.assert_array_equal(one.suppliers.sku_premium_ln, other.suppliers.sku_premium_ln[rows])
    assert one.demand.common_ln == other.demand.common_ln


@pytest.mark.parametrize("newcomer", LACKING)
def test_a_further_seller_keeps_the_order_in_which_a_tenant_comes_upon_the_others(newcomer: str) -> None:
    # A partner that joins takes over a part of the firm GPUs, and with the others' fleets their brands change.
    no_firm_gpus = {"developer_cloud.firm_gpus": 0.0, **NO_OFFER}
    one, other = (build(scenario.with_(no_firm_gpus), 11) for scenario in _without_and_with(newcomer))
    rows = [other.suppliers.names.index(name) for name in one.suppliers.names]
    before = np.argsort(one.tenants.search_rank, axis=1, kind="stable")
    after = np.argsort(other.tenants.search_rank[:, rows], axis=1, kind="stable")
    np.testing.assert_array_equal(before, after)


def test_a_further_hyperscaler_is_home_to_its_own_tenants_and_moves_nobody_between_the_others() -> None:
    one, other = (build(scenario, 11) for scenario in _without_and_with("OCI"))

    def homes(model: MarketModel) -> Any:
        return np.array([*model.suppliers.names, ""])[model.tenants.home]  # -1 is the last name: none

    moved = homes(one) != homes(other)
    assert moved.any()
    assert set(homes(other)[moved]) == {"OCI"}


# ------------------------------------------------------------------------------------------------ other prices

EVENTS: Mapping[str, Mapping[str, Any]] = {
    "list-price": {"provider_class": "neocloud", "factor": 0.7},
    "chip": {"sku": "MI355X", "slip_weeks": 3},
    "demand": {"size": -0.3},
    "tenant-leaves": {"seller": "Lambda", "share": 0.3},
    "policy": {"key": "choice.search_sellers", "value": 3},
}


@pytest.mark.parametrize("kind", EVENTS)
def test_a_dated_event_leaves_every_draw_bit_equal(kind: str) -> None:
    world = few_sellers({"tenants.rows": 60, "tenants.rows_per_segment_minimum": 10})
    event = event_cells({"one": {"kind": kind, "week": 3, **EVENTS[kind]}})
    (_, before), (_, after) = (_recorded(scenario) for scenario in (world, world.with_(event)))
    assert _fixed_in_advance(before) == _fixed_in_advance(after)
    common = before.keys() & after.keys()
    assert {key: before[key] for key in common} == {key: after[key] for key in common}


PRICE_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "a cheaper developer cloud": {"developer_cloud.price_usd_per_gpu_hour": 0.5},
    "a posted price": {"data.fleets.DigitalOcean.MI300X.posted_on_demand_usd_per_gpu_hour": 1.0},
    "dearer hyperscalers": {"pricing.hyperscaler_premium": 4.2},
    "another pricing rule": {"pricing.neocloud_rule": "asks"},
}


@pytest.mark.parametrize("change", PRICE_CHANGES.values(), ids=PRICE_CHANGES.keys())
def test_a_price_change_leaves_arrivals_readiness_review_and_priority_draws_alone(change: Mapping[str, Any]) -> None:
    world = few_sellers({"tenants.rows": 60, "tenants.rows_per_segment_minimum": 10})
    (_, before), (_, after) = (_recorded(scenario) for scenario in (world, world.with_(change)))
    assert _fixed_in_advance(before) == _fixed_in_advance(after)
    common = before.keys() & after.keys()
    assert {key: before[key] for key in common} == {key: after[key] for key in common}
    for purpose in (Purpose.OWN_DEMAND, Purpose.READINESS, Purpose.REVIEW, Purpose.PRIORITY):
        assert any(key[0] == purpose for key in common), purpose


def test_more_tenant_rows_keep_the_traits_of_the_rows_there_were() -> None:
    few, many = (build(few_sellers({"tenants.rows": rows}), 2).tenants for rows in (200, 800))
    rows = np.flatnonzero(np.isin(many.key, few.key))
    assert len(rows) == len(few)
    for name in ("key", "term", "sensitivity", "reservation_usd", "lock_in_ln", "home", "own_demand_ln"):
        np.testing.assert_array_equal(getattr(many, name)[rows], getattr(few, name), err_msg=name)
