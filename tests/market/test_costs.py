"""Cost of ownership: worked by hand, against published figures, and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.costs import (
    CostParameters,
    capital_recovery,
    cost_parts_usd_per_gpu_hour,
    full_cost_usd_per_gpu_hour,
    running_usd_per_gpu_hour,
)
from market.tables import Tables, load_tables

COSTS = CostParameters()
TABLES = load_tables()


def published(tables: Tables) -> dict[str, float]:
    """Earliest published cost of ownership by SKU; figures by analogy left out."""
    figures: dict[str, float] = {}
    for row in tables.hardware:
        if row.quantity == "owner_cost_usd_per_gpu_hour" and row.source != "assumption":
            figures.setdefault(row.sku, float(row.value))
    return figures


def full_cost(name: str, tables: Tables = TABLES, costs: CostParameters = COSTS) -> float:
    return float(full_cost_usd_per_gpu_hour([tables.skus[tables.sku_index[name]]], costs)[0])


def test_annuity_of_two_years_at_ten_percent_by_hand() -> None:
    assert capital_recovery(0.10, 2) == pytest.approx(1 / (1 / 1.1 + 1 / 1.21))


def test_free_capital_is_repaid_in_equal_parts() -> None:
    assert capital_recovery(0, 5) == 0.2
    assert capital_recovery(1e-12, 5) == pytest.approx(0.2)


@given(st.floats(1e-4, 1), st.floats(0.5, 15))
def test_payments_are_worth_the_capital_they_repay(rate: float, years: float) -> None:
    present_value = capital_recovery(rate, years) * (1 - (1 + rate) ** -years) / rate
    assert present_value == pytest.approx(1)


def test_parts_of_an_h100_by_hand() -> None:
    parts = cost_parts_usd_per_gpu_hour([TABLES.skus[TABLES.sku_index["H100"]]], COSTS, load=0.8)
    assert parts["capital"][0] == pytest.approx(39_500 * 0.284315 / 8760, rel=1e-5)
    assert parts["colocation"][0] == pytest.approx(1.37 * 110 / 730)
    assert parts["electricity"][0] == pytest.approx(1.37 * 1.25 * 0.8 * 0.08)
    assert parts["operations"][0] == pytest.approx(39_500 * 0.02 / 8760)


def test_running_an_idle_h100_costs_less_by_its_electricity() -> None:
    busy, idle = (running_usd_per_gpu_hour(TABLES.skus, COSTS, load) for load in (COSTS.load_busy, COSTS.load_idle))
    assert busy[1] - idle[1] == pytest.approx(1.37 * 1.25 * (0.8 - 0.28) * 0.08)


@pytest.mark.parametrize(("name", "usd"), list(published(TABLES).items()))
def test_cost_parts_return_the_published_cost_of_ownership(name: str, usd: float) -> None:
    assert full_cost(name) == pytest.approx(usd, abs=0.01)


def test_published_costs_cover_all_but_the_chips_without_one() -> None:
    unpublished = {"A100", "MI350X", "VR200", "VR300", "MI400", "MI500"}
    assert {sku.name for sku in TABLES.skus} - set(published(TABLES)) == unpublished


@pytest.mark.parametrize(
    ("name", "usd"), [("A100", 0.89), ("VR200", 4.20), ("VR300", 6.04), ("MI400", 3.79), ("MI500", 5.52)]
)
def test_costs_by_analogy_come_close(name: str, usd: float) -> None:
    assert full_cost(name) == pytest.approx(usd, abs=0.01)


def test_a_cost_without_its_own_capital_figure_comes_less_close() -> None:
    assert full_cost("MI350X") == pytest.approx(1.72, abs=0.03)


def test_mi400_costs_an_eighth_less_to_buy_than_vr200() -> None:
    capital = {sku.name: sku.capex_usd for sku in TABLES.skus}
    assert capital["MI400"] / capital["VR200"] == pytest.approx(1 - 0.12, abs=0.002)


def test_mi355x_costs_four_fifths_of_a_b200() -> None:
    assert full_cost("MI355X") / full_cost("B200") == pytest.approx(0.81, abs=0.005)


def test_a_dearer_chip_changes_its_own_cost_alone() -> None:
    dearer = TABLES.with_cell("data.hardware.MI355X.capex_usd", 50_000)
    assert full_cost("MI355X", dearer) > full_cost("MI355X")
    assert full_cost("B200", dearer) == full_cost("B200")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 15))
def test_no_part_is_negative_and_full_cost_covers_running_cost(load: float, rate: float, years: float) -> None:
    costs = CostParameters(cost_of_capital=rate, life_years=years, load_busy=load)
    parts = cost_parts_usd_per_gpu_hour(TABLES.skus, costs, load)
    assert all((part >= 0).all() for part in parts.values())
    running = running_usd_per_gpu_hour(TABLES.skus, costs, load)
    assert full_cost_usd_per_gpu_hour(TABLES.skus, costs) == pytest.approx(parts["capital"] + running)
