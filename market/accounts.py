"""The accounts of the week: who pays whom, from the opening balance sheets on.

All money moves through the ledger. Debt and book values live in tranches beside it, so that the ledger's own totals
have a second source to agree with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, Ints, ratio, totals
from market.assets import AssetBook
from market.covenants import Covenants, TenantWatch
from market.covers import Covers
from market.credit import bankable_share
from market.decisions import CoverGrant
from market.identities import hold_rent
from market.ledger import REST_OF_WORLD, Account, Ledger
from market.lenders import LossMemory
from market.loans import LoanBook
from market.opening_books import open_books
from market.purchases import LoansDrawn
from market.servicing import serve_debt
from market.units import HOURS_PER_WEEK, Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["LENDERS", "Accounts"]


LENDERS = "lenders"
_LEAST_SERVICE_USD = 1e-6  # a week; less is no debt to speak of
_OPENING_DSCR = 1.5  # average debt service cover before the first week is seen; assumption


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
        self.maker_rows = np.array([self._vendor_row(sku.vendor) for sku in model.tables.skus], np.int64)
        self.loans = LoanBook(interval_weeks=model.world.finance.service_interval_weeks)
        self.assets = AssetBook()
        self.covers = Covers()
        self.covenants = Covenants(len(sellers))
        self.tenant_watch = TenantWatch(model.world.finance.lost_tenant_weeks)
        self.losses = LossMemory(model.world.finance.loss_memory_weeks)
        self.drawn = LoansDrawn()
        self.dscr = np.full(len(sellers), _OPENING_DSCR)
        self.last_ebitda_usd = np.zeros(len(sellers))
        self.rescued_usd = np.zeros(len(sellers))
        self.repossessed_usd = 0.0
        open_books(self, model)
        self._deferred_usd = self._deferred()
        self.see_contracts(model)

    def _vendor_row(self, vendor: str) -> int:
        """Ledger row of a vendor; the rest of the world sells hardware of vendors that take no part."""
        found = np.flatnonzero(self.vendor_names == vendor)
        return int(self.vendor_rows[found[0]]) if len(found) else self.world_row

    # -- the week ----------------------------------------------------------------------------------------------------

    def open_week(self, week: int) -> None:
        """Begin a week of the ledger."""
        self.ledger.open_week(week)
        self.drawn = LoansDrawn()

    def weekly_service(self) -> Floats:
        """Debt service by seller, USD a week."""
        return self.loans.weekly_service_by_borrower(len(self.ledger.names))[self.seller_rows]

    def see_contracts(self, model: MarketModel) -> None:
        """Shares of rent on terms of a year and longer, by supplier: all, and weak tenants' contracts counted in part.

        A tenant under a size counts as weak.
        """
        leases, count = model.leases, len(model.suppliers)
        supplier = leases.lot // len(model.tables.skus)
        usd = leases.gpus * model.prices_paid()
        long = usd * (leases.term >= Term.ONE_YEAR)
        strong = model.tenants.size_h100e[leases.tenant] >= model.world.finance.strong_tenant_h100e
        rented, by_all, by_strong = (totals(supplier, part, count) for part in (usd, long, long * strong))
        self.contracted_share = np.nan_to_num(ratio(by_all, rented))
        strong_share = np.nan_to_num(ratio(by_strong, rented))
        self.bankable_share = bankable_share(strong_share, self.contracted_share - strong_share, model.world.finance)

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
        sellers, own = len(self.seller_rows), supplier < len(self.seller_rows)
        self.tenant_watch.see(supplier[own], leases.tenant[own], usd[own], sellers, len(model.tenants.segment))
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
        self._pay_guarantee_fees(model)

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
        usd = self._within_caps(model, due.vendor, due.idle_gpus * due.rate_usd * HOURS_PER_WEEK)
        self.ledger.post("cover", due.vendor, due.seller, usd)
        if due.rent_share.any():
            rent = np.nan_to_num(ratio(self.lot_rent(model), sold * HOURS_PER_WEEK))[due.seller, due.sku]
            self.ledger.post(
                "rent_share", due.seller, due.vendor, due.rent_share * due.sold_gpus * rent * HOURS_PER_WEEK
            )

    def _within_caps(self, model: MarketModel, vendor: Ints, usd: Floats) -> Floats:
        """Payments for covered hours cut, all of a vendor's in proportion, where they would pass its cap in all."""
        agents = len(self.ledger.names)
        cap = np.full(agents, np.inf)
        for row, agent in zip(self.vendor_rows.tolist(), model.vendors, strict=True):
            cap[row] = np.inf if agent.covers is None else agent.covers.cap_usd
        wanted = totals(vendor, usd, agents)
        left = np.maximum(cap - self.ledger.paid_to_date("cover"), 0.0)
        share = np.divide(left, wanted, out=np.ones(agents), where=wanted > left)
        return np.asarray(usd * share[vendor])

    def _pay_guarantee_fees(self, model: MarketModel) -> None:
        """Sellers whose loans a vendor guarantees pay it a share of their rent, if so agreed."""
        gains = (Account.RENT_INCOME, Account.POOL_INCOME)
        rent = np.sum([self.ledger.week_income(account) for account in gains], axis=0)[self.seller_rows]
        for row, vendor in zip(self.vendor_rows.tolist(), model.vendors, strict=True):
            if vendor.guarantee_fee > 0.0:
                behind = np.array([vendor.guarantees(seller) for seller in self.seller_rows.tolist()])
                self.ledger.post("guarantee_fee", self.seller_rows, row, vendor.guarantee_fee * rent * behind)

    def lot_rent(self, model: MarketModel) -> Floats:
        """Direct rent of the week by lot, USD ``(suppliers, skus)``."""
        usd = model.leases.gpus * model.prices_paid() * HOURS_PER_WEEK
        return totals(model.leases.lot, usd, model.book.open_gpus.size).reshape(model.book.open_gpus.shape)

    def close(self, model: MarketModel) -> None:
        """Running cost, overhead, programmes, interest, debt service, depreciation and tax.

        Raises:
            ImbalanceError: the rent posted is not what the week's leases owe.
        """
        hold_rent(self, model)
        self.see_contracts(model)
        s, ledger = model.suppliers, self.ledger
        third = s.third_party
        busy = (model.sold_gpus() + model.pooled_gpus)[third] + s.firm_gpus[third]
        idle = s.installed_gpus[third] - busy
        running = busy @ model.hardware.running_usd + np.maximum(idle, 0.0) @ model.hardware.idle_usd
        ledger.post("running", self.seller_rows, self.world_row, running * HOURS_PER_WEEK)
        rent = (ledger.week_income(Account.RENT_INCOME) + ledger.week_income(Account.POOL_INCOME))[self.seller_rows]
        overhead = model.world.costs.overhead_share_of_revenue * rent
        ledger.post("overhead", self.seller_rows, self.world_row, overhead)
        for row, vendor in zip(self.vendor_rows.tolist(), model.vendors, strict=True):
            ledger.post("programme", row, self.world_row, vendor.programme_usd_per_week)
        serve_debt(self, model)
        ledger.post("depreciation", *self.assets.depreciate_week())
        taxable = np.where(s.alive[self.seller_rows], np.maximum(self._taxable_usd(), 0.0), 0.0)
        ledger.post("tax", self.seller_rows, self.world_row, model.world.finance.tax_rate * taxable)
        self.losses.see(ledger, self.lender_row)

    def _deferred(self) -> Floats:
        """Book value over value for the tax office, USD by seller."""
        agents = len(self.ledger.names)
        gap = self.assets.book_by_seller(agents) - self.assets.tax_by_seller(agents)
        return np.asarray(gap[self.seller_rows])

    def _taxable_usd(self) -> Floats:
        """Profit of the week with the tax office's write-offs in place of those of the books, USD by seller."""
        before, self._deferred_usd = self._deferred_usd, self._deferred()
        return np.asarray(self.ledger.week_profit()[self.seller_rows] - (self._deferred_usd - before))

    def week_ebitda(self) -> Floats:
        """Revenue less running cost, overhead and fees of the week, USD by seller."""
        gains = (Account.RENT_INCOME, Account.POOL_INCOME, Account.LEASEBACK_INCOME)
        costs = (Account.RUNNING, Account.OVERHEAD, Account.FEE_PAID)
        income = np.sum([self.ledger.week_income(account) for account in gains], axis=0)
        return np.asarray(
            (income - np.sum([self.ledger.week_income(account) for account in costs], axis=0))[self.seller_rows]
        )

    def remember_cover(self, model: MarketModel) -> None:
        """Average debt service cover: EBITDA over the week's level service, smoothed; kept where nothing is owed."""
        service = self.weekly_service()
        self.last_ebitda_usd = self.week_ebitda()
        now = ratio(self.last_ebitda_usd, np.where(service > _LEAST_SERVICE_USD, service, 0.0))
        memory = model.world.finance.dscr_memory
        self.dscr = np.where(np.isnan(now), self.dscr, self.dscr + memory * (np.nan_to_num(now) - self.dscr))
