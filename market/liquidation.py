"""Entries of a failure: lenders take, store and sell GPUs; retired GPUs leave the books."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["Recovery", "repossess", "scrap", "sell_repossessed", "sell_retired"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What lenders got for what a failed seller owed, USD.

    Attributes:
        owed_usd: Debt and accrued interest.
        cash_usd: Paid from its till.
        gpus_usd: Value of the GPUs they took.
        guaranteed_usd: Paid by vendors.
    """

    owed_usd: float
    cash_usd: float
    gpus_usd: float
    guaranteed_usd: float


def repossess(accounts: Accounts, model: MarketModel, row: int, value_usd: float) -> Recovery:
    """Lenders take a failed seller's cash and its GPUs at ``value_usd``, call guarantees, and write off the rest.

    Interest comes before principal. What is left of cash and value beyond the claim goes to the owners.
    """
    ledger, lender, agents = accounts.ledger, accounts.lender_row, len(accounts.ledger.names)
    # The lists' values, not the ledger's: after years of entries that may lie a rounding error under zero.
    interest = float(accounts.loans.accrued_by_borrower(agents)[row])
    debt = float(accounts.loans.balance_by_borrower(agents)[row])
    owed, till = interest + debt, max(float(ledger.cash()[row]), 0.0)
    paid = _waterfall(min(till, owed), interest, debt)
    ledger.post("interest_payment", row, lender, paid[0])
    ledger.post("principal", row, lender, paid[1])
    taken = _waterfall(min(value_usd, owed - sum(paid)), interest - paid[0], debt - paid[1])
    ledger.post("repossession_interest", row, lender, taken[0])
    ledger.post("repossession", row, lender, taken[1])
    ledger.post("asset_disposal", row, row, float(accounts.assets.book_by_seller(agents)[row]))
    ledger.post("scrap_sale", accounts.world_row, row, max(value_usd - sum(taken), 0.0))
    lost = (interest - paid[0] - taken[0], debt - paid[1] - taken[1])
    guaranteed = _call_guarantees(accounts, model, row, max(sum(lost), 0.0))
    ledger.post("interest_write_off", row, lender, max(lost[0], 0.0))
    ledger.post("write_off", row, lender, max(lost[1], 0.0))
    accounts.loans.drop(row)
    accounts.assets.drop(row)
    accounts.covers.keep(accounts.covers.seller != row)
    accounts.repossessed_usd += sum(taken)
    cash = float(ledger.cash()[row])
    ledger.post("unpaid_bills", accounts.world_row, row, max(-cash, 0.0))
    ledger.post("capital_returned", row, accounts.world_row, max(cash, 0.0))
    return Recovery(owed, sum(paid), sum(taken), guaranteed)


def _waterfall(usd: float, interest: float, debt: float) -> tuple[float, float]:
    """What of a sum serves interest and what principal."""
    first = min(max(usd, 0.0), interest)
    return first, min(max(usd - first, 0.0), debt)


def _call_guarantees(accounts: Accounts, model: MarketModel, row: int, loss_usd: float) -> float:
    """Vendors pay their part of a lender's loss on a partner whose hours they cover."""
    paid = 0.0
    for place, vendor in zip(accounts.vendor_rows.tolist(), model.vendors, strict=True):
        if vendor.guarantees(row):
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
    seller, sku = np.nonzero(leaving_gpus > 0.0)
    gpus = leaving_gpus[seller, sku]
    lots = zip(seller.tolist(), sku.tolist(), gpus.tolist(), strict=True)
    book = np.array([accounts.assets.retire(*lot) for lot in lots])
    accounts.ledger.post("scrap_sale", accounts.world_row, seller, gpus * value_usd[seller, sku])
    accounts.ledger.post("asset_disposal", seller, seller, book)
