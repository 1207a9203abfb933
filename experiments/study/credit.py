"""A loan on a fleet, quarter by quarter: balance, cover and loan to value, by the market's own loan functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.study.calculator import OwnersCost, Rent, cash_path_usd_per_year
from market.arrays import Floats
from market.credit import loan_rate, loan_to_value
from market.failure import resale_value_usd
from market.finance import FinanceParameters
from market.loans import LoanBook
from market.units import WEEKS_PER_YEAR

__all__ = ["LoanPath", "LoanQuarter", "loan_path"]


@dataclass(frozen=True)
class LoanQuarter:
    """A payment date of a loan.

    Attributes:
        week: of the payment, counted from the purchase.
        cash_usd: earned by the fleet since the last payment, after running cost and overhead.
        interest_usd: paid.
        principal_usd: paid.
        balance_usd: still owed after the payment.
        debt_service_cover: cash over interest and principal.
        fleet_value_usd: second-hand value of the fleet.
        loan_to_value: balance over that value; None if the fleet is worth nothing.
        breach: cover below the covenant.
    """

    week: int
    cash_usd: float
    interest_usd: float
    principal_usd: float
    balance_usd: float
    debt_service_cover: float
    fleet_value_usd: float
    loan_to_value: float | None
    breach: bool


@dataclass(frozen=True)
class LoanPath:
    """A loan on a fleet from purchase to the last payment.

    Attributes:
        sku: GPU of the fleet.
        gpus: how many.
        capital_usd: what the fleet cost.
        loan_usd: borrowed.
        loan_rate_per_year: interest.
        covenant_dscr: cover under which the borrower is in breach.
        quarters: one per payment; none without a loan.
    """

    sku: str
    gpus: float
    capital_usd: float
    loan_usd: float
    loan_rate_per_year: float
    covenant_dscr: float
    quarters: tuple[LoanQuarter, ...]


def loan_path(
    cost: OwnersCost,
    capex_usd: float,
    rent: Rent,
    finance: FinanceParameters,
    *,
    gpus: float = 1.0,
    contracted_share: float = 0.0,
) -> LoanPath:
    """Payments, cover and loan to value of a loan on a new fleet.

    The lender's terms follow from the share of hours let on long contracts. The fleet is valued as second-hand GPUs
    are in the market, its rent taken as what a buyer would get on one-year terms.

    Args:
        cost: of the GPU.
        capex_usd: capital cost per GPU.
        rent: price path and utilisation.
        finance: terms of loans and law of second-hand values.
        gpus: size of the fleet.
        contracted_share: part of the hours let on long contracts, 0 to 1.
    """
    capital = capex_usd * gpus
    loan = float(loan_to_value(contracted_share, finance)) * capital
    rate = float(loan_rate(contracted_share, finance))
    interval = finance.service_interval_weeks
    weeks = interval * finance.tenor_payments
    cash = cash_path_usd_per_year(cost, rent, weeks) * gpus / WEEKS_PER_YEAR
    worth = gpus * _used_value_usd(cost, capex_usd, rent, weeks, finance)
    book = LoanBook(interval)
    book.append(0, 1, loan, rate, finance.tenor_payments, interval)
    quarters = tuple(_quarters(book, cash, worth, finance.covenant_dscr))
    return LoanPath(cost.sku, gpus, capital, loan, rate, finance.covenant_dscr, quarters)


def _used_value_usd(cost: OwnersCost, capex_usd: float, rent: Rent, weeks: int, finance: FinanceParameters) -> Floats:
    """Second-hand value of a GPU at the end of each week, ``(weeks,)``, USD."""
    factor = finance.resale_quote_factor
    quote = rent.prices_usd(weeks) / factor if factor > 0.0 else np.zeros(weeks)
    ages = np.arange(1.0, weeks + 1.0)
    return resale_value_usd(quote, cost.running_usd_per_gpu_hour, capex_usd, ages, finance)


def _quarters(book: LoanBook, cash_usd: Floats, worth_usd: Floats, covenant_dscr: float) -> Iterator[LoanQuarter]:
    """Payments of a book of one loan, week by week."""
    for week in range(1, len(cash_usd) + 1):
        book.accrue_week()
        service = book.due(week)
        if not len(service.tranches):
            continue
        interest, principal = float(service.interest.usd.sum()), float(service.principal.usd.sum())
        book.pay(service)
        balance, value = float(book.balance_usd.sum()), float(worth_usd[week - 1])
        earned = float(cash_usd[week - book.interval_weeks : week].sum())
        yield LoanQuarter(
            week=week,
            cash_usd=earned,
            interest_usd=interest,
            principal_usd=principal,
            balance_usd=balance,
            debt_service_cover=earned / (interest + principal),
            fleet_value_usd=value,
            loan_to_value=balance / value if value > 0.0 else None,
            breach=earned < covenant_dscr * (interest + principal),
        )
