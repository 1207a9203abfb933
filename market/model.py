"""The market as a Mesa model: wiring of state, agents and the week."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mesa
import numpy as np

from market.accounts import Accounts
from market.arrays import Bools, Floats, frozen, ratio, totals
from market.choice import ChoiceParameters, search_order
from market.clearing.posted import ClearingParameters
from market.costs import CostParameters, full_cost_usd_per_gpu_hour, running_usd_per_gpu_hour
from market.decisions import DeskOffer, PoolOffer
from market.demand import DemandState, price_of_work_ln
from market.distress import Default
from market.events import Event
from market.failure import Stored
from market.forecast import DemandForecast, public_sample
from market.identities import hold_identities
from market.leases import Leases, no_leases
from market.ledger import Account
from market.loans import FinanceParameters, loan_to_value
from market.offers import CHANNELS, OfferBook
from market.opening import Delivery, opening_ages, opening_leases, opening_prices, pipeline
from market.outlook import CapacityParameters, OutlookMemory, RoadmapParameters
from market.randomness import Purpose, agent_keys, normal, uniform
from market.recorder import Recorder
from market.suppliers import HYPERSCALER, NEOCLOUD, SupplierSpec, build_suppliers
from market.supply import median_prices, own_core_median_ln, partner_median_usd, price_new_skus
from market.tables import Tables
from market.tenants import DemandParameters, TenantParameters, TenantRow, build_tenants
from market.throughput import SoftwareParameters, maturity_start, relative_throughput, throughput, vendor_index
from market.trade import Trades, clear_market
from market.units import TERM_NAMES, Term
from market.view import MarketView, OwnBooks, OwnFinance, PricingLuck
from market.week import play_week

__all__ = ["AgentBuilder", "MarketModel", "Population", "PricingState", "World"]


_UTILISATION_DELAY_WEEKS = 4
_PRICE_LAGS_WEEKS = (1, 4, 13)


@dataclass(frozen=True, slots=True)
class PricingState:
    """How the market keeps sellers' tightness and luck: the parts of pricing that are state, not strategy.

    Attributes:
        smoothing: Weight of this week in tightness.
        turned_away_weight: Weight of turned-away GPUs.
        maximum: Cap on one week's tightness.
        opening: Tightness at the opening.
        new_sku: Tightness of a SKU new to its seller.
        sku_premium_sd: Spread of fixed SKU premia, ln.
        floor_factor: Lowest list price over running cost.
        sample_rows: Rows of the sample by which sellers know demand.
    """

    smoothing: float
    turned_away_weight: float
    maximum: float
    opening: float
    new_sku: float
    sku_premium_sd: float
    floor_factor: float
    sample_rows: int


@dataclass(frozen=True, slots=True)
class World:
    """Everything the market needs that is not an agent's strategy; events in the order in which they apply."""

    tables: Tables
    tenants: TenantParameters
    demand: DemandParameters
    choice: ChoiceParameters
    clearing: ClearingParameters
    software: SoftwareParameters
    costs: CostParameters
    finance: FinanceParameters
    capacity: CapacityParameters
    roadmap: RoadmapParameters
    pricing: PricingState
    events: Sequence[Event] = ()


AgentBuilder = Callable[["MarketModel"], mesa.Agent]


@dataclass(frozen=True, slots=True)
class Population:
    """Who takes part.

    Attributes:
        suppliers: Third-party sellers, then desks.
        agents: Builders of all Mesa agents: sellers, vendors, segments.
        partners: Names of sellers whose firm GPUs stand behind the developer cloud.
        desk_sku: SKU of the developer cloud.
        firm_lease_usd: Rent of a firm GPU, USD per GPU-hour; ``firm_last_week`` the last week it is paid.
        cloud, pool: Names of the developer cloud and the pool among the suppliers.
        value_usd: Value of a supplier's offers under linear utility by name, one number or one by SKU ``(skus,)``; 0
            where absent.
    """

    suppliers: Sequence[SupplierSpec]
    agents: Sequence[AgentBuilder]
    partners: Sequence[str]
    desk_sku: str
    firm_lease_usd: float
    firm_last_week: int
    cloud: str
    pool: str
    value_usd: Mapping[str, float | Floats]


@dataclass(frozen=True, slots=True)
class _Luck:
    noise: Floats
    revision: Floats
    explore: Floats

    def of(self, row: int) -> PricingLuck:
        """The draws of one seller."""
        return PricingLuck(self.noise[row], float(self.revision[row]), self.explore[row])


class MarketModel(mesa.Model):
    """A GPU rental market.

    Attributes:
        world: Tables and parameters.
        week: Weeks played; week 0 is the opening state.
        suppliers, tenants, leases, book, accounts: State in columns.
        throughput: H100-equivalents of a GPU now, ``(segments, skus)``; ``base_throughput`` that of week 0.
        lock_left: Part of the opening lock-in that remains, ``(segments,)``.
        recorder: Rows recorded so far.
        forecast: Demand as sellers can know it.

    Args:
        world: Tables and parameters.
        population: Suppliers and builders of agents.
        seed: Seed of all keyed draws.
    """

    def __init__(self, world: World, population: Population, seed: int) -> None:
        super().__init__(rng=seed)
        self.world, self.tables, self.seed, self.week = world, world.tables, seed, 0
        self._equip()
        self._settle(population)
        self._populate(population)
        self._open()

    # -- wiring ------------------------------------------------------------------------------------------------------

    def _equip(self) -> None:
        """Hardware: productivity and cost by SKU."""
        world, skus, segments = self.world, self.tables.skus, self.tables.segments
        self.sku_keys = agent_keys([sku.name for sku in skus])
        self.sku_is_amd = np.array([sku.vendor == "amd" for sku in skus])
        self.base_list_usd = np.array([sku.base_list_usd_per_gpu_hour for sku in skus], np.float64)
        self.capex_usd = np.array([sku.capex_usd for sku in skus], np.float64)
        self.equip_costs()
        self.new_sku_tightness = world.pricing.new_sku
        self._equip_roadmap()
        self.maturity = maturity_start(segments, world.software)
        self.opening_maturity = self.maturity.copy()
        self.maturity_ceiling = np.array([segment.software_ceiling for segment in segments])
        self.relative_work = relative_throughput(skus, segments)
        self.throughput = throughput(self.relative_work, vendor_index(skus), self.maturity)
        self.base_throughput = self.throughput.copy()
        self.lock_left = np.ones(len(segments))
        share = np.array([segment.demand_share for segment in segments])
        self.reference_work = share @ self.throughput / share.sum()

    def equip_costs(self) -> None:
        """What an hour of each SKU costs its owner at today's prices of inputs, and the floor under list prices."""
        skus, costs = self.tables.skus, self.world.costs
        self.running_usd = running_usd_per_gpu_hour(skus, costs, costs.load_busy)
        self.idle_usd = running_usd_per_gpu_hour(skus, costs, costs.load_idle)
        self.full_cost_usd = full_cost_usd_per_gpu_hour(skus, costs)
        self.floor_usd = self.world.pricing.floor_factor * self.running_usd

    def _equip_roadmap(self) -> None:
        """Launch and last order week by SKU; a slip moves a chip and its successor."""
        slip = {"vr": self.world.roadmap.vr_slip_weeks, "mi400": self.world.roadmap.mi400_slip_weeks}
        late = np.array([slip.get(sku.roadmap_group or "", 0) for sku in self.tables.skus])
        self.launch_week = np.array([sku.launch_week for sku in self.tables.skus], np.float64) + late
        last = [np.inf if sku.last_order_week is None else sku.last_order_week for sku in self.tables.skus]
        self.last_order_week = np.array(last, np.float64)

    def _settle(self, population: Population) -> None:
        """Suppliers, their offers, deliveries and the tenants."""
        world = self.world
        self.suppliers = build_suppliers(population.suppliers, len(self.tables.skus))
        rows = {name: row for row, name in enumerate(self.suppliers.names)}
        self.desk_sku = self.tables.sku_index[population.desk_sku]
        self.partners = np.array([rows[name] for name in population.partners], np.int64)
        self.firm_lease_usd = population.firm_lease_usd
        self.value_usd = np.zeros(self.suppliers.installed_gpus.shape)
        for name, value in population.value_usd.items():
            self.value_usd[rows[name]] = value
        opening_prices(
            self.suppliers, self.base_list_usd, self.sku_keys, self.seed, world.pricing.sku_premium_sd, self.floor_usd
        )
        self.firm_last_week = population.firm_last_week
        # -1 where a market has no such desk: no lot belongs to it.
        self.cloud_row, self.pool_row = rows.get(population.cloud, -1), rows.get(population.pool, -1)
        channel = np.zeros(len(self.suppliers), np.int8)
        for row, kind in ((self.pool_row, "pool"), (self.cloud_row, "developer_cloud")):
            if row >= 0:
                channel[row] = CHANNELS.index(kind)
        self.book = OfferBook(channel, len(self.tables.skus))
        shape = self.book.open_gpus.shape
        self.pool_member = np.zeros(len(self.suppliers), np.bool_)
        self.pool_offer: PoolOffer | None = None
        self.pooled_gpus, self.weeks_under_cost = np.zeros(shape), np.zeros(shape, np.int64)
        self.short_term_gpus: Floats = np.zeros(shape)
        self.age_weeks = opening_ages(self.tables, rows, shape)
        self.stored: list[Stored] = []
        self.defaults: list[Default] = []
        self.outlook_memory = OutlookMemory()
        self.pipeline: list[Delivery] = pipeline(self.tables, rows)
        third_party = self.suppliers.third_party
        self.opening_h100e = float(self.suppliers.available_gpus[third_party].sum(axis=0) @ self.reference_work)
        homes = np.flatnonzero(self.suppliers.provider_class == HYPERSCALER)
        self.tenants = build_tenants(
            self.tables.segments,
            world.tenants,
            world.demand,
            seed=self.seed,
            opening_h100e=self.opening_h100e,
            homes=homes.tolist(),
            home_keys=self.suppliers.key[homes],
            suppliers=len(self.suppliers),
        )
        self.tenants.search_rank = search_order(self.tenants, self.suppliers, self.seed, world.choice)
        self.leases: Leases = no_leases()

    def _populate(self, population: Population) -> None:
        """Build agents and sort them by role."""
        members: list[Any] = [build(self) for build in population.agents]
        # Mesa 3.3 counts agents in a table that keeps every model alive: a sweep would grow by each run it has done.
        getattr(mesa.Agent, "_ids", {}).pop(self, None)
        rows = {name: row for row, name in enumerate(self.suppliers.names)}
        self.sellers = sorted(
            ((rows[agent.name], agent) for agent in members if agent.role == "seller"), key=lambda pair: pair[0]
        )
        self.vendors = sorted((agent for agent in members if agent.role == "vendor"), key=lambda agent: agent.name)
        self.segments = sorted((agent for agent in members if agent.role == "segment"), key=lambda agent: agent.index)
        self.lender = next(agent for agent in members if agent.role == "lender")
        self.desk_offer: DeskOffer | None = None

    def _open(self) -> None:
        """Opening state of week 0: prices, leases with residual lives, one unbilled clearing of short terms, books."""
        held = (self.suppliers.installed_gpus > 0.0) & self.suppliers.third_party[:, None]
        self.suppliers.tightness = np.where(held, self.world.pricing.opening, 0.0)
        self._history: deque[Floats] = deque(maxlen=max(_PRICE_LAGS_WEEKS))
        self._utilisation: deque[Floats] = deque(maxlen=_UTILISATION_DELAY_WEEKS + 1)
        # The sheets of the opening are posted by every seller's own term factors at opening tightness.
        for row, seller in self.sellers:
            self.book.set_prices(row, seller.open_prices(self.own_books(row)), 0)
        self.leases = opening_leases(self)
        self.demand = DemandState(price_of_work_ln(self))
        trades = clear_market(self, (Term.SPOT, Term.ON_DEMAND))
        self.forecast = DemandForecast(self, public_sample(self))
        self.accounts = Accounts(self)
        self.grant_covers(np.zeros(self.book.open_gpus.shape))
        self.recorder = Recorder(self)
        self.unmet_h100e = float(trades.unmet_h100e.sum())
        self._see()
        self.recorder.record(self, trades, np.zeros(self.book.open_gpus.shape), [])

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
            self.trim_cloud()

    def close_week(self, trades: Trades, retired_gpus: Floats, defaults: list[Default]) -> None:
        """Update the public view, record, and hold the identities."""
        self.defaults.extend(defaults)
        self._see()
        self.recorder.record(self, trades, retired_gpus, defaults)
        hold_identities(self.accounts, self)

    def tighten(self, trades: Trades) -> None:
        """Smoothed use with turned-away demand, over available GPUs."""
        p, suppliers = self.world.pricing, self.suppliers
        self.unmet_h100e = float(trades.unmet_h100e.sum())
        available = suppliers.available_gpus
        used = self.sold_gpus() + self.pooled_gpus
        wanted = used + p.turned_away_weight * trades.turned_away_gpus
        now = np.minimum(wanted / np.maximum(available, 1e-300), p.maximum)
        counts = (available > 0.0) & suppliers.third_party[:, None]
        smoothed = suppliers.tightness + p.smoothing * (now - suppliers.tightness)
        suppliers.tightness = np.where(counts, smoothed, suppliers.tightness)

    def deciders(self) -> list[Any]:
        """Agents whose rules have parameters that a policy may change: sellers, vendors, the lender."""
        return [*(seller for _, seller in self.sellers), *self.vendors, self.lender]

    # -- what the world looks like -----------------------------------------------------------------------------------

    def listed_gpus(self) -> Floats:
        """GPUs on sale by supplier and SKU: fleets without firm hours, and the developer cloud's cap."""
        listed = np.where(self.suppliers.third_party[:, None], self.suppliers.available_gpus, 0.0)
        if self.desk_offer is not None:
            listed[self.cloud_row, self.desk_offer.sku] = self.desk_offer.cap_gpus
        return np.asarray(listed)

    def sold_gpus(self) -> Floats:
        """GPUs that end tenants hold, by supplier and SKU."""
        shape = self.book.open_gpus.shape
        return self.leases.gpus_by_lot(self.book.open_gpus.size).reshape(shape)

    def prices_paid(self) -> Floats:
        """What active leases pay, USD per GPU-hour ``(leases,)``: on demand the current price, else the locked one."""
        supplier, sku = np.divmod(self.leases.lot, len(self.tables.skus))
        current = self.book.price_usd[supplier, sku, Term.ON_DEMAND]
        return np.asarray(np.where(self.leases.term == Term.ON_DEMAND, current, self.leases.price_usd))

    def desk_sold_gpus(self) -> float:
        """GPUs that end tenants hold at the developer cloud."""
        return float(self.cloud_gpus().sum())

    def cloud_gpus(self) -> Floats:
        """GPUs that end tenants hold at the developer cloud, by SKU."""
        return self.sold_gpus()[self.cloud_row] if self.cloud_row >= 0 else np.zeros(len(self.tables.skus))

    def own_books(self, row: int) -> OwnBooks:
        """What a seller knows of itself."""
        s = self.suppliers
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
            short_term_gpus=self.short_term_gpus[row],
            running_usd=self.running_usd,
            full_cost_usd=self.full_cost_usd,
            revision_hazard_per_month=float(s.revision_hazard_per_month[row]),
            offers_term=s.offers_term[row],
            kept_premium=self.world.choice.kept_premium,
        )

    def own_finance(self, row: int) -> OwnFinance:
        """A seller's money, and the terms it is offered."""
        accounts, ledger, finance = self.accounts, self.accounts.ledger, self.world.finance
        contracted = float(accounts.contracted_share[row])
        service = float(accounts.weekly_service()[row])
        share, rate = self._cover_promise(row)
        return OwnFinance(
            cash_usd=float(ledger.balance[row, Account.CASH]),
            weekly_service_usd=service,
            book_usd=float(accounts.assets.tax_by_seller(len(ledger.names))[row]),
            debt_usd=float(ledger.balance_of(Account.DEBT)[row]),
            contracted_share=contracted,
            bankable_share=float(accounts.bankable_share[row]),
            guaranteed_share=self.guaranteed_share(row),
            below_covenant=bool(
                (service > 0.0 and accounts.dscr[row] < finance.covenant_dscr) or accounts.covenants.breach_weeks[row]
            ),
            pool_member=bool(self.pool_member[row]),
            loan_to_value=float(loan_to_value(contracted, finance)) if self.suppliers.borrows[row] else 0.0,
            overhead_share=self.world.costs.overhead_share_of_revenue,
            cover_share=share,
            cover_usd=rate,
            capex_usd=self.capex_usd,
            sku_is_amd=self.sku_is_amd,
        )

    def _cover_promise(self, row: int) -> tuple[Floats, Floats]:
        """Share of new GPUs that vendors promise a seller to cover, and the rent, as far as it may enter orders."""
        share, rate = np.zeros(len(self.sku_is_amd)), np.zeros(len(self.sku_is_amd))
        for desk in (vendor.covers for vendor in self.vendors if vendor.covers is not None):
            if desk.enters_orders:
                promised = desk.promised_share(row, self.week)
                share, rate = share + promised, np.where(promised > 0.0, desk.rate_usd, rate)
        return share, rate

    def cover_for_loans(self, row: int) -> Floats:
        """Share of new GPUs under a vendor's cover that lenders count, by SKU."""
        share = np.zeros(len(self.sku_is_amd))
        for desk in (vendor.covers for vendor in self.vendors if vendor.covers is not None):
            if desk.enters_loans:
                share = share + desk.promised_share(row, self.week)
        return share

    def guaranteed_share(self, row: int) -> float:
        """Part of a lender's loss on a seller that vendors would carry, as far as lenders count it."""
        owed = float(self.accounts.ledger.balance_of(Account.DEBT)[row])
        return min(1.0, float(sum(vendor.guaranteed_share(row, owed) for vendor in self.vendors)))

    def grant_covers(self, delivered_gpus: Floats) -> None:
        """Vendors grant covers over what was delivered, or over standing fleets when a programme starts."""
        available = np.where(self.suppliers.third_party[:, None], self.suppliers.available_gpus, 0.0)
        for vendor in self.vendors:
            grant = vendor.grant_covers(self.week, available, delivered_gpus)
            if grant is not None:
                self.accounts.grant(vendor.name.lower(), grant)

    def install(self, gpus: Floats, age_weeks: float) -> None:
        """GPUs ``(suppliers, skus)`` of an age join fleets; SKUs new to a seller get a price."""
        s = self.suppliers
        total = s.installed_gpus + gpus
        mixed = (s.installed_gpus * self.age_weeks + gpus * age_weeks) / np.maximum(total, 1e-300)
        self.age_weeks = np.where(total > 0.0, mixed, 0.0)
        s.installed_gpus = total
        price_new_skus(self)

    def runs_vendor(self, amd: bool) -> Bools:
        """Suppliers that can run AMD's (or Nvidia's) GPUs."""
        return self.suppliers.runs_amd if amd else self.suppliers.runs_nvidia

    def close_seller(self, row: int) -> None:
        """A failed seller leaves: no fleet, no orders, no offers; its tenants look again next week."""
        s, lots = self.suppliers, len(self.tables.skus)
        s.alive[row], self.pool_member[row] = False, False
        s.installed_gpus[row], s.firm_gpus[row], s.tightness[row] = 0.0, 0.0, 0.0
        self._release_pooled(row)
        self.trim_cloud()
        self.leases = self.leases.keep(self.leases.lot // lots != row)
        self.pipeline = [order for order in self.pipeline if order.supplier != row]
        self.book.set_prices(row, np.full(self.book.price_usd.shape[1:], np.nan), self.week)
        self.book.open_gpus[row] = 0.0
        self.rank_sellers()

    def _release_pooled(self, row: int) -> None:
        """Pooled hours that a failed member served end with it: every pooled lease of the SKU loses its part."""
        skus, leases = len(self.tables.skus), self.leases
        left = 1.0 - np.nan_to_num(ratio(self.pooled_gpus[row], self.pooled_gpus.sum(axis=0)))
        pooled = leases.lot // skus == self.pool_row
        leases.gpus = np.where(pooled, leases.gpus * left[leases.lot % skus], leases.gpus)
        self.pooled_gpus[row] = 0.0

    def trim_cloud(self, most_gpus: float = np.inf) -> None:
        """Leases at the developer cloud end in proportion where it has let more than is leased back, or may be let."""
        sold, firm = self.cloud_gpus(), np.minimum(self.suppliers.firm_gpus.sum(axis=0), most_gpus)
        left = np.where(sold > firm, ratio(firm, sold), 1.0)
        leases, skus = self.leases, len(self.tables.skus)
        at_cloud = leases.lot // skus == self.cloud_row
        leases.gpus = np.where(at_cloud, leases.gpus * left[leases.lot % skus], leases.gpus)
        self.leases = leases.keep(leases.gpus > 0.0)

    def rank_sellers(self) -> None:
        """Tenants' search orders after a seller came or went; keyed, so nobody else's place moves by luck."""
        self.tenants.search_rank = search_order(self.tenants, self.suppliers, self.seed, self.world.choice)

    def pricing_luck(self) -> _Luck:
        """Keyed draws of all sellers' pricing this week."""
        key = self.suppliers.key
        noise = normal(self.seed, Purpose.PRICE_NOISE, self.week, key[:, None], self.sku_keys[None, :])
        explore = uniform(self.seed, Purpose.EXPLORE, self.week, key[:, None], self.sku_keys[None, :])
        return _Luck(noise, uniform(self.seed, Purpose.REVISION, self.week, key), explore)

    def _see(self) -> None:
        """Build the public view of this close; sellers decide from it and from what they let next week."""
        s = self.suppliers
        short = self.leases.gpus * (self.leases.term <= Term.ON_DEMAND)
        self.short_term_gpus = totals(self.leases.lot, short, self.book.open_gpus.size).reshape(s.list_ln.shape)
        rivals = s.third_party & s.alive & (s.provider_class != HYPERSCALER)
        counts = rivals[:, None] & (s.available_gpus > 0.0)
        weight = np.where(counts, np.sqrt(np.maximum(s.available_gpus, 0.0)), 0.0)
        premium_kept = self._premium_kept()
        core = s.list_ln - (s.premium_ln[:, None] + s.sku_premium_ln) * premium_kept
        self._history.append(median_prices(self, rivals))
        sold = (self.sold_gpus() + self.pooled_gpus)[s.third_party].sum(axis=0)
        available = s.available_gpus[s.third_party].sum(axis=0)
        self._utilisation.append(np.divide(sold, available, out=np.full(len(sold), np.nan), where=available > 0.0))
        past = {lag: self._history[-min(lag, len(self._history))] for lag in _PRICE_LAGS_WEEKS}
        offer = self.desk_offer
        self.view = MarketView(
            week=self.week + 1,
            date=self.tables.date_of(self.week + 1),
            price_usd=frozen(self.book.price_usd),
            sold_out=(self.book.open_gpus <= 0.0) & (self.book.listed_gpus > 0.0),
            median_price_usd={lag: frozen(prices) for lag, prices in past.items()},
            public_utilisation=frozen(self._utilisation[0]),
            delivered_gpus=frozen(s.installed_gpus.sum(axis=0)),
            announced_gpus=frozen(self.announced_gpus()),
            launch_week=frozen(self.launch_week),
            base_list_usd=frozen(self.base_list_usd),
            base_rate=self.world.finance.base_rate,
            core_sum_ln=frozen(np.where(counts, weight * core, 0.0).sum(axis=0)),
            core_weight=frozen(weight.sum(axis=0)),
            core_median_ln=frozen(own_core_median_ln(self)),
            neocloud_index_ln=self._neocloud_index(),
            premium_kept=premium_kept,
            pool_quote_usd=frozen(self._pool_quote()),
            pool_volume_gpus=frozen(self.pooled_gpus.sum(axis=0)),
            desk=offer,
            desk_free_share=0.0 if offer is None else max(0.0, 1.0 - self.desk_sold_gpus() / offer.cap_gpus),
            desk_partner_gpus=float(s.available_gpus[s.third_party, self.desk_sku].sum()),
            partner_median_usd=partner_median_usd(self),
            demand=self.forecast,
        )

    def _pool_quote(self) -> Floats:
        """The pool's quotes by SKU, USD; NaN where it sells nothing."""
        return np.full(len(self.sku_is_amd), np.nan) if self.pool_offer is None else self.pool_offer.quote_usd

    def _premium_kept(self) -> float:
        """Part of list premia that tenants on short and monthly terms still pay for: pool users pay for less."""
        if self.pool_offer is None:
            return 1.0
        t = self.tenants
        work = (
            t.wanted_h100e
            * t.weight
            * ((t.term == Term.ON_DEMAND) | (t.term == Term.SPOT) | (t.term == Term.FOUR_WEEKS))
        )
        total = float(work.sum())
        used = float(work[t.pool_user].sum()) / total if total > 0.0 else 0.0
        return 1.0 - self.pool_offer.identity_erosion * used

    def announced_gpus(self) -> Floats:
        """GPUs ordered and not delivered by SKU."""
        ahead = np.zeros(len(self.tables.skus))
        for order in self.pipeline:
            if order.week > self.week:
                ahead[order.sku] += order.gpus
        return ahead

    def _neocloud_index(self) -> float:
        """Median neocloud quote for the H100 without premia over its base list, ln; 0 without neoclouds."""
        s, sku = self.suppliers, self.tables.sku_index["H100"]
        members = (s.provider_class == NEOCLOUD) & s.alive & (s.available_gpus[:, sku] > 0.0)
        if not members.any():
            return 0.0
        quotes = s.shadow_ln[members, sku] - s.premium_ln[members] - s.sku_premium_ln[members, sku]
        return float(np.median(quotes) - np.log(self.base_list_usd[sku]))

    def tenant(self, index: int) -> TenantRow:
        """One tenant row for people."""
        t, names = self.tenants, self.suppliers.names
        home, last = int(t.home[index]), int(t.last_supplier[index])
        return TenantRow(
            index=index,
            segment=self.tables.segments[int(t.segment[index])].name,
            weight=float(t.weight[index]),
            term=TERM_NAMES[int(t.term[index])],
            size_h100e=float(t.size_h100e[index]),
            wanted_h100e=float(t.wanted_h100e[index]),
            sensitivity=float(t.sensitivity[index]),
            reservation_usd=float(t.reservation_usd[index]),
            amd_ready=bool(t.amd_ready[index]),
            home=names[home] if home >= 0 else None,
            last_supplier=names[last] if last >= 0 else None,
        )
