"""The scenario library: every scenario says what it stands for, changes causes only, and runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments.build import build
from experiments.scenario import DEFAULT_SCENARIO, Scenario
from experiments.scenario_files import scenario_names
from tests.worlds import played

WANTED = {
    "baseline-2025",
    "baseline-2024",
    "lepton-off",
    "lepton-pressed",
    "lepton-mandatory",
    "no-leaseback",
    "full-backstop",
    "developer-cloud-unlimited",
    "mi400-slips",
    "vr-slips",
    "rocm-stalls",
    "rocm-leaps",
    "glut",
    "squeeze",
    "hyperscaler-cut",
    "transparency",
    "low-switching-cost",
    "big-tenant-leaves",
}
SMALL = {"tenants.rows": 200, "tenants.rows_per_segment_minimum": 20}
# What somebody decides or nature does; prices of rentals follow, but for what sellers open with.
CAUSES = (
    "buyback",
    "backstop",
    "capacity",
    "data",
    "demand",
    "developer_cloud",
    "events",
    "leaseback",
    "lepton",
    "software",
)


@pytest.fixture(params=scenario_names())
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return Scenario.load(request.param)


def test_the_promised_scenarios_are_there() -> None:
    assert set(scenario_names()) >= WANTED


def test_a_scenario_has_its_file_name_a_short_description_and_a_source(scenario: Scenario) -> None:
    assert scenario.name in scenario_names()
    assert 20 <= len(scenario.description) <= 140
    assert re.search(r"https://|^assumption: |market/data", scenario.source)


def test_a_scenario_differs_from_the_baseline_in_causes_alone(scenario: Scenario) -> None:
    base = Scenario.load(DEFAULT_SCENARIO)
    changed = set(scenario.changes(base))
    assert changed or scenario.name == DEFAULT_SCENARIO
    assert {key.partition(".")[0] for key in changed} <= set(CAUSES)
    assert len({Scenario.load(name).digest() for name in scenario_names()}) == len(scenario_names())


def test_a_scenario_runs_with_money_and_hours_in_balance(scenario: Scenario) -> None:
    scenario.check()
    first = min((event.week for event in scenario.events.values()), default=3)
    # Events are brought to the third week, so that a short run meets them.
    early = {f"events.{name}.week": event.week - first + 3 for name, event in scenario.events.items()}
    model = played(scenario.with_({**SMALL, **early}), seed=1, weeks=6)  # holds its identities each week
    assert np.isfinite(model.accounts.ledger.balance).all()
    assert model.sold_gpus().sum() > 0.0


@pytest.mark.soak
def test_a_scenario_runs_its_three_years(scenario: Scenario) -> None:
    model = build(scenario, 1)
    model.run(scenario.weeks)
    assert model.week == 156
    assert 0.3 < model.sold_gpus().sum() / model.suppliers.available_gpus.sum() <= 1.0


def test_the_opening_of_2024_stands_on_its_own_tables_prices_and_calendar() -> None:
    scenario = Scenario.load("baseline-2024")
    tables, later = scenario.tables(), Scenario.load().tables()
    assert tables.date_of(0).isoformat() == "2024-01-29"
    shift = later.start_week - tables.start_week
    assert (tables.start_week, shift) == (-70, 70)
    listed = {sku.name: sku.base_list_usd_per_gpu_hour for sku in tables.skus}
    known = {"A100": 2.03, "H100": 4.40, "MI300X": 3.85}
    for sku in later.skus:  # all others in proportion to the H100
        usd = known.get(sku.name, sku.base_list_usd_per_gpu_hour * 4.40 / 3.20)
        assert listed[sku.name] == pytest.approx(usd), sku.name
    base = Scenario.load()
    assert scenario.lepton.open_week == base.lepton.open_week + shift
    assert scenario.buyback.start_week == base.buyback.start_week + shift
    assert (scenario.developer_cloud.cap_gpus, scenario.developer_cloud.firm_gpus) == (0.0, 0.0)


def test_demand_of_2024_grows_at_the_stated_rates() -> None:
    demand = Scenario.load("baseline-2024").demand
    rate = [(demand.growth_ln(week + 1) - demand.growth_ln(week)) * 8760 / 168 for week in range(125)]
    for first, last, expected in ((0, 39, 0.45), (60, 87, 0.30), (100, 122, 0.95)):
        assert rate[first:last] == pytest.approx([expected] * (last - first))


def test_slipping_scenarios_reach_the_latest_dates_of_the_hardware_table() -> None:
    for name, sku in (("mi400-slips", "MI400"), ("vr-slips", "VR200")):
        scenario = Scenario.load(name)
        tables = scenario.tables()
        (late,) = (row.value for row in tables.hardware if (row.sku, row.quantity) == (sku, "volume_month_late"))
        (event,) = scenario.events.values()
        launch = tables.skus[tables.sku_index[sku]].launch_week + event.slip_weeks
        assert f"{tables.date_of(launch):%Y-%m}" == late
