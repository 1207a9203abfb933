"""Purchases: delivered GPUs join the books, paid by a lender's loan, own cash and owners' money."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints, totals
from market.ledger import Account
from market.lenders import lend, loan_offer
from market.ownbooks import SellersFinance
from market.promises import cover_for_loans
from market.tranches import no_floats, no_ints

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["LoansDrawn", "take_delivery"]


@dataclass(frozen=True, slots=True)
class LoansDrawn:
    """Loans drawn in a week, one entry each, with the shares that the borrower states; the rate follows the second."""

    seller: Ints = field(default_factory=no_ints)
    sku: Ints = field(default_factory=no_ints)
    usd: Floats = field(default_factory=no_floats)
    annual_rate: Floats = field(default_factory=no_floats)
    contracted_share: Floats = field(default_factory=no_floats)
    bankable_share: Floats = field(default_factory=no_floats)


def take_delivery(accounts: Accounts, model: MarketModel, delivered_gpus: Floats) -> None:
    """Delivered GPUs join the books: a lender's loan, own cash above the reserve, owners' money for the rest.

    Sellers without GPU debt (hyperscalers, marketplaces) pay with owners' money.
    """
    finance = model.world.finance
    seller, sku = np.nonzero(delivered_gpus)
    gpus = delivered_gpus[seller, sku]
    capital = gpus * model.hardware.capex_usd[sku]
    loan, rate = _draw_loans(accounts, model, seller, sku, capital)
    lend(accounts, seller, loan)
    _pay_in(accounts, model, totals(seller, capital - loan, len(accounts.seller_rows)))
    accounts.ledger.post("capital_purchase", seller, accounts.maker_rows[sku], capital)
    _make(accounts, model, sku, capital)
    first, lender = model.week + finance.service_interval_weeks, accounts.lender_row
    accounts.loans.append(seller, lender, loan, rate, finance.tenor_payments, first, finance.balloon_share)
    accounts.assets.append(seller, sku, gpus, capital, finance.depreciation_weeks, finance.tax_depreciation_weeks)


def _draw_loans(
    accounts: Accounts, model: MarketModel, seller: Ints, sku: Ints, capital: Floats
) -> tuple[Floats, Floats]:
    """Loan, USD, and annual rate that lenders offer on each delivery."""
    loan, rate, contracted, bankable = np.zeros((4, len(seller)))
    owed, finance = accounts.ledger.balance_of(Account.DEBT), SellersFinance(model)
    for place, (row, chip) in enumerate(zip(seller.tolist(), sku.tolist(), strict=True)):
        if not model.suppliers.borrows[row]:
            continue
        covered = float(cover_for_loans(model.vendors, row, model.week, model.book.skus)[chip])
        own = replace(finance.of(row), debt_usd=float(owed[row]))
        application, offer = loan_offer(model, row, own, float(capital[place]), covered)
        loan[place], rate[place] = offer.amount_usd, offer.annual_rate
        owed[row] += offer.amount_usd
        contracted[place], bankable[place] = application.contracted_share, application.bankable_share
    at = np.flatnonzero(loan)
    accounts.drawn = LoansDrawn(seller[at], sku[at], loan[at], rate[at], contracted[at], bankable[at])
    return loan, rate


def _pay_in(accounts: Accounts, model: MarketModel, need: Floats) -> None:
    """Owners pay what a purchase needs beyond the cash above a seller's reserve of debt service."""
    sellers = accounts.seller_rows
    reserve = model.world.capacity.service_reserve_weeks * accounts.weekly_service()
    spare = np.maximum(accounts.ledger.cash()[sellers] - reserve, 0.0)
    own = np.where(model.suppliers.borrows[sellers], np.minimum(spare, need), 0.0)
    accounts.ledger.post("equity_in", accounts.world_row, sellers, np.maximum(need - own, 0.0))


def _make(accounts: Accounts, model: MarketModel, sku: Ints, sales: Floats) -> None:
    """What vendors' sales cost them: everything but their margin goes to those who make chips and servers."""
    p, amd, vendors = model.world.finance, model.hardware.is_amd[sku], accounts.vendor_rows
    cost = sales * (1.0 - np.where(amd, p.amd_hardware_margin, p.nvidia_hardware_margin))
    by_vendor = totals(accounts.maker_rows[sku], cost, len(accounts.ledger.names))[vendors]
    accounts.ledger.post("hardware_cost", vendors, accounts.world_row, by_vendor)
