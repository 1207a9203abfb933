"""Records of money: rows of books, loans, defaults and flows of a week, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats
from market.failure import fleet_value_usd
from market.labels import Columns, Labels, Words
from market.ledger import ENTRY_TYPES, REST_OF_WORLD, Account
from market.suppliers import PROVIDER_CLASSES

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.distress import Default
    from market.model import MarketModel
    from market.purchases import LoansDrawn

__all__ = ["book_week", "default_week", "flow_week", "ledger_kinds", "loan_week"]

_INCOME: Mapping[str, Account] = {
    "rent_usd": Account.RENT_INCOME,
    "pool_usd": Account.POOL_INCOME,
    "leaseback_usd": Account.LEASEBACK_INCOME,
    "running_usd": Account.RUNNING,
    "overhead_usd": Account.OVERHEAD,
    "fee_usd": Account.FEE_PAID,
    "fee_income_usd": Account.FEE_INCOME,
    "depreciation_usd": Account.DEPRECIATION,
    "interest_usd": Account.INTEREST_EXPENSE,
    "tax_usd": Account.TAX,
    "hardware_sales_usd": Account.HARDWARE_SALES,
    "hardware_cost_usd": Account.COST_OF_SALES,
    "leaseback_paid_usd": Account.LEASEBACK_PAID,
    "developer_cloud_rent_usd": Account.DEVELOPER_CLOUD_INCOME,
    "programme_usd": Account.PROGRAMME,
    "guarantee_paid_usd": Account.GUARANTEE_PAID,
    "guarantee_income_usd": Account.GUARANTEE_INCOME,
    "credit_loss_usd": Account.CREDIT_LOSS,
    "resale_result_usd": Account.SALE_RESULT,
    "equity_in_usd": Account.PAID_IN,
}
"""Columns that a week adds to an account."""


def book_week(labels: Labels, model: MarketModel) -> Columns:
    """Books of sellers, then vendors, then lenders."""
    accounts, ledger = model.accounts, model.accounts.ledger
    rows = np.array([*accounts.seller_rows, *accounts.vendor_rows, accounts.lender_row])
    return {
        "agent": np.array(ledger.names)[rows],
        **_kinds(labels, accounts),
        **{name: ledger.week_income(account)[rows] for name, account in _INCOME.items()},
        "cover_paid_usd": ledger.week_paid("cover")[rows],
        "profit_usd": ledger.week_profit()[rows],
        "cash_usd": ledger.cash()[rows],
        "debt_usd": ledger.balance_of(Account.DEBT)[rows],
        "book_value_usd": ledger.balance_of(Account.GPUS)[rows],
        **_standing(model),
    }


def _kinds(labels: Labels, accounts: Accounts) -> Columns:
    """Class and leading vendor of those who keep books."""
    sellers, vendors = len(accounts.seller_rows), accounts.vendor_names
    return {
        "provider_class": np.concatenate([labels.classes[:sellers], ["vendor"] * len(vendors), ["lender"]]),
        "heavy": np.concatenate([labels.heavy[:sellers], vendors, ["none"]]),
    }


def _standing(model: MarketModel) -> Columns:
    """How sellers stand with their lenders; vendors and lenders live and have no such standing."""
    accounts = model.accounts
    sellers, others = len(accounts.seller_rows), len(accounts.vendor_rows) + 1

    def extended(values: Words, rest: float | bool) -> Words:
        return np.concatenate([values[:sellers], np.full(others, rest)])

    return {
        "alive": extended(model.suppliers.alive, True),
        "contracted_share": extended(accounts.contracted_share, 0.0),
        "dscr": extended(accounts.dscr, np.nan),
        "fleet_value_usd": extended(fleet_value_usd(model), 0.0),
        "breach": extended(accounts.covenants.breach_weeks > 0, False),
        "standstill": extended(accounts.covenants.standing_still, False),
    }


def loan_week(labels: Labels, drawn: LoansDrawn) -> Columns:
    """Loans drawn in the week."""
    return {
        "seller": labels.names[drawn.seller],
        "provider_class": labels.classes[drawn.seller],
        "sku": labels.skus[drawn.sku],
        "loan_usd": drawn.usd,
        "annual_rate": drawn.annual_rate,
        "contracted_share": drawn.contracted_share,
        "bankable_share": drawn.bankable_share,
    }


def default_week(labels: Labels, defaults: list[Default]) -> Columns:
    """Defaults of the week."""
    seller = np.array([default.seller for default in defaults], np.int64)

    def amounts(name: str) -> Floats:
        return np.array([getattr(default, name) for default in defaults], np.float64)

    return {
        "seller": labels.names[seller],
        "provider_class": labels.classes[seller],
        "heavy": labels.heavy[seller],
        "cause": np.array([default.cause for default in defaults], "<U16"),
        **{name: amounts(name) for name in ("debt_usd", "recovered_usd", "guaranteed_usd", "loss_usd", "gpus")},
    }


def flow_week(model: MarketModel) -> Columns:
    """Money that changes hands between kinds of agents."""
    kinds, kind_of = np.unique(ledger_kinds(model), return_inverse=True)
    (reason, payer, payee), usd = model.accounts.ledger.cash_flows(kind_of, len(kinds))
    return {
        "payer_kind": kinds[payer],
        "payee_kind": kinds[payee],
        "reason": np.array(list(ENTRY_TYPES))[reason],
        "usd": usd,
    }


def ledger_kinds(model: MarketModel) -> Words:
    """Kind of each row of the ledger: class of a seller, name of a vendor, lender, tenant, rest of the world."""
    accounts, classes = model.accounts, np.array(PROVIDER_CLASSES)[model.suppliers.provider_class]
    sellers, tenants = len(accounts.seller_rows), len(accounts.segment_rows)
    others = np.array(["lender", *["tenant"] * tenants, REST_OF_WORLD])
    return np.concatenate([classes[:sellers], accounts.vendor_names, others])
