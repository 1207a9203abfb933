"""Opening balance sheets: GPUs at book value, debt in tranches, cash; and what is assumed where none is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Bools, Floats, Ints, totals
from market.credit import loan_rate, loan_to_value
from market.failure import second_hand_value_usd
from market.finance import FinanceParameters
from market.randomness import Purpose, uniform

if TYPE_CHECKING:
    from market.accounts import Accounts
    from market.model import MarketModel

__all__ = ["debt_to_capital", "open_books", "opening_book_share", "opening_debt", "opening_service"]


def open_books(accounts: Accounts, model: MarketModel) -> None:
    """Opening balance sheets: GPUs at book value, debt in tranches, cash."""
    finance, s = model.world.finance, model.suppliers
    seller, sku = np.nonzero((s.installed_gpus > 0.0) & s.third_party[:, None])
    firm = s.firm_gpus[seller, sku]
    own = s.installed_gpus[seller, sku] - firm
    _open_assets(accounts, model, seller, sku, own, firm)
    capital = totals(seller, own * model.hardware.capex_usd[sku], len(accounts.seller_rows))
    _open_debt(accounts, model, capital)
    firm_capital = totals(seller, firm * model.hardware.capex_usd[sku], len(accounts.seller_rows))
    cash = finance.opening_cash_share * capital
    for row in model.tables.sellers:
        if row.cash_usd_m is not None and row.name in accounts.ledger.names:
            cash[accounts.ledger.index(row.name)] = row.cash_usd_m * 1e6 * row.contestable_share
    accounts.ledger.post("opening_cash", accounts.world_row, accounts.seller_rows, cash)
    _open_firm_debt(accounts, model, firm_capital)
    accounts.ledger.open_week(0)


def _open_assets(accounts: Accounts, model: MarketModel, seller: Ints, sku: Ints, own: Floats, firm: Floats) -> None:
    finance, age = model.world.finance, model.age_weeks[seller, sku]
    book = own * model.hardware.capex_usd[sku] * opening_book_share(age, finance)
    accounts.assets.append(seller, sku, own, book, finance.opening_depreciation_weeks)
    new = np.flatnonzero(firm > 0.0)
    firm_book = firm[new] * model.hardware.capex_usd[sku[new]]
    if len(new):
        lives = finance.depreciation_weeks, finance.tax_depreciation_weeks
        accounts.assets.append(seller[new], sku[new], firm[new], firm_book, *lives)
    accounts.ledger.post("opening_gpus", accounts.world_row, seller, book)
    accounts.ledger.post("opening_gpus", accounts.world_row, seller[new], firm_book)


def _open_debt(accounts: Accounts, model: MarketModel, capital: Floats) -> None:
    finance, tables = model.world.finance, model.tables
    rows = {row.name: row for row in tables.sellers}
    # Entrants stand behind the sellers of the table and open without debt.
    sellers = [rows[name] for name in accounts.ledger.names[: len(accounts.seller_rows)] if name in rows]
    capital = capital[: len(sellers)]
    leverage = np.array([debt_to_capital(row.vendors, row.provider_class, finance) for row in sellers])
    reported = np.array(
        [
            row.debt_usd_m * 1e6 * row.contestable_share if row.gpu_debt and row.debt_usd_m is not None else np.nan
            for row in sellers
        ]
    )
    rate = np.array(
        [row.loan_rate if row.gpu_debt and row.loan_rate is not None else finance.opening_loan_rate for row in sellers]
    )
    debt = opening_debt(capital, leverage, finance, reported)
    if finance.opening_loan_to_value > 0.0:
        neocloud = np.array([row.provider_class == "neocloud" for row in sellers], np.bool_)
        debt = np.where(neocloud, finance.opening_loan_to_value * _own_value(accounts, model)[: len(sellers)], debt)
    debt = np.where(_mostly_amd(accounts, model)[: len(sellers)], debt * finance.amd_debt_multiple, debt)
    borrowers = accounts.seller_rows[: len(sellers)]
    luck = uniform(model.seed, Purpose.DEBT_LIFE, 0, model.suppliers.key[borrowers])
    payments, first = opening_service(luck, finance)
    accounts.ledger.post("opening_debt", borrowers, accounts.lender_row, debt)
    accounts.loans.append(borrowers, accounts.lender_row, debt, rate, payments, first)


def _own_value(accounts: Accounts, model: MarketModel) -> Floats:
    """What sellers' opening fleets would fetch second-hand, USD, without GPUs leased back in full."""
    own = model.suppliers.installed_gpus - model.suppliers.firm_gpus
    return np.asarray((second_hand_value_usd(model, model.age_weeks) * own).sum(axis=1)[accounts.seller_rows])


def _mostly_amd(accounts: Accounts, model: MarketModel) -> Bools:
    """Sellers with at least half of their own opening GPUs from AMD."""
    own = (model.suppliers.installed_gpus - model.suppliers.firm_gpus)[accounts.seller_rows]
    return np.asarray((own[:, model.hardware.is_amd].sum(axis=1) >= 0.5 * own.sum(axis=1)) & own.any(axis=1))


def _open_firm_debt(accounts: Accounts, model: MarketModel, capital: Floats) -> None:
    """Loans on GPUs leased back in full: as contracted as a lender counts."""
    finance = model.world.finance
    contracted = finance.contracted_maximum
    debt = capital * loan_to_value(contracted, finance)
    accounts.ledger.post("opening_debt", accounts.seller_rows, accounts.lender_row, debt)
    rate, first = loan_rate(contracted, finance), finance.service_interval_weeks
    accounts.loans.append(accounts.seller_rows, accounts.lender_row, debt, rate, finance.tenor_payments, first)


# --- what is assumed of a seller whose books are not known ------------------------------------------------------------


def debt_to_capital(vendors: str, provider_class: str, parameters: FinanceParameters) -> float:
    """Leverage assumed for a seller of ``vendors`` (nvidia, amd, both) whose debt is not known; 0 outside neoclouds.

    Raises:
        ValueError: no such vendors.
    """
    shares = {
        "nvidia": parameters.debt_to_capital_nvidia,
        "both": parameters.debt_to_capital_mixed,
        "amd": parameters.debt_to_capital_amd,
    }
    if vendors not in shares:
        raise ValueError(f"vendors must be one of {', '.join(shares)}, not {vendors!r}")
    return shares[vendors] if provider_class == "neocloud" else 0.0


def opening_debt(
    capital_usd: ArrayLike, leverage: ArrayLike, parameters: FinanceParameters, reported_usd: ArrayLike = np.nan
) -> Floats:
    """Debt in June 2025, USD.

    ``capital × min(leverage × gross_up, gross_maximum) × remaining``, or the reported figure where there is one (NaN:
    none); never above ``opening_debt_maximum`` of the fleet's capital.

    Args:
        capital_usd: capital cost of the fleet when new.
        leverage: debt over capital, as `debt_to_capital`.
        parameters: finance parameters.
        reported_usd: debt on GPUs from the seller table, scaled like the fleet.
    """
    capital, reported = np.asarray(capital_usd, dtype=np.float64), np.asarray(reported_usd, dtype=np.float64)
    gross = np.minimum(np.asarray(leverage) * parameters.opening_debt_gross_up, parameters.opening_debt_gross_maximum)
    debt = np.where(np.isnan(reported), capital * gross * parameters.opening_debt_remaining, reported)
    return np.asarray(np.minimum(debt, parameters.opening_debt_maximum * capital))


def opening_service(luck: ArrayLike, parameters: FinanceParameters) -> tuple[Ints, Ints]:
    """Payments left and week of the first payment for opening debt, so that not all sellers pay in one week.

    The remaining life is uniform between its bounds; counting back from its last week by the service interval gives
    the first payment.

    Args:
        luck: uniform draws in (0, 1), one per tranche.
        parameters: finance parameters.
    """
    shortest, longest = parameters.opening_debt_weeks_minimum, parameters.opening_debt_weeks_maximum
    weeks = shortest + np.floor(np.asarray(luck) * (longest - shortest + 1)).astype(np.int64)
    payments = -(-weeks // parameters.service_interval_weeks)
    return payments, weeks - parameters.service_interval_weeks * (payments - 1)


def opening_book_share(age_weeks: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Book value in June 2025 over capital: linear in age, ``1 − age / opening_book_weeks``, not below a minimum."""
    share = 1.0 - np.asarray(age_weeks, dtype=np.float64) / parameters.opening_book_weeks
    return np.asarray(np.clip(share, parameters.opening_book_minimum, 1.0))
