"""Loans and book values: schedules worked by hand, closed forms, and properties of any book."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from market.assets import AssetBook
from market.credit import annuity_payment, level_payment, loan_rate, loan_to_value
from market.finance import FinanceParameters
from market.ledger import TOLERANCE, Account, Ledger, check, subsidiary_residuals
from market.loans import LoanBook
from market.opening_books import debt_to_capital, opening_book_share, opening_debt, opening_service
from market.parameters import parameter_rows

FINANCE = FinanceParameters()
QUARTERLY_TENTH = 0.1 * 8760 / (13 * 168)  # annual rate at which a service interval of 13 weeks costs 10 %


def served(book: LoanBook, last: int, first: int = 1) -> list[tuple[int, float, float]]:
    """Run a book from week ``first`` to ``last``; (week, interest, principal) of every week with a payment."""
    rows = []
    for week in range(first, last + 1):
        book.accrue_week()
        service = book.due(week)
        if service.tranches.size:
            rows.append((week, service.interest.usd.sum(), service.principal.usd.sum()))
        book.pay(service)
    return rows


# --- parameters ----------------------------------------------------------------------------------------------------


def test_every_finance_row_of_the_table_is_a_field():
    keys = [key.removeprefix("finance.") for key in parameter_rows() if key.startswith("finance.")]
    assert sorted(FinanceParameters.model_fields) == sorted(keys)


def test_the_shortest_opening_debt_cannot_outlive_the_longest():
    with pytest.raises(ValidationError, match="opening_debt_weeks_minimum must be at most"):
        FinanceParameters(opening_debt_weeks_minimum=150, opening_debt_weeks_maximum=149)


def test_six_years_are_written_off_in_312_weeks_and_six_sevenths():
    assert FINANCE.depreciation_weeks == pytest.approx(312 + 6 / 7)
    assert FINANCE.opening_depreciation_weeks == pytest.approx(3.2 * 8760 / 168)


# --- terms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loan", "effective_annual_rate", "per_year", "years", "payment", "after_years", "balance_after"),
    [
        (30_000.0, 0.0, 52, 4, 144.2307692, 2, 15_000.0),
        (30_000.0, 0.12, 52, 4, 179.5788168, 2, 16_692.68985),
        (1.0, 0.10, 1, 5, 0.2637974808, 1, 0.8362025192),
    ],
)
def test_payments_and_balances_are_those_of_the_interest_tables(
    loan, effective_annual_rate, per_year, years, payment, after_years, balance_after
):
    rate = math.expm1(math.log1p(effective_annual_rate) / per_year)
    assert annuity_payment(loan, rate, per_year * years) == pytest.approx(payment, rel=1e-6)
    balance = loan
    for _ in range(per_year * after_years):
        balance = balance * (1 + rate) - payment
    assert balance == pytest.approx(balance_after, rel=1e-6)


def test_a_loan_of_1000_at_a_tenth_a_quarter_is_repaid_in_two_payments_of_576():
    """1000 × .1 / (1 − 1.1^−2) = 576.19: 1000 → 1100 − 576.19 = 523.81 → 576.19 − 576.19 = 0."""
    assert level_payment(1000.0, QUARTERLY_TENTH, 2) == pytest.approx(576.190476)


def test_a_loan_without_interest_is_repaid_in_equal_parts():
    assert level_payment([160.0, 32.0], 0.0, [16, 8]).tolist() == [10.0, 4.0]


@settings(deadline=None)
@given(st.floats(1e-3, 1e10), st.floats(1e-14, 1e-9), st.integers(1, 80))
def test_the_payment_is_continuous_at_rate_zero(balance, rate, payments):
    assert level_payment(balance, rate, payments) == pytest.approx(balance / payments, rel=1e-6)


@settings(deadline=None)
@given(st.floats(1.0, 1e10), st.floats(0.0, 0.5), st.integers(1, 80), st.integers(1, 52))
def test_payments_discounted_at_the_loan_rate_are_worth_the_loan(balance, rate, payments, interval):
    period = interval * rate * 168 / 8760
    worth = sum((1 + period) ** -number for number in range(1, payments + 1))
    assert level_payment(balance, rate, payments, interval) * worth == pytest.approx(balance, rel=1e-9)


def test_contracts_make_loans_cheaper_and_larger_up_to_the_share_a_lender_counts():
    contracted = [0.0, 0.5, 0.95, 1.0]
    assert loan_rate(contracted, FINANCE) == pytest.approx([0.135, 0.10, 0.0685, 0.0685])
    assert loan_to_value(contracted, FINANCE) == pytest.approx([0.60, 0.70, 0.79, 0.79])


def test_no_lender_pays_the_borrower_or_lends_more_than_the_price():
    generous = FinanceParameters(rate_contracted_discount=0.9, loan_to_value_contracted=0.9)
    assert loan_rate(0.9, generous) == 0
    assert loan_to_value(0.9, generous) == 1


def test_leverage_follows_the_vendor_and_only_neoclouds_owe():
    found = [debt_to_capital(vendors, "neocloud", FINANCE) for vendors in ("nvidia", "both", "amd")]
    assert found == [0.45, 0.40, 0.35]
    assert debt_to_capital("both", "hyperscaler", FINANCE) == debt_to_capital("amd", "marketplace", FINANCE) == 0
    with pytest.raises(ValueError, match="one of nvidia, both, amd, not 'intel'"):
        debt_to_capital("intel", "neocloud", FINANCE)


def test_opening_debt_is_grossed_up_capped_and_partly_repaid():
    """.40 → .64 at purchase → .48 left; .60 → .95 (not .96) → .7125, and at most .71."""
    assert opening_debt(100.0, [0.40, 0.60, 0.0], FINANCE) == pytest.approx([48.0, 71.0, 0.0])


def test_reported_debt_replaces_the_formula_up_to_the_same_limit():
    found = opening_debt(100.0, 0.40, FINANCE, reported_usd=[30.0, 90.0, math.nan, 0.0])
    assert found == pytest.approx([30.0, 71.0, 48.0, 0.0])


def test_opening_book_value_falls_with_age_to_its_minimum():
    assert opening_book_share([0, 130, 221, 260, 400, -5], FINANCE) == pytest.approx([1, 0.5, 0.15, 0.15, 0.15, 1])


@settings(deadline=None)
@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_opening_debt_ends_between_110_and_180_weeks_and_is_first_served_within_a_quarter(luck):
    payments, first = opening_service([luck], FINANCE)
    assert 1 <= first[0] <= 13
    assert 110 <= first[0] + 13 * (payments[0] - 1) <= 180


def test_first_payments_of_opening_debt_spread_over_the_quarter():
    _, first = opening_service((np.arange(7100) + 0.5) / 7100, FINANCE)
    counts = np.bincount(first, minlength=14)[1:]
    assert counts.min() >= 500
    assert counts.sum() == 7100


# --- loans ---------------------------------------------------------------------------------------------------------


def test_the_schedule_of_a_loan_is_the_one_worked_by_hand():
    """1000 in three payments at 10 % a quarter: level payment 402.1148."""
    book = LoanBook()
    book.append(0, 1, 1000.0, QUARTERLY_TENTH, 3, 13)
    assert np.array(served(book, 60)) == pytest.approx(
        np.array([(13, 100.0, 302.11480), (26, 69.78852, 332.32628), (39, 36.55589, 365.55891)]), rel=1e-6
    )
    assert len(book) == 0


def test_interest_accrues_weekly_in_proportion_and_is_owed_until_paid():
    book = LoanBook()
    book.append([0, 2], 1, [1000.0, 500.0], QUARTERLY_TENTH, 3, 13)
    charges = book.accrue_week()
    assert charges.payers.tolist() == [0, 2]
    assert charges.payees.tolist() == [1, 1]
    assert charges.usd == pytest.approx([100 / 13, 50 / 13])
    book.accrue_week()
    assert book.accrued_by_borrower(4) == pytest.approx([200 / 13, 0, 100 / 13, 0])
    assert book.balance_by_borrower(4).tolist() == [1000, 0, 500, 0]


def test_asking_what_is_due_changes_nothing():
    book = LoanBook()
    book.append(0, 1, 1000.0, 0.1, 16, 1)
    book.accrue_week()
    first, second = book.due(1), book.due(1)
    assert first.principal.usd.tolist() == second.principal.usd.tolist()
    assert book.balance_usd.tolist() == [1000.0]
    assert not book.due(0).tranches.size


def test_tranches_of_one_borrower_are_kept_apart():
    alone, both = LoanBook(), LoanBook()
    alone.append(0, 1, 100.0, 0.1, 4, 13)
    both.append(0, 1, 100.0, 0.1, 4, 13)
    served(alone, 20), served(both, 20)
    both.append(0, 1, 900.0, 0.07, 16, 33)
    assert both.payments_left.tolist() == [3, 16]
    assert served(both, 32, first=21) == served(alone, 32, first=21)
    assert both.payments_left.tolist() == [2, 16]
    assert both.accrued_usd[1] == pytest.approx(12 * 900 * 0.07 * 168 / 8760)


def test_a_first_payment_before_a_full_quarter_repays_more_and_the_last_less():
    book = LoanBook()
    book.append(0, 1, 1000.0, QUARTERLY_TENTH, 3, 4)
    payments = [interest + principal for _, interest, principal in served(book, 40)]
    assert payments[0] == payments[1] == pytest.approx(402.1148)
    assert payments[2] < 402.1148


def test_a_level_payment_below_the_interest_repays_nothing_until_the_last():
    book = LoanBook()
    book.append(0, 1, 1000.0, 2.0, 2, 100)
    (_, interest, principal), last = served(book, 120)
    assert interest > book.interval_weeks * 1000 * 2.0 * 168 / 8760
    assert principal == 0
    assert last[2] == 1000
    assert len(book) == 0


def test_loans_of_nothing_are_left_out():
    book = LoanBook()
    book.append([0, 1], 2, [0.0, 5.0], 0.1, 16, 13)
    assert book.borrower.tolist() == [1]


@pytest.mark.parametrize(
    ("balance", "rate", "payments"), [(-1.0, 0.1, 4), (np.nan, 0.1, 4), (1.0, -0.1, 4), (1.0, np.inf, 4), (1.0, 0.1, 0)]
)
def test_impossible_loans_are_refused(balance, rate, payments):
    book = LoanBook()
    with pytest.raises(ValueError, match="loan"):
        book.append(0, 1, balance, rate, payments, 13)
    assert len(book) == 0


def test_weekly_service_spreads_the_level_payments():
    book = LoanBook()
    book.append([0, 0, 2], 1, [130.0, 13.0, 26.0], 0.0, [1, 1, 2], 13)
    assert book.weekly_service_by_borrower(3).tolist() == [11, 0, 1]


TRANCHE = st.tuples(st.integers(0, 3), st.floats(1.0, 1e9), st.floats(0.0, 0.4), st.integers(1, 20), st.integers(1, 30))


@settings(deadline=None)
@given(st.lists(TRANCHE, min_size=1, max_size=6), st.sampled_from([1, 4, 13, 26]))
def test_what_is_paid_is_the_loan_and_the_interest_and_nothing_remains(tranches, interval):
    book = LoanBook(interval_weeks=interval)
    for borrower, balance, rate, payments, first in tranches:
        book.append(borrower, 9, balance, rate, payments, first)
    lent = book.balance_by_borrower(10)
    accrued, interest, principal = np.zeros(10), np.zeros(10), np.zeros(10)
    for week in range(1, 31 + 20 * interval):
        charges = book.accrue_week()
        np.add.at(accrued, charges.payers, charges.usd)
        service = book.due(week)
        assert (service.principal.usd >= 0).all()
        assert (service.principal.usd <= book.balance_usd[service.tranches]).all()
        np.add.at(interest, service.interest.payers, service.interest.usd)
        np.add.at(principal, service.principal.payers, service.principal.usd)
        book.pay(service)
    assert len(book) == 0
    assert principal == pytest.approx(lent, rel=1e-12)
    assert interest == pytest.approx(accrued, rel=1e-12)


@settings(deadline=None)
@given(st.floats(1.0, 1e9), st.floats(0.0, 0.4), st.integers(1, 20))
def test_a_loan_served_from_its_first_full_quarter_has_level_payments_to_the_end(balance, rate, payments):
    book = LoanBook()
    book.append(0, 1, balance, rate, payments, 13)
    paid = [interest + principal for _, interest, principal in served(book, 13 * payments)]
    assert paid == pytest.approx([float(level_payment(balance, rate, payments))] * payments, rel=1e-9)


# --- book values ---------------------------------------------------------------------------------------------------


def test_a_purchase_is_written_off_in_equal_amounts_to_exactly_nothing():
    """100 over 2.5 weeks: 40, 40 and the remaining half week 20."""
    book = AssetBook()
    book.append(3, 0, 8.0, 100.0, 2.5)
    found = [book.depreciate_week().usd[0] for _ in range(4)]
    assert found == pytest.approx([40, 40, 20, 0])
    assert book.book_usd.tolist() == [0.0]
    assert book.gpus.tolist() == [8.0]


@settings(deadline=None)
@given(st.floats(0.0, 1e10), st.floats(0.5, 400.0))
def test_depreciation_adds_up_to_the_book_value(book_usd, weeks):
    book = AssetBook()
    book.append(0, 0, 1.0, book_usd, weeks)
    total = math.fsum(book.depreciate_week().usd[0] for _ in range(math.ceil(weeks)))
    assert total == pytest.approx(book_usd, rel=1e-12)
    assert book.book_usd.tolist() == [0.0]


def test_a_delivery_does_not_extend_the_life_of_older_gpus():
    book = AssetBook()
    book.append(0, 2, 10.0, 100.0, 10.0)
    book.depreciate_week()
    book.append([0, 1], 2, 5.0, 60.0, 20.0)
    charges = book.depreciate_week()
    assert charges.usd == pytest.approx([10, 3, 3])
    assert charges.payers.tolist() == charges.payees.tolist() == [0, 0, 1]
    assert book.book_by_seller(3) == pytest.approx([80 + 57, 57, 0])
    assert book.gpus_by_seller_and_sku(2, 3).tolist() == [[0, 0, 15], [0, 0, 5]]


def test_retired_gpus_leave_all_tranches_in_proportion():
    book = AssetBook()
    book.append(0, [1, 1, 2], [30.0, 10.0, 7.0], [300.0, 20.0, 70.0], 10.0)
    assert book.retire(0, 1, 10.0) == pytest.approx(80)
    assert book.gpus == pytest.approx([22.5, 7.5, 7])
    assert book.book_usd == pytest.approx([225, 15, 70])
    assert book.depreciate_week().usd == pytest.approx([22.5, 1.5, 7])
    assert book.retire(0, 1, 30.0) == pytest.approx(225 + 15 - 24)
    assert book.retire(0, 1, 0.0) == 0


@pytest.mark.parametrize("gpus", [-1.0, 11.0, math.nan])
def test_a_seller_cannot_retire_what_it_does_not_have(gpus):
    book = AssetBook()
    book.append(0, 0, 10.0, 100.0, 10.0)
    with pytest.raises(ValueError, match="cannot retire"):
        book.retire(0, 0, gpus)


@pytest.mark.parametrize(("gpus", "book_usd", "weeks"), [(-1.0, 1.0, 1.0), (1.0, np.nan, 1.0), (1.0, 1.0, 0.0)])
def test_impossible_purchases_are_refused(gpus, book_usd, weeks):
    with pytest.raises(ValueError, match=r"GPU"):
        AssetBook().append(0, 0, gpus, book_usd, weeks)


# --- with the ledger -----------------------------------------------------------------------------------------------


def test_loan_book_asset_book_and_ledger_tell_the_same_story_for_six_years():
    ledger, loans, assets = Ledger(["one", "two", "lender"]), LoanBook(), AssetBook()
    agents, lender = len(ledger.names), 2
    assets.append([0, 1], 0, 10.0, [1e6, 2e6], FINANCE.depreciation_weeks)
    loans.append([0, 1], lender, [4e5, 9e5], [0.115, 0.0685], 16, [13, 5])
    ledger.post("opening_gpus", ledger.rest_of_world, [0, 1], assets.book_usd)
    ledger.post("opening_debt", loans.borrower, loans.lender, loans.balance_usd)
    for week in range(1, 314):
        ledger.open_week(week)
        ledger.post("interest_accrual", *loans.accrue_week())
        service = loans.due(week)
        loans.pay(service)
        ledger.post("interest_payment", *service.interest)
        ledger.post("principal", *service.principal)
        ledger.post("depreciation", *assets.depreciate_week())
        assert check(ledger) <= 1e-14 < TOLERANCE
        for account, other_book in (
            (Account.DEBT, loans.balance_by_borrower(agents)),
            (Account.INTEREST_PAYABLE, loans.accrued_by_borrower(agents)),
            (Account.GPUS, assets.book_by_seller(agents)),
        ):
            assert np.abs(subsidiary_residuals(ledger, account, other_book)).max() < 1e-6
    assert ledger.balance_of(Account.INTEREST_INCOME)[lender] == pytest.approx(ledger.cash()[lender] - 1.3e6)
    assert ledger.balance_of(Account.DEPRECIATION)[:2] == pytest.approx([1e6, 2e6])
