"""Entries of a failure: lenders take, store and sell GPUs; retired GPUs leave the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints
from market.ledger import Account

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["repossess", "scrap", "sell_repossessed", "sell_retired"]


def repossess(accounts: Accounts, model: MarketModel, row: int, value_usd: float) -> tuple[float, float]:
    """Lenders take a failed seller's GPUs at ``value_usd``, call a guarantee, and write off the rest.

    Returns:
        What lenders recovered, and what a vendor's guarantee paid, USD. Value beyond the debt goes to the owners.
    """
    ledger = accounts.ledger
    debt = float(ledger.balance_of(Account.DEBT)[row])
    recovered = min(value_usd, debt)
    ledger.post("repossession", row, accounts.lender_row, recovered)
    # The list's value, not the ledger's: after years of write-downs that may lie a rounding error under zero.
    ledger.post("asset_disposal", row, row, float(accounts.assets.book_by_seller(len(ledger.names))[row]))
    if value_usd > debt:
        ledger.post("scrap_sale", accounts.world_row, row, value_usd - debt)
    guaranteed = _call_guarantees(accounts, model, row, debt - recovered)
    ledger.post("write_off", row, accounts.lender_row, debt - recovered)
    accrued = float(accounts.loans.accrued_by_borrower(len(ledger.names))[row])
    ledger.post("interest_write_off", row, accounts.lender_row, accrued)
    accounts.loans.drop(row)
    accounts.assets.drop(row)
    accounts.covers.keep(accounts.covers.seller != row)
    accounts.repossessed_usd += recovered
    cash = float(ledger.cash()[row])
    ledger.post("unpaid_bills", accounts.world_row, row, max(-cash, 0.0))
    ledger.post("capital_returned", row, accounts.world_row, max(cash, 0.0))
    return recovered, guaranteed


def _call_guarantees(accounts: Accounts, model: MarketModel, row: int, loss_usd: float) -> float:
    """Vendors pay their part of a lender's loss on a partner whose hours they cover."""
    paid = 0.0
    for place, vendor in zip(accounts.vendor_rows.tolist(), model.vendors, strict=True):
        if vendor.covers is not None and vendor.covers.eligible[row].any():
            usd = vendor.call_guarantee(loss_usd - paid)
            accounts.ledger.post("guarantee", place, accounts.lender_row, usd)
            paid += usd
    return paid


def sell_repossessed(accounts: Accounts, book_usd: float, buyers: Ints, price_usd: Floats) -> None:
    """Lenders sell stored GPUs; buyers pay with owners' money."""
    accounts.ledger.post("equity_in", accounts.world_row, buyers, price_usd)
    accounts.ledger.post("asset_sale", buyers, accounts.lender_row, price_usd)
    accounts.ledger.post("asset_disposal", accounts.lender_row, accounts.lender_row, book_usd)
    accounts.repossessed_usd -= book_usd


def scrap(accounts: Accounts, book_usd: float) -> None:
    """Stored GPUs that nobody here can run leave the market at their book value."""
    accounts.ledger.post("scrap_sale", accounts.world_row, accounts.lender_row, book_usd)
    accounts.ledger.post("asset_disposal", accounts.lender_row, accounts.lender_row, book_usd)
    accounts.repossessed_usd -= book_usd


def sell_retired(accounts: Accounts, leaving_gpus: Floats, value_usd: Floats) -> None:
    """Retired GPUs leave the books at second-hand value."""
    for seller, sku in np.argwhere(leaving_gpus > 0.0).tolist():
        gpus = float(leaving_gpus[seller, sku])
        book = accounts.assets.retire(seller, sku, gpus)
        accounts.ledger.post("scrap_sale", accounts.world_row, seller, gpus * float(value_usd[seller, sku]))
        accounts.ledger.post("asset_disposal", seller, seller, book)
