"""Lenders as a whole: what they offer a seller, what they pay out, what they lost of their loans lately."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints
from market.decisions import LoanApplication, LoanOffer
from market.ledger import Account, Ledger
from market.units import WEEKS_PER_YEAR
from market.view import OwnFinance

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["LossMemory", "lend", "loan_offer"]


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


def loan_offer(
    model: MarketModel, row: int, finance: OwnFinance, capital_usd: float, covered_share: float = 0.0
) -> tuple[LoanApplication, LoanOffer]:
    """How a seller asks for a loan, and what lenders offer it.

    Args:
        model: The market.
        row: The seller's.
        finance: Its money, with what it owes beside the loan.
        capital_usd: Value of the GPUs lent against.
        covered_share: Part of them under a vendor's cover that lenders count.
    """
    application: LoanApplication = dict(model.sellers)[row].apply_for_loan(finance, capital_usd, covered_share)
    return application, model.lender.offer(application, model.accounts.losses.rate_per_year)


def lend(accounts: Accounts, borrowers: Ints, usd: Floats) -> None:
    """Lenders pay out loans from their owners' money."""
    accounts.ledger.post("equity_in", accounts.world_row, accounts.lender_row, usd.sum())
    accounts.ledger.post("loan_draw", accounts.lender_row, borrowers, usd)
