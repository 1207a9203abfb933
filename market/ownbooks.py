"""What sellers know of themselves: their fleets, prices and costs, and their money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from market.arrays import Floats
from market.credit import loan_to_value
from market.hardware import Hardware
from market.ledger import Account
from market.promises import cover_for_orders, guaranteed_share
from market.suppliers import Suppliers
from market.view import OwnBooks, OwnFinance

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["SellersFinance", "books_of"]


def books_of(
    suppliers: Suppliers, row: int, hardware: Hardware, kept_premium: Floats, short_term_gpus: Floats
) -> OwnBooks:
    """A seller's own books.

    Args:
        suppliers: Columns of all.
        row: The seller's.
        hardware: Costs of an hour by SKU.
        kept_premium: Share of the premium that tenants pay for by term, ``(terms,)``.
        short_term_gpus: What it let directly on spot and on demand at last close, ``(skus,)``.
    """
    s = suppliers
    available = s.installed_gpus[row] - s.firm_gpus[row]
    return OwnBooks(
        supplier=row,
        installed_gpus=s.installed_gpus[row],
        available_gpus=available,
        holds=available > 0.0,
        premium_ln=float(s.premium_ln[row]),
        sku_premium_ln=s.sku_premium_ln[row],
        shadow_ln=s.shadow_ln[row].copy(),
        list_ln=s.list_ln[row].copy(),
        tightness=s.tightness[row].copy(),
        short_term_gpus=short_term_gpus,
        running_usd=hardware.running_usd,
        full_cost_usd=hardware.full_cost_usd,
        revision_hazard_per_month=float(s.revision_hazard_per_month[row]),
        offers_term=s.offers_term[row],
        kept_premium=kept_premium,
    )


class SellersFinance:
    """Sellers' money at one moment, and the terms they are offered: columns once, then a seller at a time."""

    def __init__(self, model: MarketModel) -> None:
        self._model, ledger = model, model.accounts.ledger
        self._cash, self._debt = ledger.cash(), ledger.balance_of(Account.DEBT)
        self._service = model.accounts.weekly_service()
        self._book = model.accounts.assets.tax_by_seller(len(ledger.names))

    def of(self, row: int) -> OwnFinance:
        """One seller's."""
        model, accounts, finance = self._model, self._model.accounts, self._model.world.finance
        contracted, service = float(accounts.contracted_share[row]), float(self._service[row])
        debt, hardware = float(self._debt[row]), model.hardware
        share, rate = cover_for_orders(model.vendors, row, model.week, len(hardware.is_amd))
        thin = service > 0.0 and accounts.dscr[row] < finance.covenant_dscr
        return OwnFinance(
            cash_usd=float(self._cash[row]),
            weekly_service_usd=service,
            book_usd=float(self._book[row]),
            debt_usd=debt,
            contracted_share=contracted,
            bankable_share=float(accounts.bankable_share[row]),
            guaranteed_share=guaranteed_share(model.vendors, row, debt),
            below_covenant=bool(thin or accounts.covenants.breach_weeks[row]),
            pool_member=bool(model.pool_member[row]),
            loan_to_value=float(loan_to_value(contracted, finance)) if model.suppliers.borrows[row] else 0.0,
            overhead_share=model.world.costs.overhead_share_of_revenue,
            cover_share=share,
            cover_usd=rate,
            capex_usd=hardware.capex_usd,
            sku_is_amd=hardware.is_amd,
        )
