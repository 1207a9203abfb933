"""Which way things move: signs that any reader would bet on, in paired runs of the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from experiments.scenario import Scenario
from tests.worlds import RunTables, amd_share, cloud_gpus, list_price, tables_of, utilisation

SEEDS = range(6)  # if a sign were a toss-up, all six would agree in one test of 64
WEEKS = 18
LATE = slice(WEEKS - 9, WEEKS + 1)

Measure = Callable[[RunTables], float]
Changes = Mapping[str, Any]


@cache
def _run(changes: tuple[tuple[str, Any], ...], seed: int) -> RunTables:
    return tables_of(Scenario.load().with_({"tenants.rows": 300, **dict(changes)}), seed, WEEKS)


def _rises(measure: Measure, changes: Changes, common: Changes | None = None) -> None:
    """The measure is higher with the changes than without, seed by seed."""
    base = dict(common or {})
    before, after = (
        [measure(_run(tuple(world.items()), seed)) for seed in SEEDS] for world in (base, {**base, **changes})
    )
    differences = [late - early for early, late in zip(before, after, strict=True)]
    assert min(differences) > 0.0, differences


def _cloud(tables: RunTables) -> float:
    return float(cloud_gpus(tables).sum())


def _h100(tables: RunTables) -> float:
    return list_price(tables, "H100", LATE)


def _use(tables: RunTables) -> float:
    return utilisation(tables, LATE)


def _amd(tables: RunTables) -> float:
    return amd_share(tables, LATE)


def _minus(measure: Measure) -> Measure:
    return lambda tables: -measure(tables)


@pytest.mark.parametrize("price_usd", [1.0, 1.5])
def test_a_cheaper_developer_cloud_sells_more(price_usd: float) -> None:
    _rises(_cloud, {"developer_cloud.price_usd_per_gpu_hour": price_usd}, {"developer_cloud.cap_gpus": 10_000.0})


def test_a_developer_cloud_nobody_can_afford_sells_nothing() -> None:
    assert _cloud(_run((("developer_cloud.price_usd_per_gpu_hour", 100.0),), 0)) == 0.0


def test_a_higher_target_utilisation_lowers_prices() -> None:
    # Orders answer prices and would turn the sign later: fewer GPUs ordered at lower prices are missed in the end.
    still = {"capacity.orders": False}
    _rises(_minus(_h100), {"pricing.target_utilisation": 0.92, **still}, {"pricing.target_utilisation": 0.75, **still})


# Sheets move rarely and half-way, so a little more demand may come at the wrong moment; a boom shows in every seed.
BOOM = {"demand.regime": False, "demand.growth_first_per_year": 3.0}


def test_higher_growth_of_demand_raises_prices() -> None:
    _rises(_h100, BOOM)


def test_higher_growth_of_demand_raises_utilisation() -> None:
    _rises(_use, BOOM)


LOCK_IN = {
    f"data.segments.{segment}.lock_in": 0.9
    for segment in ("developer", "small_inference", "large_inference", "fine_tuning", "pre_training")
}


def test_lock_in_lowers_amds_share() -> None:
    _rises(_minus(_amd), LOCK_IN)


def test_a_higher_cost_of_porting_lowers_amds_share() -> None:
    _rises(_minus(_amd), {"choice.port_cost": 1.0})


def test_a_more_mature_rocm_raises_amds_share() -> None:
    segments = ("developer", "small_inference", "large_inference", "fine_tuning", "pre_training")
    _rises(_amd, {f"software.{segment}_start": 1.0 for segment in segments})
