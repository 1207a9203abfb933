"""Terms of credit: what lenders charge and how much they lend, and the payment that repays a loan."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Floats
from market.finance import FinanceParameters
from market.units import per_week

__all__ = [
    "annuity_payment",
    "bankable_share",
    "facility",
    "level_payment",
    "loan_rate",
    "loan_to_value",
    "weekly_rate",
]


def weekly_rate(annual_rate: ArrayLike) -> Floats:
    """Simple weekly rate of every annual rate."""
    return np.asarray(annual_rate, dtype=np.float64) * per_week(1.0)


def annuity_payment(balance: ArrayLike, period_rate: ArrayLike, payments: ArrayLike) -> Floats:
    """Level payment ``B i / (1 − (1 + i)^−n)`` that repays ``balance`` in ``payments`` periods; ``B / n`` at rate 0.

    Source: any finance text, such as Brealey, Myers & Allen, ch. 2.
    """
    balance, rate = np.asarray(balance, dtype=np.float64), np.asarray(period_rate, dtype=np.float64)
    number = np.asarray(payments, dtype=np.float64)
    safe = np.where(rate == 0, 1.0, rate)
    factor = np.where(rate == 0, 1.0 / number, safe / -np.expm1(-number * np.log1p(safe)))
    return np.asarray(balance * factor)


def level_payment(
    balance: ArrayLike,
    annual_rate: ArrayLike,
    payments: ArrayLike,
    interval_weeks: ArrayLike = 13,
    balloon_share: ArrayLike = 0.0,
) -> Floats:
    """Level payment of a loan served every ``interval_weeks`` weeks, USD; arguments broadcast.

    A period's rate is simple, ``interval_weeks × 168 × annual_rate / 8,760``, as interest accrues weekly in proportion
    and is not itself charged with interest. On a balloon, the part of the loan that falls due with the last payment,
    only interest is paid: a share of 0 is level payments, 1 a bullet.
    """
    period_rate = np.asarray(interval_weeks) * weekly_rate(annual_rate)
    owed = np.asarray(balance, dtype=np.float64)
    balloon = owed * np.asarray(balloon_share, dtype=np.float64)
    return np.asarray(annuity_payment(owed - balloon, period_rate, payments) + balloon * period_rate)


def loan_rate(contracted: ArrayLike, parameters: FinanceParameters, loss_rate_per_year: ArrayLike = 0.0) -> Floats:
    """Annual rate of a loan whose GPUs are rented out for long terms to the share ``contracted``; never below 0.

    ``base_rate + spread``; the spread of a loan without contracts is ``rate_uncontracted − base_rate_quoted``, it falls
    by ``rate_contracted_discount × min(contracted, contracted_maximum)`` and rises by ``loss_response`` times what
    lenders lost of their loans in the last year.

    Args:
        contracted: share of revenue under long contracts, those of weak tenants counted in part (`bankable_share`).
        parameters: finance parameters.
        loss_rate_per_year: lenders' net losses of the last year over their loans.
    """
    share = np.clip(contracted, 0.0, parameters.contracted_maximum)
    losses = parameters.loss_response * np.asarray(loss_rate_per_year, dtype=np.float64)
    moved = parameters.base_rate - parameters.base_rate_quoted + losses
    rate = parameters.rate_uncontracted - parameters.rate_contracted_discount * share + moved
    return np.asarray(np.maximum(rate, 0.0), dtype=np.float64)


def bankable_share(strong: ArrayLike, weak: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Share of revenue that lenders count as contracted: contracts of weak tenants earn a part of the discount."""
    weighted = parameters.weak_contract_weight * np.asarray(weak, dtype=np.float64)
    return np.asarray(np.asarray(strong, dtype=np.float64) + weighted)


def facility(
    capital_usd: ArrayLike, loan_to_value_share: ArrayLike, owed_usd: ArrayLike, parameters: FinanceParameters
) -> Floats:
    """Loan on new capital, USD: its share of the capital, within what the borrower's facility still allows."""
    room = np.maximum(parameters.facility_limit_usd - np.asarray(owed_usd, dtype=np.float64), 0.0)
    return np.asarray(np.minimum(np.asarray(capital_usd) * loan_to_value_share, room), dtype=np.float64)


def loan_to_value(contracted: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Loan as a share of capital, ``base + contracted part × min(contracted, contracted_maximum)``; at most 1."""
    share = np.clip(contracted, 0.0, parameters.contracted_maximum)
    value = parameters.loan_to_value_base + parameters.loan_to_value_contracted * share
    return np.asarray(np.minimum(value, 1.0), dtype=np.float64)
