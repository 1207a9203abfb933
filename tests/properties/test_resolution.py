"""Results do not hang on how many rows stand for the tenants: rows × 4 at a quarter of the weight changes no headline.

Rows carry weights, sizes and quotas are per tenant; so the market, its caps and its quotas stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.build import build
from experiments.scenario import Scenario
from tests.worlds import headline, tables_of

LEVEL = 0.999

DESKS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "cap and quota bind": {
        "developer_cloud.cap_gpus": 300.0,
        "developer_cloud.price_usd_per_gpu_hour": 1.0,
        "developer_cloud.quota_minimum_gpus": 4.0,
    },
}


def _headlines(rows: int, desk: Mapping[str, Any], seeds: Sequence[int], weeks: int) -> dict[str, list[float]]:
    """Headline metrics of each seed over all weeks in which the developer cloud sells."""
    scenario = Scenario.load().with_({"tenants.rows": rows, **desk})
    found = [headline(tables_of(scenario, seed, weeks), slice(2, None)) for seed in seeds]
    return {name: [run[name] for run in found] for name in found[0]}


def _agree(few: int, many: int, desk: Mapping[str, Any], seeds: Sequence[int], weeks: int) -> None:
    coarse, fine = (_headlines(rows, desk, seeds, weeks) for rows in (few, many))
    for name in coarse:
        # Welch's interval of the difference, seeds not paired: tenants of another number are other tenants.
        low, high = stats.ttest_ind(coarse[name], fine[name], equal_var=False).confidence_interval(LEVEL)
        assert low <= 0.0 <= high, (name, np.mean(coarse[name]), np.mean(fine[name]))


# Eight seeds and twelve weeks keep this short; the full comparison below takes minutes.
@pytest.mark.parametrize("desk", DESKS.values(), ids=DESKS.keys())
def test_a_thousand_and_four_thousand_rows_tell_the_same(desk: Mapping[str, Any]) -> None:
    _agree(1_000, 4_000, desk, range(8), weeks=12)


@pytest.mark.soak
@pytest.mark.parametrize("desk", DESKS.values(), ids=DESKS.keys())
@pytest.mark.parametrize(("few", "many"), [(1_000, 4_000), (2_000, 20_000)])
def test_over_sixteen_seeds_and_a_year_more_rows_tell_the_same(few: int, many: int, desk: Mapping[str, Any]) -> None:
    _agree(few, many, desk, range(16), weeks=52)


@pytest.mark.parametrize("rows", [200, 1_000, 5_000])
def test_rows_of_any_number_stand_for_the_same_tenants_and_the_same_work(rows: int) -> None:
    model = build(Scenario.load().with_({"tenants.rows": rows}), 0)
    tenants, tables = model.tenants, model.tables
    for index, segment in enumerate(tables.segments):
        here = tenants.segment == index
        assert tenants.weight[here].sum() == pytest.approx(segment.tenant_count)
        load = model.world.tenants.opening_load * model.world.tenants.opening_demand_factor * model.opening_h100e
        work = (tenants.weight * tenants.size_h100e)[here].sum()
        assert work == pytest.approx(segment.demand_share * load)


@pytest.mark.parametrize("rows", [200, 1_000, 4_000])
def test_no_tenant_of_any_row_holds_more_of_the_developer_cloud_than_its_quota(rows: int) -> None:
    quota = 4.0
    desk = {**DESKS["cap and quota bind"], "developer_cloud.quota_share_of_cap": 0.0}
    model = build(Scenario.load().with_({"tenants.rows": rows, **desk}), 0)
    held = []
    for _ in range(10):
        model.step()
        at_desk = model.leases.keep(model.leases.lot // len(model.tables.skus) == model.cloud_row)
        gpus = np.bincount(at_desk.tenant, at_desk.gpus, len(model.tenants)) / model.tenants.weight
        held.append(gpus.max())
    assert max(held) <= quota * (1.0 + 1e-9)
    assert max(held) > 0.0
