"""Books: worked entries, identities under any postings, and faults that the identities must find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market.ledger import (
    ENTRY_TYPES,
    REST_OF_WORLD,
    TOLERANCE,
    Account,
    Entry,
    EntryType,
    Ledger,
    account_residuals,
    cash_residual,
    check,
    claim_residuals,
    flow_residuals,
    posting_residuals,
    subsidiary_residuals,
)
from market.randomness import agent_key

NAMES = ("TensorWave", "Lambda", "AMD", "lender", "developers")
SELLER, OTHER, VENDOR, LENDER, TENANTS, WORLD = range(6)
ONE_SIDED = [reason for reason, kind in ENTRY_TYPES.items() if kind.one_sided]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(NAMES)


@pytest.fixture
def traded(ledger: Ledger) -> Ledger:
    """A seller with 100 of GPUs, 60 of debt and 10 of cash after one week of business."""
    ledger.post("opening_gpus", WORLD, SELLER, 100.0)
    ledger.post("opening_cash", WORLD, [SELLER, VENDOR, LENDER], [10.0, 50.0, 40.0])
    ledger.post("opening_debt", SELLER, LENDER, 60.0)
    ledger.open_week(1)
    ledger.post("segment_funding", WORLD, TENANTS, 20.0)
    ledger.post("rent", TENANTS, [SELLER, OTHER], [12.0, 3.0])
    ledger.post("leaseback", VENDOR, SELLER, 4.0)
    ledger.post("running", [SELLER, OTHER], WORLD, [5.0, 1.0])
    ledger.post("overhead", SELLER, WORLD, 2.0)
    ledger.post("depreciation", SELLER, SELLER, 3.0)
    ledger.post("interest_accrual", SELLER, LENDER, 1.5)
    ledger.post("interest_payment", SELLER, LENDER, 1.5)
    ledger.post("principal", SELLER, LENDER, 6.0)
    ledger.post("tax", SELLER, WORLD, 0.9)
    return ledger


# --- worked by hand ------------------------------------------------------------------------------------------------


def test_a_week_of_business_gives_the_statement_worked_by_hand(traded):
    statement = traded.statement("TensorWave")
    week, sheet = statement["week"], statement["balance sheet"]
    assert {name: usd for name, usd in week.items() if usd} == pytest.approx(
        {
            "rent income": 12,
            "leaseback income": 4,
            "running": 5,
            "overhead": 2,
            "depreciation": 3,
            "interest expense": 1.5,
            "tax": 0.9,
            "profit": 3.6,
        }
    )
    assert {name: usd for name, usd in sheet.items() if usd} == pytest.approx(
        {"cash": 10.6, "gpus": 97, "debt": 54, "paid in": 50, "equity": 53.6}
    )
    assert statement["to date"] == week
    assert check(traded) < 1e-15


def test_assets_less_debt_are_equity(traded):
    for name in traded.names:
        sheet = traded.statement(name)["balance sheet"]
        assets = sum(sheet[item] for item in ("cash", "interest receivable", "loans", "gpus", "equity held"))
        assert assets - sheet["debt"] - sheet["interest payable"] == pytest.approx(sheet["equity"])


def test_the_lender_earns_what_the_borrower_pays(traded):
    lender = traded.statement("lender")
    assert lender["week"]["interest income"] == lender["week"]["profit"] == 1.5
    assert lender["balance sheet"]["loans"] == 54
    assert lender["balance sheet"]["cash"] == 40 + 1.5 + 6


def test_the_balance_of_a_purchase_on_credit_stands_with_buyer_vendor_and_lender(ledger):
    ledger.post("equity_in", WORLD, SELLER, 40.0)
    ledger.post("equity_in", WORLD, LENDER, 60.0)
    ledger.post("loan_draw", LENDER, SELLER, 60.0)
    ledger.post("capital_purchase", SELLER, VENDOR, 100.0)
    assert ledger.balance_of(Account.GPUS)[SELLER] == 100
    assert ledger.balance_of(Account.DEBT)[SELLER] == ledger.balance_of(Account.LOANS)[LENDER] == 60
    assert ledger.balance_of(Account.HARDWARE_SALES)[VENDOR] == 100
    assert ledger.cash().tolist() == [0, 0, 100, 0, 0, -100]


def test_a_pooled_lot_pays_seller_and_pool_together_what_the_tenant_paid(ledger):
    ledger.post("pool_rent", TENANTS, SELLER, 10.0)
    ledger.post("pool_fee", SELLER, VENDOR, 1.0)
    assert ledger.cash().tolist() == [9, 0, 1, 0, -10, 0]
    assert ledger.balance_of(Account.POOL_INCOME)[SELLER] == 10
    assert ledger.balance_of(Account.FEE_INCOME)[VENDOR] == ledger.balance_of(Account.FEE_PAID)[SELLER] == 1


def test_a_sale_below_book_value_is_a_loss(traded):
    traded.open_week(2)
    traded.post("asset_sale", WORLD, SELLER, 30.0)
    traded.post("asset_disposal", SELLER, SELLER, 48.5)
    assert traded.week_income(Account.SALE_RESULT)[SELLER] == traded.week_profit()[SELLER] == -18.5
    assert traded.balance_of(Account.GPUS)[SELLER] == 48.5
    assert check(traded) < 1e-15


def test_a_write_off_is_the_lenders_loss_and_leaves_no_debt(traded):
    traded.post("interest_accrual", SELLER, LENDER, 2.0)
    traded.post("write_off", SELLER, LENDER, 54.0)
    traded.post("interest_write_off", SELLER, LENDER, 2.0)
    assert traded.balance_of(Account.CREDIT_LOSS)[LENDER] == traded.balance_of(Account.DEBT_RELIEF)[SELLER] == 56
    for account in (Account.DEBT, Account.LOANS, Account.INTEREST_PAYABLE, Account.INTEREST_RECEIVABLE):
        assert not traded.balance_of(account).any()
    assert check(traded) < 1e-15


def test_week_income_starts_again_each_week_while_balances_go_on(traded):
    traded.open_week(2)
    assert not traded.week_income(Account.RENT_INCOME).any()
    assert not traded.flow.any()
    traded.post("rent", TENANTS, SELLER, 7.0)
    assert traded.week_income(Account.RENT_INCOME).tolist() == [7, 0, 0, 0, 0, 0]
    assert traded.balance_of(Account.RENT_INCOME).tolist() == [19, 3, 0, 0, 0, 0]
    assert traded.week_total("rent") == 7
    assert traded.week_profit().tolist() == [7, 0, 0, 0, -7, 0]


def test_entries_add_up_by_reason_payer_and_payee(ledger):
    ledger.open_week(4)
    ledger.post("running", SELLER, WORLD, 5.0)
    ledger.post("rent", TENANTS, [OTHER, SELLER, OTHER], [1.0, 2.0, 3.0])
    assert ledger.entries(4) == [
        Entry(4, "rent", "developers", "TensorWave", 2.0),
        Entry(4, "rent", "developers", "Lambda", 4.0),
        Entry(4, "running", "TensorWave", REST_OF_WORLD, 5.0),
    ]


def test_entries_of_a_closed_week_are_refused(traded):
    with pytest.raises(ValueError, match="the open week 1, not for week 0"):
        traded.entries(0)


# --- agents --------------------------------------------------------------------------------------------------------


def test_rest_of_world_is_added_behind_the_named_agents(ledger):
    assert ledger.names == [*NAMES, REST_OF_WORLD]
    assert ledger.rest_of_world == WORLD
    assert ledger.keys == [agent_key(name) for name in ledger.names]


def test_a_new_agent_leaves_the_books_of_the_others_alone(traded):
    before, flows = traded.balance.copy(), traded.flow.copy()
    assert traded.add_agent("entrant", 77) == 6
    assert (traded.balance[:6] == before).all()
    assert (traded.flow[:, :6, :6] == flows).all()
    assert traded.rest_of_world == WORLD
    traded.post("equity_in", WORLD, traded.index("entrant"), 120.0)
    assert traded.week_income(Account.CASH)[6] == 120
    assert check(traded) < 1e-15


@pytest.mark.parametrize(("name", "key"), [("Lambda", 1), ("new", agent_key("Lambda")), (REST_OF_WORLD, 2)])
def test_a_name_or_key_twice_is_an_error(ledger, name, key):
    with pytest.raises(ValueError, match="already in the ledger"):
        ledger.add_agent(name, key)


def test_an_unknown_agent_is_an_error_that_lists_the_known(ledger):
    with pytest.raises(ValueError, match=r"no agent 'Vultr'.* TensorWave, Lambda"):
        ledger.statement("Vultr")


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usd", [-1.0, np.nan, np.inf, [1.0, -1e-300], [np.nan, 1.0]])
def test_negative_and_non_finite_amounts_are_refused_and_nothing_is_booked(ledger, usd):
    with pytest.raises(ValueError, match="rent: amounts must be finite and at least 0 USD"):
        ledger.post("rent", TENANTS, SELLER, usd)
    assert not ledger.balance.any()
    assert not ledger.flow.any()


def test_an_unknown_reason_is_refused_and_the_known_are_listed(ledger):
    with pytest.raises(ValueError, match="unknown reason 'gift'; known are opening_gpus"):
        ledger.post("gift", SELLER, OTHER, 1.0)


@pytest.mark.parametrize("payer", [-1, 6, 1.0, [0, 6]])
def test_rows_that_are_no_agents_are_refused(ledger, payer):
    with pytest.raises(ValueError, match="rows from 0 to 5"):
        ledger.post("rent", payer, SELLER, 1.0)


@pytest.mark.parametrize("reason", ONE_SIDED)
def test_a_one_sided_entry_between_two_agents_is_refused(ledger, reason):
    with pytest.raises(ValueError, match="must be the same"):
        ledger.post(reason, SELLER, OTHER, 1.0)


def test_no_amounts_are_no_entry(ledger):
    ledger.post("rent", [], [], [])
    assert not ledger.flow.any()


@pytest.mark.parametrize(
    ("payer", "payee"),
    [
        ({Account.RENT_PAID: 1}, {Account.CASH: 1, Account.RENT_INCOME: -1}),
        ({Account.RENT_PAID: 1, Account.CASH: -1}, {}),
        ({Account.RENT_PAID: 1, Account.CASH: -1}, {Account.CASH: 1, Account.RENT_INCOME: -2}),
        ({}, {}),
    ],
)
def test_a_type_of_entry_with_a_missing_side_is_refused(payer, payee):
    with pytest.raises(ValueError, match="odd: "):
        EntryType("odd", payer, payee)


def test_one_sided_entries_are_those_about_book_values():
    assert ONE_SIDED == ["depreciation", "asset_disposal"]


# --- identities under any postings ---------------------------------------------------------------------------------

AMOUNT = st.one_of(st.just(0.0), st.floats(1e-6, 1e10))


@st.composite
def posting(draw, agents: int = len(NAMES) + 1):
    reason = draw(st.sampled_from(list(ENTRY_TYPES)))
    size = draw(st.integers(1, 5))
    rows = st.lists(st.integers(0, agents - 1), min_size=size, max_size=size)
    payers = draw(rows)
    payees = payers if ENTRY_TYPES[reason].one_sided else draw(rows)
    return reason, payers, payees, draw(st.lists(AMOUNT, min_size=size, max_size=size))


@settings(deadline=None)
@given(st.lists(st.lists(posting(), max_size=6), min_size=1, max_size=4))
def test_any_postings_keep_every_identity(weeks):
    ledger = Ledger(NAMES)
    for week, postings in enumerate(weeks, start=1):
        ledger.open_week(week)
        for entry in postings:
            ledger.post(*entry)
        assert check(ledger) < 1e-14
    scale = 1e-14 * max(1.0, ledger.flow_to_date.sum())
    assert np.abs(account_residuals(ledger)).max() <= scale
    assert abs(cash_residual(ledger)) <= scale
    assert np.abs(claim_residuals(ledger)).max() <= scale
    assert np.abs(flow_residuals(ledger)).max() <= scale
    assert np.abs(posting_residuals(ledger)).max() <= scale


@settings(deadline=None)
@given(posting())
def test_a_vector_of_amounts_is_the_same_as_one_after_the_other(entry):
    together, single = Ledger(NAMES), Ledger(NAMES)
    together.post(*entry)
    for payer, payee, usd in zip(*entry[1:], strict=True):
        single.post(entry[0], payer, payee, usd)
    rounding = 1e-15 * sum(entry[3])
    np.testing.assert_allclose(together.balance, single.balance, rtol=1e-14, atol=rounding)
    np.testing.assert_allclose(together.flow, single.flow, rtol=1e-14, atol=rounding)


@settings(deadline=None)
@given(st.lists(posting(), max_size=8))
def test_the_sum_of_entries_is_the_sum_of_postings(postings):
    ledger = Ledger(NAMES)
    for entry in postings:
        ledger.post(*entry)
    posted = sum(sum(usd) for _, _, _, usd in postings)
    assert sum(entry.usd for entry in ledger.entries(0)) == pytest.approx(posted)


# --- seeded faults -------------------------------------------------------------------------------------------------


def test_sound_books_pass_the_check(traded):
    assert check(traded) <= TOLERANCE


@pytest.mark.parametrize("account", Account)
def test_a_missing_side_is_found(traded, account):
    traded.balance[SELLER, account] += 0.01
    assert check(traded) > TOLERANCE
    assert account_residuals(traded)[SELLER] == pytest.approx(0.01)


def test_money_made_from_nothing_is_found(traded):
    """Both accounts of the receiver move, so its books balance, but nobody paid."""
    traded.balance[SELLER, [Account.CASH, Account.RENT_INCOME]] += (5.0, -5.0)
    assert np.abs(account_residuals(traded)).max() < 1e-12
    assert cash_residual(traded) == pytest.approx(5)
    assert check(traded) > TOLERANCE


def test_a_payment_that_reaches_the_balances_twice_is_found(traded):
    flow, to_date = traded.flow.copy(), traded.flow_to_date.copy()
    traded.post("rent", TENANTS, SELLER, 1.0)
    traded.flow, traded.flow_to_date = flow, to_date
    assert np.abs(flow_residuals(traded)).tolist() == pytest.approx([1, 0, 0, 0, 1, 0])
    assert check(traded) > TOLERANCE


def test_depreciation_that_reaches_the_balances_twice_is_found(traded):
    """No cash moves and the agent balances: only the comparison with the flows tells."""
    traded.balance[SELLER, [Account.DEPRECIATION, Account.GPUS]] += (3.0, -3.0)
    assert np.abs(flow_residuals(traded)).max() < 1e-12
    assert posting_residuals(traded)[SELLER, Account.GPUS] == pytest.approx(-3)
    assert check(traded) > TOLERANCE


def test_a_flow_that_reached_no_balance_is_found(traded):
    traded.flow[:, TENANTS, SELLER] *= 2
    assert check(traded) > TOLERANCE


def test_debt_that_no_lender_holds_is_found(traded):
    traded.balance[SELLER, [Account.DEBT, Account.PAID_IN]] += (-7.0, 7.0)
    assert claim_residuals(traded)[0] == pytest.approx(-7)
    assert check(traded) > TOLERANCE


def test_a_number_that_is_none_is_not_sound(traded):
    traded.balance[SELLER, Account.CASH] = np.nan
    assert not check(traded) <= TOLERANCE


def test_an_entry_posted_twice_differs_from_the_other_book(traded):
    debt = traded.balance_of(Account.DEBT)
    assert not subsidiary_residuals(traded, Account.DEBT, debt).any()
    traded.post("principal", SELLER, LENDER, 6.0)
    assert check(traded) <= TOLERANCE
    assert subsidiary_residuals(traded, Account.DEBT, debt).tolist() == [-6, 0, 0, 0, 0, 0]
