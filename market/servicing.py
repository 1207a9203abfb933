"""Debt service of a week: interest accrues, balloons are refinanced, who can pays, spare cash is swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats
from market.failure import fleet_value_usd
from market.ledger import Account
from market.loans import Service

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["prepay", "serve_debt"]


def serve_debt(accounts: Accounts, model: MarketModel) -> None:
    """Interest of the week, then the payments of all borrowers who can make theirs in full.

    Who cannot misses all of it: what is missed stays due, and lenders decide next week. While lenders stand still
    nothing is paid.
    """
    ledger, loans, finance = accounts.ledger, accounts.loans, model.world.finance
    ledger.post("interest_accrual", *loans.accrue_week())
    _refinance(accounts, model)
    due = loans.due(model.week)
    service = due.of(_able(accounts, model, due))
    post(accounts, service)
    accounts.remember_cover(model)
    loans.pay(service)
    if finance.cash_sweep_share > 0.0 and len(service.tranches):
        _sweep(accounts, model, np.unique(service.interest.payers).tolist())


def post(accounts: Accounts, service: Service) -> None:
    """Book interest and principal."""
    accounts.ledger.post("interest_payment", *service.interest)
    accounts.ledger.post("principal", *service.principal)


def _able(accounts: Accounts, model: MarketModel, due: Service) -> Bools:
    """Agents who pay what they owe this week: they have the cash, and lenders do not stand still."""
    agents, sellers = len(accounts.ledger.names), accounts.seller_rows
    if not model.world.finance.default_enabled:
        return np.ones(agents, np.bool_)
    able = accounts.ledger.cash() >= due.by_borrower(agents)
    able[sellers] &= ~accounts.covenants.standing_still
    return np.asarray(able)


def prepay(accounts: Accounts, row: int, usd: float) -> None:
    """Repay debt before it is due; the cover is restated for the lower service."""
    before = accounts.weekly_service()[row]
    post(accounts, accounts.loans.prepay(row, usd))
    after = accounts.weekly_service()[row]
    if after > 0.0:
        accounts.dscr[row] *= before / after


def _sweep(accounts: Accounts, model: MarketModel, rows: list[int]) -> None:
    """A part of cash above the reserve of debt service repays debt."""
    share = model.world.finance.cash_sweep_share
    reserve = model.world.capacity.service_reserve_weeks * accounts.weekly_service()
    spare = accounts.ledger.cash()[accounts.seller_rows] - reserve
    for row in rows:
        if spare[row] > 0.0:
            prepay(accounts, row, share * float(spare[row]))


def _refinance(accounts: Accounts, model: MarketModel) -> None:
    """Balloons that fall due are replaced by new loans as far as lenders' terms allow; dear loans by cheaper ones."""
    finance, loans = model.world.finance, accounts.loans
    balloons = loans.falls_due(model.week)
    if finance.refinancing and balloons.any():
        for row in np.unique(loans.borrower[balloons]).tolist():
            _replace_balloons(accounts, model, row, float(loans.balance_usd[balloons & (loans.borrower == row)].sum()))
    if finance.refinancing_gain < 1.0:
        for row in np.unique(loans.borrower[loans.next_service_week == model.week]).tolist():
            _reprice(accounts, model, row)


def _replace_balloons(accounts: Accounts, model: MarketModel, row: int, usd: float) -> None:
    """A new loan on the fleet at its second-hand value, beside the debt that goes on."""
    covenants, finance = accounts.covenants, model.world.finance
    if covenants.standing_still[row] or covenants.breach_weeks[row]:
        return
    value, debt = float(fleet_value_usd(model)[row]), float(accounts.ledger.balance_of(Account.DEBT)[row])
    offer = accounts.loan_offer(model, row, value, owed_usd=debt - usd)
    amount = max(0.0, min(usd, offer.amount_usd - (debt - usd)))
    accounts.lend(np.array([row]), np.array([amount]))
    first = model.week + finance.service_interval_weeks
    accounts.loans.append(
        row, accounts.lender_row, amount, offer.annual_rate, finance.tenor_payments, first, finance.balloon_share
    )


def _reprice(accounts: Accounts, model: MarketModel, row: int) -> None:
    """Loans due for service that cost clearly more than a new one are replaced by one at today's rate."""
    loans, finance = accounts.loans, model.world.finance
    if accounts.covenants.standing_still[row] or accounts.covenants.breach_weeks[row]:
        return
    rate = accounts.loan_offer(model, row, 0.0, owed_usd=0.0).annual_rate
    mine = (loans.borrower == row) & (loans.next_service_week == model.week)
    dear = np.flatnonzero(mine & (loans.annual_rate >= rate + finance.refinancing_gain))
    balances: Floats = loans.balance_usd[dear]
    accounts.ledger.post("loan_draw", loans.lender[dear], row, balances)
    accounts.ledger.post("principal", row, loans.lender[dear], balances)
    loans.reprice(dear, rate)
