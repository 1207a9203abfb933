"""Parts in the limit: pools without effect, leaseback without tenants, failures that add up, software on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from agents.vendor.leaseback import BackstopParameters, Guarantee
from experiments.build import build
from experiments.measure.outcomes import outcomes
from experiments.scenario import Scenario
from market.model import MarketModel
from market.units import HOURS_PER_WEEK
from tests.worlds import (
    FEW_SELLERS,
    Floats,
    RunTables,
    assert_same_tables,
    few_sellers,
    fleets_of,
    played,
    shipped_rows,
    table_file,
    tables_of,
)

# ------------------------------------------------------------------------------------------------ placebo pools

_EARLY_POOL = {"lepton.open_week": 2, "lepton.review_interval_weeks": 3}
_POOL_COLUMNS = {"pool_member", "pool_quote_usd_per_gpu_hour"}


def test_a_pool_nobody_joins_is_bit_equal_to_no_pool() -> None:
    empty = {**_EARLY_POOL, "lepton.mode": "voluntary", "lepton.join_intercept": -20.0, "lepton.quality_floor_ln": 5.0}
    off = tables_of(few_sellers({"lepton.mode": "off"}), seed=1, weeks=14)
    assert_same_tables(off, tables_of(few_sellers(empty), seed=1, weeks=14))


def test_a_pool_dearer_than_every_reservation_is_bit_equal_to_no_pool_in_all_but_its_own_columns() -> None:
    dear = {
        **_EARLY_POOL,
        "lepton.mode": "mandatory",
        "lepton.take_rate": 0.99,
        "lepton.allocation_pressure": 0.0,  # members lean to AMD where they are pressed, whatever the pool sells
        "lepton.identity_erosion": 0.0,
        "pricing.pool_anchor_weight": 0.0,
    }
    off = tables_of(few_sellers({"lepton.mode": "off"}), seed=1, weeks=14)
    pool = tables_of(few_sellers(dear), seed=1, weeks=14)
    assert pool["seller_week"]["pool_member"].any()
    assert not pool["market_week"]["pool_gpus"].any()
    # The log-sum counts what a dear offer is worth with the luck it never has: a part in a million at most.
    surplus = [tables["segment_week"].pop("surplus_usd") for tables in (off, pool)]
    np.testing.assert_allclose(surplus[1], surplus[0], rtol=1e-6)
    for tables in (off, pool):
        for table in tables.values():
            for column in _POOL_COLUMNS & table.keys():
                del table[column]
    assert_same_tables(off, pool)


# ------------------------------------------------------------------------------------------------ the pool's margin


def _one_sku_pool() -> Scenario:
    """Sellers of one SKU, all in the pool, and tenants who look at nothing but price."""
    sellers = ("Lambda", "Vultr", "DigitalOcean", "Nebius", "Voltage Park", "Together")
    segments = shipped_rows("segments")
    for row in segments:
        row["price_sensitivity"] = "30"
        row.update({f"term_share_{term}": "0" for term in ("spot", "4w", "52w", "156w")}, term_share_on_demand="1")
    tables = {
        "data.fleets": table_file("fleets", [row for row in fleets_of(sellers) if row["sku"] == "H100"]),
        "data.deliveries": table_file("deliveries", []),
        "data.segments": table_file("segments", segments),
    }
    return Scenario.load().with_(
        {
            **tables,
            "tenants.rows": 400,
            "tenants.rows_per_segment_minimum": 20,
            "tenants.home_share": 0.0,
            "tenants.opening_load": 0.6,
            "demand.regime": False,
            "demand.growth_first_per_year": 0.0,
            "demand.common_sd": 0.0,
            "demand.own_sd": 0.0,
            "choice.all_sellers_known": True,
            "capacity.orders": False,
            "developer_cloud.firm_gpus": 0.0,
            "developer_cloud.cap_gpus": 0.0,
            "lepton.mode": "mandatory",
            "lepton.open_week": 1,
            "lepton.review_interval_weeks": 1,
            "lepton.quality_floor_ln": -5.0,
            "lepton.volume_margin": 1.0,
            "pricing.noise_sd": 0.0,
        }
    )


def _watched_pool(model: MarketModel) -> list[tuple[Floats, Floats]]:
    """Asks and spare GPUs that the pool sees, week by week from now on."""
    seen: list[tuple[Floats, Floats]] = []
    pool = next(vendor.pool for vendor in model.vendors if vendor.pool is not None)
    offer = pool.offer

    def watched(asks_usd: Floats, spare_gpus: Floats, *rest: Any) -> Any:
        seen.append((asks_usd.copy(), spare_gpus.copy()))
        return offer(asks_usd, spare_gpus, *rest)

    pool.offer = watched
    return seen


def test_with_one_sku_and_tenants_who_look_at_price_the_pool_quotes_the_ask_of_its_marginal_member() -> None:
    model = build(_one_sku_pool(), 2)
    seen, sku = _watched_pool(model), model.tables.sku_index["H100"]
    errors, volume = [], []
    for week in range(40):
        model.step()
        served = model.pooled_gpus[:, sku]
        if week >= 20:
            asks = seen[-1][0][:, sku]
            assert model.pool_offer is not None
            net = model.pool_offer.quote_usd[sku] * (1.0 - model.pool_offer.take_rate)
            assert np.isclose(asks, net, rtol=1e-12).any()  # it is somebody's ask
            assert not (served[~np.isnan(asks)] < 0.0).any()
            errors.append(abs(np.log(asks[served > 1e-9].max() / net)))
            volume.append(served.sum())
    assert min(volume) > 0.0
    assert np.median(errors) <= 0.01, errors


# ------------------------------------------------------------------------------------------------ leaseback

_STILL = {
    "capacity.orders": False,
    "capacity.retirement": False,
    "finance.default_enabled": False,
    "data.deliveries": table_file("deliveries", []),
}
_HALF = {"leaseback.share": 0.5, "leaseback.opening_factor": 1.0, "developer_cloud.cap_gpus": 0.0}


def _without_tenants() -> Scenario:
    """Nobody holds a lease at the opening, and nobody would pay a cent."""
    fleets = fleets_of(FEW_SELLERS)
    for row in fleets:
        row["utilisation"] = "0"
    segments = shipped_rows("segments")
    for row in segments:
        row["reservation_usd_per_h100e_hour"] = "0.0001"
    tables = {"data.fleets": table_file("fleets", fleets), "data.segments": table_file("segments", segments)}
    return few_sellers({**_STILL, **_HALF}).with_(tables)


def _lot_rates(model: MarketModel) -> Floats:
    """AMD's rent of a leased-back GPU by SKU, from the terms of the scenario."""
    cover = next(vendor.covers for vendor in model.vendors if vendor.name == "AMD")
    return np.asarray(cover.rate_usd)


def _partner_weeks(tables: RunTables, model: MarketModel, share: float) -> tuple[dict[Any, float], dict[Any, float]]:
    """Leaseback by partner and week: owed, from hours of the fleets, and paid, from the books."""
    s, b = tables["seller_week"], tables["book_week"]
    names = [model.suppliers.names[row] for row in model.partners]
    rates = dict(zip([sku.name for sku in model.tables.skus], _lot_rates(model), strict=True))
    owed: dict[Any, float] = {}
    for week, seller, sku, vendor, firm, available, idle in zip(
        *(s[c] for c in ("week", "seller", "sku", "vendor", "firm_gpus", "available_gpus", "idle_gpus")), strict=True
    ):
        if seller in names and vendor == "amd" and week > 0:
            gpus = firm + min(share * available, idle)
            owed[week, seller] = owed.get((week, seller), 0.0) + gpus * rates[sku] * HOURS_PER_WEEK
    paid = {
        (week, agent): usd
        for week, agent, usd in zip(b["week"], b["agent"], b["leaseback_usd"], strict=True)
        if agent in names and week > 0
    }
    return owed, paid


def _assert_owed_is_paid(owed: Mapping[Any, float], paid: Mapping[Any, float]) -> None:
    assert owed.keys() == paid.keys()
    np.testing.assert_allclose([paid[key] for key in owed], list(owed.values()), rtol=1e-9, atol=1e-3)


def test_leaseback_without_tenants_gives_no_shares_no_use_partner_revenue_and_counts_each_hour_once() -> None:
    weeks = 6
    model = played(_without_tenants(), seed=3, weeks=weeks)
    tables = model.recorder.tables()
    fleet, books = tables["seller_week"], tables["book_week"]
    assert not len(model.leases)
    for column in ("sold_gpus", "pool_gpus", "developer_cloud_gpus", "revenue_usd", "pool_revenue_usd"):
        assert not fleet[column].any(), column
    assert not books["rent_usd"].any()
    held = tables["market_week"]["installed_gpus"] > 0.0
    np.testing.assert_array_equal(tables["market_week"]["utilisation"][held], 0.0)
    used = fleet["vendor_use_gpus"] + fleet["down_gpus"] + fleet["idle_gpus"]
    np.testing.assert_allclose(used, fleet["installed_gpus"], rtol=1e-12)
    owed, paid = _partner_weeks(tables, model, 0.5)
    _assert_owed_is_paid(owed, paid)
    assert min(paid.values()) > 0.0
    found = outcomes({name: pl.DataFrame(table) for name, table in tables.items()}, weeks=weeks)
    of_use = {"amd_hour_share", "amd_spend_share", "amd_new_work_share", "pool_hour_share"}
    shares = found.filter(pl.col("metric").is_in(of_use))
    assert set(shares["metric"]) == of_use
    assert shares["value"].is_null().all(), shares
    assert shares["reason"].is_not_null().all()


@pytest.mark.parametrize("load", [0.3, 0.7, 1.5])
def test_a_floor_pays_for_covered_hours_that_stayed_idle_and_firm_hours_always(load: float) -> None:
    model = played(few_sellers({**_STILL, **_HALF, "tenants.opening_load": load}), seed=4, weeks=8)
    owed, paid = _partner_weeks(model.recorder.tables(), model, 0.5)
    _assert_owed_is_paid(owed, paid)


def test_a_leaseback_ends_with_its_last_week_and_firm_gpus_return_to_the_partners() -> None:
    last = 5
    model = played(few_sellers({**_STILL, **_HALF, "leaseback.term_weeks": last}), seed=5, weeks=12)
    tables = model.recorder.tables()
    books, fleet = tables["book_week"], tables["seller_week"]
    names = [model.suppliers.names[row] for row in model.partners]
    partner = np.isin(books["agent"], names) & (books["week"] > 0)
    assert (books["leaseback_usd"][partner & (books["week"] <= last)] > 0.0).all()
    assert not books["leaseback_usd"][books["week"] > last].any()
    assert fleet["firm_gpus"][fleet["week"] == last].sum() == pytest.approx(2000.0)
    assert not fleet["firm_gpus"][fleet["week"] > last].any()
    cell = np.isin(fleet["seller"], names) & (fleet["sku"] == "MI300X")
    for name in names:
        at = cell & (fleet["seller"] == name)
        before, after = fleet["installed_gpus"][at & (fleet["week"] == last)], at & (fleet["week"] == last + 1)
        np.testing.assert_allclose(fleet["available_gpus"][after], before)
    assert not fleet["vendor_use_gpus"][fleet["week"] > last].any()


# ------------------------------------------------------------------------------------------------ default

_FRAGILE = {
    "finance.opening_cash_share": 0.0,
    "finance.amd_debt_multiple": 4.0,
    "finance.rescue_dscr": 10.0,
    "finance.storage_weeks": 3,
    "capacity.orders": False,
    "data.deliveries": table_file("deliveries", []),
}


def _until_default(changes: Mapping[str, Any] | None = None) -> tuple[MarketModel, list[set[int]]]:
    """A market played until the week of its first default; tenants of every seller a week earlier."""
    model = build(few_sellers({**_FRAGILE, **(changes or {})}), 6)
    skus = len(model.tables.skus)
    for _ in range(60):
        held = [
            set(model.leases.tenant[model.leases.lot // skus == row].tolist()) for row in range(len(model.suppliers))
        ]
        model.step()
        if model.defaults:
            return model, held
    raise AssertionError("nobody defaulted")


def test_a_seller_without_cash_and_deep_in_debt_defaults_and_its_loss_adds_up() -> None:
    model, _ = _until_default({"backstop.guarantee_share": 0.5})
    for default in model.defaults:
        parts = default.recovered_usd + default.guaranteed_usd + default.loss_usd
        assert default.debt_usd > 0.0
        assert parts == pytest.approx(default.debt_usd, rel=1e-9)
        assert min(default.recovered_usd, default.guaranteed_usd, default.loss_usd) >= 0.0
        assert not model.suppliers.alive[default.seller]
    table = model.recorder.tables()["default_week"]
    split = table["recovered_usd"] + table["guaranteed_usd"] + table["loss_usd"]
    assert len(split) == len(model.defaults)
    np.testing.assert_allclose(split, table["debt_usd"], rtol=1e-9)


def test_the_gpus_of_a_failed_seller_are_sold_to_others_after_storage() -> None:
    model, _ = _until_default()
    row, taken = model.defaults[0].seller, model.defaults[0].gpus
    s = model.suppliers
    assert not s.installed_gpus[row].any()
    stored = sum(item.gpus for item in model.stored)
    assert 0.0 < stored <= taken * (1.0 + 1e-12) * len(model.defaults)
    known = len(model.defaults)
    held = s.installed_gpus.sum()
    for _ in range(2):
        model.step()
        assert model.suppliers.installed_gpus.sum() <= held
    model.step()
    if len(model.defaults) == known:
        assert model.suppliers.installed_gpus.sum() == pytest.approx(held + stored)
    assert not any(item.week <= model.week for item in model.stored)
    assert not model.suppliers.installed_gpus[row].any()


def test_tenants_of_a_failed_seller_look_again_in_the_week_of_its_failure() -> None:
    model, held = _until_default({"tenants.opening_load": 0.6})
    row, skus = model.defaults[0].seller, len(model.tables.skus)
    supplier = model.leases.lot // skus
    assert held[row]
    assert not (supplier == row).any()
    left = held[row] - set().union(*(held[other] for other in range(len(held)) if other != row))
    assert left & set(model.leases.tenant[model.leases.first_week == model.week].tolist())


def test_a_guarantee_pays_its_share_of_losses_up_to_its_cap() -> None:
    desk = Guarantee(BackstopParameters(guarantee_share=0.5, cap_usd=100.0))
    assert [desk.call(loss) for loss in (60.0, 100.0, 200.0, 10.0, 0.0)] == [30.0, 50.0, 20.0, 0.0, 0.0]
    assert desk.paid_usd == 100.0


@pytest.mark.parametrize("cap_usd", [0.0, 1e6, 1e12])
def test_a_backstop_pays_no_more_than_its_cap_in_a_market(cap_usd: float) -> None:
    changes = {"backstop.guarantee_share": 0.5, "backstop.cap_usd": cap_usd, "leaseback.partners": "all"}
    model, _ = _until_default(changes)
    model.run(6)
    table = model.recorder.tables()["default_week"]
    short = table["debt_usd"] - table["recovered_usd"]
    assert short.any()
    assert table["guaranteed_usd"].sum() == pytest.approx(min(cap_usd, 0.5 * short.sum()))
    assert (table["guaranteed_usd"] <= 0.5 * short * (1.0 + 1e-12) + 1e-6).all()


# ------------------------------------------------------------------------------------------------ software


def _maturity(changes: Mapping[str, Any], weeks: int = 6) -> tuple[MarketModel, Floats]:
    model = played(few_sellers(changes), seed=7, weeks=weeks)
    return model, np.asarray(model.software.maturity[1])


def test_use_raises_maturity() -> None:
    _, used = _maturity({})
    _, idle = _maturity({"software.use_raises_maturity": False})
    assert (used > idle).all()


@pytest.mark.parametrize("spending", [0.0, 1.0, 5.0])
def test_spending_multiplies_the_speed_of_maturity_and_is_paid_for(spending: float) -> None:
    changes = {"software.programme_spending": spending, "software.use_raises_maturity": False}
    model, m = _maturity(changes, weeks=6)
    p = model.world.software
    gap = (model.software.ceiling - model.software.opening_maturity[1]) * (1.0 - p.maturity_speed * spending) ** 6
    np.testing.assert_allclose(model.software.ceiling - m, gap, rtol=1e-12)
    books = model.recorder.tables()["book_week"]
    amd = (books["agent"] == "AMD") & (books["week"] > 0)
    np.testing.assert_allclose(books["programme_usd"][amd], p.programme_usd_per_week * spending)


def test_maturity_rises_to_its_ceiling_and_not_above_it() -> None:
    model, m = _maturity({"software.maturity_speed": 0.3}, weeks=16)
    path = model.recorder.tables()["segment_week"]["amd_maturity"].reshape(17, -1)
    assert (np.diff(path, axis=0) >= 0.0).all()
    assert (m <= model.software.ceiling * (1.0 + 1e-12)).all()
    np.testing.assert_allclose(m, model.software.ceiling, rtol=0.02)


def test_the_fastest_programme_does_not_overshoot_the_ceiling() -> None:
    model, m = _maturity({"software.maturity_speed": 0.5, "software.programme_spending": 4.0}, weeks=3)
    assert (m <= model.software.ceiling * (1.0 + 1e-12)).all()


def test_maturity_switched_off_is_constant() -> None:
    model, m = _maturity({"software.maturity_moves": False})
    np.testing.assert_array_equal(m, model.software.opening_maturity[1])
    np.testing.assert_array_equal(model.software.throughput, model.software.base_throughput)


# ------------------------------------------------------------------------------------------------ links of the loop

# Orders and the cover's part in them need demand above capacity, and a rent that reaches the margin of a GPU.
_BUSY: Mapping[str, Any] = {
    "tenants.opening_load": 1.5,
    "capacity.round_weeks": 4,
    "capacity.lead_weeks": 4,
    "leaseback.partners": "all",
    "leaseback.lease_rate_usd_per_gpu_hour": 4.0,
    "leaseback.share": 0.8,
}

# Switch, off value, first week that may differ.
LINKS: Mapping[str, tuple[Mapping[str, Any], int]] = {
    "cover in orders": ({"leaseback.enters_orders": False}, 4),
    "cover in loans": ({"leaseback.enters_loans": False}, 8),
    "use and maturity": ({"software.use_raises_maturity": False}, 1),
    "maturity and choice": ({"software.maturity_enters_choice": False}, 1),
    "maturity": ({"software.maturity_moves": False}, 1),
    "orders": ({"capacity.orders": False}, 4),
    "developer cloud": ({"developer_cloud.cap_gpus": 0.0}, 6),
}


@pytest.mark.parametrize(("off", "date"), LINKS.values(), ids=LINKS.keys())
def test_a_link_switched_off_changes_what_follows_it_and_nothing_before_its_date(
    off: Mapping[str, Any], date: int
) -> None:
    base = {**_BUSY, "developer_cloud.start_week": 6}
    on_tables, off_tables = (tables_of(few_sellers({**base, **more}), seed=8, weeks=16) for more in ({}, off))
    assert_same_tables(on_tables, off_tables, before_week=date)
    with pytest.raises(AssertionError):
        assert_same_tables(on_tables, off_tables)
