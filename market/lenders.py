"""Lenders as a whole: what they lost of their loans lately."""

from __future__ import annotations

from collections import deque

import numpy as np

from market.ledger import Account, Ledger
from market.units import WEEKS_PER_YEAR

__all__ = ["LossMemory"]


class LossMemory:
    """Net losses and loans of the last weeks.

    Args:
        weeks: how far lenders look back; the weeks before the run count as weeks without losses.
    """

    def __init__(self, weeks: int) -> None:
        self.weeks = weeks
        self._lost_usd: deque[float] = deque(maxlen=weeks)
        self._lent_usd: deque[float] = deque(maxlen=weeks)

    def see(self, ledger: Ledger, lender: int) -> None:
        """Note the open week: write-offs less guarantees received, and what repossessed GPUs sold for against value."""
        lost, saved, resold = (
            float(ledger.week_income(account)[lender])
            for account in (Account.CREDIT_LOSS, Account.GUARANTEE_INCOME, Account.SALE_RESULT)
        )
        self._lost_usd.append(lost - saved - resold)
        self._lent_usd.append(float(ledger.balance_of(Account.LOANS)[lender]))

    @property
    def rate_per_year(self) -> float:
        """Net losses of the last weeks over mean loans, per year; never below 0, and 0 before anything is lent."""
        lent = float(np.mean(self._lent_usd)) if self._lent_usd else 0.0
        if lent <= 0.0:
            return 0.0
        return max(0.0, float(np.sum(self._lost_usd)) / lent * WEEKS_PER_YEAR / self.weeks)
