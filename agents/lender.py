"""A lender against GPUs: amount and rate by how much of the revenue is under contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mesa

from market.decisions import LoanApplication, LoanOffer
from market.loans import FinanceParameters, loan_rate, loan_to_value

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Lender"]


class Lender(mesa.Agent):
    """All lenders of the market as one set of books.

    Knows: the application. Decides: loan to value and rate, both by the contracted share. Source: terms of specialist
    lenders in mid-2026 and two loans of one borrower, see the finance parameters.
    """

    role = "lender"

    def __init__(self, model: MarketModel, name: str, finance: FinanceParameters) -> None:
        super().__init__(model)
        self.name = name
        self.finance = finance

    def adopt(self, section: str, name: str, value: Any, week: int) -> None:
        """Take on a policy from a week on: other terms for new loans."""
        if section == "finance":
            self.finance = self.finance.changed(name, value)

    def offer(self, application: LoanApplication) -> LoanOffer:
        """The loan offered on an application."""
        share = application.contracted_share
        amount = application.capital_usd * float(loan_to_value(share, self.finance))
        return LoanOffer(amount, float(loan_rate(share, self.finance)))
