"""Covenants of borrowers: who is outside them and for how long, who missed a payment, which tenants they lost.

Two covenants on all debt of a seller: debt service cover at least ``finance.breach_dscr``; debt at most
``finance.covenant_loan_to_value`` of the value of the fleet, second-hand or in the books. A breach that lasts longer
than ``finance.cure_weeks`` is to be cured by repayment (`repayment_to_cure`).
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from market.arrays import Bools, Floats, Ints
from market.finance import FinanceParameters

__all__ = ["Covenants", "TenantWatch", "in_breach", "repayment_to_cure"]


def in_breach(
    cover: ArrayLike, debt_usd: ArrayLike, value_usd: ArrayLike, service_usd: ArrayLike, p: FinanceParameters
) -> Bools:
    """Whether a borrower is outside a covenant; arguments broadcast. Nobody without debt is.

    Args:
        cover: smoothed debt service cover.
        debt_usd: debt.
        value_usd: of the fleet.
        service_usd: debt service of a week; without it the cover means nothing.
        p: finance parameters.
    """
    debt = np.asarray(debt_usd, np.float64)
    thin = (np.asarray(cover) < p.breach_dscr) & (np.asarray(service_usd) > 0.0)
    deep = debt > p.covenant_loan_to_value * np.asarray(value_usd)
    return np.asarray((debt > 0.0) & (thin | deep))


def repayment_to_cure(cover: float, debt_usd: float, value_usd: float, p: FinanceParameters) -> float:
    """What has to be repaid to be inside both covenants, USD: later payments fall with the debt.

    ``max(debt × (1 − cover / covenant), debt − covenant × value, 0)``, at most the debt.
    """
    thin = debt_usd * (1.0 - cover / p.breach_dscr) if p.breach_dscr > 0.0 else 0.0
    deep = debt_usd - p.covenant_loan_to_value * value_usd
    return float(min(max(thin, deep, 0.0), debt_usd))


class Covenants:
    """Standing of every seller with its lenders, ``(sellers,)``.

    Attributes:
        breach_weeks: weeks in a row outside a covenant.
        standstill_until: week in which lenders stop standing still; 0 where they do not.
        cause: what started the standstill, blank outside one.
    """

    def __init__(self, sellers: int) -> None:
        self.breach_weeks: Ints = np.zeros(sellers, np.int64)
        self.standstill_until: Ints = np.zeros(sellers, np.int64)
        self.cause = [""] * sellers

    def see(self, breach: Bools) -> None:
        """Count another week of breach, or start anew."""
        self.breach_weeks = np.where(breach, self.breach_weeks + 1, 0)

    def uncured(self, p: FinanceParameters) -> Bools:
        """Breaches that have lasted longer than the time to cure them."""
        return np.asarray(self.breach_weeks > p.cure_weeks)

    @property
    def standing_still(self) -> Bools:
        """Sellers whose lenders stand still: no debt service, no new loans, no orders."""
        return np.asarray(self.standstill_until > 0)

    def trusted(self, row: int) -> bool:
        """Whether lenders replace a seller's loans: it is inside its covenants and they do not stand still."""
        return not (self.standstill_until[row] > 0 or self.breach_weeks[row])

    def stand_still(self, row: int, until: int, cause: str) -> None:
        """Start a standstill."""
        self.standstill_until[row], self.cause[row] = until, cause

    def go_on(self, row: int) -> None:
        """End a standstill; a breach goes on until it is cured."""
        self.standstill_until[row], self.cause[row] = 0, ""

    def cured(self, row: int) -> None:
        """A breach is over."""
        self.breach_weeks[row] = 0


class _TopTenants(NamedTuple):
    """Largest tenant of each seller in a week, its rent and all rent, USD ``(sellers,)``."""

    tenant: Ints
    usd: Floats
    total_usd: Floats


class TenantWatch:
    """Largest tenant of every seller in each of the last weeks: whose loss can end it."""

    def __init__(self, weeks: int) -> None:
        self._seen: deque[_TopTenants] = deque(maxlen=weeks)

    def see(self, seller: NDArray[Any], tenant: NDArray[Any], usd: Floats, sellers: int, tenants: int) -> None:
        """Note a week's rent by lease.

        Args:
            seller: of each lease.
            tenant: of each lease.
            usd: its rent of the week.
            sellers: how many there are.
            tenants: how many there are.
        """
        paid = np.bincount(seller * tenants + tenant, usd, sellers * tenants).reshape(sellers, tenants)
        top = paid.argmax(axis=1)
        self._seen.append(_TopTenants(top.astype(np.int64), paid[np.arange(sellers), top], paid.sum(axis=1)))

    def lost(self, row: int, usd_by_tenant: Floats, p: FinanceParameters) -> bool:
        """Whether a tenant that paid a large part of a seller's rent in the last weeks pays less than half of it now.

        It counts only where its GPUs were not let again: all rent has fallen by at least half of what it paid.

        Args:
            row: of the seller.
            usd_by_tenant: rent that each tenant pays it now, ``(tenants,)``.
            p: finance parameters.
        """
        now = float(usd_by_tenant.sum())
        return any(
            week.usd[row] > 0.0
            and week.usd[row] >= p.lost_tenant_share * week.total_usd[row]
            and usd_by_tenant[week.tenant[row]] < 0.5 * week.usd[row]
            and now < week.total_usd[row] - 0.5 * week.usd[row]
            for week in self._seen
        )
