"""Demand: how much work tenants want this week, and who has learned to run on AMD.

``wanted_j = size_j × exp(G_t + E_gt + A_t + a_jt - elasticity × (I_gt - I_g0))`` with growth G, dated changes E, a
common state A, the tenant's own state a, and I the smoothed price of a unit of work in the tenant's segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats
from market.randomness import Purpose, normal, uniform
from market.units import Term

if TYPE_CHECKING:
    from market.model import MarketModel
    from market.tenants import DemandParameters

__all__ = ["DemandState", "move_demand", "price_of_work_ln"]


# Segments whose tenants try a public cloud for developers; assumption.
_DEVELOPER_CLOUD_SEGMENTS = ("developer", "small_inference", "fine_tuning")
_MARKET = 0  # agent key of draws that belong to nobody


class DemandState:
    """Common state of demand, dated changes of it, and the price index that wanted work answers to, by segment.

    Attributes:
        common_ln: Common state A, ln of wanted work.
        shift_ln: Dated changes of the week, ln ``(segments,)``.
        growth_offset_ln: What keeps the level of growth where a policy gave it another rate, ln.
        price_ln: Smoothed price I of a unit of work, ln USD ``(segments,)``.
        opening_price_ln: The same in week 0.
    """

    def __init__(self, price_of_work: Floats) -> None:
        self.common_ln = 0.0
        self.shift_ln = np.zeros(len(price_of_work))
        self.growth_offset_ln = 0.0
        self.price_ln = price_of_work.copy()
        self.opening_price_ln = price_of_work.copy()

    def growth_ln(self, parameters: DemandParameters, week: int) -> float:
        """Cumulated growth of wanted work from week 0 to ``week``, ln."""
        return parameters.growth_ln(week) + self.growth_offset_ln


def price_of_work_ln(model: MarketModel) -> Floats:
    """Fleet-weighted mean of ln(one-year price / throughput) over third-party offers, ``(segments,)``.

    Where nobody sells at one year the on-demand price stands in.
    """
    suppliers = model.suppliers
    price = np.where(
        np.isnan(model.book.price_usd[:, :, Term.ONE_YEAR]),
        model.book.price_usd[:, :, Term.ON_DEMAND],
        model.book.price_usd[:, :, Term.ONE_YEAR],
    )
    counts = (suppliers.third_party & suppliers.alive)[:, None] & ~np.isnan(price)
    weight = np.where(counts, suppliers.available_gpus, 0.0)
    mean_ln = np.where(counts, np.log(np.where(counts, price, 1.0)), 0.0)
    by_sku = weight.sum(axis=0)
    total = by_sku.sum()
    if total <= 0.0:
        return np.zeros(len(model.software.throughput))
    return np.asarray(((weight * mean_ln).sum() - np.log(model.software.throughput) @ by_sku) / total)


def move_demand(model: MarketModel) -> None:
    """Move demand states, wanted work and AMD readiness into the new week."""
    week, seed, p, tenants, state = model.week, model.seed, model.world.demand, model.tenants, model.demand
    state.common_ln = p.common_persistence * state.common_ln + p.common_sd * float(
        normal(seed, Purpose.COMMON_DEMAND, week, _MARKET)
    )
    shock = normal(seed, Purpose.OWN_DEMAND, week, tenants.key)
    tenants.own_demand_ln = p.own_persistence * tenants.own_demand_ln + p.own_sd * shock
    state.price_ln += p.price_smoothing * (price_of_work_ln(model) - state.price_ln)
    answer = -p.intensive_elasticity * (state.price_ln - state.opening_price_ln)
    outside = state.growth_ln(p, week) + state.shift_ln + state.common_ln
    level = (outside + answer)[tenants.segment] - p.own_stationary_sd**2 / 2
    now = tenants.size_h100e * np.exp(level + tenants.own_demand_ln)
    tenants.recent_h100e[week % len(tenants.recent_h100e)] = now
    # Without the mean, long terms ratchet: they would be bought at every peak and held through every trough.
    committed = tenants.term >= Term.ONE_YEAR
    tenants.wanted_h100e = np.where(committed, tenants.recent_h100e.mean(axis=0), now)
    _learn_amd(model)


def _learn_amd(model: MarketModel) -> None:
    """Unready tenants learn to run on AMD by a keyed hazard; the developer cloud adds to it while it has room."""
    p, tenants = model.world.choice, model.tenants
    closed = 1.0 - model.software.lock_left
    hazard = p.readiness_hazard * (1.0 + p.readiness_gap_weight * closed)
    if model.desk_offer is not None:
        tries = np.array([segment.name in _DEVELOPER_CLOUD_SEGMENTS for segment in model.tables.segments])
        hazard = hazard + model.desk_offer.readiness_hazard * tries
    draw = uniform(model.seed, Purpose.READINESS, model.week, tenants.key)
    tenants.amd_ready |= draw < hazard[tenants.segment]
