"""Credit worked by hand: amortisation, bullets, prepayment, rates, facilities, covenants, standing, tax life."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market.assets import AssetBook
from market.covenants import Covenants, TenantWatch, in_breach, repayment_to_cure
from market.credit import bankable_share, facility, loan_rate
from market.finance import FinanceParameters
from market.ledger import TOLERANCE, Account, Ledger, check
from market.lenders import LossMemory
from market.loans import LoanBook
from market.units import WEEKS_PER_YEAR

FINANCE = FinanceParameters()
BORROWER, LENDER = 0, 1
QUARTER_RATE = 13 * 168 * 0.12 / 8760  # 0.029917808


def served(book, weeks):
    """Interest and principal paid each service day, and the balance after it."""
    table = []
    for week in range(1, weeks + 1):
        book.accrue_week()
        service = book.due(week)
        if len(service.tranches):
            paid = float(service.interest.usd.sum()), float(service.principal.usd.sum())
            book.pay(service)
            table.append((*paid, float(book.balance_usd.sum())))
    return np.array(table)


# --- loans -----------------------------------------------------------------------------------------------------------


def test_the_amortisation_table_of_a_million_over_four_quarters_at_twelve_percent():
    """Quarter rate .0299178: payment 268,974.17; interest on the balance before, the rest is principal."""
    book = LoanBook()
    book.append(BORROWER, LENDER, 1_000_000.0, 0.12, 4, 13)
    expected = [
        (29917.81, 239056.36, 760943.64),
        (22765.77, 246208.40, 514735.23),
        (15399.75, 253574.42, 261160.81),
        (7813.36, 261160.81, 0.00),
    ]
    np.testing.assert_allclose(served(book, 52), expected, atol=0.01)


def test_a_bullet_pays_interest_and_then_everything():
    book = LoanBook()
    book.append(BORROWER, LENDER, 1000.0, 0.12, 3, 13, 1.0)
    interest = 1000 * QUARTER_RATE
    np.testing.assert_allclose(served(book, 39), [(interest, 0, 1000)] * 2 + [(interest, 1000, 0)], atol=1e-9)


def test_half_a_balloon_is_half_a_bullet_and_half_a_level_loan():
    whole = [LoanBook() for _ in range(3)]
    for book, (usd, balloon) in zip(whole, [(1000.0, 0.5), (500.0, 1.0), (500.0, 0.0)], strict=True):
        book.append(BORROWER, LENDER, usd, 0.12, 8, 13, balloon)
    mixed, bullet, level = (served(book, 104) for book in whole)
    np.testing.assert_allclose(mixed, bullet + level)


@settings(deadline=None)
@given(st.floats(1e3, 1e9), st.floats(0.0, 0.4), st.integers(1, 24), st.floats(0.0, 1.0), st.floats(0.0, 1.5))
def test_a_loan_with_any_balloon_and_prepayment_is_repaid_to_the_cent(usd, rate, payments, balloon, prepaid):
    book, ledger = LoanBook(), Ledger(["borrower", "lender"])
    book.append(BORROWER, LENDER, usd, rate, payments, 13, balloon)
    ledger.post("loan_draw", LENDER, BORROWER, usd)
    for week in range(1, 13 * payments + 1):
        ledger.post("interest_accrual", *book.accrue_week())
        service = book.due(week)
        for kind, charges in (("interest_payment", service.interest), ("principal", service.principal)):
            ledger.post(kind, *charges)
        book.pay(service)
        if week == 13:
            early = book.prepay(BORROWER, prepaid * usd)
            ledger.post("interest_payment", *early.interest)
            ledger.post("principal", *early.principal)
            owed = ledger.balance_of(Account.DEBT)[BORROWER]
            assert owed == pytest.approx(book.balance_by_borrower(3)[BORROWER], abs=1e-9 * usd)
    assert not len(book)
    for account in (Account.DEBT, Account.INTEREST_PAYABLE):
        assert abs(ledger.balance_of(account)[BORROWER]) <= 1e-8 * usd
    assert check(ledger) <= TOLERANCE


def test_prepaying_a_quarter_of_the_debt_lowers_later_payments_by_a_quarter():
    book = LoanBook()
    book.append([0, 0, 2], LENDER, [600.0, 200.0, 100.0], 0.12, 8, 13)
    before = book.payment_usd.copy()
    early = book.prepay(BORROWER, 200.0)
    assert early.principal.usd.tolist() == [150, 50]
    assert not early.interest.usd.any()
    assert book.balance_usd.tolist() == [450, 150, 100]
    np.testing.assert_allclose(book.payment_usd / before, [0.75, 0.75, 1.0])


def test_a_missed_payment_stays_due_and_the_next_is_due_on_its_day():
    book = LoanBook()
    book.append(BORROWER, LENDER, 1000.0, 0.0, 4, 13)
    assert book.due(13).principal.usd.tolist() == book.due(20).principal.usd.tolist() == [250]
    book.pay(book.due(20))
    assert not len(book.due(25).tranches)
    assert len(book.due(26).tranches) == 1


def test_a_repriced_loan_is_served_at_its_new_rate():
    book, other = LoanBook(), LoanBook()
    book.append(BORROWER, LENDER, 1000.0, 0.15, 8, 13, 0.25)
    other.append(BORROWER, LENDER, 1000.0, 0.08, 8, 13, 0.25)
    book.reprice(np.array([0]), 0.08)
    np.testing.assert_allclose(served(book, 104), served(other, 104))


# --- terms -----------------------------------------------------------------------------------------------------------


def test_spreads_of_the_facts_come_out_of_the_rate():
    """Over the reference rate: 9.2 points without contracts, 2.55 with strong and 4.68 with weak ones in full."""
    strong, weak = (bankable_share(*shares, FINANCE) for shares in ((0.95, 0.0), (0.0, 0.95)))
    spreads = loan_rate([0.0, float(strong), float(weak)], FINANCE) - FINANCE.base_rate
    np.testing.assert_allclose(spreads, [0.092, 0.0255, 0.04678], atol=1e-12)


def test_new_loans_move_with_the_reference_rate_and_with_losses():
    dear = FinanceParameters(base_rate=0.053)
    assert loan_rate(0.5, dear) - loan_rate(0.5, FINANCE) == pytest.approx(0.01)
    assert loan_rate(0.5, FINANCE, 0.02) - loan_rate(0.5, FINANCE) == pytest.approx(0.02)
    assert loan_rate(0.5, FinanceParameters(loss_response=0.0), 0.02) == loan_rate(0.5, FINANCE)


def test_a_facility_lends_no_more_than_its_limit_in_all():
    tight = FinanceParameters(facility_limit_usd=100.0)
    np.testing.assert_array_equal(facility(100.0, 0.8, [0.0, 50.0, 120.0], tight), [80, 50, 0])


def test_lenders_remember_net_losses_of_a_year():
    """Loans of 1,000; a write-off of 40, of which a guarantee pays 10 and a resale above value 5: 2.5 % a year."""
    ledger, memory = Ledger(["seller", "lender", "vendor"]), LossMemory(52)
    ledger.post("loan_draw", 1, 0, 1040.0)
    ledger.open_week(1)
    ledger.post("write_off", 0, 1, 40.0)
    ledger.post("guarantee", 2, 1, 10.0)
    ledger.post("asset_sale", 2, 1, 5.0)
    memory.see(ledger, 1)
    for week in range(2, 53):
        ledger.open_week(week)
        memory.see(ledger, 1)
    assert memory.rate_per_year == pytest.approx(0.025 * WEEKS_PER_YEAR / 52)
    ledger.open_week(53)
    memory.see(ledger, 1)
    assert memory.rate_per_year == 0.0


# --- covenants -------------------------------------------------------------------------------------------------------


def test_a_breach_of_cover_and_its_cure_by_hand():
    """Cover .8 on debt of 100: repaying 20 lowers service by a fifth, and .8 / .8 is 1."""
    assert in_breach(0.8, 100.0, 200.0, 5.0, FINANCE)
    assert repayment_to_cure(0.8, 100.0, 200.0, FINANCE) == pytest.approx(20.0)
    assert not in_breach(0.8 / 0.8, 80.0, 200.0, 4.0, FINANCE)


def test_a_breach_of_loan_to_value_and_its_cure_by_hand():
    """Debt of 100 on a fleet worth 100 at a covenant of .9: repaying 10 brings it inside."""
    assert in_breach(2.0, 100.0, 100.0, 5.0, FINANCE)
    assert repayment_to_cure(2.0, 100.0, 100.0, FINANCE) == pytest.approx(10.0)
    assert not in_breach(2.0, 90.0, 100.0, 5.0, FINANCE)


def test_the_worse_covenant_decides_and_nobody_repays_more_than_the_debt():
    assert repayment_to_cure(0.8, 100.0, 100.0, FINANCE) == pytest.approx(20.0)
    assert repayment_to_cure(-3.0, 100.0, 0.0, FINANCE) == 100.0
    assert repayment_to_cure(1.5, 100.0, 200.0, FINANCE) == 0.0


def test_who_owes_nothing_or_serves_nothing_is_in_no_breach_of_cover():
    assert not in_breach(0.0, 0.0, 0.0, 5.0, FINANCE)
    assert not in_breach(0.0, 10.0, 100.0, 0.0, FINANCE)


def test_a_breach_must_last_longer_than_the_time_to_cure_it():
    covenants, patient = Covenants(2), FinanceParameters(cure_weeks=3)
    for _ in range(3):
        covenants.see(np.array([True, False]))
    assert not covenants.uncured(patient).any()
    covenants.see(np.array([True, True]))
    assert covenants.uncured(patient).tolist() == [True, False]
    covenants.see(np.array([False, True]))
    assert covenants.breach_weeks.tolist() == [0, 2]


def test_a_tenant_is_lost_when_it_left_and_nobody_took_its_gpus():
    watch, seller = TenantWatch(2), np.array([0, 0, 0])
    watch.see(seller, np.array([0, 1, 2]), np.array([40.0, 30.0, 30.0]), 1, 3)
    assert watch.lost(0, np.array([0.0, 30.0, 30.0]), FINANCE)
    assert not watch.lost(0, np.array([25.0, 30.0, 30.0]), FINANCE), "more than half of it stayed"
    assert not watch.lost(0, np.array([0.0, 60.0, 30.0]), FINANCE), "its GPUs were let again"
    for _ in range(2):
        watch.see(seller, np.array([0, 1, 2]), np.array([0.0, 30.0, 30.0]), 1, 3)
    assert not watch.lost(0, np.array([0.0, 30.0, 30.0]), FINANCE), "it left too long ago"


# --- lives -----------------------------------------------------------------------------------------------------------


def test_three_years_of_life_in_the_books_cost_twice_the_profit_of_six_and_no_tax():
    """600 of GPUs: depreciation of 200 or 100 a year; the tax office sees 100 in both."""
    short, long = AssetBook(), AssetBook()
    for book, years in ((short, 3), (long, 6)):
        book.append(0, 0, 1.0, 600.0, years * 52, 6 * 52)
    spent = [sum(book.depreciate_week().usd[0] for _ in range(52)) for book in (short, long)]
    assert spent == pytest.approx([200, 100])
    assert short.book_by_seller(1)[0] == pytest.approx(400)
    assert short.tax_by_seller(1)[0] == pytest.approx(long.tax_by_seller(1)[0]) == pytest.approx(500)


def test_gpus_that_leave_take_their_tax_value_with_them():
    book = AssetBook()
    book.append(0, 0, 4.0, 400.0, 10, 20)
    book.depreciate_week()
    assert book.retire(0, 0, 1.0) == pytest.approx(90)
    assert book.tax_by_seller(1)[0] == pytest.approx(0.75 * 380)
