"""The accounts of the week: who pays whom, from the opening balance sheets on.

All money moves through the ledger. Debt and book values live in tranches beside it, so that the ledger's own totals
have a second source to agree with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, Ints, ratio, totals
from market.covers import Covers
from market.decisions import CoverGrant
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
from market.units import HOURS_PER_WEEK, Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["LENDERS", "Accounts", "ImbalanceError", "hours_residual"]


LENDERS = "lenders"
_OPENING_DSCR = 1.5  # average debt service cover before the first week is seen; assumption


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
        self.covers = Covers()
        self.dscr = np.full(len(sellers), _OPENING_DSCR)
        self.last_ebitda_usd = np.zeros(len(sellers))
        self.rescued_usd = np.zeros(len(sellers))
        self.repossessed_usd = 0.0
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
        finance, age = model.world.finance, model.age_weeks[seller, sku]
        book = own * model.capex_usd[sku] * opening_book_share(age, finance)
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
        # Entrants stand behind the sellers of the table and open without debt.
        sellers = [rows[name] for name in self.ledger.names[: len(self.seller_rows)] if name in rows]
        capital = capital[: len(sellers)]
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
        debt = np.where(self._mostly_amd(model)[: len(sellers)], debt * finance.amd_debt_multiple, debt)
        borrowers = self.seller_rows[: len(sellers)]
        luck = uniform(model.seed, Purpose.DEBT_LIFE, 0, model.suppliers.key[borrowers])
        payments, first = opening_service(luck, finance)
        self.ledger.post("opening_debt", borrowers, self.lender_row, debt)
        self.loans.append(borrowers, self.lender_row, debt, rate, payments, first)

    def _mostly_amd(self, model: MarketModel) -> Bools:
        """Sellers with at least half of their own opening GPUs from AMD."""
        own = (model.suppliers.installed_gpus - model.suppliers.firm_gpus)[self.seller_rows]
        return np.asarray((own[:, model.sku_is_amd].sum(axis=1) >= 0.5 * own.sum(axis=1)) & own.any(axis=1))

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
        """Delivered GPUs join the books: a lender's loan, own cash above the reserve, owners' money for the rest.

        Sellers without GPU debt (hyperscalers, marketplaces) pay with owners' money.
        """
        finance = model.world.finance
        seller, sku = np.nonzero(delivered_gpus)
        gpus = delivered_gpus[seller, sku]
        capital = gpus * model.capex_usd[sku]
        loan, rate = self._loans_for(model, seller, sku, capital)
        self.ledger.post("equity_in", self.world_row, self.lender_row, loan.sum())
        self.ledger.post("loan_draw", self.lender_row, seller, loan)
        self._pay_in(model, totals(seller, capital - loan, len(self.seller_rows)))
        self.ledger.post("capital_purchase", seller, self._vendor_row_of_sku[sku], capital)
        first = model.week + finance.service_interval_weeks
        self.loans.append(seller, self.lender_row, loan, rate, finance.tenor_payments, first)
        self.assets.append(seller, sku, gpus, capital, finance.depreciation_weeks)

    def _loans_for(self, model: MarketModel, seller: Ints, sku: Ints, capital: Floats) -> tuple[Floats, Floats]:
        """Loan, USD, and annual rate that lenders offer on each delivery."""
        agents, loan, rate = dict(model.sellers), np.zeros(len(seller)), np.zeros(len(seller))
        for place, (row, chip) in enumerate(zip(seller.tolist(), sku.tolist(), strict=True)):
            if not model.suppliers.borrows[row]:
                continue
            covered = float(model.cover_for_loans(row)[chip])
            application = agents[row].apply_for_loan(model.own_finance(row), float(capital[place]), covered)
            offer = model.lender.offer(application)
            loan[place], rate[place] = offer.amount_usd, offer.annual_rate
        return loan, rate

    def _pay_in(self, model: MarketModel, need: Floats) -> None:
        """Owners pay what a purchase needs beyond the cash above a seller's reserve of debt service."""
        reserve = model.world.capacity.service_reserve_weeks * self.weekly_service()
        spare = np.maximum(self.ledger.cash()[self.seller_rows] - reserve, 0.0)
        own = np.where(model.suppliers.borrows[self.seller_rows], np.minimum(spare, need), 0.0)
        self.ledger.post("equity_in", self.world_row, self.seller_rows, np.maximum(need - own, 0.0))

    def weekly_service(self) -> Floats:
        """Debt service by seller, USD a week."""
        return self.loans.weekly_service_by_borrower(len(self.ledger.names))[self.seller_rows]

    def contracted_share(self, model: MarketModel) -> Floats:
        """Share of a seller's rented GPUs on terms of a year and longer, by supplier."""
        leases, count = model.leases, len(model.suppliers)
        supplier = leases.lot // len(model.tables.skus)
        rented = totals(supplier, leases.gpus, count)
        long = totals(supplier, leases.gpus * (leases.term >= Term.ONE_YEAR), count)
        return np.nan_to_num(ratio(long, rented))

    def grant(self, vendor: str, grant: CoverGrant) -> None:
        """Put a vendor's covers on the book."""
        seller, sku = np.nonzero(grant.gpus)
        row = np.full(len(seller), self._vendor_row(vendor), np.int64)
        gpus, rate = grant.gpus[seller, sku], grant.rate_usd[sku]
        self.covers.add(seller, sku, row, gpus, rate, grant.last_week, grant.rent_share)

    def bill(self, model: MarketModel) -> None:
        """Tenants pay rent, pools settle with their members, vendors pay for hours they leased back or cover."""
        s, leases, segments = model.suppliers, model.leases, len(self.segment_rows)
        usd = leases.gpus * model.prices_paid() * HOURS_PER_WEEK
        skus = len(model.tables.skus)
        supplier, sku = np.divmod(leases.lot, skus)
        segment = model.tenants.segment[leases.tenant].astype(np.int64)
        cell = totals(segment * len(s) + supplier, usd, segments * len(s)).reshape(segments, len(s))
        self.ledger.post("segment_funding", self.world_row, self.segment_rows, cell.sum(axis=1))
        direct = cell[:, s.third_party]
        self.ledger.post("rent", self.segment_rows[:, None], self.seller_rows[None, :], direct)
        if model.cloud_row >= 0 and (at_cloud := cell[:, model.cloud_row]).any():
            self.ledger.post("developer_cloud_rent", self.segment_rows, self._vendor_row("amd"), at_cloud)
        pooled = supplier == model.pool_row
        if pooled.any():
            by_sku = totals(segment[pooled] * skus + sku[pooled], usd[pooled], segments * skus).reshape(segments, skus)
            self._settle_pool(model, by_sku)
        firm = s.firm_gpus[s.third_party].sum(axis=1)
        self.ledger.post(
            "leaseback", self._vendor_row("amd"), self.seller_rows, firm * model.firm_lease_usd * HOURS_PER_WEEK
        )
        self._pay_covers(model)

    def _settle_pool(self, model: MarketModel, paid: Floats) -> None:
        """Tenants pay the quote to the members that served them, in merit order; members pay the fee."""
        sellers = model.suppliers.third_party
        served = model.pooled_gpus[sellers]
        share = np.nan_to_num(ratio(served, np.broadcast_to(served.sum(axis=0), served.shape)))
        gross = paid @ share.T
        self.ledger.post("pool_rent", self.segment_rows[:, None], self.seller_rows[None, :], gross)
        fee = model.pool_offer.take_rate * gross.sum(axis=0) if model.pool_offer else np.zeros(len(self.seller_rows))
        self.ledger.post("pool_fee", self.seller_rows, self._vendor_row("nvidia"), fee)

    def _pay_covers(self, model: MarketModel) -> None:
        """Vendors pay for covered hours that stayed idle; sellers pay the agreed share of covered rent."""
        self.covers.expire(model.week)
        if not len(self.covers):
            return
        s = model.suppliers
        available = np.maximum(s.available_gpus, 0.0)
        sold = model.sold_gpus() + model.pooled_gpus
        due = self.covers.pay(available, np.maximum(available - sold, 0.0))
        self.ledger.post("leaseback", due.vendor, due.seller, due.idle_gpus * due.rate_usd * HOURS_PER_WEEK)
        if due.rent_share.any():
            rent = np.nan_to_num(ratio(self.lot_rent(model), sold * HOURS_PER_WEEK))[due.seller, due.sku]
            self.ledger.post(
                "rent_share", due.seller, due.vendor, due.rent_share * due.sold_gpus * rent * HOURS_PER_WEEK
            )

    def lot_rent(self, model: MarketModel) -> Floats:
        """Direct rent of the week by lot, USD ``(suppliers, skus)``."""
        usd = model.leases.gpus * model.prices_paid() * HOURS_PER_WEEK
        return totals(model.leases.lot, usd, model.book.open_gpus.size).reshape(model.book.open_gpus.shape)

    def close(self, model: MarketModel) -> None:
        """Running cost, overhead, programmes, interest, debt service, depreciation and tax.

        Raises:
            ImbalanceError: the rent posted is not what the week's leases owe.
        """
        self._hold_rent(model)
        s, ledger = model.suppliers, self.ledger
        third = s.third_party
        busy = (model.sold_gpus() + model.pooled_gpus)[third] + s.firm_gpus[third]
        idle = s.installed_gpus[third] - busy
        running = (busy @ model.running_usd + np.maximum(idle, 0.0) @ model.idle_usd) * HOURS_PER_WEEK
        ledger.post("running", self.seller_rows, self.world_row, running)
        rent = (ledger.week_income(Account.RENT_INCOME) + ledger.week_income(Account.POOL_INCOME))[self.seller_rows]
        overhead = model.world.costs.overhead_share_of_revenue * rent
        ledger.post("overhead", self.seller_rows, self.world_row, overhead)
        for row, vendor in zip(self.vendor_rows.tolist(), model.vendors, strict=True):
            ledger.post("programme", row, self.world_row, vendor.programme_usd_per_week)
        ledger.post("interest_accrual", *self.loans.accrue_week())
        service = self.loans.due(model.week)
        ledger.post("interest_payment", *service.interest)
        ledger.post("principal", *service.principal)
        self._remember_cover(model)
        self.loans.pay(service)
        ledger.post("depreciation", *self.assets.depreciate_week())
        profit = ledger.week_profit()[self.seller_rows]
        ledger.post("tax", self.seller_rows, self.world_row, model.world.finance.tax_rate * np.maximum(profit, 0.0))

    def week_ebitda(self) -> Floats:
        """Revenue less running cost, overhead and fees of the week, USD by seller."""
        gains = (Account.RENT_INCOME, Account.POOL_INCOME, Account.LEASEBACK_INCOME)
        costs = (Account.RUNNING, Account.OVERHEAD, Account.FEE_PAID)
        income = np.sum([self.ledger.week_income(account) for account in gains], axis=0)
        return np.asarray(
            (income - np.sum([self.ledger.week_income(account) for account in costs], axis=0))[self.seller_rows]
        )

    def _remember_cover(self, model: MarketModel) -> None:
        """Average debt service cover: EBITDA over the week's level service, smoothed; kept where nothing is owed."""
        service = self.weekly_service()
        self.last_ebitda_usd = self.week_ebitda()
        now = ratio(self.last_ebitda_usd, service)
        memory = model.world.finance.dscr_memory
        self.dscr = np.where(np.isnan(now), self.dscr, self.dscr + memory * (np.nan_to_num(now) - self.dscr))

    # -- failure -----------------------------------------------------------------------------------------------------

    def repossess(self, model: MarketModel, row: int, value_usd: float) -> tuple[float, float]:
        """Lenders take a failed seller's GPUs at ``value_usd``, call a guarantee, and write off the rest.

        Returns:
            What lenders recovered, and what a vendor's guarantee paid, USD. Value beyond the debt goes to the owners.
        """
        ledger = self.ledger
        debt = float(ledger.balance_of(Account.DEBT)[row])
        recovered = min(value_usd, debt)
        ledger.post("repossession", row, self.lender_row, recovered)
        # The list's value, not the ledger's: after years of write-downs that may lie a rounding error under zero.
        ledger.post("asset_disposal", row, row, float(self.assets.book_by_seller(len(ledger.names))[row]))
        if value_usd > debt:
            ledger.post("scrap_sale", self.world_row, row, value_usd - debt)
        guaranteed = self._call_guarantees(model, row, debt - recovered)
        ledger.post("write_off", row, self.lender_row, debt - recovered)
        accrued = float(self.loans.accrued_by_borrower(len(ledger.names))[row])
        ledger.post("interest_write_off", row, self.lender_row, accrued)
        self.loans.drop(row)
        self.assets.drop(row)
        self.covers.keep(self.covers.seller != row)
        self.repossessed_usd += recovered
        cash = float(ledger.cash()[row])
        ledger.post("unpaid_bills", self.world_row, row, max(-cash, 0.0))
        ledger.post("capital_returned", row, self.world_row, max(cash, 0.0))
        return recovered, guaranteed

    def _call_guarantees(self, model: MarketModel, row: int, loss_usd: float) -> float:
        """Vendors pay their part of a lender's loss on a partner whose hours they cover."""
        paid = 0.0
        for place, vendor in zip(self.vendor_rows.tolist(), model.vendors, strict=True):
            if vendor.covers is not None and vendor.covers.eligible[row].any():
                usd = vendor.call_guarantee(loss_usd - paid)
                self.ledger.post("guarantee", place, self.lender_row, usd)
                paid += usd
        return paid

    def sell_repossessed(self, book_usd: float, buyers: Ints, price_usd: Floats) -> None:
        """Lenders sell stored GPUs; buyers pay with owners' money."""
        self.ledger.post("equity_in", self.world_row, buyers, price_usd)
        self.ledger.post("asset_sale", buyers, self.lender_row, price_usd)
        self.ledger.post("asset_disposal", self.lender_row, self.lender_row, book_usd)
        self.repossessed_usd -= book_usd

    def scrap(self, book_usd: float) -> None:
        """Stored GPUs that nobody here can run leave the market at their book value."""
        self.ledger.post("scrap_sale", self.world_row, self.lender_row, book_usd)
        self.ledger.post("asset_disposal", self.lender_row, self.lender_row, book_usd)
        self.repossessed_usd -= book_usd

    def retire(self, leaving_gpus: Floats, value_usd: Floats) -> None:
        """Retired GPUs leave the books at second-hand value."""
        for seller, sku in np.argwhere(leaving_gpus > 0.0).tolist():
            gpus = float(leaving_gpus[seller, sku])
            book = self.assets.retire(seller, sku, gpus)
            self.ledger.post("scrap_sale", self.world_row, seller, gpus * float(value_usd[seller, sku]))
            self.ledger.post("asset_disposal", seller, seller, book)

    # -- identities --------------------------------------------------------------------------------------------------

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
            "GPUs and asset book": subsidiary_residuals(self.ledger, Account.GPUS, self._asset_values(agents)),
            "interest and loan book": subsidiary_residuals(
                self.ledger, Account.INTEREST_PAYABLE, self.loans.accrued_by_borrower(agents)
            ),
        }
        residuals = {"ledger": check(self.ledger)} | {
            name: float(np.abs(residual).max()) / scale for name, residual in books.items()
        }
        residuals["hours"] = hours_residual(model)
        if self.ledger.repeated:
            raise ImbalanceError(f"week {model.week}: posted twice: {', '.join(self.ledger.repeated)}")
        worst = max(residuals, key=lambda name: residuals[name])
        if not residuals[worst] <= TOLERANCE:
            raise ImbalanceError(f"week {model.week}: {worst} off by {residuals[worst]:.3g} of the flows")

    def _asset_values(self, agents: int) -> Floats:
        """Book value of GPUs by agent: fleets in tranches, and what lenders hold in store."""
        values = self.assets.book_by_seller(agents)
        values[self.lender_row] += self.repossessed_usd
        return values

    def _hold_rent(self, model: MarketModel) -> None:
        """Hold rent posted against what the leases of the week imply: an hour billed twice shows here."""
        owed = float((model.leases.gpus * model.prices_paid()).sum()) * HOURS_PER_WEEK
        posted = sum(self.ledger.week_total(reason) for reason in ("rent", "developer_cloud_rent", "pool_rent"))
        if abs(posted - owed) > TOLERANCE * max(1.0, float(self.ledger.flow_to_date.sum())):
            raise ImbalanceError(f"week {model.week}: rent posted is {posted:.2f} USD, leases owe {owed:.2f} USD")


def hours_residual(model: MarketModel) -> float:
    """Largest breach of the hours identities, as a share of installed GPUs.

    In every lot what is listed is sold, pooled or open, nothing twice; what the pool sold its members served; installed
    GPUs are sold, pooled, used by the vendor or idle, nothing else.
    """
    s = model.suppliers
    sold, listed, pooled = model.sold_gpus(), model.listed_gpus(), model.pooled_gpus
    third = s.third_party
    direct = np.where(third[:, None], sold + pooled, 0.0)
    over = float(np.abs(listed - direct - model.book.open_gpus)[third].max(initial=0.0))
    cloud_over = max(0.0, model.desk_sold_gpus() - float(s.firm_gpus.sum()))
    pool_gap = 0.0
    if model.pool_row >= 0:
        pool_gap = float(np.abs(sold[model.pool_row] - pooled.sum(axis=0)).max())
    idle = float(np.maximum(listed - direct, 0.0)[third].sum())
    total = float(direct.sum()) + float(s.firm_gpus.sum()) + idle
    installed = float(s.installed_gpus.sum())
    return max(over, cloud_over, pool_gap, abs(total - installed)) / max(1.0, installed)
