"""What a GPU-hour costs its owner: capital, rack space, electricity, upkeep.

``full cost = capital × annuity / 8,760 + running``, with
``running = kW × (colocation / 730 + PUE × load × electricity) + upkeep × capital / 8,760`` (USD per GPU-hour).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from market.parameters import Parameters, parameter
from market.tables import Sku
from market.units import HOURS_PER_MONTH, HOURS_PER_YEAR

__all__ = [
    "CostParameters",
    "capital_recovery",
    "cost_parts_usd_per_gpu_hour",
    "full_cost_usd_per_gpu_hour",
    "running_usd_per_gpu_hour",
]


class CostParameters(Parameters):
    """Prices and rates in the cost of ownership; units and sources in ``parameters.csv``, section ``costs``."""

    cost_of_capital: float = parameter("costs.cost_of_capital")
    life_years: float = parameter("costs.life_years")
    colocation_usd_per_kw_month: float = parameter("costs.colocation_usd_per_kw_month")
    electricity_usd_per_kwh: float = parameter("costs.electricity_usd_per_kwh")
    power_usage_effectiveness: float = parameter("costs.power_usage_effectiveness")
    load_busy: float = parameter("costs.load_busy")
    load_idle: float = parameter("costs.load_idle")
    operations_share_of_capital: float = parameter("costs.operations_share_of_capital")
    overhead_share_of_revenue: float = parameter("costs.overhead_share_of_revenue")


def capital_recovery(annual_rate: float, years: float) -> float:
    """Level yearly payment per USD of capital, ``r / (1 - (1 + r)^-years)``; ``1 / years`` at a rate of zero."""
    if annual_rate == 0:
        return 1 / years
    return annual_rate / -math.expm1(-years * math.log1p(annual_rate))


def cost_parts_usd_per_gpu_hour(
    skus: Sequence[Sku], costs: CostParameters, load: float
) -> dict[str, NDArray[np.float64]]:
    """Parts of the owner's cost, each of shape (SKUs,) in USD per GPU-hour.

    Args:
        skus: hardware whose ``capex_usd`` and ``power_kw`` count.
        costs: prices and rates.
        load: power drawn over all-in power, ``costs.load_busy`` for a rented GPU.

    Returns:
        ``capital``, ``colocation``, ``electricity`` and ``operations``, in this order.
    """
    capital_usd = np.array([sku.capex_usd for sku in skus], dtype=np.float64)
    power_kw = np.array([sku.power_kw for sku in skus], dtype=np.float64)
    return {
        "capital": capital_usd * capital_recovery(costs.cost_of_capital, costs.life_years) / HOURS_PER_YEAR,
        "colocation": power_kw * costs.colocation_usd_per_kw_month / HOURS_PER_MONTH,
        "electricity": power_kw * costs.power_usage_effectiveness * load * costs.electricity_usd_per_kwh,
        "operations": capital_usd * costs.operations_share_of_capital / HOURS_PER_YEAR,
    }


def running_usd_per_gpu_hour(skus: Sequence[Sku], costs: CostParameters, load: float) -> NDArray[np.float64]:
    """Cost of keeping a GPU in service at ``load``, shape (SKUs,), USD per GPU-hour."""
    parts = cost_parts_usd_per_gpu_hour(skus, costs, load)
    return parts["colocation"] + parts["electricity"] + parts["operations"]


def full_cost_usd_per_gpu_hour(skus: Sequence[Sku], costs: CostParameters) -> NDArray[np.float64]:
    """Owner's cost of a rented GPU-hour, capital included, shape (SKUs,), USD per GPU-hour."""
    parts = cost_parts_usd_per_gpu_hour(skus, costs, costs.load_busy)
    total: NDArray[np.float64] = np.sum(tuple(parts.values()), axis=0)
    return total
