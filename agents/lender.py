"""A lender against GPUs: amount and rate by how much of the revenue is under contract, and with whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mesa

from market.credit import facility, loan_rate, loan_to_value
from market.decisions import LoanApplication, LoanOffer
from market.finance import FinanceParameters

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Lender"]


class Lender(mesa.Agent):
    """All lenders of the market as one set of books.

    Knows: the application and its own losses of the last year. Decides: loan to value by the contracted share, within
    the borrower's facility; rate by the reference rate, the contracted share weighted with the quality of tenants, and
    its losses. Source: terms of specialist lenders in mid-2026 and of three loans of one borrower, see the finance
    parameters; that losses are passed on in spreads is an assumption.
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

    def offer(self, application: LoanApplication, loss_rate_per_year: float = 0.0) -> LoanOffer:
        """The loan offered on an application, after losses of so much of its loans in the last year."""
        share = float(loan_to_value(application.contracted_share, self.finance))
        amount = facility(application.capital_usd, share, application.owed_usd, self.finance)
        return LoanOffer(float(amount), float(loan_rate(application.bankable_share, self.finance, loss_rate_per_year)))
