"""Hardware: what GPUs of each SKU cost to buy and to run, and when they can be ordered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from market.costs import CostParameters, full_cost_usd_per_gpu_hour, running_usd_per_gpu_hour
from market.parameters import Parameters, parameter
from market.randomness import agent_keys
from market.rows import Sku

__all__ = ["Hardware", "RoadmapParameters"]


class RoadmapParameters(Parameters):
    """Slips of announced chips."""

    vr_slip_weeks: int = parameter("roadmap.vr_slip_weeks")
    mi400_slip_weeks: int = parameter("roadmap.mi400_slip_weeks")


class Hardware:
    """Columns by SKU, ``(skus,)``.

    Attributes:
        keys: Identity in draws, 64 bits.
        is_amd: Whether AMD makes it, else Nvidia.
        base_list_usd: List price of a seller without premium at the opening, USD per GPU-hour.
        capex_usd: Capital cost, USD per GPU.
        launch_week: Launch as announced; ``last_order_week`` the last for orders, infinite where none is known.
        running_usd, idle_usd: Cost to its owner of an hour that is let and of one that is not, USD per GPU-hour.
        full_cost_usd: Owner's full cost of an hour, USD per GPU-hour.
        floor_usd: Lowest list price, USD per GPU-hour.

    Args:
        skus: Rows of the hardware table.
        costs: Prices of inputs.
        roadmap: Slips of announced chips.
        floor_factor: Lowest list price over running cost.
    """

    def __init__(
        self, skus: Sequence[Sku], costs: CostParameters, roadmap: RoadmapParameters, floor_factor: float
    ) -> None:
        self._skus, self._floor_factor = skus, floor_factor
        self.keys = agent_keys([sku.name for sku in skus])
        self.is_amd = np.array([sku.vendor == "amd" for sku in skus])
        self.base_list_usd = np.array([sku.base_list_usd_per_gpu_hour for sku in skus], np.float64)
        self.capex_usd = np.array([sku.capex_usd for sku in skus], np.float64)
        # A slip moves a chip and its successor.
        slip = {"vr": roadmap.vr_slip_weeks, "mi400": roadmap.mi400_slip_weeks}
        late = np.array([slip.get(sku.roadmap_group or "", 0) for sku in skus])
        self.launch_week = np.array([sku.launch_week for sku in skus], np.float64) + late
        last = [np.inf if sku.last_order_week is None else sku.last_order_week for sku in skus]
        self.last_order_week = np.array(last, np.float64)
        self.price_hours(costs)

    def price_hours(self, costs: CostParameters) -> None:
        """What an hour costs its owner at today's prices of inputs, and the floor under list prices."""
        self.running_usd = running_usd_per_gpu_hour(self._skus, costs, costs.load_busy)
        self.idle_usd = running_usd_per_gpu_hour(self._skus, costs, costs.load_idle)
        self.full_cost_usd = full_cost_usd_per_gpu_hour(self._skus, costs)
        self.floor_usd = self._floor_factor * self.running_usd
