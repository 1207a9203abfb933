"""Distress in a market: missed payments, cures, standstills, recovery in order of rank, covers and caps, lives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from experiments.build import build
from market.covers import Covers
from market.failure import owners_value_usd, second_hand_value_usd
from market.ledger import TOLERANCE, Account, Ledger, check
from market.lenders import loan_offer
from market.liquidation import repossess
from market.model import MarketModel
from market.ownbooks import SellersFinance
from market.suppliers import NEOCLOUD
from market.units import HOURS_PER_WEEK
from tests.worlds import RunTables, assert_same_tables, by_week, few_sellers, played, table_file

_POOR: Mapping[str, Any] = {
    "finance.opening_cash_share": 0.0,
    "finance.amd_debt_multiple": 3.0,
    "capacity.orders": False,
    "data.deliveries": table_file("deliveries", []),
}
_NO_OWNERS: Mapping[str, Any] = {**_POOR, "finance.rescue_dscr": 10.0}


def _until(
    happens: Callable[[MarketModel], Any], changes: Mapping[str, Any], weeks: int = 60, seed: int = 6
) -> tuple[MarketModel, Any]:
    """A market played until something has happened, and what."""
    model = build(few_sellers(changes), seed)
    for _ in range(weeks):
        model.step()
        if (found := happens(model)) is not None:
            return model, found
    raise AssertionError("it never happened")


def _standing_still(model: MarketModel) -> int | None:
    rows = np.flatnonzero(model.accounts.covenants.standing_still)
    return int(rows[0]) if len(rows) else None


# ------------------------------------------------------------------------------------------------ payments and cures


def test_a_borrower_without_the_cash_misses_all_of_its_payment_and_none_is_made_up() -> None:
    def missed(model: MarketModel) -> int | None:
        loans = model.accounts.loans
        rows = np.unique(loans.borrower[loans.next_service_week <= model.week])
        return int(rows[0]) if len(rows) else None

    model, row = _until(missed, _NO_OWNERS)
    ledger = model.accounts.ledger
    assert ledger.week_paid("interest_payment")[row] == ledger.week_paid("principal")[row] == 0.0
    due = model.accounts.loans.due(model.week).by_borrower(len(ledger.names))[row]
    assert ledger.cash()[row] < due


def test_lenders_stand_still_before_a_default_and_are_not_paid_meanwhile() -> None:
    model, row = _until(_standing_still, {**_NO_OWNERS, "finance.standstill_weeks": 3})
    start, paid = model.week, 0.0
    while not any(default.seller == row for default in model.defaults) and _standing_still(model) is not None:
        assert model.suppliers.alive[row]
        model.step()
        if model.suppliers.alive[row] and model.accounts.covenants.standing_still[row]:
            paid += float(model.accounts.ledger.week_paid("principal")[row])
    assert model.week == start + 3
    assert paid == 0.0


def test_without_a_standstill_a_seller_ends_at_once() -> None:
    model, _ = _until(lambda m: m.defaults or None, {**_NO_OWNERS, "finance.standstill_weeks": 0})
    assert not model.accounts.covenants.standing_still.any()


_STRICT: Mapping[str, Any] = {
    "finance.breach_dscr": 3.0,
    "finance.cure_weeks": 2,
    "finance.rescue_dscr": 0.0,
    "finance.rescue_equity_share": -1.0,
    "finance.rescue_limit_share": 10.0,
    "capacity.orders": False,
}


def test_owners_cure_a_breach_of_cover_by_repaying_and_the_cover_is_back_at_the_covenant() -> None:
    def cured(model: MarketModel) -> int | None:
        rows = np.flatnonzero(model.accounts.rescued_usd > 0.0)
        return int(rows[0]) if len(rows) else None

    model = build(few_sellers(_STRICT), 6)
    debt = model.accounts.ledger.balance_of(Account.DEBT)
    while (row := cured(model)) is None:
        debt, dscr = model.accounts.ledger.balance_of(Account.DEBT), model.accounts.dscr.copy()
        model.step()
    repaid = model.accounts.ledger.week_paid("principal")[row]
    assert repaid == pytest.approx(debt[row] * (1.0 - dscr[row] / 3.0), rel=1e-9)
    assert not model.defaults
    assert model.accounts.covenants.breach_weeks[row] == 0


def test_an_uncured_breach_ends_in_a_default_with_the_covenant_as_its_cause() -> None:
    unwilling = {**_STRICT, "finance.rescue_limit_share": 0.0, "finance.rescue_dscr": 10.0}
    _, defaults = _until(lambda m: m.defaults or None, {**unwilling, "finance.lost_tenant_share": 1.0})
    assert {default.cause for default in defaults} == {"covenant"}


def test_a_covenant_that_cannot_be_broken_leaves_only_cash_as_a_cause() -> None:
    loose = {"finance.breach_dscr": 0.0, "finance.covenant_loan_to_value": 100.0, "finance.lost_tenant_share": 1.0}
    _, defaults = _until(lambda m: m.defaults or None, {**_NO_OWNERS, **loose})
    assert {default.cause for default in defaults} <= {"missed payment", "operating loss"}


def test_the_dead_hold_no_cash_owe_nothing_and_pay_no_tax() -> None:
    model, defaults = _until(lambda m: m.defaults or None, _NO_OWNERS)
    model.run(3)
    rows = [default.seller for default in defaults]
    ledger = model.accounts.ledger
    for account in (Account.CASH, Account.DEBT, Account.INTEREST_PAYABLE, Account.GPUS):
        assert np.abs(ledger.balance_of(account)[rows]).max() <= 1e-6, account


@pytest.mark.parametrize("quotes_ln", [-3.0, 1.5], ids=["quotes far under the median", "quotes far over it"])
def test_a_fleet_is_worth_to_its_owners_what_it_earns_or_fetches_whichever_is_more(quotes_ln: float) -> None:
    model = played(few_sellers({}), weeks=2)
    s, p, hardware = model.suppliers, model.world.finance, model.hardware
    row = int(np.flatnonzero((s.provider_class == NEOCLOUD) & s.alive)[0])
    s.shadow_ln[row] += quotes_ln
    fetched = second_hand_value_usd(model, model.age_weeks)[row]
    worth = 0.0
    for sku in np.flatnonzero(s.installed_gpus[row]).tolist():
        life = p.resale_life_years - max(model.age_weeks[row, sku] / 52.0 - 0.5, 0.0) / 2.0
        life = min(max(life, 1.0), p.resale_life_years)
        margin = p.resale_quote_factor * p.resale_use * math.exp(s.shadow_ln[row, sku]) - hardware.running_usd[sku]
        r, capital = p.resale_discount_per_year, hardware.capex_usd[sku]
        earned = margin * 8760.0 * (1.0 - math.exp(-r * life)) / r
        earned = min(max(earned, p.resale_minimum * capital), p.resale_maximum * capital)
        worth += s.installed_gpus[row, sku] * max(earned, fetched[sku])
    assert owners_value_usd(model)[row] == pytest.approx(worth)


def test_owners_who_quote_dear_rescue_a_fleet_that_would_not_repay_its_debt_at_a_sale() -> None:
    willing = {"finance.rescue_dscr": 0.0, "finance.rescue_limit_share": 10.0, "finance.amd_debt_multiple": 1.6}
    at_once = {**_POOR, **willing, "finance.standstill_weeks": 0}
    poor, defaults = _until(lambda m: m.defaults or None, at_once)
    row = defaults[0].seller
    dear = played(few_sellers(at_once), weeks=poor.week - 1, seed=6)
    dear.suppliers.shadow_ln[row] += 2.0
    dear.step()
    assert row not in {default.seller for default in dear.defaults}
    assert dear.accounts.rescued_usd[row] > 0.0


# ------------------------------------------------------------------------------------------------ recovery


def test_a_default_with_forty_percent_recovery_loses_sixty() -> None:
    model = played(few_sellers({"backstop.guarantee_share": 0.0}), weeks=5)
    accounts, ledger = model.accounts, model.accounts.ledger
    row = int(np.argmax(ledger.balance_of(Account.DEBT)))
    owed = ledger.balance_of(Account.DEBT)[row] + ledger.balance_of(Account.INTEREST_PAYABLE)[row]
    cash = max(ledger.cash()[row], 0.0)
    ledger.post("capital_returned", row, accounts.world_row, cash)
    before = ledger.balance_of(Account.CREDIT_LOSS)[accounts.lender_row]
    found = repossess(accounts, model, row, 0.4 * owed)
    assert found.owed_usd == pytest.approx(owed)
    assert found.gpus_usd == pytest.approx(0.4 * owed)
    lost = ledger.balance_of(Account.CREDIT_LOSS)[accounts.lender_row] - before
    assert lost == pytest.approx(0.6 * owed)
    assert check(ledger) <= TOLERANCE


def test_lenders_are_paid_from_the_till_first_and_owners_keep_what_is_beyond_the_claim() -> None:
    model = played(few_sellers(), weeks=5)
    accounts, ledger = model.accounts, model.accounts.ledger
    row = int(np.argmax(ledger.balance_of(Account.DEBT)))
    owed = ledger.balance_of(Account.DEBT)[row] + ledger.balance_of(Account.INTEREST_PAYABLE)[row]
    cash = ledger.cash()[row]
    found = repossess(accounts, model, row, 3.0 * owed)
    assert found.cash_usd == pytest.approx(min(cash, owed))
    assert found.gpus_usd == pytest.approx(owed - found.cash_usd)
    assert found.guaranteed_usd == 0.0
    assert ledger.cash()[row] == 0.0
    assert check(ledger) <= TOLERANCE


def test_used_gpus_go_to_nobody_in_breach() -> None:
    model, _ = _until(lambda m: m.defaults or None, {**_NO_OWNERS, "finance.storage_weeks": 3})
    accounts = model.accounts
    buyers = [row for row in range(len(accounts.seller_rows)) if model.suppliers.alive[row]][:2]
    for _ in range(4):
        accounts.covenants.see(np.isin(accounts.seller_rows, buyers))
        held = model.suppliers.installed_gpus[buyers].sum(axis=1)
        due = any(stored.week <= model.week + 1 for stored in model.stored)
        accounts.covenants.see = lambda breach, rows=buyers: None  # type: ignore[method-assign, misc]
        model.step()
        if due:
            assert (model.suppliers.installed_gpus[buyers].sum(axis=1) <= held).all()
            return
    raise AssertionError("nothing was sold")


# ------------------------------------------------------------------------------------------------ covers


def test_a_quarter_in_which_half_of_the_leased_back_hours_are_let_again() -> None:
    """100 GPUs leased back at 1.30: AMD pays 283,920 in a quarter; 50 let again at 1.99 bring it 217,308."""
    ledger = Ledger(["partner", "AMD", "tenants"])
    for week in range(1, 14):
        ledger.open_week(week)
        ledger.post("leaseback", 1, 0, 100 * 1.30 * HOURS_PER_WEEK)
        ledger.post("developer_cloud_rent", 2, 1, 50 * 1.99 * HOURS_PER_WEEK)
    assert ledger.balance_of(Account.LEASEBACK_PAID)[1] == pytest.approx(283_920)
    assert ledger.balance_of(Account.DEVELOPER_CLOUD_INCOME)[1] == pytest.approx(217_308)
    assert ledger.cash()[1] == pytest.approx(217_308 - 283_920)


def test_a_quarter_in_which_half_of_the_covered_hours_are_sold() -> None:
    """100 GPUs covered at 1.30, 50 of them sold by the partner: the vendor pays for 50, 141,960 in a quarter."""
    covers = Covers()
    covers.add(np.array([0]), np.array([0]), np.array([1]), np.array([100.0]), np.array([1.30]), 156)
    due = covers.pay(np.array([[100.0]]), np.array([[50.0]]))
    assert float(due.idle_gpus[0] * due.rate_usd[0]) * HOURS_PER_WEEK * 13 == pytest.approx(141_960)
    assert due.sold_gpus.tolist() == [50.0]


_COVERED: Mapping[str, Any] = {"leaseback.share": 1.0, "leaseback.opening_factor": 1.0, "leaseback.partners": "all"}


def _covers_paid(tables: RunTables) -> float:
    return float(tables["book_week"]["cover_paid_usd"].sum())


def test_covers_are_called_to_their_cap_and_not_beyond() -> None:
    free = _covers_paid(played(few_sellers(_COVERED), weeks=20).recorder.tables())
    capped = played(few_sellers({**_COVERED, "leaseback.cap_usd": 0.5 * free}), weeks=40).recorder.tables()
    assert free > 0.0
    assert _covers_paid(capped) == pytest.approx(0.5 * free, rel=1e-9)


def test_partners_pay_for_a_guarantee_with_a_share_of_their_rent() -> None:
    fee = {"backstop.guarantee_share": 0.5, "backstop.revenue_share": 0.1, "leaseback.share": 0.0}
    model = played(few_sellers(fee), weeks=6)
    books = model.recorder.tables()["book_week"]
    behind = np.array([model.vendors[0].guarantees(row) for row in range(len(model.accounts.seller_rows))])
    partners = np.array(model.suppliers.names)[: len(behind)][behind]
    paying = np.isin(books["agent"], partners) & (books["week"] > 0)
    assert behind.any()
    np.testing.assert_allclose(books["fee_usd"][paying], 0.1 * (books["rent_usd"] + books["pool_usd"])[paying])


def _rate_offered(model: MarketModel, row: int) -> float:
    """Rate that lenders offer a seller on a million dollars of GPUs."""
    _, offer = loan_offer(model, row, SellersFinance(model).of(row), 1e6)
    return offer.annual_rate


def test_a_guarantee_makes_a_partners_loan_cheaper_as_far_as_its_cap_goes() -> None:
    def rate(changes: Mapping[str, Any]) -> float:
        model = played(few_sellers({"leaseback.share": 0.0, **changes}), weeks=1)
        row = next(row for row, _ in model.sellers if model.vendors[0].guarantees(row))
        return _rate_offered(model, row)

    none, half = rate({}), rate({"backstop.guarantee_share": 0.5})
    spent = rate({"backstop.guarantee_share": 0.5, "backstop.cap_usd": 0.0})
    assert half < none == spent == rate({"backstop.guarantee_share": 0.5, "backstop.enters_loans": False})


# ------------------------------------------------------------------------------------------------ lives, bullets


def test_three_or_six_years_of_life_change_profit_and_book_covenants_but_no_cash() -> None:
    growing = {"tenants.opening_load": 1.5, "capacity.lead_weeks": 2, "capacity.lead_spread_weeks": 0}
    short, long = (
        played(few_sellers({**growing, "finance.depreciation_years": years}), weeks=40).recorder.tables()
        for years in (3.0, 6.0)
    )
    same = {"seller_week", "segment_week", "market_week", "desk_week"}
    assert_same_tables(*({name: tables[name] for name in same} for tables in (short, long)))
    books = (short["book_week"], long["book_week"])
    np.testing.assert_allclose(books[0]["cash_usd"], books[1]["cash_usd"], rtol=1e-12, atol=1e-3)
    profit = [float(table["profit_usd"][table["provider_class"] == "neocloud"].sum()) for table in books]
    assert profit[0] < profit[1]
    breaches = [
        played(few_sellers({**growing, "finance.depreciation_years": years, **_BY_BOOK}), weeks=40).recorder.tables()
        for years in (3.0, 6.0)
    ]
    counted = [int(by_week(tables["book_week"], "breach").sum()) for tables in breaches]
    assert counted[0] > counted[1]


_BY_BOOK: Mapping[str, Any] = {
    "finance.covenant_value": "book",
    "finance.covenant_loan_to_value": 0.7,
    "finance.breach_dscr": 0.0,
    "finance.cure_weeks": 1000,
}


def test_bullets_are_refinanced_when_they_fall_due_and_paid_otherwise() -> None:
    bullets = {"finance.balloon_share": 1.0, "finance.tenor_payments": 1, "finance.covenant_loan_to_value": 100.0}
    growing = {"tenants.opening_load": 1.5, "capacity.lead_weeks": 2, "capacity.lead_spread_weeks": 0}
    on = played(few_sellers({**growing, **bullets, "finance.breach_dscr": 0.0}), weeks=40)
    off = played(few_sellers({**growing, **bullets, "finance.refinancing": False}), weeks=40)
    draws = [float(model.accounts.ledger.paid_to_date("loan_draw").sum()) for model in (on, off)]
    debt = [float(model.accounts.ledger.balance_of(Account.DEBT).sum()) for model in (on, off)]
    assert draws[0] > draws[1] > 0.0
    assert debt[0] > debt[1]


def test_a_sweep_of_cash_lowers_debt() -> None:
    kept, swept = (played(few_sellers({"finance.cash_sweep_share": share}), weeks=30) for share in (0.0, 1.0))
    debt = [float(model.accounts.ledger.balance_of(Account.DEBT).sum()) for model in (kept, swept)]
    assert debt[1] < debt[0]


def test_dear_loans_are_replaced_by_cheaper_ones() -> None:
    dear = {"finance.opening_loan_rate": 0.3}
    kept, cheaper = (played(few_sellers({**dear, "finance.refinancing_gain": gain}), weeks=16) for gain in (1.0, 0.01))
    interest = [float(model.accounts.ledger.balance_of(Account.INTEREST_EXPENSE).sum()) for model in (kept, cheaper)]
    assert interest[1] < interest[0]


def test_losses_make_later_loans_dearer() -> None:
    model, _ = _until(lambda m: m.defaults or None, _NO_OWNERS)
    model.step()
    assert model.accounts.losses.rate_per_year > 0.0
    row = next(row for row, _ in model.sellers if model.suppliers.alive[row] and model.suppliers.borrows[row])
    after = _rate_offered(model, row)
    model.accounts.losses = type(model.accounts.losses)(52)
    assert after > _rate_offered(model, row)


def test_opening_loan_to_value_is_debt_over_what_the_own_fleet_would_fetch() -> None:
    model = build(
        few_sellers(
            {"finance.opening_loan_to_value": 0.7, "developer_cloud.firm_gpus": 0.0, "developer_cloud.cap_gpus": 0.0}
        ),
        1,
    )
    books = model.recorder.tables()["book_week"]
    neocloud = (books["provider_class"] == "neocloud") & (books["fleet_value_usd"] > 0.0)
    assert neocloud.any()
    ratio = books["debt_usd"][neocloud] / books["fleet_value_usd"][neocloud]
    heavy = books["heavy"][neocloud] == "amd"
    np.testing.assert_allclose(ratio[~heavy], 0.7)
    np.testing.assert_allclose(ratio, 0.7)
