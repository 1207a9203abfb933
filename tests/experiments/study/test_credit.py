"""A loan quarter by quarter: by hand, and against the market's books."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.study.calculator import OwnersCost, Rent
from experiments.study.credit import LoanPath, loan_path
from market.credit import level_payment, loan_rate, loan_to_value
from market.finance import FinanceParameters

FINANCE = FinanceParameters()

# An hour that costs 0.20 idle and 0.30 busy, capital apart; a fifth of revenue is overhead.
COST = OwnersCost("H100", 1.0, 0.1, 0.1, 0.1, 1.3, 0.2, 0.2, 1.625, {})


def path(rent: Rent = Rent(5.625, 0.5), *, gpus: float = 1.0, contracted: float = 0.0, **finance: float) -> LoanPath:  # noqa: B008
    parameters = FINANCE.model_copy(update=finance)
    return loan_path(COST, 43_800.0, rent, parameters, gpus=gpus, contracted_share=contracted)


def test_a_loan_without_interest_by_hand() -> None:
    # 60 % of 43,800 in 16 equal payments; 2.00 an hour for 13 weeks is 4,368
    found = path(rate_uncontracted=0.0)
    assert found.loan_usd == pytest.approx(26_280)
    assert [quarter.week for quarter in found.quarters] == [13 * n for n in range(1, 17)]
    for number, quarter in enumerate(found.quarters, 1):
        assert quarter.interest_usd == 0
        assert quarter.principal_usd == pytest.approx(1_642.5)
        assert quarter.balance_usd == pytest.approx(26_280 - 1_642.5 * number, abs=1e-6)
        assert quarter.cash_usd == pytest.approx(4_368)
        assert quarter.debt_service_cover == pytest.approx(4_368 / 1_642.5)
        assert not quarter.breach


def test_terms_and_payments_are_the_markets() -> None:
    found = path(contracted=0.5)
    assert found.loan_rate_per_year == loan_rate(0.5, FINANCE)
    assert found.loan_usd == pytest.approx(float(loan_to_value(0.5, FINANCE)) * 43_800)
    payment = float(level_payment(found.loan_usd, found.loan_rate_per_year, FINANCE.tenor_payments))
    for quarter in found.quarters:
        assert quarter.interest_usd + quarter.principal_usd == pytest.approx(payment)
    assert found.quarters[-1].balance_usd == 0


def test_the_fleet_is_worth_what_a_buyer_expects_to_earn() -> None:
    # young (13 weeks count as new): (0.8 × 2.00 - 0.30) × 8,760 × (1 - e^-1.4) / 0.28
    found = path(Rent(2.0, 0.5))
    assert found.quarters[0].fleet_value_usd == pytest.approx(1.30 * 8760 * (1 - 2.718281828**-1.4) / 0.28)


def test_cover_under_the_covenant_is_a_breach() -> None:
    assert all(quarter.breach for quarter in path(Rent(0.3, 0.5)).quarters)
    assert {quarter.debt_service_cover for quarter in path(Rent(0.3, 0.5)).quarters} == {0.0}


def test_no_loan_has_no_payments() -> None:
    assert path(loan_to_value_base=0.0).quarters == ()


def test_a_fleet_worth_nothing_has_no_loan_to_value() -> None:
    quarters = path(Rent(0.0, 0.0), resale_minimum=0.0).quarters
    assert {(quarter.fleet_value_usd, quarter.loan_to_value) for quarter in quarters} == {(0.0, None)}


@given(st.floats(0.5, 10.0), st.floats(0.0, 1.0), st.floats(0.0, 0.6), st.floats(1.0, 1e5), st.floats(0.0, 1.0))
def test_a_fleet_of_many_is_many_fleets_of_one(
    price: float, use: float, fall: float, gpus: float, contracted: float
) -> None:
    one, many = (path(Rent(price, use, fall), gpus=n, contracted=contracted) for n in (1.0, gpus))
    for single, fleet in zip(one.quarters, many.quarters, strict=True):
        assert fleet.fleet_value_usd == pytest.approx(gpus * single.fleet_value_usd)
        assert fleet.cash_usd == pytest.approx(gpus * single.cash_usd)
        assert fleet.debt_service_cover == pytest.approx(single.debt_service_cover)
    total = sum(quarter.principal_usd for quarter in many.quarters)
    assert total == pytest.approx(many.loan_usd)
