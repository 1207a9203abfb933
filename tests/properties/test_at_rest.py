"""At rest: without noise, news and growth, markets of the default rule settle, and it is known where.

Everything that moves a market from outside is off: price noise, demand shocks and growth, deliveries and orders,
failures, software, readiness. Sheets are revised every week, and no lease is longer than four weeks. Tenants still
draw their weekly tastes, so a market of few rows keeps some luck.

Without a look at rivals the rule rests where tightness meets its target. Its pull towards rivals moves that point:
``adjust x (tightness - target) + pull x (rivals' price - own price) = 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from agents.rules.pricing import PricingParameters, rival_core_ln
from experiments.build import build
from experiments.measure.equilibrium import competitive, nash, offers_of
from experiments.scenario import Scenario
from market.arrays import Bools, Floats
from market.model import MarketModel
from market.suppliers import HYPERSCALER, NEOCLOUD
from market.units import WEEKS_PER_YEAR, Term
from tests.worlds import fleets_of, shipped_rows, table_file

_STILL: dict[str, Any] = {
    "data.deliveries": table_file("deliveries", []),
    "demand.regime": False,
    "demand.growth_first_per_year": 0.0,
    "demand.common_sd": 0.0,
    "demand.own_sd": 0.0,
    "capacity.orders": False,
    "capacity.entry": False,
    "capacity.retirement": False,
    "software.maturity_moves": False,
    "choice.readiness_hazard": 0.0,
    "tenants.amd_ready_share": 1.0,
    "finance.default_enabled": False,
    "lepton.mode": "off",
    "developer_cloud.cap_gpus": 0.0,
    "pricing.noise_sd": 0.0,
    "pricing.revision_scale": 100.0,
    "pricing.revision_factor_minimum": 2.5,
    "pricing.smallest_move": 0.0,
    "pricing.close_share": 1.0,
    **{f"pricing.{name}_rule": "target" for name in ("neocloud", "marketplace", "hyperscaler")},
}


def _short_terms() -> str:
    """Segments whose long leases are four weeks long."""
    rows = shipped_rows("segments")
    for row in rows:
        row["term_share_4w"] = repr(sum(float(row[f"term_share_{term}"]) for term in ("4w", "52w", "156w")))
        row["term_share_52w"] = row["term_share_156w"] = "0"
    return table_file("segments", rows)


@dataclass(frozen=True)
class _Rest:
    """A market after it settled: tightness, ln list and the pull of rivals by lot and week, ``(weeks, ...)``."""

    model: MarketModel
    held: Bools
    tightness: Floats
    list_ln: Floats
    rival_gap_ln: Floats

    def mean_price_usd(self) -> Floats:
        """Mean list price of sellers without hyperscalers by week."""
        shown = self.held & (self.model.suppliers.provider_class != HYPERSCALER)[:, None]
        return np.asarray(np.exp(self.list_ln[:, shown]).mean(axis=1))

    def sd(self) -> float:
        """Relative standard deviation of the mean price over the last 26 weeks."""
        price = self.mean_price_usd()[-26:]
        return float(price.std() / price.mean())

    def drift(self) -> float:
        """Trend of the mean price over the recorded time, ln per year."""
        price = np.log(self.mean_price_usd())
        return float(np.polyfit(np.arange(len(price)) / WEEKS_PER_YEAR, price, 1)[0])

    def neoclouds(self, least_gpus: float) -> list[int]:
        """Neoclouds with a fleet of some size."""
        s = self.model.suppliers
        large = s.available_gpus.sum(axis=1) >= least_gpus
        return np.flatnonzero(large & (s.provider_class == NEOCLOUD)).tolist()

    def miss(self, row: int, target: float) -> float:
        """Fleet-weighted tightness less target over the lots that are not on their floor, last year."""
        floor_ln = np.log(self.model.hardware.floor_usd)
        free = self.held[row] & (self.list_ln[-26:, row].mean(axis=0) > floor_ln + 0.01)
        weight = np.where(free, self.model.suppliers.available_gpus[row], 0.0)
        mean = self.tightness[:, row].mean(axis=0)
        return float((mean - target) @ weight / weight.sum()) if weight.any() else 0.0


@cache
def _rested(
    rows: int, rival_pull: float, settle_weeks: int, weeks: int, seed: int = 1, usual_terms: bool = False
) -> _Rest:
    terms = {} if usual_terms else {"data.segments": _short_terms()}
    changes = {**_STILL, **terms, "tenants.rows": rows, "pricing.rival_pull": rival_pull}
    model = build(Scenario.load().with_(changes), seed)
    model.run(settle_weeks)
    tightness, listed, gaps = [], [], []
    pricing = PricingParameters()
    for _ in range(weeks):
        gap = np.full(model.book.open_gpus.shape, np.nan)
        for row, _seller in model.sellers:
            own = model.own_books(row)
            gap[row] = rival_core_ln(own, model.view, pricing) + own.premium_ln + own.sku_premium_ln - own.shadow_ln
        gaps.append(gap)
        tightness.append(model.suppliers.tightness.copy())
        model.step()
        listed.append(model.suppliers.list_ln.copy())
    s = model.suppliers
    held = (s.available_gpus > 0.0) & s.third_party[:, None]
    return _Rest(model, held, np.array(tightness), np.array(listed), np.array(gaps))


def _assert_lots_balance(rest: _Rest, least_gpus: float, within: float) -> None:
    """Large neocloud lots rest where the push of tightness and the pull of rivals cancel, or on their floor."""
    p, s = PricingParameters(), rest.model.suppliers
    large = rest.held & (s.provider_class == NEOCLOUD)[:, None] & (s.available_gpus >= least_gpus)
    free = large & (rest.list_ln.mean(axis=0) > np.log(rest.model.hardware.floor_usd) + 0.01)
    moved = p.rival_pull / p.adjust_per_week * rest.rival_gap_ln.mean(axis=0)[free]
    miss = rest.tightness.mean(axis=0)[free] + moved - p.target_utilisation
    assert free.any()
    assert np.abs(miss).max() <= within, miss


def _misses(rest: _Rest, least_gpus: float) -> dict[str, float]:
    target = PricingParameters().target_utilisation
    return {rest.model.suppliers.names[row]: round(rest.miss(row, target), 4) for row in rest.neoclouds(least_gpus)}


def test_a_small_market_at_rest_hovers_about_its_target() -> None:
    """2,000 rows: one row is up to .05 % of demand and many times a small lot, so bounds are wide."""
    rest = _rested(2_000, 0.0, 104, 52)
    misses = _misses(rest, 10_000.0)
    assert max(abs(miss) for miss in misses.values()) <= 0.06, misses
    assert rest.sd() <= 0.04
    assert abs(rest.drift()) <= 0.06


def test_a_small_market_at_rest_balances_tightness_against_rivals() -> None:
    """2,000 rows, the rule as it is: the balance holds by lot within .05 in lots of 10,000 GPUs and more."""
    _assert_lots_balance(_rested(2_000, PricingParameters().rival_pull, 104, 52), 10_000.0, 0.05)


_SETTLE, _YEARS = 208, 104


@pytest.mark.soak
def test_at_rest_prices_stand_still() -> None:
    rest = _rested(20_000, PricingParameters().rival_pull, _SETTLE, _YEARS)
    assert rest.sd() < 0.02
    assert abs(rest.drift()) < 0.01, rest.drift()


@pytest.mark.soak
def test_at_rest_prices_stand_still_where_nobody_looks_at_rivals() -> None:
    rest = _rested(20_000, 0.0, _SETTLE, _YEARS)
    assert rest.sd() < 0.02
    assert abs(rest.drift()) < 0.01, rest.drift()


@pytest.mark.soak
def test_at_rest_neoclouds_that_do_not_look_at_rivals_meet_their_target() -> None:
    misses = _misses(_rested(20_000, 0.0, _SETTLE, _YEARS), 5_000.0)
    assert max(abs(miss) for miss in misses.values()) <= 0.02, misses


@pytest.mark.soak
def test_at_rest_lots_balance_tightness_against_rivals() -> None:
    _assert_lots_balance(_rested(20_000, PricingParameters().rival_pull, _SETTLE, _YEARS), 5_000.0, 0.02)


@pytest.mark.soak
def test_with_the_usual_terms_prices_drift_by_less_than_a_tenth_a_year() -> None:
    """Long leases of the opening run out over three years; eight seeds, the mean and every one of them."""
    drifts = [
        _rested(2_000, PricingParameters().rival_pull, 52, 104, seed, usual_terms=True).drift() for seed in range(8)
    ]
    assert abs(float(np.mean(drifts))) < 0.1, drifts


@pytest.mark.soak
@pytest.mark.xfail(
    strict=True,
    reason="the pull towards rivals moves the resting point: CoreWeave rests .146 under the target, Together .067 over",
)
def test_at_rest_neoclouds_meet_their_target() -> None:
    misses = _misses(_rested(20_000, PricingParameters().rival_pull, _SETTLE, _YEARS), 5_000.0)
    assert max(abs(miss) for miss in misses.values()) <= 0.02, misses


# -------------------------------------------------------------------------------------------- sellers who know demand

_KNOWING: dict[str, Any] = {
    **_STILL,
    "tenants.rows": 20_000,
    "tenants.opening_demand_factor": 1.0,
    "tenants.switching_cost": 0.0,  # the sample that sellers reckon with is nobody's tenant yet
    "developer_cloud.firm_gpus": 0.0,
    "demand.intensive_elasticity": 0.0,
    "pricing.floor_factor": 0.0,
    "pricing.anchor_weight": 0.0,
    **{f"pricing.{name}_rule": "best-response" for name in ("neocloud", "marketplace", "hyperscaler")},
}
_TICK_USD = PricingParameters().best_response_tick_usd
_FIVE = ("Lambda", "Nebius", "Crusoe", "Vultr", "TensorWave")


def _on_demand() -> str:
    """Segments that buy on demand alone and compare every week."""
    rows = shipped_rows("segments")
    for row in rows:
        row |= {f"term_share_{term}": "0" for term in ("spot", "4w", "52w", "156w")}
        row |= {"term_share_on_demand": "1", "review_hazard_per_week": "1"}
    return table_file("segments", rows)


def _equal_fleets() -> str:
    """Five neoclouds with equally large lots of H100 and MI300X, as far as they hold them."""
    lots = {(row["seller"], row["sku"]): row for row in fleets_of(_FIVE) if row["sku"] in ("H100", "MI300X")}
    return table_file("fleets", [{**row, "gpus": "50000", "utilisation": "0.5"} for row in lots.values()])


def _large_market_at_rest(load: float, unserved: str, seed: int) -> MarketModel:
    """20,000 unlike tenants and five sellers who know the laws of demand, prices at rest."""
    tables = {"data.segments": _on_demand(), "data.fleets": _equal_fleets()}
    changes = {"tenants.opening_load": load, "clearing.unserved": unserved}
    model = build(Scenario.load().with_({**_KNOWING, **tables, **changes}), seed)
    for _ in range(60):
        before = model.book.price_usd[:, :, Term.ON_DEMAND].copy()
        model.step()
        if np.nanmax(np.abs(model.book.price_usd[:, :, Term.ON_DEMAND] - before)) <= 1.01 * _TICK_USD:
            model.open_week()
            return model
    raise AssertionError("prices still move after 60 weeks")


def test_in_a_large_market_with_ample_capacity_best_response_rests_at_the_nash_price() -> None:
    """Within 2 % in every lot of the price at which none of the sellers gains from the real 20,000 tenants."""
    model = _large_market_at_rest(0.05, "next", 0)
    demand, offers, _ = offers_of(model)
    assert (demand.gpus.sum(axis=0) < offers.capacity_gpus).all()  # any lot could serve everybody
    known = nash(demand, offers).price_usd
    assert known is not None
    assert np.abs(demand.price_usd / known - 1.0).max() <= 0.02, demand.price_usd / known


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
def test_in_a_large_market_short_of_capacity_best_response_rests_where_demand_meets_it(seed: int) -> None:
    """Within 3 % in every lot of the price at which the real 20,000 tenants would just take all its GPUs."""
    model = _large_market_at_rest(1.4, "leave", seed)
    demand, offers, _ = offers_of(model)
    known = competitive(demand, offers)
    assert known.price_usd is not None
    assert (np.asarray(known.scarcity_usd) > 0.0).all()  # it binds in every lot
    assert np.abs(demand.price_usd / known.price_usd - 1.0).max() <= 0.03, demand.price_usd / known.price_usd
