"""What buyers of GPUs can see: slack, the visible pipeline, growth, and what a chip earns at one year.

Also the vendors' side of a round of orders: supply limits and their allocation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats
from market.decisions import HardwareOrder
from market.parameters import Parameters, parameter
from market.suppliers import HYPERSCALER
from market.units import WEEKS_PER_YEAR, Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = [
    "CapacityParameters",
    "Outlook",
    "OutlookMemory",
    "allocate",
    "see_outlook",
    "supply_limits",
]

_WEEKS_PER_QUARTER = 13
_GROWTH_MEMORY_WEEKS = 13
_SPILL_PASSES = 4


class CapacityParameters(Parameters):
    """Orders, supply limits, entry and retirement."""

    orders: bool = parameter("capacity.orders")
    rule: str = parameter("capacity.rule")
    round_weeks: int = parameter("capacity.round_weeks")
    lead_weeks: int = parameter("capacity.lead_weeks")
    lead_spread_weeks: int = parameter("capacity.lead_spread_weeks")
    target_load: float = parameter("capacity.target_load")
    entry_exponent: float = parameter("capacity.entry_exponent")
    index_minimum: float = parameter("capacity.index_minimum")
    index_maximum: float = parameter("capacity.index_maximum")
    gap_share: float = parameter("capacity.gap_share")
    fleet_exponent: float = parameter("capacity.fleet_exponent")
    hyperscaler_weight: float = parameter("capacity.hyperscaler_weight")
    marketplace_weight: float = parameter("capacity.marketplace_weight")
    covenant_weight: float = parameter("capacity.covenant_weight")
    least_eagerness: float = parameter("capacity.least_eagerness")
    full_margin: float = parameter("capacity.full_margin")
    choice_temperature: float = parameter("capacity.choice_temperature")
    fleet_share_maximum: float = parameter("capacity.fleet_share_maximum")
    order_allowance_h100e: float = parameter("capacity.order_allowance_h100e")
    entrant_allowance_h100e: float = parameter("capacity.entrant_allowance_h100e")
    demand_memory: float = parameter("capacity.demand_memory")
    growth_minimum: float = parameter("capacity.growth_minimum")
    growth_maximum: float = parameter("capacity.growth_maximum")
    unserved_weight: float = parameter("capacity.unserved_weight")
    unserved_maximum: float = parameter("capacity.unserved_maximum")
    rent_drift_per_year: float = parameter("capacity.rent_drift_per_year")
    haircut: float = parameter("capacity.haircut")
    contracted_base: float = parameter("capacity.contracted_base")
    hurdle_rate: float = parameter("capacity.hurdle_rate")
    hurdle_contracted: float = parameter("capacity.hurdle_contracted")
    horizon_years: float = parameter("capacity.horizon_years")
    residual_share: float = parameter("capacity.residual_share")
    floor_years: float = parameter("capacity.floor_years")
    used_maximum: float = parameter("capacity.used_maximum")
    amd_appraisal: float = parameter("capacity.amd_appraisal")
    nvidia_only_bias: float = parameter("capacity.nvidia_only_bias")
    hyperscaler_amd_bias: float = parameter("capacity.hyperscaler_amd_bias")
    hyperscaler_bonus: float = parameter("capacity.hyperscaler_bonus")
    nvidia_limit_gpus_per_quarter: float = parameter("capacity.nvidia_limit_gpus_per_quarter")
    nvidia_limit_growth: float = parameter("capacity.nvidia_limit_growth")
    amd_limit_gpus_per_quarter: float = parameter("capacity.amd_limit_gpus_per_quarter")
    amd_limit_growth: float = parameter("capacity.amd_limit_growth")
    supply_limits: bool = parameter("capacity.supply_limits")
    ramp_weeks: int = parameter("capacity.ramp_weeks")
    ramp_minimum: float = parameter("capacity.ramp_minimum")
    equity_floor_usd: float = parameter("capacity.equity_floor_usd")
    equity_share_of_book: float = parameter("capacity.equity_share_of_book")
    service_reserve_weeks: int = parameter("capacity.service_reserve_weeks")
    entry: bool = parameter("capacity.entry")
    entry_index: float = parameter("capacity.entry_index")
    entry_probability: float = parameter("capacity.entry_probability")
    retirement: bool = parameter("capacity.retirement")
    retirement_patience_weeks: int = parameter("capacity.retirement_patience_weeks")
    retirement_share: float = parameter("capacity.retirement_share")


@dataclass(frozen=True, slots=True)
class Outlook:
    """The public state of capacity at a round of orders.

    Attributes:
        forecast_h100e: Work that sellers expect to be wanted when orders arrive.
        capacity_h100e: Capacity on sale now; ``pipeline_h100e`` what is on its way.
        price_usd: One-year price of a SKU, or its appraisal before any sale, USD per GPU-hour ``(skus,)``.
        work_per_gpu: H100 equivalents of a GPU, demand-weighted ``(skus,)``.
        order_weight: Sum over buyers of fleet^exponent with class weights: what a buyer's share is a share of.
        best_index: Best profit index of the last round, 1 at first.
        orderable: Whether a SKU can be ordered to arrive, ``(skus,)``.
    """

    forecast_h100e: float
    capacity_h100e: float
    pipeline_h100e: float
    price_usd: Floats
    work_per_gpu: Floats
    order_weight: float
    best_index: float
    orderable: Bools

    def gap_h100e(self, p: CapacityParameters) -> float:
        """Capacity wanted beyond what stands and is on its way, not below 0.

        Slack and a visible pipeline stop orders; high margins raise wanted capacity (free entry).
        """
        appetite = float(np.clip(self.best_index, p.index_minimum, p.index_maximum)) ** p.entry_exponent
        wanted = self.forecast_h100e / p.target_load * appetite
        return max(0.0, float(wanted) - self.capacity_h100e - self.pipeline_h100e)

    @property
    def expected_use(self) -> float:
        """Forecast demand over capacity and pipeline."""
        return self.forecast_h100e / max(self.capacity_h100e + self.pipeline_h100e, 1e-300)


class OutlookMemory:
    """Past demand, from which sellers read growth."""

    def __init__(self) -> None:
        self.demand_h100e: deque[float] = deque(maxlen=_GROWTH_MEMORY_WEEKS + 1)
        self.best_index = 1.0

    def growth_per_year(self, prior: float) -> float:
        """Growth of demand over the last quarter, per year; ``prior`` until a quarter with demand has been seen."""
        if len(self.demand_h100e) <= _GROWTH_MEMORY_WEEKS or self.demand_h100e[0] <= 0.0:
            return prior
        ratio = self.demand_h100e[-1] / self.demand_h100e[0]
        return float(np.log(ratio)) * WEEKS_PER_YEAR / _GROWTH_MEMORY_WEEKS if ratio > 0.0 else -np.inf


def _one_year_prices(model: MarketModel, p: CapacityParameters) -> Floats:
    """Fleet-weighted one-year price by SKU over sellers without hyperscalers; appraisals where nobody sells yet."""
    s = model.suppliers
    members = s.third_party & s.alive & (s.provider_class != HYPERSCALER)
    price = model.book.price_usd[members, :, Term.ONE_YEAR]
    fleet = np.where(np.isnan(price), 0.0, s.available_gpus[members])
    total = fleet.sum(axis=0)
    sold = np.divide(
        (np.nan_to_num(price) * fleet).sum(axis=0), total, out=np.full(len(total), np.nan), where=total > 0
    )
    per_work = np.nanmedian(sold / model.software.reference_work) if not np.isnan(sold).all() else 0.0
    appraisal = per_work * model.software.reference_work * np.where(model.hardware.is_amd, p.amd_appraisal, 1.0)
    return np.asarray(np.where(np.isnan(sold), appraisal, sold))


def see_outlook(model: MarketModel) -> Outlook:
    """The public outlook at last close."""
    p, s = model.world.capacity, model.suppliers
    work = model.software.reference_work
    available = s.available_gpus[s.third_party & s.alive].sum(axis=0)
    capacity = float(available @ work)
    memory = model.outlook_memory
    growth = float(
        np.clip(memory.growth_per_year(model.world.demand.growth_first_per_year), p.growth_minimum, p.growth_maximum)
    )
    ahead_weeks = p.lead_weeks + p.lead_spread_weeks
    forecast = memory.demand_h100e[-1] * float(np.exp(p.demand_memory * growth * ahead_weeks / WEEKS_PER_YEAR))
    arrives = model.week + 1 + p.lead_weeks
    return Outlook(
        forecast_h100e=forecast,
        capacity_h100e=capacity,
        pipeline_h100e=float(model.announced_gpus() @ work),
        price_usd=_one_year_prices(model, p),
        work_per_gpu=work,
        order_weight=float(_order_weights(model, p).sum()),
        best_index=memory.best_index,
        orderable=(model.hardware.launch_week <= arrives) & (model.week + 1 <= model.hardware.last_order_week),
    )


def _order_weights(model: MarketModel, p: CapacityParameters) -> Floats:
    """Weight of every supplier in orders."""
    s = model.suppliers
    fleet = np.where(s.third_party & s.alive, s.available_gpus @ model.software.reference_work, 0.0)
    by_class = np.array([p.hyperscaler_weight, 1.0, p.marketplace_weight, 0.0])
    return np.asarray(np.maximum(fleet, 0.0) ** p.fleet_exponent * (fleet > 0.0) * by_class[s.provider_class])


def supply_limits(model: MarketModel) -> tuple[Floats, dict[bool, float]]:
    """GPUs that vendors can promise in a round: by SKU ``(skus,)``, and in all by whether the vendor is AMD.

    A new SKU gets a growing part of its vendor's supply, from a minimum at launch to all of it after the ramp.
    """
    p = model.world.capacity
    quarters = model.week / _WEEKS_PER_QUARTER
    share = p.round_weeks / _WEEKS_PER_QUARTER
    total = {
        False: p.nvidia_limit_gpus_per_quarter * float(np.exp(p.nvidia_limit_growth * quarters)) * share,
        True: p.amd_limit_gpus_per_quarter * float(np.exp(p.amd_limit_growth * quarters)) * share,
    }
    if not p.supply_limits:
        return np.full(len(model.hardware.is_amd), np.inf), {False: np.inf, True: np.inf}
    ramp = np.clip((model.week + p.lead_weeks - model.hardware.launch_week) / p.ramp_weeks, p.ramp_minimum, 1.0)
    return np.where(model.hardware.is_amd, total[True], total[False]) * ramp, total


def allocate(
    orders: list[HardwareOrder],
    work_per_gpu: Floats,
    limit_gpus: Floats,
    vendor_limit: dict[bool, float],
    is_amd: Bools,
) -> Floats:
    """GPUs each buyer gets, ``(buyers, skus)``: what exceeds a limit spills to the buyer's next best SKU, then is cut.

    Args:
        orders: Wishes of the buyers, in a fixed order.
        work_per_gpu: H100 equivalents of a GPU, ``(skus,)``.
        limit_gpus: Limit by SKU, ``(skus,)``.
        vendor_limit: Limit over all SKUs of a vendor, by whether it is AMD.
        is_amd: Vendor of each SKU.
    """
    got = np.zeros((len(orders), len(work_per_gpu)))
    if not orders:
        return got
    wish = np.array([order.work_h100e / work_per_gpu for order in orders])
    index = np.array([order.profit_index for order in orders])
    tried = np.zeros(wish.shape, np.bool_)
    left = limit_gpus.copy()
    vendor_left = dict(vendor_limit)
    for _ in range(_SPILL_PASSES):
        room = left.copy()
        for amd, total in vendor_left.items():
            mine = is_amd == amd
            asked = np.minimum(wish[:, mine].sum(axis=0), room[mine])
            room[mine] = asked * (min(1.0, max(total, 0.0) / asked.sum()) if asked.any() else 1.0)
        asked_by_sku = wish.sum(axis=0)
        share = np.minimum(1.0, np.divide(room, asked_by_sku, out=np.ones(len(room)), where=asked_by_sku > 0.0))
        granted = wish * share
        got += granted
        left = left - granted.sum(axis=0)
        for amd in vendor_left:
            vendor_left[amd] -= float(granted[:, is_amd == amd].sum())
        tried |= wish > 0.0
        spill_work = ((wish - granted) * work_per_gpu).sum(axis=1)
        rest = np.where(tried | (index <= 1.0) | (left <= 0.0), -np.inf, index)
        best = rest.argmax(axis=1)
        wish = np.zeros(wish.shape)
        can = np.isfinite(rest.max(axis=1)) & (spill_work > 0.0)
        wish[can, best[can]] = spill_work[can] / work_per_gpu[best[can]]
        if not can.any():
            break
    return got
