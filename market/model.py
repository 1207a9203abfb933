"""The market as a Mesa model: wiring of state, agents and the week."""

from __future__ import annotations

from typing import Any

import mesa
import numpy as np

from market.accounts import Accounts
from market.arrays import Floats, totals
from market.choice import search_order
from market.decisions import DeskOffer, PoolOffer
from market.demand import DemandState, price_of_work_ln
from market.distress import Default
from market.failure import Stored
from market.fleets import trim_cloud
from market.forecast import DemandForecast, public_sample
from market.hardware import Hardware
from market.identities import hold_identities
from market.leases import Leases, no_leases
from market.offers import CHANNELS, OfferBook
from market.opening import Delivery, opening_ages, opening_leases, opening_prices, opening_tenants, pipeline
from market.outlook import OutlookMemory
from market.ownbooks import books_of
from market.promises import grant_covers
from market.publicview import PublicRecord
from market.recorder import Recorder
from market.software import Software
from market.suppliers import build_suppliers
from market.tenants import TenantRow
from market.trade import Trades, clear_market
from market.units import Term
from market.view import OwnBooks
from market.week import play_week
from market.world import Population, World

__all__ = ["MarketModel"]


class MarketModel(mesa.Model):
    """A GPU rental market.

    Attributes:
        world: Tables and parameters.
        week: Weeks played; week 0 is the opening state.
        hardware, software: What GPUs cost by SKU, and the work they do under today's software.
        suppliers, tenants, leases, book, accounts: State in columns.
        view: What everybody sees of the last close.
        forecast: Demand as sellers can know it.
        recorder: Rows recorded so far.

    Args:
        world: Tables and parameters.
        population: Suppliers and builders of agents.
        seed: Seed of all keyed draws.
    """

    def __init__(self, world: World, population: Population, seed: int) -> None:
        super().__init__(rng=seed)
        self.world, self.tables, self.seed, self.week = world, world.tables, seed, 0
        self.hardware = Hardware(world.tables.skus, world.costs, world.roadmap, world.pricing.floor_factor)
        self.software = Software(world.tables, world.software)
        self._settle(population)
        self._furnish(population)
        self._populate(population)
        self._open()

    # -- wiring ------------------------------------------------------------------------------------------------------

    def _settle(self, population: Population) -> None:
        """Suppliers with their fleets and what is on its way, tenants, no leases yet."""
        world, hardware = self.world, self.hardware
        self.suppliers = build_suppliers(population.suppliers, len(hardware.is_amd))
        opening_prices(
            self.suppliers,
            hardware.base_list_usd,
            hardware.keys,
            self.seed,
            world.pricing.sku_premium_sd,
            hardware.floor_usd,
        )
        rows, shape = self.suppliers.rows, self.suppliers.installed_gpus.shape
        self.age_weeks, self.weeks_under_cost = opening_ages(self.tables, rows, shape), np.zeros(shape, np.int64)
        self.pipeline: list[Delivery] = pipeline(self.tables, rows)
        self.stored: list[Stored] = []
        self.defaults: list[Default] = []
        self.outlook_memory = OutlookMemory()
        self.value_usd = np.zeros(shape)
        for name, value in population.value_usd.items():
            self.value_usd[rows[name]] = value
        available = self.suppliers.available_gpus[self.suppliers.third_party]
        self.opening_h100e = float(available.sum(axis=0) @ self.software.reference_work)
        self.tenants = opening_tenants(self.tables.segments, world, self.suppliers, self.seed, self.opening_h100e)
        self.leases: Leases = no_leases()

    def _furnish(self, population: Population) -> None:
        """Vendors' desks, closed as yet, and the book of offers."""
        rows = self.suppliers.rows
        # -1 where a market has no such desk: no lot belongs to it.
        self.cloud_row, self.pool_row = rows.get(population.cloud, -1), rows.get(population.pool, -1)
        self.desk_sku = self.tables.sku_index[population.desk_sku]
        self.partners = np.array([rows[name] for name in population.partners], np.int64)
        self.firm_lease_usd, self.firm_last_week = population.firm_lease_usd, population.firm_last_week
        self.desk_offer: DeskOffer | None = None
        self.pool_offer: PoolOffer | None = None
        self.pool_member = np.zeros(len(self.suppliers), np.bool_)
        channel = np.zeros(len(self.suppliers), np.int8)
        for row, kind in ((self.pool_row, "pool"), (self.cloud_row, "developer_cloud")):
            if row >= 0:
                channel[row] = CHANNELS.index(kind)
        self.book = OfferBook(channel, len(self.hardware.is_amd))
        self.pooled_gpus = np.zeros(self.book.open_gpus.shape)
        self.short_term_gpus: Floats = np.zeros(self.book.open_gpus.shape)

    def _populate(self, population: Population) -> None:
        """Build agents and sort them by role."""
        members: list[Any] = [build(self) for build in population.agents]
        # Mesa 3.3 counts agents in a table that keeps every model alive: a sweep would grow by each run it has done.
        getattr(mesa.Agent, "_ids", {}).pop(self, None)
        rows = self.suppliers.rows
        self.sellers = sorted(
            ((rows[agent.name], agent) for agent in members if agent.role == "seller"), key=lambda pair: pair[0]
        )
        self.vendors = sorted((agent for agent in members if agent.role == "vendor"), key=lambda agent: agent.name)
        self.segments = sorted((agent for agent in members if agent.role == "segment"), key=lambda agent: agent.index)
        self.lender = next(agent for agent in members if agent.role == "lender")

    def _open(self) -> None:
        """Opening state of week 0: prices, leases with residual lives, one unbilled clearing of short terms, books."""
        held = (self.suppliers.installed_gpus > 0.0) & self.suppliers.third_party[:, None]
        self.suppliers.tightness = np.where(held, self.world.pricing.opening, 0.0)
        # The sheets of the opening are posted by every seller's own term factors at opening tightness.
        for row, seller in self.sellers:
            self.book.set_prices(row, seller.open_prices(self.own_books(row)), 0)
        self.leases = opening_leases(self)
        self.demand = DemandState(price_of_work_ln(self))
        trades = clear_market(self, (Term.SPOT, Term.ON_DEMAND))
        self.forecast = DemandForecast(self, public_sample(self))
        self.accounts = Accounts(self)
        nothing = np.zeros(self.book.open_gpus.shape)
        grant_covers(self, nothing)
        self.unmet_h100e = float(trades.unmet_h100e.sum())
        self.public_record, self.recorder = PublicRecord(), Recorder(self)
        self._see()
        self.recorder.record(self, trades, nothing, [])

    # -- the week ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Play one week."""
        play_week(self)

    def run(self, weeks: int) -> None:
        """Play ``weeks`` weeks."""
        for _ in range(weeks):
            self.step()

    def open_week(self) -> None:
        """Begin a week."""
        self.week += 1
        self.age_weeks += 1.0
        self.accounts.open_week(self.week)
        if self.week > self.firm_last_week:
            self.suppliers.firm_gpus[:] = 0.0  # the firm lease is over: its hours are the partners' to sell
            trim_cloud(self)

    def close_week(self, trades: Trades, retired_gpus: Floats, defaults: list[Default]) -> None:
        """Update the public view, record, and hold the identities."""
        self.defaults.extend(defaults)
        self._see()
        self.recorder.record(self, trades, retired_gpus, defaults)
        hold_identities(self.accounts, self)

    def _see(self) -> None:
        """What sellers decide from next week: the public view of this close, and what each let for short terms."""
        self.view = self.public_record.see(self)
        short = self.leases.gpus * (self.leases.term <= Term.ON_DEMAND)
        self.short_term_gpus = totals(self.leases.lot, short, self.book.open_gpus.size).reshape(
            self.book.open_gpus.shape
        )

    def rank_sellers(self) -> None:
        """Tenants' search orders after a seller came or went; keyed, so nobody else's place moves by luck."""
        self.tenants.search_rank = search_order(self.tenants, self.suppliers, self.seed, self.world.choice)

    # -- what there is -----------------------------------------------------------------------------------------------

    def deciders(self) -> list[Any]:
        """Agents whose rules have parameters that a policy may change: sellers, vendors, the lender."""
        return [*(seller for _, seller in self.sellers), *self.vendors, self.lender]

    def listed_gpus(self) -> Floats:
        """GPUs on sale by supplier and SKU: fleets without firm hours, and the developer cloud's cap."""
        listed = np.where(self.suppliers.third_party[:, None], self.suppliers.available_gpus, 0.0)
        if self.desk_offer is not None:
            listed[self.cloud_row, self.desk_offer.sku] = self.desk_offer.cap_gpus
        return np.asarray(listed)

    def sold_gpus(self) -> Floats:
        """GPUs that end tenants hold, by supplier and SKU."""
        return self.leases.gpus_by_lot(self.book.open_gpus.size).reshape(self.book.open_gpus.shape)

    def prices_paid(self) -> Floats:
        """What active leases pay, USD per GPU-hour ``(leases,)``: on demand the current price, else the locked one."""
        supplier, sku = np.divmod(self.leases.lot, self.book.skus)
        current = self.book.price_usd[supplier, sku, Term.ON_DEMAND]
        return np.asarray(np.where(self.leases.term == Term.ON_DEMAND, current, self.leases.price_usd))

    def cloud_gpus(self) -> Floats:
        """GPUs that end tenants hold at the developer cloud, by SKU."""
        return self.sold_gpus()[self.cloud_row] if self.cloud_row >= 0 else np.zeros(self.book.skus)

    def desk_sold_gpus(self) -> float:
        """GPUs that end tenants hold at the developer cloud."""
        return float(self.cloud_gpus().sum())

    def announced_gpus(self) -> Floats:
        """GPUs ordered and not delivered by SKU."""
        ahead = np.zeros(self.book.skus)
        for order in self.pipeline:
            if order.week > self.week:
                ahead[order.sku] += order.gpus
        return ahead

    def own_books(self, row: int) -> OwnBooks:
        """What a seller knows of itself."""
        return books_of(self.suppliers, row, self.hardware, self.world.choice.kept_premium, self.short_term_gpus[row])

    def tenant(self, index: int) -> TenantRow:
        """One tenant row for people."""
        return self.tenants.row(index, [segment.name for segment in self.tables.segments], self.suppliers.names)
