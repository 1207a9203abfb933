"""Money and hours add up in every week of random small worlds, and faults that break them are caught.

The model holds its own identities each week; here a second account of the same week is drawn up from the recorded
tables and the ledger's balances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

from market.arrays import Floats
from market.identities import ImbalanceError
from market.ledger import ENTRY_TYPES, REST_OF_WORLD, Account
from market.model import MarketModel
from market.units import HOURS_PER_WEEK
from tests.worlds import (
    RunTables,
    SmallWorld,
    book_twice,
    by_week,
    few_sellers,
    in_full_lots,
    in_roomy_lots,
    played,
    post_twice,
    sell_twice,
    small_world,
)

TOLERANCE = 1e-8


def _total(tables: RunTables, table: str, column: str) -> Floats:
    """Sum of a recorded column by week; sellers who are all gone leave no rows, so the market's length counts."""
    return by_week(tables[f"{table}_week"], column, last_week=int(tables["market_week"]["week"].max()))


def _hours_add_up(model: MarketModel) -> None:
    """Installed GPUs are sold, pooled, the developer cloud's, the vendor's, down or idle; nothing is sold twice."""
    tables = model.recorder.tables()
    rows = tables["seller_week"]
    uses = ("sold", "pool", "developer_cloud", "vendor_use", "down", "idle")
    used = np.sum([rows[f"{use}_gpus"] for use in uses], axis=0)
    scale = np.maximum(1.0, rows["installed_gpus"])
    assert (np.abs(used - rows["installed_gpus"]) <= TOLERANCE * scale).all()
    for use in uses:
        assert (rows[f"{use}_gpus"] >= -TOLERANCE * scale).all(), use
    assert (np.abs(rows["idle_gpus"] - rows["open_gpus"]) <= TOLERANCE * scale).all()
    desk = tables["desk_week"]
    assert (desk["sold_gpus"] <= desk["cap_gpus"] + TOLERANCE * np.maximum(1.0, desk["cap_gpus"])).all()
    cloud = _total(tables, "seller", "developer_cloud_gpus")
    assert np.allclose(cloud, _total(tables, "desk", "sold_gpus"), rtol=TOLERANCE, atol=TOLERANCE)
    held = _total(tables, "segment", "amd_gpus") + _total(tables, "segment", "nvidia_gpus")
    let = _total(tables, "seller", "sold_gpus") + _total(tables, "seller", "pool_gpus") + cloud
    assert np.allclose(held, let, rtol=TOLERANCE, atol=TOLERANCE)


def _payments_meet(model: MarketModel, scale: float) -> None:
    """What tenants spend sellers and the desk receive; what the vendor pays for leased-back hours sellers receive."""
    total = partial(_total, model.recorder.tables())
    rent, cloud_rent = total("book", "rent_usd"), total("book", "developer_cloud_rent_usd")
    pairs = {
        "spend and rent": (total("segment", "spend_usd"), rent + total("book", "pool_usd") + cloud_rent),
        "pool by lot and by book": (total("seller", "pool_revenue_usd"), total("book", "pool_usd")),
        "fees paid and received": (total("book", "fee_usd"), total("book", "fee_income_usd")),
        "rent by lot and by book": (total("seller", "revenue_usd"), rent),
        "desk and vendor": (total("desk", "rent_usd"), cloud_rent),
        "leaseback paid and received": (total("book", "leaseback_paid_usd"), total("book", "leaseback_usd")),
    }
    firm_rent = total("seller", "firm_gpus") * model.firm_lease_usd * HOURS_PER_WEEK
    assert (total("book", "leaseback_usd") - firm_rent >= -TOLERANCE * scale)[1:].all(), (
        "covers come on top of firm hours"
    )
    for name, (one, other) in pairs.items():
        # Week 0 is the opening state: hours are held, nothing is billed.
        assert (np.abs(one - other)[1:] <= TOLERANCE * scale).all(), name


def _books_balance(model: MarketModel, scale: float) -> None:
    """Assets are claims and own capital, agent by agent; cash is moved, never made; debt and GPUs match their lists."""
    ledger, agents = model.accounts.ledger, len(model.accounts.ledger.names)
    assert np.abs(ledger.balance.sum(axis=1)).max() <= TOLERANCE * scale
    assert abs(ledger.cash().sum()) <= TOLERANCE * scale
    moves = [kind.moves_cash for kind in ENTRY_TYPES.values()]
    paid_by, received_by = (ledger.flow_to_date[moves].sum(axis=0).sum(axis=axis) for axis in (1, 0))
    assert np.abs(received_by - paid_by - ledger.cash()).max() <= TOLERANCE * scale, (
        "who paid whom is all that moves cash"
    )
    debt = model.accounts.loans.balance_by_borrower(agents)
    gpus = model.accounts.assets.book_by_seller(agents)
    gpus[model.accounts.lender_row] += sum(stored.book_usd for stored in model.stored)
    assert np.abs(ledger.balance_of(Account.DEBT) - debt).max() <= TOLERANCE * scale
    assert np.abs(ledger.balance_of(Account.GPUS) - gpus).max() <= TOLERANCE * scale
    tenants = model.accounts.segment_rows
    assert np.abs(ledger.cash()[tenants]).max() <= TOLERANCE * scale, "tenants are funded for what they spend"


def _is_sound(model: MarketModel) -> None:
    ledger = model.accounts.ledger
    assert np.isfinite(ledger.balance).all()
    scale = max(1.0, float(ledger.flow_to_date.sum()))
    _hours_add_up(model)
    _payments_meet(model, scale)
    _books_balance(model, scale)


SPOT_FLOOR = 0.75 * 1.05  # of running cost: a quarter under the floor of the other terms
MOST_OVER_FULL_COST = 20.0
# The fastest speed worth sweeping, twice the default spread. At ten times that speed half a tight year multiplies
# prices by a hundred, as it must.
MILD = {"pricing.adjust_per_week": 0.2, "pricing.sku_premium_sd": 0.3}


def _prices_in_corridor(model: MarketModel) -> None:
    """No offer stands under the floor of spot or above twenty times what owning the GPU costs."""
    price = model.book.price_usd[model.suppliers.third_party]
    assert np.isfinite(price[~np.isnan(price)]).all()
    with np.errstate(invalid="ignore"):
        assert not (price < SPOT_FLOOR * model.hardware.running_usd[:, None] * (1.0 - 1e-12)).any(), model.week
        assert not (price > MOST_OVER_FULL_COST * model.hardware.full_cost_usd[:, None]).any(), model.week


def _plays_soundly(world: SmallWorld, *, corridor: bool = True) -> None:
    model, values = world.build(), world.scenario.values()
    posted = any(event.kind == "list-price" for event in world.scenario.events.values())  # a price that nobody chose
    mild = corridor and not posted and all(values[key] <= limit for key, limit in MILD.items())
    for _ in range(world.weeks):
        model.step()  # holds its own identities to the same tolerance
        assert float(model.leases.gpus.min(initial=0.0)) >= 0.0
        if mild and not model.defaults:  # a market that loses sellers may be as short as it likes
            _prices_in_corridor(model)
    _is_sound(model)


@given(small_world(weeks=10))
@settings(max_examples=200)
def test_money_and_hours_add_up_and_prices_keep_their_corridor_in_every_week_of_two_hundred_random_worlds(
    world: SmallWorld,
) -> None:
    _plays_soundly(world)


@pytest.mark.soak
@given(small_world(weeks=40))
@settings(max_examples=2000, derandomize=False)
def test_money_and_hours_add_up_in_every_week_of_two_thousand_random_worlds(world: SmallWorld) -> None:
    _plays_soundly(world, corridor=False)


def test_money_and_hours_add_up_in_a_world_in_which_everything_happens() -> None:
    model = played(few_sellers(), weeks=30)
    _is_sound(model)
    flows = {entry.reason for entry in model.accounts.ledger.entries(model.week)}
    assert {"rent", "developer_cloud_rent", "leaseback", "running", "depreciation", "interest_accrual"} <= flows
    assert REST_OF_WORLD in model.accounts.ledger.names


# ------------------------------------------------------------------------------------------------ seeded faults

_SHORT_OF_GPUS = {"tenants.opening_load": 1.5, "developer_cloud.cap_gpus": 50.0}


def _until_the_fault_shows(weeks: int = 15) -> None:
    played(few_sellers(_SHORT_OF_GPUS), weeks=weeks)


def test_an_hour_sold_twice_in_a_full_lot_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sell_twice(monkeypatch, in_full_lots)
    with pytest.raises(ImbalanceError, match="hours"):
        _until_the_fault_shows()


def test_an_hour_sold_twice_in_a_lot_with_room_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sell_twice(monkeypatch, in_roomy_lots)
    with pytest.raises(ImbalanceError, match="hours"):
        played(few_sellers(), weeks=2)


BILLED = ("rent", "developer_cloud_rent", "leaseback", "segment_funding")
BORROWED = ("interest_accrual", "interest_payment", "principal", "loan_draw", "equity_in", "capital_purchase")
OWNED = ("running", "overhead", "depreciation", "tax")


@pytest.mark.parametrize("reason", [*BILLED, *BORROWED, *OWNED])
def test_an_entry_posted_twice_is_caught(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    post_twice(monkeypatch, reason)
    with pytest.raises(ImbalanceError):
        _until_the_fault_shows()


@pytest.mark.parametrize("reason", [*BILLED, *BORROWED, *OWNED])
def test_an_entry_that_reaches_the_balances_twice_is_caught(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    book_twice(monkeypatch, reason)
    with pytest.raises(ImbalanceError):
        _until_the_fault_shows()


_POOR = {
    "finance.opening_cash_share": 0.0,
    "finance.opening_loan_to_value": 1.5,
    "finance.rescue_dscr": 10.0,
    "finance.standstill_weeks": 0,
    "finance.storage_weeks": 1,
    "backstop.guarantee_share": 0.5,
    "backstop.revenue_share": 0.1,
    "leaseback.partners": "all",
    "leaseback.share": 1.0,
    "tenants.opening_load": 1.5,
    "capacity.lead_weeks": 2,
}
_EMPTY = {**_POOR, "tenants.opening_load": 0.05}
FAULTY = {
    **dict.fromkeys(("repossession", "write_off", "guarantee", "asset_sale", "asset_disposal"), _POOR),
    **dict.fromkeys(("guarantee_fee", "hardware_cost"), _POOR),
    **dict.fromkeys(("cover", "unpaid_bills"), _EMPTY),
}


@pytest.mark.parametrize("fault", [post_twice, book_twice])
@pytest.mark.parametrize("reason", FAULTY)
def test_an_entry_of_a_failure_or_a_cover_made_twice_is_caught(
    monkeypatch: pytest.MonkeyPatch, reason: str, fault: Callable[[pytest.MonkeyPatch, str], None]
) -> None:
    fault(monkeypatch, reason)
    with pytest.raises((ImbalanceError, ValueError)):
        played(few_sellers(FAULTY[reason]), seed=6, weeks=25)
