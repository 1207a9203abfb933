"""Every lever that a policy may move: weeks before are untouched, weeks after differ, its own value is no change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from experiments.events import LIVE_KEYS
from experiments.scenario import Cell, Scenario
from tests.worlds import RunTables, assert_same_tables, few_sellers, table_file, tables_of

WEEKS = 12

# A crowded market with everything on: pool, cloud, covers of both vendors, orders every two weeks, retirement.
BUSY: Mapping[str, Any] = {
    "tenants.rows": 80,
    "tenants.rows_per_segment_minimum": 10,
    "tenants.opening_load": 0.95,
    "developer_cloud.cap_gpus": 1000.0,
    "lepton.open_week": 2,
    "lepton.review_interval_weeks": 2,
    "buyback.share": 0.3,
    "buyback.start_week": 3,
    "leaseback.partners": "all",
    "capacity.round_weeks": 2,
    "capacity.lead_weeks": 1,
    "capacity.lead_spread_weeks": 1,
}
# A boom with nothing on order: everybody orders.
BOOM: Mapping[str, Any] = {
    **BUSY,
    "tenants.opening_load": 1.3,
    "demand.growth_first_per_year": 3.0,
    "data.deliveries": table_file("deliveries", []),
}
# A slump: tenants for a third of the GPUs, sellers without cash and with much debt, a guarantee for lenders.
SLUMP: Mapping[str, Any] = {
    **BUSY,
    "tenants.opening_load": 0.35,
    "finance.opening_cash_share": 0.0,
    "finance.amd_debt_multiple": 3.0,
    "finance.service_interval_weeks": 7,
    "finance.storage_weeks": 2,
    "finance.standstill_weeks": 0,
    "backstop.guarantee_share": 0.5,
    "backstop.cap_usd": 1e9,
    "capacity.retirement_patience_weeks": 2,
}
EARLY_KNOTS = {
    f"demand.growth_{name}_week": week
    for name, week in zip(("rise", "peak", "fall", "final"), (1, 2, 4, 5), strict=True)
}
WEAK_TERMS = {"finance.rescue_dscr": 0.0, "finance.rescue_equity_share": -1.0, "finance.rescue_limit_share": 10.0}


class Case(NamedTuple):
    """Another value of a key, in a world where the key matters."""

    value: Cell
    world: Mapping[str, Any] = BUSY
    more: Mapping[str, Any] = {}

    @property
    def week(self) -> int:
        """In a slump sellers fail early."""
        return 2 if self.world is SLUMP else 6

    def scenario(self) -> Scenario:
        return few_sellers({**self.world, **self.more})


CASES: dict[str, Case] = {
    "tenants.switching_cost": Case(1.0),
    "tenants.taste_scale": Case(0.1),
    "demand.growth_first_per_year": Case(2.0),
    "demand.growth_peak_per_year": Case(2.0, more={"demand.growth_rise_week": 1, "demand.growth_peak_week": 2}),
    "demand.growth_final_per_year": Case(2.0, more=EARLY_KNOTS),
    "demand.growth_rise_week": Case(5),
    "demand.growth_peak_week": Case(20, more={"demand.growth_rise_week": 1}),
    "demand.growth_fall_week": Case(10, more=EARLY_KNOTS | {"demand.growth_final_week": 20}),
    "demand.growth_final_week": Case(20, more=EARLY_KNOTS | {"demand.growth_final_week": 12}),
    "demand.regime": Case(False, more=EARLY_KNOTS),
    "demand.common_persistence": Case(0.5),
    "demand.common_sd": Case(0.1),
    "demand.price_smoothing": Case(0.9),
    "choice.size_pull": Case(0.0),
    "choice.home_advantage": Case(0.0),
    "choice.port_cost": Case(0.0),
    "choice.developer_cloud_port_factor": Case(1.0),
    "choice.search_sellers": Case(1),
    "choice.search_extra_maximum": Case(0, more={"choice.search_sellers": 1}),
    "choice.all_sellers_known": Case(True, more={"choice.search_sellers": 1}),
    "choice.outside_option": Case(False),
    "choice.pool_switching_factor": Case(1.0),
    "choice.pool_user_switching_factor": Case(0.0),
    "choice.pool_user_forgets": Case(1.0),
    "choice.readiness_hazard": Case(0.5),
    "choice.readiness_gap_weight": Case(20.0, more={"choice.readiness_hazard": 0.05, "software.maturity_speed": 0.3}),
    "software.maturity_speed": Case(0.5),
    "software.maturity_use_weight": Case(20.0),
    "software.maturity_use_reference": Case(0.9),
    "software.programme_spending": Case(3.0),
    "software.programme_usd_per_week": Case(1e6),
    "software.frontier_decay": Case(0.1),
    "software.maturity_moves": Case(False),
    "software.use_raises_maturity": Case(False),
    "costs.colocation_usd_per_kw_month": Case(200.0),
    "costs.electricity_usd_per_kwh": Case(0.2),
    "costs.overhead_share_of_revenue": Case(0.3),
    "finance.tax_rate": Case(0.5),
    "finance.rate_uncontracted": Case(0.2),
    "finance.rate_contracted_discount": Case(0.0),
    "finance.loan_to_value_base": Case(0.3),
    "finance.loan_to_value_contracted": Case(0.0),
    "finance.contracted_maximum": Case(0.1),
    "finance.tenor_payments": Case(4),
    "finance.depreciation_years": Case(2.0),
    "finance.default_enabled": Case(False, SLUMP),
    "finance.covenant_dscr": Case(10.0, BOOM),
    "finance.rescue_equity_share": Case(1.0, SLUMP, WEAK_TERMS),
    "finance.rescue_dscr": Case(10.0, SLUMP, WEAK_TERMS),
    "finance.rescue_limit_share": Case(0.0, SLUMP, WEAK_TERMS | {"finance.rescue_service_weeks": 0}),
    "finance.rescue_service_weeks": Case(30, SLUMP, WEAK_TERMS),
    "finance.recovery_share": Case(0.1, SLUMP),
    "finance.storage_weeks": Case(4, SLUMP),
    "capacity.orders": Case(False, BOOM),
    "capacity.lead_weeks": Case(5, BOOM),
    "capacity.hurdle_rate": Case(0.5, BOOM),
    "capacity.nvidia_limit_gpus_per_quarter": Case(100.0, BOOM),
    "capacity.amd_limit_gpus_per_quarter": Case(100.0, BOOM),
    "capacity.supply_limits": Case(False, BOOM),
    "capacity.entry": Case(False, BOOM),
    "capacity.retirement": Case(False, SLUMP),
    "leaseback.share": Case(1.0),
    "leaseback.term_weeks": Case(2),
    "leaseback.enters_orders": Case(False, BOOM),
    "leaseback.enters_loans": Case(False),
    "buyback.share": Case(1.0),
    "buyback.revenue_share": Case(0.5),
    "buyback.term_weeks": Case(1),
    "backstop.guarantee_share": Case(1.0, SLUMP),
    "backstop.cap_usd": Case(1.0, SLUMP),
    "developer_cloud.price_usd_per_gpu_hour": Case(0.5),
    "developer_cloud.cap_gpus": Case(10.0),
    "developer_cloud.price_rule": Case("partners-median"),
    "developer_cloud.quota_minimum_gpus": Case(200.0),
    "developer_cloud.quota_share_of_cap": Case(0.5),
    "developer_cloud.readiness_hazard": Case(1.0),
    "lepton.mode": Case("off"),
    "lepton.take_rate": Case(0.5),
    "lepton.allocation_pressure": Case(5.0),
    "lepton.pool_rivalry": Case(0.0),
    "lepton.offered_share": Case(0.1),
    "lepton.identity_erosion": Case(0.0),
    "lepton.quality_floor_ln": Case(0.5),
    "lepton.resentment": Case(1.0, BOOM),
}


_PLAYED: dict[str, RunTables] = {}


def _without_policies(scenario: Scenario) -> RunTables:
    """Tables of a world without policies; many keys share one."""
    world = scenario.canonical()
    if world not in _PLAYED:
        _PLAYED[world] = tables_of(scenario, seed=4, weeks=WEEKS)
    return _PLAYED[world]


def _policy(scenario: Scenario, key: str, value: Cell, week: int, name: str = "policy") -> Scenario:
    fields = {"kind": "policy", "week": week, "key": key, "value": value}
    return scenario.with_({f"events.{name}.{field}": cell for field, cell in fields.items()})


def test_every_key_that_a_policy_may_change_has_a_case() -> None:
    assert set(CASES) == set(LIVE_KEYS)
    assert len(set(LIVE_KEYS)) == len(LIVE_KEYS)


@pytest.mark.parametrize("key", LIVE_KEYS)
def test_a_policy_changes_nothing_before_its_week_and_something_after(key: str) -> None:
    case = CASES[key]
    changed = tables_of(_policy(case.scenario(), key, case.value, case.week), seed=4, weeks=WEEKS)
    assert_same_tables(_without_policies(case.scenario()), changed, before_week=case.week)
    with pytest.raises(AssertionError):
        assert_same_tables(_without_policies(case.scenario()), changed)


@pytest.mark.parametrize("world", [BUSY, BOOM, SLUMP], ids=["busy", "boom", "slump"])
def test_policies_that_start_with_the_values_there_are_change_nothing(world: Mapping[str, Any]) -> None:
    scenario = few_sellers(world)
    values, policies = scenario.values(), scenario
    for number, key in enumerate(LIVE_KEYS):
        policies = _policy(policies, key, values[key], 1 + number % 3, f"p{number}")
    assert_same_tables(tables_of(scenario, seed=4, weeks=WEEKS), tables_of(policies, seed=4, weeks=WEEKS))
