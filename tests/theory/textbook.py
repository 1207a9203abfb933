"""The textbook market: the real market with its frictions set to zero by its levers, prices known in closed form.

An offer is an owner's SKU; each has its own SKU, so that costs, values and vendors may differ, unless all are said to
sell the same. Tenants are alike, buy on demand and choose afresh every week. Quantities are shares of what all tenants
together would take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest

from agents.lender import Lender
from agents.rules.capacity import CAPACITY
from agents.rules.participation import PARTICIPATION, LeptonParameters
from agents.rules.pricing import PRICING, PricingParameters
from agents.segment import Segment
from agents.seller import Seller
from agents.vendor.developer_cloud import DEVELOPER_CLOUD, DeveloperCloud, DeveloperCloudParameters
from agents.vendor.vendor import Vendor
from market.arrays import Floats, Ints
from market.choice import ChoiceParameters
from market.clearing.posted import ClearingParameters
from market.costs import CostParameters
from market.demand import DemandParameters
from market.finance import FinanceParameters
from market.forecast import DemandForecast
from market.hardware import RoadmapParameters
from market.model import MarketModel
from market.outlook import CapacityParameters
from market.suppliers import SupplierSpec
from market.tables import Tables, load_tables
from market.tenants import TenantParameters
from market.throughput import SoftwareParameters
from market.units import HOURS_PER_MONTH, TERM_NAMES, Term
from market.world import Population, PricingState, World

POTENTIAL_GPUS = 1000.0
ROOMY = 1.25  # capacity of an offer without limit: it could serve everybody
TICK_USD = 1e-4
STARTS = {"at cost": 1.0, "at twice cost": 2.0}
ORDERS = ("together", "in turn", "in turn, last first")
from_everywhere = pytest.mark.parametrize(
    ("start", "order"),
    [(STARTS["at cost"], ORDERS[0]), (STARTS["at twice cost"], ORDERS[0]), (1.0, ORDERS[1]), (2.0, ORDERS[2])],
    ids=["at cost, together", "at twice cost, together", "at cost, in turn", "at twice cost, in turn, last first"],
)
"""Two starts and both orders of moving."""


@dataclass(frozen=True)
class Backstop:
    """A vendor's desk that sells a share of potential demand at a fixed price."""

    price_usd: float
    value_usd: float
    capacity: float


@dataclass(frozen=True)
class Textbook:
    """A logit market.

    Attributes:
        value_usd, cost_usd: Tenants' value and the seller's marginal cost by offer.
        sensitivity: Price sensitivity per USD.
        owner: Seller of each offer; by default each has its own.
        capacity: Shares of potential demand by offer; by default no limit.
        amd: Whether an offer is AMD's; by default none is.
        one_sku: Whether all offers are of the first one's SKU, so that sellers see each other as rivals in it.
        outside: Whether tenants may buy nothing.
        unserved: What tenants do whose choice is full.
        correlation: Correlation of tastes within a vendor.
        switching_usd: Cost of leaving the last seller.
        fee_share: Part of revenue that a platform takes.
        backstop: A vendor's desk beside the sellers.
        firm_share, firm_lease_usd: Part of fleets that a vendor leases back in full, and its rent.
        loyal_share: Part of tenants whose last seller is the first one, the others' the second, every week anew;
            sellers then know the tenants of the market instead of a public sample, which is nobody's.
        rows: Rows that stand for the tenants; a few do where demand is only expected.
    """

    value_usd: Sequence[float]
    cost_usd: Sequence[float]
    sensitivity: float
    owner: Sequence[int] | None = None
    capacity: Sequence[float] | None = None
    amd: Sequence[bool] | None = None
    one_sku: bool = False
    outside: bool = True
    unserved: Literal["next", "leave"] = "next"
    correlation: float = 0.0
    switching_usd: float = 0.0
    fee_share: float = 0.0
    backstop: Backstop | None = None
    firm_share: float = 0.0
    firm_lease_usd: float = 0.0
    loyal_share: float | None = None
    rows: int = 5

    def but(self, **changes: Any) -> Textbook:
        """The same market with other arguments."""
        return replace(self, **changes)

    @property
    def owners(self) -> Ints:
        """Seller of each offer, numbered from 0 in order of appearance."""
        named = list(range(len(self.cost_usd))) if self.owner is None else list(self.owner)
        return np.array([list(dict.fromkeys(named)).index(name) for name in named])

    @property
    def skus(self) -> Ints:
        """SKU of each offer."""
        return np.arange(len(self.cost_usd)) * (not self.one_sku)

    @property
    def fleets(self) -> Floats:
        """GPUs by offer."""
        shares = [ROOMY] * len(self.cost_usd) if self.capacity is None else self.capacity
        return POTENTIAL_GPUS * np.array(shares, np.float64)


@dataclass
class TextbookMarket:
    """The model of a textbook case; vectors are by offer."""

    case: Textbook
    model: MarketModel
    tick_usd: float = TICK_USD
    lots: tuple[Ints, Ints] = field(init=False)

    def __post_init__(self) -> None:
        self.lots = (self.case.owners, self.case.skus)
        if self.case.loyal_share is not None:
            self.model.forecast = DemandForecast(self.model, self.model.tenants)
            self.model.view = replace(self.model.view, demand=self.model.forecast)
            self._make_loyal()

    def _make_loyal(self) -> None:
        if self.case.loyal_share is not None:
            tenants = self.model.tenants
            first = round(self.case.loyal_share * len(tenants))
            assert first == pytest.approx(self.case.loyal_share * len(tenants)), "rows do not split in these shares"
            tenants.last_supplier[:] = np.arange(len(tenants)) >= first

    def prices(self) -> Floats:
        """Posted on-demand prices."""
        return self.model.book.price_usd[*self.lots, Term.ON_DEMAND].copy()

    def rest(self, order: str = "together", rounds: int = 1000, still_usd: float | None = None) -> Floats:
        """Prices once no seller moves by more than a tick in a round.

        Raises:
            AssertionError: prices still move after so many rounds.
        """
        still = 1.000001 * (self.tick_usd if still_usd is None else still_usd)
        for _ in range(rounds):
            before = self.prices()
            self._round(order)
            if np.abs(self.prices() - before).max() <= still:
                return self.prices()
        raise AssertionError(f"prices still move after {rounds} rounds")

    def _round(self, order: str) -> None:
        """All sellers move once: in one week, or one a week."""
        rows = [row for row, _ in self.model.sellers]
        moves = [rows] if order == "together" else [[row] for row in (rows if order == "in turn" else rows[::-1])]
        for movers in moves:
            for row, seller in self.model.sellers:
                seller.rule = PRICING["best-response" if row in movers else "fixed"]
            self._make_loyal()
            self.model.step()

    def expected(self, prices: Floats | None = None, seller: int | None = None) -> Floats:
        """Shares of potential demand that offers may expect; ``prices`` of one seller's offers move, others stand."""
        shown = self.prices()
        asked = shown if prices is None else prices
        shares = np.zeros(len(shown))
        for row in range(len(self.model.sellers)) if seller is None else [seller]:
            mine = np.flatnonzero(self.case.owners == row)
            trial = np.ones(self.model.book.price_usd.shape[1])
            trial[self.case.skus[mine]] = asked[mine]
            shares[mine] = self.model.view.demand(row, trial)[self.case.skus[mine]]
        return shares / POTENTIAL_GPUS

    def profits(self, prices: Floats | None = None, seller: int | None = None) -> Floats:
        """Expected profit by offer, USD per potential GPU-hour."""
        asked = self.prices() if prices is None else prices
        margin = (1.0 - self.case.fee_share) * asked - np.array(self.case.cost_usd)
        return margin * self.expected(prices, seller)

    def gain_from_deviation(self, offer: int, trial_usd: Floats) -> float:
        """The most an owner gains by another price of one of its offers, all else equal."""
        seller, prices = int(self.case.owners[offer]), self.prices()
        at_rest = self.profits(seller=seller).sum()
        return max(self.profits(_with(prices, offer, usd), seller).sum() for usd in trial_usd) - float(at_rest)

    def backstop_share(self) -> float:
        """Share of potential demand that the desk may expect; 0 where it is closed."""
        row, sku = self.model.cloud_row, self.model.desk_sku
        if row < 0 or np.isnan(self.model.book.price_usd[row, sku, Term.ON_DEMAND]):
            return 0.0
        shown = np.nan_to_num(self.model.book.price_usd[row, :, Term.ON_DEMAND], nan=1.0)
        return float(self.model.view.demand(row, shown)[sku] / POTENTIAL_GPUS)

    def new_week(self) -> None:
        """Expectations are formed once a week; after this they see what stands now."""
        self._make_loyal()
        self.model.open_week()

    def hold(self) -> None:
        """From now on sellers keep their prices."""
        for _, seller in self.model.sellers:
            seller.rule = PRICING["fixed"]

    def sold(self, weeks: int) -> Floats:
        """Shares of potential demand sold at prices that stand, by week and offer ``(weeks, offers)``."""
        self.hold()
        shares = []
        for _ in range(weeks):
            self.model.step()
            shares.append(self.model.sold_gpus()[self.lots] / POTENTIAL_GPUS)
        return np.array(shares)


def _with(prices: Floats, offer: int, usd: float) -> Floats:
    moved = prices.copy()
    moved[offer] = usd
    return moved


def textbook(
    case: Textbook, start_usd: Sequence[float] | Floats, *, tick_usd: float = TICK_USD, seed: int = 0
) -> TextbookMarket:
    """The market of a case, sellers starting at these prices (a tick at least)."""
    tables = _tables(case)
    pricing = PricingParameters(
        neocloud_rule="best-response",
        floor_factor=0.0,
        noise_sd=0.0,
        anchor_weight=0.0,
        best_response_tick_usd=tick_usd,
        best_response_fee_share=case.fee_share,
    )
    start = np.maximum(np.asarray(start_usd, np.float64), tick_usd)
    model = MarketModel(_world(case, tables), _population(case, tables, pricing, start), seed)
    return TextbookMarket(case, model, tick_usd)


def at_rest(world: Textbook, start: float = 1.0, order: str = "together", tick_usd: float = TICK_USD) -> TextbookMarket:
    """The market after its prices came to rest, expectations as of now."""
    market = textbook(world, start * np.array(world.cost_usd), tick_usd=tick_usd)
    market.rest(order)
    market.new_week()
    return market


def each(values: Floats) -> float:
    """What equal sellers have in common."""
    assert np.ptp(values) <= 0.005
    return float(values.mean())


def _tables(case: Textbook) -> Tables:
    shipped = load_tables()
    h100 = shipped.skus[shipped.sku_index["H100"]]
    amd = [False] * len(case.cost_usd) if case.amd is None else list(case.amd)
    desk = [] if case.backstop is None else [(0.0, False)]
    skus = tuple(
        # At a rent of 1 USD per kW-hour, power in kW is cost in USD per hour.
        h100.model_copy(update={"name": f"H100 {n}" if n else "H100", "vendor": vendor, "power_kw": cost})
        for n, (cost, vendor) in enumerate(
            (cost, "amd" if is_amd else "nvidia")
            for cost, is_amd in [*zip(case.cost_usd, amd, strict=True)][: case.skus.max() + 1] + desk
        )
    )
    laws = {
        "demand_share": 1.0,
        "tenant_count": case.rows,
        "size_sd": 0.0,
        "price_sensitivity": case.sensitivity,
        "lock_in": 0.0,
        "review_hazard_per_week": 1.0,
        **{f"term_share_{name}": float(name == "on_demand") for name in TERM_NAMES},
    }
    seller = next(row for row in shipped.sellers if row.name == "Lambda").model_copy(update={"gpu_debt": False})
    return replace(
        shipped,
        skus=skus,
        sellers=tuple(seller.model_copy(update={"name": name}) for name in _names(case)),
        fleets=(),
        deliveries=(),
        entrants=(),
        segments=(shipped.segments[0].model_copy(update=laws),),
    )


def _names(case: Textbook) -> list[str]:
    return [f"seller {number}" for number in range(case.owners.max() + 1)]


def _world(case: Textbook, tables: Tables) -> World:
    still = {
        f"{name}_sd": 0.0 for name in ("sensitivity", "lock_in", "vendor_taste", "switching_cost", "quality_weight")
    }
    tenants = TenantParameters(
        rows=case.rows,
        rows_per_segment_minimum=1,
        home_share=0.0,
        opening_demand_factor=1.0,
        size_cap_share=1.0,
        amd_ready_share=1.0,
        switching_cost=case.switching_usd,
        quality_weight=0.0,
        taste_scale=0.0,
        **still,
    )
    return World(
        tables=tables,
        # Any load, also one that no scenario may hold.
        tenants=tenants.model_copy(
            update={"opening_load": POTENTIAL_GPUS / (case.fleets.sum() * (1.0 - case.firm_share))}
        ),
        demand=DemandParameters(
            growth_first_per_year=0.0, regime=False, common_sd=0.0, own_sd=0.0, intensive_elasticity=0.0
        ),
        choice=ChoiceParameters(
            utility="linear",
            size_pull=0.0,
            home_advantage=0.0,
            port_cost=0.0,
            all_sellers_known=True,
            outside_option=case.outside,
            readiness_hazard=0.0,
            vendor_correlation=case.correlation,
        ),
        clearing=ClearingParameters(unserved=case.unserved, need_threshold=0.0, stop_threshold=0.0, skip_threshold=0.0),
        software=SoftwareParameters(
            **{name: 1.0 for name in SoftwareParameters.model_fields if name.endswith("_start")}, maturity_moves=False
        ),
        costs=CostParameters(
            colocation_usd_per_kw_month=HOURS_PER_MONTH,
            electricity_usd_per_kwh=0.0,
            operations_share_of_capital=0.0,
            overhead_share_of_revenue=case.fee_share,
        ),
        finance=FinanceParameters(default_enabled=False, debt_to_capital_mixed=0.0, tax_rate=0.0),
        capacity=CapacityParameters(orders=False, retirement=False),
        roadmap=RoadmapParameters(),
        pricing=PricingState(0.2, 0.8, 1.25, 0.82, 0.85, 0.0, 0.0, 1000),
    )


def _suppliers(case: Textbook, start_usd: Floats) -> list[SupplierSpec]:
    """Sellers, the first of which stands behind the backstop, and the vendor's desk."""
    skus = int(case.skus.max()) + 1 + (case.backstop is not None)
    behind = 0.0 if case.backstop is None else case.backstop.capacity * POTENTIAL_GPUS

    def spec(name: str, provider_class: str, fleet: Floats, firm: Floats, listed: Floats) -> SupplierSpec:
        on_demand = np.arange(len(TERM_NAMES)) == Term.ON_DEMAND
        return SupplierSpec(name, provider_class, "both", True, 0.0, 0.0, 0.0, on_demand, fleet, firm, listed)

    specs = []
    for row, name in enumerate(_names(case)):
        fleet, firm, listed = np.zeros(skus), np.zeros(skus), np.full(skus, np.nan)
        mine = np.flatnonzero(case.owners == row)
        fleet[case.skus[mine]], listed[case.skus[mine]] = case.fleets[mine], start_usd[mine]
        firm[case.skus[mine]] = case.firm_share * fleet[case.skus[mine]]
        if row == 0 and case.backstop is not None:
            fleet[-1] = firm[-1] = behind
        specs.append(spec(name, "neocloud", fleet, firm, listed))
    if case.backstop is not None:
        specs.append(spec(DEVELOPER_CLOUD, "vendor_desk", np.zeros(skus), np.zeros(skus), np.full(skus, np.nan)))
    return specs


def _desk(case: Textbook, tables: Tables) -> DeveloperCloud | None:
    if case.backstop is None:
        return None
    terms = DeveloperCloudParameters(
        sku=tables.skus[-1].name,
        price_usd_per_gpu_hour=case.backstop.price_usd,
        cap_gpus=case.backstop.capacity * POTENTIAL_GPUS,
        start_week=1,
        quota_minimum_gpus=POTENTIAL_GPUS,
        readiness_hazard=0.0,
    )
    return DeveloperCloud(len(tables.skus) - 1, terms)


def _population(case: Textbook, tables: Tables, pricing: PricingParameters, start_usd: Floats) -> Population:
    rule, segment, backstop = PRICING["best-response"], tables.segments[0], case.backstop
    own = np.array(case.value_usd, np.float64)[: case.skus.max() + 1]
    values = np.append(own, [] if backstop is None else backstop.value_usd)

    def seller(name: str) -> Callable[[MarketModel], Seller]:
        return lambda model: Seller(
            model,
            name,
            "neocloud",
            "both",
            pricing=(rule, pricing),
            participation=(PARTICIPATION["off"], LeptonParameters()),
            capacity=(CAPACITY["none"], CapacityParameters()),
        )

    return Population(
        suppliers=_suppliers(case, start_usd),
        agents=[
            *(seller(name) for name in _names(case)),
            lambda model: Vendor(model, "AMD", developer_cloud=_desk(case, tables)),
            lambda model: Vendor(model, "Nvidia"),
            lambda model: Segment(model, segment.name, 0, segment.review_hazard_per_week, 0.0),
            lambda model: Lender(model, "lenders", FinanceParameters()),
        ],
        partners=[] if backstop is None else _names(case)[:1],
        desk_sku=tables.skus[-1].name,
        firm_lease_usd=case.firm_lease_usd,
        firm_last_week=1_000_000,
        cloud="" if backstop is None else DEVELOPER_CLOUD,
        pool="",
        value_usd=dict.fromkeys([*_names(case), *([] if backstop is None else [DEVELOPER_CLOUD])], values),
    )
