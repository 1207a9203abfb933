"""The accounts of the week: who pays whom, from the opening balance sheets on.

All money moves through the ledger. Debt and book values live in tranches beside it, so that the ledger's own totals
have a second source to agree with.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints, totals
from market.ledger import REST_OF_WORLD, TOLERANCE, Account, Ledger, check, subsidiary_residuals
from market.loans import (
    AssetBook,
    LoanBook,
    debt_to_capital,
    loan_rate,
    loan_to_value,
    opening_book_share,
    opening_debt,
    opening_service,
)
from market.randomness import Purpose, uniform
from market.suppliers import DESK
from market.units import HOURS_PER_WEEK, Term, week_of

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["LENDERS", "Accounts", "ImbalanceError", "hours_residual"]


LENDERS = "lenders"


class ImbalanceError(RuntimeError):
    """Money or hours that do not add up: a fault of the program, never of its user."""


class Accounts:
    """Ledger, loans and book values of one market.

    Rows of the ledger: third-party sellers in supplier order, vendors, lenders, segments, the rest of the world.
    """

    def __init__(self, model: MarketModel) -> None:
        sellers = [
            name for name, third in zip(model.suppliers.names, model.suppliers.third_party, strict=True) if third
        ]
        vendors = [vendor.name for vendor in model.vendors]
        segments = [segment.name for segment in model.segments]
        self.ledger = Ledger([*sellers, *vendors, LENDERS, *(f"tenants: {name}" for name in segments)])
        self.seller_rows = np.arange(len(sellers))
        self.vendor_rows = len(sellers) + np.arange(len(vendors))
        self.vendor_names = np.array([name.lower() for name in vendors])
        self.lender_row = len(sellers) + len(vendors)
        self.segment_rows = self.lender_row + 1 + np.arange(len(segments))
        self.world_row = self.ledger.index(REST_OF_WORLD)
        self._vendor_row_of_sku = np.array([self._vendor_row(sku.vendor) for sku in model.tables.skus], np.int64)
        self.loans = LoanBook(interval_weeks=model.world.finance.service_interval_weeks)
        self.assets = AssetBook()
        self._open_books(model)

    def _vendor_row(self, vendor: str) -> int:
        """Ledger row of a vendor; the rest of the world sells hardware of vendors that take no part."""
        found = np.flatnonzero(self.vendor_names == vendor)
        return int(self.vendor_rows[found[0]]) if len(found) else self.world_row

    # -- opening -----------------------------------------------------------------------------------------------------

    def _open_books(self, model: MarketModel) -> None:
        """Opening balance sheets: GPUs at book value, debt in tranches, cash."""
        finance, s = model.world.finance, model.suppliers
        seller, sku = np.nonzero((s.installed_gpus > 0.0) & s.third_party[:, None])
        firm = s.firm_gpus[seller, sku]
        own = s.installed_gpus[seller, sku] - firm
        self._open_assets(model, seller, sku, own, firm)
        capital = totals(seller, own * model.capex_usd[sku], len(self.seller_rows))
        self._open_debt(model, capital)
        firm_capital = totals(seller, firm * model.capex_usd[sku], len(self.seller_rows))
        cash = finance.opening_cash_share * capital
        for row in model.tables.sellers:
            if row.cash_usd_m is not None and row.name in self.ledger.names:
                cash[self.ledger.index(row.name)] = row.cash_usd_m * 1e6 * row.contestable_share
        self.ledger.post("opening_cash", self.world_row, self.seller_rows, cash)
        self._open_firm_debt(model, firm_capital)
        self.ledger.open_week(0)

    def _open_assets(self, model: MarketModel, seller: Ints, sku: Ints, own: Floats, firm: Floats) -> None:
        finance = model.world.finance
        vintage = {(row.seller, row.sku): week_of(_month(row.vintage)) for row in model.tables.fleets}
        age = np.array(
            [
                -vintage.get((model.suppliers.names[i], model.tables.skus[k].name), 0)
                for i, k in zip(seller.tolist(), sku.tolist(), strict=True)
            ],
            np.float64,
        )
        book = own * model.capex_usd[sku] * opening_book_share(np.maximum(age, 0.0), finance)
        self.assets.append(seller, sku, own, book, finance.opening_depreciation_weeks)
        new = np.flatnonzero(firm > 0.0)
        firm_book = firm[new] * model.capex_usd[sku[new]]
        if len(new):
            self.assets.append(seller[new], sku[new], firm[new], firm_book, finance.depreciation_weeks)
        self.ledger.post("opening_gpus", self.world_row, seller, book)
        self.ledger.post("opening_gpus", self.world_row, seller[new], firm_book)

    def _open_debt(self, model: MarketModel, capital: Floats) -> None:
        finance, tables = model.world.finance, model.tables
        rows = {row.name: row for row in tables.sellers}
        sellers = [rows[name] for name in self.ledger.names[: len(self.seller_rows)]]
        leverage = np.array([debt_to_capital(row.vendors, row.provider_class, finance) for row in sellers])
        reported = np.array(
            [
                row.debt_usd_m * 1e6 * row.contestable_share if row.gpu_debt and row.debt_usd_m is not None else np.nan
                for row in sellers
            ]
        )
        rate = np.array(
            [
                row.loan_rate if row.gpu_debt and row.loan_rate is not None else finance.opening_loan_rate
                for row in sellers
            ]
        )
        debt = opening_debt(capital, leverage, finance, reported)
        luck = uniform(model.seed, Purpose.DEBT_LIFE, 0, model.suppliers.key[self.seller_rows])
        payments, first = opening_service(luck, finance)
        self.ledger.post("opening_debt", self.seller_rows, self.lender_row, debt)
        self.loans.append(self.seller_rows, self.lender_row, debt, rate, payments, first)

    def _open_firm_debt(self, model: MarketModel, capital: Floats) -> None:
        """Loans on GPUs leased back in full: as contracted as a lender counts."""
        finance = model.world.finance
        contracted = finance.contracted_maximum
        debt = capital * loan_to_value(contracted, finance)
        self.ledger.post("opening_debt", self.seller_rows, self.lender_row, debt)
        rate, first = loan_rate(contracted, finance), finance.service_interval_weeks
        self.loans.append(self.seller_rows, self.lender_row, debt, rate, finance.tenor_payments, first)

    # -- the week ----------------------------------------------------------------------------------------------------

    def open_week(self, week: int) -> None:
        """Begin a week of the ledger."""
        self.ledger.open_week(week)

    def take_delivery(self, model: MarketModel, delivered_gpus: Floats) -> None:
        """Delivered GPUs come with a loan on the contracted share at the opening, and owners' money for the rest.

        Sellers without GPU debt (hyperscalers, marketplaces) pay with owners' money.
        """
        finance = model.world.finance
        seller, sku = np.nonzero(delivered_gpus)
        gpus = delivered_gpus[seller, sku]
        capital = gpus * model.capex_usd[sku]
        contracted = self._contracted_share(model)[seller]
        borrows = np.isin(seller, np.flatnonzero(model.suppliers.borrows))
        loan = np.where(borrows, capital * loan_to_value(contracted, finance), 0.0)
        self.ledger.post("equity_in", self.world_row, self.lender_row, loan.sum())
        self.ledger.post("loan_draw", self.lender_row, seller, loan)
        self.ledger.post("equity_in", self.world_row, seller, capital - loan)
        self.ledger.post("capital_purchase", seller, self._vendor_row_of_sku[sku], capital)
        first = model.week + finance.service_interval_weeks
        self.loans.append(seller, self.lender_row, loan, loan_rate(contracted, finance), finance.tenor_payments, first)
        self.assets.append(seller, sku, gpus, capital, finance.depreciation_weeks)

    def _contracted_share(self, model: MarketModel) -> Floats:
        """Share of a seller's rented GPUs on terms of a year and longer, by supplier."""
        leases, skus = model.leases, len(model.tables.skus)
        supplier = leases.lot // skus
        count = len(model.suppliers)
        rented = totals(supplier, leases.gpus, count)
        long = totals(supplier, leases.gpus * (leases.term >= Term.ONE_YEAR), count)
        return np.divide(long, rented, out=np.zeros(count), where=rented > 0.0)

    def bill(self, model: MarketModel) -> None:
        """Tenants pay rent, the vendor pays for the hours it leased back."""
        s, leases, segments = model.suppliers, model.leases, len(self.segment_rows)
        usd = leases.gpus * model.prices_paid() * HOURS_PER_WEEK
        supplier = leases.lot // len(model.tables.skus)
        segment = model.tenants.segment[leases.tenant].astype(np.int64)
        cell = totals(segment * len(s) + supplier, usd, segments * len(s)).reshape(segments, len(s))
        self.ledger.post("segment_funding", self.world_row, self.segment_rows, cell.sum(axis=1))
        direct = cell[:, s.third_party]
        self.ledger.post("rent", self.segment_rows[:, None], self.seller_rows[None, :], direct)
        amd = self._vendor_row("amd")
        at_desk = cell[:, s.provider_class == DESK].sum(axis=1)
        if at_desk.any():
            self.ledger.post("developer_cloud_rent", self.segment_rows, amd, at_desk)
        firm = s.firm_gpus[s.third_party].sum(axis=1)
        self.ledger.post("leaseback", amd, self.seller_rows, firm * model.firm_lease_usd * HOURS_PER_WEEK)

    def close(self, model: MarketModel) -> None:
        """Running cost, overhead, interest, debt service, depreciation and tax."""
        s, ledger = model.suppliers, self.ledger
        third = s.third_party
        busy = model.sold_gpus()[third] + s.firm_gpus[third]
        idle = s.installed_gpus[third] - busy
        running = (busy @ model.running_usd + np.maximum(idle, 0.0) @ model.idle_usd) * HOURS_PER_WEEK
        ledger.post("running", self.seller_rows, self.world_row, running)
        rent = ledger.week_income(Account.RENT_INCOME)[self.seller_rows]
        overhead = model.world.costs.overhead_share_of_revenue * rent
        ledger.post("overhead", self.seller_rows, self.world_row, overhead)
        ledger.post("interest_accrual", *self.loans.accrue_week())
        service = self.loans.due(model.week)
        ledger.post("interest_payment", *service.interest)
        ledger.post("principal", *service.principal)
        self.loans.pay(service)
        ledger.post("depreciation", *self.assets.depreciate_week())
        profit = ledger.week_profit()[self.seller_rows]
        ledger.post("tax", self.seller_rows, self.world_row, model.world.finance.tax_rate * np.maximum(profit, 0.0))

    def check(self, model: MarketModel) -> None:
        """Hold the identities of money and hours.

        Raises:
            ImbalanceError: one of them is off by more than rounding.
        """
        scale = max(1.0, float(self.ledger.flow_to_date.sum()))
        agents = len(self.ledger.names)
        books = {
            "debt and loan book": subsidiary_residuals(
                self.ledger, Account.DEBT, self.loans.balance_by_borrower(agents)
            ),
            "GPUs and asset book": subsidiary_residuals(self.ledger, Account.GPUS, self.assets.book_by_seller(agents)),
            "rent and leases": np.array([self._rent_residual(model)]),
        }
        residuals = {"ledger": check(self.ledger)} | {
            name: float(np.abs(residual).max()) / scale for name, residual in books.items()
        }
        residuals["hours"] = hours_residual(model)
        worst = max(residuals, key=lambda name: residuals[name])
        if not residuals[worst] <= TOLERANCE:
            raise ImbalanceError(f"week {model.week}: {worst} off by {residuals[worst]:.3g} of the flows")

    def _rent_residual(self, model: MarketModel) -> float:
        """Rent posted less what the leases of the week imply, USD: an hour billed twice shows here."""
        owed = float((model.leases.gpus * model.prices_paid()).sum()) * HOURS_PER_WEEK
        return self.ledger.week_total("rent") + self.ledger.week_total("developer_cloud_rent") - owed


def hours_residual(model: MarketModel) -> float:
    """Largest breach of the hours identities, as a share of installed GPUs.

    No lot is sold beyond what is listed, and installed GPUs are sold, used by the vendor or idle, nothing else.
    """
    s = model.suppliers
    sold, listed = model.sold_gpus(), model.listed_gpus()
    installed = float(s.installed_gpus.sum())
    over = float(np.maximum(sold - listed, 0.0).max(initial=0.0))
    idle = float(np.maximum(listed - sold, 0.0)[s.third_party].sum())
    firm = float(s.firm_gpus.sum())
    total = float(sold[s.third_party].sum()) + firm + idle
    desk_over = max(0.0, model.desk_sold_gpus() - firm)
    return max(over, desk_over, abs(total - installed)) / max(1.0, installed)


def _month(text: str) -> date:
    """First day of a month written YYYY-MM."""
    return date.fromisoformat(f"{text}-01")
