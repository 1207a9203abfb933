"""Debt service of a week: interest accrues, balloons are refinanced, who can pays, spare cash is swept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, totals
from market.failure import fleet_value_usd
from market.lenders import lend, loan_offer
from market.loans import Service
from market.ownbooks import SellersFinance
from market.view import OwnFinance

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
        due = totals(loans.borrower[balloons], loans.balance_usd[balloons], len(accounts.ledger.names))
        _replace_balloons(accounts, model, due)
    if finance.refinancing_gain < 1.0:
        money = SellersFinance(model)
        for row in np.unique(loans.borrower[loans.next_service_week == model.week]).tolist():
            _reprice(accounts, model, money, row)


def _replace_balloons(accounts: Accounts, model: MarketModel, due: Floats) -> None:
    """New loans on fleets at their second-hand value, beside the debt that goes on, where they let borrowers pay."""
    finance, rows = model.world.finance, np.flatnonzero(due)
    money, value = SellersFinance(model), fleet_value_usd(model)
    offers = [
        _replacement(accounts, model, money.of(row), row, float(value[row]), float(due[row])) for row in rows.tolist()
    ]
    amount, rate = (np.array(column) for column in zip(*offers, strict=True))
    lend(accounts, rows, amount)
    first = model.week + finance.service_interval_weeks
    accounts.loans.append(rows, accounts.lender_row, amount, rate, finance.tenor_payments, first, finance.balloon_share)


def _replacement(
    accounts: Accounts, model: MarketModel, own: OwnFinance, row: int, value_usd: float, usd: float
) -> tuple[float, float]:
    """Amount and rate of the loan that replaces a balloon; 0 where it would not let the borrower pay."""
    if not accounts.covenants.trusted(row):
        return 0.0, 0.0
    rest = own.debt_usd - usd
    _, offer = loan_offer(model, row, replace(own, debt_usd=rest), value_usd)
    amount = max(0.0, min(usd, offer.amount_usd - rest))
    return (amount, offer.annual_rate) if own.cash_usd + amount >= usd else (0.0, 0.0)


def _reprice(accounts: Accounts, model: MarketModel, money: SellersFinance, row: int) -> None:
    """Loans due for service that cost clearly more than a new one are replaced by one at today's rate."""
    loans, finance = accounts.loans, model.world.finance
    if not accounts.covenants.trusted(row):
        return
    rate = loan_offer(model, row, replace(money.of(row), debt_usd=0.0), 0.0)[1].annual_rate
    mine = (loans.borrower == row) & (loans.next_service_week == model.week)
    dear = np.flatnonzero(mine & (loans.annual_rate >= rate + finance.refinancing_gain))
    balances: Floats = loans.balance_usd[dear]
    accounts.ledger.post("loan_draw", loans.lender[dear], row, balances)
    accounts.ledger.post("principal", row, loans.lender[dear], balances)
    loans.reprice(dear, rate)
