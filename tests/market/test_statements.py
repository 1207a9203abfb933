"""Statements: worked by hand, closed against each other, and added up over classes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.build import build
from market.ledger import ENTRY_TYPES, Account, Ledger
from market.statements import (
    ACTIVITIES,
    CHANGE_IN_MONEY,
    Journal,
    flow_matrix,
    keep_journal,
    received_from,
    statement,
)
from tests.worlds import assert_same_tables, few_sellers

NAMES = ("TensorWave", "Lambda", "AMD", "lenders", "developers")
SECTORS = ("neocloud", "neocloud", "vendor", "lender", "tenant", "rest_of_world")
SELLER, OTHER, VENDOR, LENDER, TENANTS, WORLD = range(6)
CASH = [reason for reason, kind in ENTRY_TYPES.items() if kind.moves_cash]


def journal_of(*weeks):
    """A journal of postings by week; the first is the opening."""
    ledger, balances, columns = Ledger(NAMES), [], []
    for week, postings in enumerate(weeks):
        ledger.open_week(week)
        for entry in postings:
            ledger.post(*entry)
        balances.append(ledger.balance.copy())
        if week:
            columns += [(week, *place, ledger.flow[tuple(place)]) for place in np.argwhere(ledger.flow)]
    table = np.array(columns, float).reshape(-1, 5).T
    places, value = table[:4].astype(np.intp), np.zeros((len(weeks), 6))
    return Journal(tuple(ledger.names), SECTORS, np.array(balances), *places, table[4], value)


@pytest.fixture
def books():
    opening = [
        ("opening_gpus", WORLD, SELLER, 100.0),
        ("opening_cash", WORLD, [SELLER, VENDOR, LENDER], [10.0, 50.0, 40.0]),
        ("opening_debt", SELLER, LENDER, 60.0),
    ]
    trade = [
        ("segment_funding", WORLD, TENANTS, 20.0),
        ("rent", TENANTS, [SELLER, OTHER], [16.0, 4.0]),
        ("leaseback", VENDOR, SELLER, 3.0),
        ("running", [SELLER, OTHER], WORLD, [5.0, 1.0]),
        ("depreciation", SELLER, SELLER, 4.0),
        ("interest_accrual", SELLER, LENDER, 1.5),
        ("interest_payment", SELLER, LENDER, 1.5),
        ("principal", SELLER, LENDER, 6.0),
    ]
    growth = [
        ("loan_draw", LENDER, SELLER, 30.0),
        ("equity_in", WORLD, SELLER, 20.0),
        ("capital_purchase", SELLER, VENDOR, 50.0),
    ]
    return journal_of(opening, trade, growth)


def test_three_statements_of_a_seller_are_those_worked_by_hand(books):
    found = statement(books, "TensorWave", 1, 2)
    assert {name: usd for name, usd in found.income.items() if usd} == pytest.approx(
        {
            "rent income": 16,
            "leaseback income": 3,
            "running": 5,
            "depreciation": 4,
            "interest expense": 1.5,
            "profit": 8.5,
        }
    )
    assert found.ebitda_usd == 14
    assert found.cash == pytest.approx(
        {
            "operating: rent": 16,
            "operating: leaseback": 3,
            "operating: running": -5,
            "operating: interest payment": -1.5,
            "operating": 12.5,
            "investing: capital purchase": -50,
            "investing": -50,
            "financing: equity in": 20,
            "financing: loan draw": 30,
            "financing: principal": -6,
            "financing": 44,
            "change in cash": 6.5,
        }
    )
    assert {name: usd for name, usd in found.balance_sheet.items() if usd} == pytest.approx(
        {"cash": 16.5, "gpus": 146, "debt": 84, "equity": 78.5}
    )


def test_a_vendor_trades_what_its_customers_invest(books):
    cash = statement(books, "AMD", 2, 2).cash
    assert cash["operating: capital purchase"] == cash["operating"] == 50
    assert cash["investing"] == 0


def test_a_class_is_the_sum_of_its_members(books):
    sellers = [statement(books, name, 1, 2) for name in ("TensorWave", "Lambda")]
    together = statement(books, "neocloud", 1, 2)
    assert together.income["profit"] == sum(each.income["profit"] for each in sellers) == 11.5
    assert together.balance_sheet["equity"] == sum(each.balance_sheet["equity"] for each in sellers)


def test_economic_equity_holds_gpus_at_second_hand_value(books):
    value = books.fleet_value_usd.copy()
    value[2, SELLER] = 120.0
    found = statement(Journal(**{**vars(books), "fleet_value_usd": value}), "TensorWave", 2, 2)
    assert found.economic_equity_usd == found.balance_sheet["equity"] - 146 + 120


def test_the_flow_matrix_of_two_weeks_is_the_one_worked_by_hand(books):
    found = flow_matrix(books, 1, 2)
    assert found.columns == ("neocloud", "vendor", "lender", "tenant", "rest_of_world")
    rows = dict(zip(found.rows, found.usd.tolist(), strict=True))
    assert rows["rent"] == [20, 0, 0, -20, 0]
    assert rows["capital purchase"] == [-50, 50, 0, 0, 0]
    assert rows["loan draw"] == [30, 0, -30, 0, 0]
    assert rows[CHANGE_IN_MONEY] == pytest.approx([-9.5, -47, 22.5, 0, 34])


def test_who_paid_whom_shows_the_receiver_in_the_row(books):
    names, usd = received_from(books, 1, 2)
    assert usd[names.index("vendor"), names.index("neocloud")] == 50
    assert usd[names.index("neocloud"), names.index("vendor")] == 3


def test_every_payment_has_an_activity_on_both_sides():
    assert set(ACTIVITIES) == set(CASH)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (1, 3)])
def test_weeks_outside_the_journal_are_refused(books, first, last):
    with pytest.raises(ValueError, match="within 1 to 2"):
        statement(books, "TensorWave", first, last)


def test_an_unknown_name_is_refused(books):
    with pytest.raises(KeyError, match="Vultr"):
        statement(books, "Vultr", 1, 2)


# --- under any postings, and in a market ------------------------------------------------------------------------------


@st.composite
def posting(draw):
    reason = draw(st.sampled_from(list(ENTRY_TYPES)))
    payer = draw(st.integers(0, 5))
    payee = payer if ENTRY_TYPES[reason].one_sided else draw(st.integers(0, 5))
    return reason, payer, payee, draw(st.floats(0.0, 1e9))


def _closes(journal, first, last):
    """Statements close, the matrix sums to zero both ways, and money received less paid is the change in cash."""
    tolerance = 1e-8 * max(1.0, journal.usd.sum(), np.abs(journal.balance).max())
    change = journal.balance[last, :, Account.CASH] - journal.balance[first - 1, :, Account.CASH]
    for row, name in enumerate(journal.names):
        found = statement(journal, name, first, last)
        sheet = found.balance_sheet
        assets = sum(sheet[account.label] for account in Account if account < Account.DEBT)
        assert abs(assets - sheet["debt"] - sheet["interest payable"] - sheet["equity"]) <= tolerance
        assert abs(found.cash["change in cash"] - change[row]) <= tolerance
    matrix = flow_matrix(journal, first, last).usd
    assert np.abs(matrix.sum(axis=0)).max() <= tolerance
    assert np.abs(matrix.sum(axis=1)).max() <= tolerance
    _, usd = received_from(journal, first, last, by_sector=False)
    assert np.abs(usd.sum(axis=1) - usd.sum(axis=0) - change).max() <= tolerance


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(posting(), max_size=8), min_size=2, max_size=4))
def test_statements_and_flow_matrix_close_under_any_postings(weeks):
    journal = journal_of(*weeks)
    _closes(journal, 1, journal.weeks)


@cache
def market_journal():
    model = build(few_sellers({"finance.amd_debt_multiple": 1.9, "lepton.mode": "voluntary"}), 0)
    return keep_journal(model, 40), model


def test_statements_and_flow_matrix_close_in_a_market_with_defaults():
    journal, model = market_journal()
    assert model.defaults
    _closes(journal, 1, 40)
    _closes(journal, 20, 20)


def test_keeping_a_journal_changes_nothing():
    _, model = market_journal()
    other = build(few_sellers({"finance.amd_debt_multiple": 1.9, "lepton.mode": "voluntary"}), 0)
    other.run(40)
    assert_same_tables(model.recorder.tables(), other.recorder.tables())
