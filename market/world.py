"""What a market is made of: tables and parameters, and the population that takes part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import mesa

from market.arrays import Floats
from market.choice import ChoiceParameters
from market.clearing.posted import ClearingParameters
from market.costs import CostParameters
from market.demand import DemandParameters
from market.events import Event
from market.finance import FinanceParameters
from market.hardware import RoadmapParameters
from market.outlook import CapacityParameters
from market.suppliers import SupplierSpec
from market.tables import Tables
from market.tenants import TenantParameters
from market.throughput import SoftwareParameters

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["AgentBuilder", "Population", "PricingState", "World"]


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


AgentBuilder: TypeAlias = Callable[["MarketModel"], mesa.Agent]


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
