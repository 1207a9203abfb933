"""What a GPU-hour costs its owner, when it breaks even, when the money is back and what it returns.

Every cost is `market.costs`, so the calculator and the market cannot differ. Per installed GPU-hour at utilisation u::

    cash  = u × price × (1 - overhead) - u × running(busy) - (1 - u) × running(idle)
    price breaks even where  cash = capital × annuity(cost of capital, life) / 8,760

No tax, no residual value, no time to install. A GPU whose cash would be negative is switched off and earns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from market.arrays import Floats
from market.costs import (
    CostParameters,
    cost_parts_usd_per_gpu_hour,
    full_cost_usd_per_gpu_hour,
    running_usd_per_gpu_hour,
)
from market.tables import SegmentRow, Sku
from market.throughput import SoftwareParameters, maturity_start, relative_throughput, throughput, vendor_index
from market.units import HOURS_PER_YEAR, WEEKS_PER_YEAR

__all__ = [
    "BreakEven",
    "OwnersCost",
    "Rent",
    "Return",
    "break_even_price",
    "break_even_utilisation",
    "cash_path_usd_per_year",
    "opening_throughput",
    "owners_costs",
    "present_value_usd",
    "returns",
]

_ENOUGH = 1.0 - 1e-12  # capital counts as earned back in spite of rounding


# ------------------------------------------------------------------------------------------------ cost


@dataclass(frozen=True)
class OwnersCost:
    """An owner's cost of a GPU-hour in parts; the first four sum to the full cost of the market.

    Attributes:
        sku: name of the GPU.
        capital_usd_per_gpu_hour: capital cost as a level payment over its life.
        colocation_usd_per_gpu_hour: space and power connection.
        electricity_usd_per_gpu_hour: energy at the load of a rented GPU.
        operations_usd_per_gpu_hour: maintenance and spares.
        full_cost_usd_per_gpu_hour: their sum, what a rented hour costs.
        idle_usd_per_gpu_hour: cost of keeping an unsold hour ready, capital apart.
        overhead_share_of_revenue: sales and staff, over revenue.
        price_at_full_use_usd_per_gpu_hour: price that pays for all of it if every hour is sold; None if overhead
            takes all revenue.
        full_cost_usd_per_h100e_hour: full cost over H100-equivalents per GPU, by segment, opening software.
    """

    sku: str
    capital_usd_per_gpu_hour: float
    colocation_usd_per_gpu_hour: float
    electricity_usd_per_gpu_hour: float
    operations_usd_per_gpu_hour: float
    full_cost_usd_per_gpu_hour: float
    idle_usd_per_gpu_hour: float
    overhead_share_of_revenue: float
    price_at_full_use_usd_per_gpu_hour: float | None
    full_cost_usd_per_h100e_hour: Mapping[str, float]

    @property
    def running_usd_per_gpu_hour(self) -> float:
        """Cost of serving a rented hour, capital apart."""
        return self.colocation_usd_per_gpu_hour + self.electricity_usd_per_gpu_hour + self.operations_usd_per_gpu_hour


def opening_throughput(skus: Sequence[Sku], segments: Sequence[SegmentRow], software: SoftwareParameters) -> Floats:
    """H100-equivalents per GPU in June 2025, software included, shape (segments, SKUs)."""
    return throughput(relative_throughput(skus, segments), vendor_index(skus), maturity_start(segments, software))


def owners_costs(
    skus: Sequence[Sku], segments: Sequence[SegmentRow], costs: CostParameters, software: SoftwareParameters
) -> tuple[OwnersCost, ...]:
    """Costs of all SKUs, in their order; the H100 must be among them, since it is the unit of work."""
    parts = cost_parts_usd_per_gpu_hour(skus, costs, costs.load_busy)
    full = full_cost_usd_per_gpu_hour(skus, costs)
    idle = running_usd_per_gpu_hour(skus, costs, costs.load_idle)
    work = opening_throughput(skus, segments, software)
    kept = 1.0 - costs.overhead_share_of_revenue
    return tuple(
        OwnersCost(
            sku=sku.name,
            **{f"{name}_usd_per_gpu_hour": float(usd[k]) for name, usd in parts.items()},
            full_cost_usd_per_gpu_hour=float(full[k]),
            idle_usd_per_gpu_hour=float(idle[k]),
            overhead_share_of_revenue=costs.overhead_share_of_revenue,
            price_at_full_use_usd_per_gpu_hour=float(full[k]) / kept if kept > 0.0 else None,
            full_cost_usd_per_h100e_hour={row.name: float(full[k] / work[g, k]) for g, row in enumerate(segments)},
        )
        for k, sku in enumerate(skus)
    )


# ------------------------------------------------------------------------------------------------ break-even


@dataclass(frozen=True)
class BreakEven:
    """A price and the utilisation at which it just pays for everything, capital included; one of them was asked for.

    Attributes:
        sku: name of the GPU.
        price_usd_per_gpu_hour: price of a sold hour; None if no price is enough.
        utilisation: share of installed hours sold; None if no share is enough.
        reason: why one of them is None, else blank.
    """

    sku: str
    price_usd_per_gpu_hour: float | None
    utilisation: float | None
    reason: str = ""


def break_even_price(cost: OwnersCost, utilisation: float) -> BreakEven:
    """Price at which a utilisation breaks even: ``(capital + u busy + (1 - u) idle) / (u (1 - overhead))``."""
    if utilisation <= 0.0:
        return BreakEven(cost.sku, None, utilisation, "not reachable: no hours are sold")
    if cost.overhead_share_of_revenue >= 1.0:
        return BreakEven(cost.sku, None, utilisation, "not reachable: overhead takes all revenue")
    needed = cost.capital_usd_per_gpu_hour + cost.idle_usd_per_gpu_hour + utilisation * _extra_when_busy(cost)
    return BreakEven(cost.sku, needed / (utilisation * (1.0 - cost.overhead_share_of_revenue)), utilisation)


def break_even_utilisation(cost: OwnersCost, price_usd_per_gpu_hour: float) -> BreakEven:
    """Utilisation at which a price breaks even: ``(capital + idle) / (price (1 - overhead) - (busy - idle))``."""
    sku, price = cost.sku, price_usd_per_gpu_hour
    margin = price * (1.0 - cost.overhead_share_of_revenue) - _extra_when_busy(cost)
    fixed = cost.capital_usd_per_gpu_hour + cost.idle_usd_per_gpu_hour
    if margin <= 0.0:
        return BreakEven(sku, price, None, "not reachable: a sold hour brings less than serving it costs")
    if fixed > margin:
        why = f"not reachable: {fixed / margin:.2f} of all hours would have to be sold"
        return BreakEven(sku, price, None, why)
    return BreakEven(sku, price, fixed / margin)


def _extra_when_busy(cost: OwnersCost) -> float:
    """What a sold hour costs more than an idle one."""
    return cost.running_usd_per_gpu_hour - cost.idle_usd_per_gpu_hour


# ------------------------------------------------------------------------------------------------ payback and return


@dataclass(frozen=True)
class Rent:
    """How a GPU is let.

    Attributes:
        price_usd_per_gpu_hour: received for a sold hour in the first week.
        utilisation: share of installed hours sold, the same for life.
        price_fall_per_year: share by which the price falls each year, in weekly steps.
    """

    price_usd_per_gpu_hour: float
    utilisation: float
    price_fall_per_year: float = 0.0

    def prices_usd(self, weeks: int) -> Floats:
        """Price in each of so many weeks, USD per GPU-hour."""
        path: Floats = self.price_usd_per_gpu_hour * (1.0 - self.price_fall_per_year) ** (
            np.arange(weeks) / WEEKS_PER_YEAR
        )
        return path


@dataclass(frozen=True)
class Return:
    """What a GPU earns over its life; amounts per GPU, before tax, without residual value.

    Attributes:
        sku: name of the GPU.
        rent: how it is let.
        life_years: over which it is counted.
        capital_usd: what it cost.
        cash_usd_per_year: cash of the first week, as a rate.
        earned_usd: cash over the whole life.
        weeks_in_service: weeks in which its rent covers its running cost: its economic life, at most ``life_years``.
        payback_weeks: when the capital is earned back; None if it is not.
        payback_reason: why not, else blank.
        irr_per_year: discount rate at which the cash is worth the capital, yearly like the cost of capital; None if
            it earns nothing.
        irr_reason: why not, else blank.
    """

    sku: str
    rent: Rent
    life_years: float
    capital_usd: float
    cash_usd_per_year: float
    earned_usd: float
    weeks_in_service: float
    payback_weeks: float | None
    payback_reason: str
    irr_per_year: float | None
    irr_reason: str

    @property
    def payback_years(self) -> float | None:
        """Payback in years of 8,760 hours."""
        return None if self.payback_weeks is None else self.payback_weeks / WEEKS_PER_YEAR


def cash_path_usd_per_year(cost: OwnersCost, rent: Rent, weeks: int) -> Floats:
    """Cash of each week as a yearly rate, USD per GPU; never negative, since the GPU can be switched off."""
    kept = rent.prices_usd(weeks) * (1.0 - cost.overhead_share_of_revenue)
    hour = rent.utilisation * (kept - _extra_when_busy(cost)) - cost.idle_usd_per_gpu_hour
    return np.asarray(np.maximum(hour, 0.0) * HOURS_PER_YEAR)


def returns(cost: OwnersCost, capital_usd: float, life_years: float, rent: Rent) -> Return:
    """Payback and internal rate of return of one GPU.

    Args:
        cost: of the GPU.
        capital_usd: capital cost per GPU.
        life_years: years it is kept; a part of a week counts in proportion.
        rent: price path and utilisation.
    """
    years = _week_years(life_years)
    cash = cash_path_usd_per_year(cost, rent, len(years))
    earned = float(cash @ years)
    payback, why = _payback(cash, years, capital_usd)
    rate = _internal_rate(cash, years, capital_usd) if earned > 0.0 else None
    return Return(
        sku=cost.sku,
        rent=rent,
        life_years=life_years,
        capital_usd=capital_usd,
        cash_usd_per_year=float(cash[0]),
        earned_usd=earned,
        weeks_in_service=float(years[cash > 0.0].sum() * WEEKS_PER_YEAR),
        payback_weeks=payback,
        payback_reason=why,
        irr_per_year=rate,
        irr_reason="" if rate is not None else "rent never covers running cost",
    )


def _week_years(life_years: float) -> Floats:
    """Length of each week of a life in years; the last may be part of a week."""
    whole, part = divmod(life_years * WEEKS_PER_YEAR, 1.0)
    weeks = np.ones(int(whole) + (part > 1e-9))
    if part > 1e-9:
        weeks[-1] = part
    return weeks / WEEKS_PER_YEAR


def _payback(cash: Floats, years: Floats, capital_usd: float) -> tuple[float | None, str]:
    """Weeks until the capital is earned back, or None and why."""
    earned = np.cumsum(cash * years)
    if earned[-1] == 0.0:
        return None, "never: rent does not cover running cost"
    if earned[-1] < capital_usd * _ENOUGH:
        return None, f"never: {earned[-1]:,.0f} of {capital_usd:,.0f} USD earned over its life"
    week = int(np.searchsorted(earned, capital_usd * _ENOUGH))
    missing = capital_usd - (earned[week] - cash[week] * years[week])
    return float((years[:week].sum() + missing / cash[week]) * WEEKS_PER_YEAR), ""


def present_value_usd(cash_usd_per_year: Floats, years: Floats, log_rate: float) -> float:
    """Value of a path of cash at a rate of ``e^log_rate - 1`` a year.

    Cash of a year counts at the year's end, that of a part of a year in proportion, as in
    `market.costs.capital_recovery`: a level path is worth ``cash / capital_recovery(rate, life)`` at any rate.

    Args:
        cash_usd_per_year: rate of cash in each period.
        years: length of each period.
        log_rate: ``ln(1 + rate)``.
    """
    ends = np.cumsum(years)
    if log_rate == 0.0:
        return float(cash_usd_per_year @ years)
    weight = np.exp(-(ends - years) * log_rate) * np.expm1(-years * log_rate) / -np.expm1(log_rate)
    return float(cash_usd_per_year @ weight)


def _internal_rate(cash: Floats, years: Floats, capital_usd: float) -> float:
    """Rate at which the cash is worth the capital; value falls in the rate, so there is one."""
    paying = int(np.flatnonzero(cash)[-1]) + 1  # weeks without cash would weigh infinitely at very negative rates
    cash, years = cash[:paying], years[:paying]

    def excess(log_rate: float) -> float:
        return present_value_usd(cash, years, log_rate) - capital_usd

    low, high = -1.0, 1.0
    while excess(low) < 0.0:
        low *= 2.0
    while excess(high) > 0.0:
        high *= 2.0
    return float(np.expm1(brentq(excess, low, high, xtol=1e-14, rtol=1e-14)))
