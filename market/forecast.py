"""Demand as a seller can know it: public segment laws, everybody's posted prices, open GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats
from market.choice import candidate_pairs, expected_demand, outside_utility, systematic_utility
from market.nests import Nests
from market.opening import opening_tenants
from market.tenants import Tenants
from market.trade import choice_market
from market.units import Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["DemandForecast", "public_sample"]


_SAMPLE_COHORT = -1  # arrival week in the keys of sample rows: no tenant of the market shares a draw with them


def public_sample(model: MarketModel) -> Tenants:
    """A fixed keyed sample from the segment laws; its rows are nobody in the market.

    It is a sample of work, not of tenants: each segment has rows in proportion to its demand, all of one size, as size
    bends no choice. That takes most of the error out of a sample of given length.
    """
    world = model.world
    rows = min(world.pricing.sample_rows, world.tenants.rows)
    share = np.array([max(segment.demand_share, 1e-9) for segment in model.tables.segments])
    counts = sum(segment.tenant_count for segment in model.tables.segments) * share / share.sum()
    segments = [
        segment.model_copy(update={"size_sd": 0.0, "tenant_count": count})
        for segment, count in zip(model.tables.segments, counts.tolist(), strict=True)
    ]
    parameters = world.tenants.model_copy(update={"rows": rows, "rows_per_segment_minimum": 1})
    world = replace(world, tenants=parameters)
    sample = opening_tenants(segments, world, model.suppliers, model.seed, model.opening_h100e, _SAMPLE_COHORT)
    sample.wanted_h100e = sample.size_h100e.copy()
    return sample


class DemandForecast:
    """Expected short-term demand at given on-demand prices, all short-term tenants choosing afresh.

    Utilities are computed once per view; a trial price only moves the seller's own columns.

    Attributes:
        rows: Short-term tenants among ``tenants``.
        lots: Lots on sale to them (supplier × SKU), ``(lots,)``; all that follows has this order.
        price_usd: On-demand prices at last close, ``(lots,)``.
        utility, outside: Utilities in units of the weekly shock, ``(tenants, lots)`` and ``(tenants,)``.
        scale: That unit.
        gpus: GPUs a tenant would take, ``(tenants, lots)``; ``work_per_gpu`` what one of them does.
        capacity: GPUs that short-term tenants could have, ``(lots,)``.
        nests: Vendors of the lots and the correlation of tastes within one.

    Args:
        model: The market, at a close.
        tenants: Who is asked: a public sample for sellers, the market's own tenants for yardsticks.
    """

    def __init__(self, model: MarketModel, tenants: Tenants) -> None:
        self.model, self.tenants = model, tenants
        self.rows = np.flatnonzero(tenants.term <= Term.ON_DEMAND)
        self.week = -1

    def refresh(self) -> None:
        """Look at the market as it stands."""
        model, tenants, rows = self.model, self.tenants, self.rows
        choice = model.world.choice
        market = choice_market(model)
        pairs = candidate_pairs(tenants, rows, market, choice)
        self.lots = np.unique(pairs.lot)
        column = np.searchsorted(self.lots, pairs.lot)
        self.utility = np.full((len(rows), len(self.lots)), -np.inf)
        # In units of the weekly shock; without shocks the sharpest choice that numbers hold.
        self.scale = max(choice.gumbel_scale, 1e-6)
        utility = systematic_utility(tenants, pairs, market, choice, model.seed)
        self.utility[pairs.position, column] = utility / self.scale
        self.outside = outside_utility(tenants, rows, choice) / self.scale
        supplier, sku = np.divmod(self.lots, len(model.tables.skus))
        work = model.software.throughput[tenants.segment[rows][:, None], sku]
        scale = (tenants.size_h100e * tenants.weight)[rows] * np.exp(
            model.demand.growth_ln(model.world.demand, model.week)
        )
        self.gpus = scale[:, None] / work
        self.work_per_gpu = work
        fixed = model.leases.keep(model.leases.term >= Term.FOUR_WEEKS).gpus_by_lot(model.book.open_gpus.size)
        self.capacity = np.maximum(model.listed_gpus().ravel() - fixed, 0.0)[self.lots]
        self.price_usd = model.book.price_usd[supplier, sku, Term.ON_DEMAND]
        self.nests = Nests(model.hardware.is_amd[sku].astype(np.int64), choice.vendor_correlation)
        self.week = model.week

    def __call__(self, supplier: int, price_usd: Floats) -> Floats:
        """Expected GPUs of a supplier by SKU ``(skus,)`` at on-demand prices ``price_usd (skus,)``."""
        if self.week != self.model.week:
            self.refresh()
        skus = len(self.model.tables.skus)
        own = np.flatnonzero(self.lots // skus == supplier)
        sku = self.lots[own] % skus
        utility = self.utility.copy()
        utility[:, own] += self._moved(own, price_usd[sku]) / self.scale
        clearing = self.model.world.clearing
        gpus = expected_demand(
            utility, self.outside, self.gpus, self.capacity, unserved=clearing.unserved, nests=self.nests
        )
        result = np.zeros(skus)
        result[sku] = gpus[own]
        return result

    def _moved(self, own: NDArray[np.int64], price_usd: Floats) -> Floats:
        """Change of utility when the own on-demand prices (and spot with them) move, ``(tenants, own)``."""
        sensitivity = self.tenants.sensitivity[self.rows][:, None]
        if self.model.world.choice.utility == "log":
            return np.asarray(-sensitivity * np.log(price_usd / self.price_usd[own]))
        return np.asarray(-sensitivity * (price_usd - self.price_usd[own]) / self.work_per_gpu[:, own])
