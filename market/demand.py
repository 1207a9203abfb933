"""Demand: how much work tenants want this week, and who has learned to run on AMD.

``wanted_j = size_j × exp(G_t + E_gt + A_t + a_jt - elasticity × (I_gt - I_g0))`` with growth G, dated changes E, a
common state A, the tenant's own state a, and I the smoothed price of a unit of work in the tenant's segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import model_validator

from market.arrays import Floats
from market.parameters import Parameters, parameter
from market.randomness import Purpose, normal, uniform
from market.units import WEEKS_PER_YEAR, Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["DemandParameters", "DemandState", "move_demand", "price_of_work_ln"]


# Segments whose tenants try a public cloud for developers; assumption.
_DEVELOPER_CLOUD_SEGMENTS = ("developer", "small_inference", "fine_tuning")
_MARKET = 0  # agent key of draws that belong to nobody


class DemandParameters(Parameters):
    """How wanted work moves over time and answers to prices."""

    growth_first_per_year: float = parameter("demand.growth_first_per_year")
    growth_peak_per_year: float = parameter("demand.growth_peak_per_year")
    growth_final_per_year: float = parameter("demand.growth_final_per_year")
    growth_rise_week: int = parameter("demand.growth_rise_week")
    growth_peak_week: int = parameter("demand.growth_peak_week")
    growth_fall_week: int = parameter("demand.growth_fall_week")
    growth_final_week: int = parameter("demand.growth_final_week")
    regime: bool = parameter("demand.regime")
    common_persistence: float = parameter("demand.common_persistence")
    common_sd: float = parameter("demand.common_sd")
    own_persistence: float = parameter("demand.own_persistence")
    own_sd: float = parameter("demand.own_sd")
    intensive_elasticity: float = parameter("demand.intensive_elasticity")
    price_smoothing: float = parameter("demand.price_smoothing")
    commitment_mean_weeks: int = parameter("demand.commitment_mean_weeks")

    @property
    def own_stationary_sd(self) -> float:
        """Standard deviation (ln) of a tenant's own demand state in the long run."""
        return float(self.own_sd / np.sqrt(1.0 - self.own_persistence**2))

    def growth_ln(self, week: int) -> float:
        """Cumulated growth of wanted work (ln) from week 0 to ``week`` at constant prices.

        The yearly rate is the first value until the rise, then linear to the peak, flat, linear to the final value.
        """
        if not self.regime:
            return self.growth_first_per_year * week / WEEKS_PER_YEAR
        knots = [self.growth_rise_week, self.growth_peak_week, self.growth_fall_week, self.growth_final_week]
        rates = [self.growth_first_per_year, *[self.growth_peak_per_year] * 2, self.growth_final_per_year]
        weeks = np.unique(np.clip([0, *knots, week], 0, week))
        # The trapezoid rule is exact between knots of a piecewise linear rate.
        return float(np.trapezoid(np.interp(weeks, knots, rates), weeks)) / WEEKS_PER_YEAR

    @model_validator(mode="after")
    def _knots_in_order(self) -> DemandParameters:
        """The weeks of the growth regime follow each other."""
        knots = (self.growth_rise_week, self.growth_peak_week, self.growth_fall_week, self.growth_final_week)
        if list(knots) != sorted(knots):
            raise ValueError("growth_rise_week, _peak_week, _fall_week and _final_week must not decrease")
        return self


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
