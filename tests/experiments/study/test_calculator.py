"""The calculator: sums that can be redone on paper, the market's own cost, laws, and limits."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.study.calculator import (
    OwnersCost,
    Rent,
    Return,
    break_even_price,
    break_even_utilisation,
    opening_throughput,
    owners_costs,
    present_value_usd,
    returns,
)
from market.costs import CostParameters, capital_recovery, full_cost_usd_per_gpu_hour, running_usd_per_gpu_hour
from market.tables import load_tables
from market.throughput import SoftwareParameters
from market.units import WEEKS_PER_YEAR

TABLES = load_tables()
SOFTWARE = SoftwareParameters()

# A GPU of 43,800 USD (5 USD for each hour of a year) and 1 kW, for five years without interest: capital 1.00,
# colocation 0.10, electricity 0.10 busy and 0 idle, operations 0.10; a fifth of revenue goes to sales and staff.
ROUND = CostParameters(
    cost_of_capital=0.0,
    life_years=5.0,
    colocation_usd_per_kw_month=73.0,
    electricity_usd_per_kwh=0.1,
    power_usage_effectiveness=1.0,
    load_busy=1.0,
    load_idle=0.0,
    operations_share_of_capital=0.02,
    overhead_share_of_revenue=0.2,
)
CAPITAL_USD = 43_800.0


def cost_of(costs: CostParameters = ROUND, capital_usd: float = CAPITAL_USD, power_kw: float = 1.0) -> OwnersCost:
    """Owner's cost of an H100 of other capital and power."""
    h100 = TABLES.skus[TABLES.sku_index["H100"]]
    skus = [h100.model_copy(update={"capex_usd": capital_usd, "power_kw": power_kw})]
    return owners_costs(skus, TABLES.segments, costs, SOFTWARE)[0]


def plain(**changes: float) -> OwnersCost:
    """A GPU that costs nothing but its capital."""
    free = {"colocation_usd_per_kw_month": 0.0, "electricity_usd_per_kwh": 0.0, "operations_share_of_capital": 0.0}
    return cost_of(ROUND.model_copy(update={**free, "overhead_share_of_revenue": 0.0, **changes}))


# ------------------------------------------------------------------------------------------------ cost


def test_parts_of_the_round_gpu_by_hand() -> None:
    cost = cost_of()
    assert cost.capital_usd_per_gpu_hour == pytest.approx(1.00)
    assert cost.colocation_usd_per_gpu_hour == pytest.approx(0.10)
    assert cost.electricity_usd_per_gpu_hour == pytest.approx(0.10)
    assert cost.operations_usd_per_gpu_hour == pytest.approx(0.10)
    assert cost.full_cost_usd_per_gpu_hour == pytest.approx(1.30)
    assert cost.idle_usd_per_gpu_hour == pytest.approx(0.20)
    assert cost.price_at_full_use_usd_per_gpu_hour == pytest.approx(1.30 / 0.8)


def test_parts_sum_to_the_markets_full_cost_to_the_last_bit() -> None:
    costs = CostParameters()
    full = full_cost_usd_per_gpu_hour(TABLES.skus, costs)
    for cost, usd in zip(owners_costs(TABLES.skus, TABLES.segments, costs, SOFTWARE), full, strict=True):
        parts = ("capital", "colocation", "electricity", "operations")
        total = reduce(add, (getattr(cost, f"{part}_usd_per_gpu_hour") for part in parts))
        assert total == cost.full_cost_usd_per_gpu_hour == usd, cost.sku


def test_idle_and_running_cost_are_the_markets() -> None:
    costs = CostParameters()
    found = owners_costs(TABLES.skus, TABLES.segments, costs, SOFTWARE)
    idle, busy = (running_usd_per_gpu_hour(TABLES.skus, costs, load) for load in (costs.load_idle, costs.load_busy))
    assert [cost.idle_usd_per_gpu_hour for cost in found] == idle.tolist()
    assert [cost.running_usd_per_gpu_hour for cost in found] == busy.tolist()


def test_cost_per_unit_of_work_is_cost_over_throughput() -> None:
    costs = owners_costs(TABLES.skus, TABLES.segments, CostParameters(), SOFTWARE)
    work = opening_throughput(TABLES.skus, TABLES.segments, SOFTWARE)
    for k, cost in enumerate(costs):
        again = np.array(list(cost.full_cost_usd_per_h100e_hour.values())) * work[:, k]
        assert again == pytest.approx(cost.full_cost_usd_per_gpu_hour)
    h100 = costs[TABLES.sku_index["H100"]]
    assert set(h100.full_cost_usd_per_h100e_hour.values()) == {h100.full_cost_usd_per_gpu_hour}


def test_overhead_of_all_revenue_leaves_no_price() -> None:
    cost = cost_of(ROUND.model_copy(update={"overhead_share_of_revenue": 1.0}))
    assert cost.price_at_full_use_usd_per_gpu_hour is None
    assert break_even_price(cost, 0.5).reason == "not reachable: overhead takes all revenue"


@given(st.floats(1_000, 200_000), st.floats(1.01, 3), st.floats(0.0, 0.5), st.floats(0.01, 0.4))
def test_cost_rises_with_capital_and_with_the_cost_of_capital(
    capital_usd: float, factor: float, rate: float, more: float
) -> None:
    at = {
        (k, r): cost_of(ROUND.model_copy(update={"cost_of_capital": r}), k).full_cost_usd_per_gpu_hour
        for k in (capital_usd, capital_usd * factor)
        for r in (rate, rate + more)
    }
    assert at[capital_usd, rate] < at[capital_usd * factor, rate]
    assert at[capital_usd, rate] < at[capital_usd, rate + more]


# ------------------------------------------------------------------------------------------------ break-even


def test_break_even_at_half_use_by_hand() -> None:
    # (1.00 capital + 0.20 idle + 0.5 × 0.10 more when busy) / (0.5 × 0.8) = 1.25 / 0.4
    assert break_even_price(cost_of(), 0.5).price_usd_per_gpu_hour == pytest.approx(3.125)


def test_break_even_at_a_price_by_hand() -> None:
    # (1.00 + 0.20) / (3.125 × 0.8 - 0.10) = 1.2 / 2.4
    assert break_even_utilisation(cost_of(), 3.125).utilisation == pytest.approx(0.5)


def test_break_even_price_equals_the_levelised_cost_of_a_cash_flow_table() -> None:
    """46,000 USD, 13 % over four years, 130 USD/kW-month, full load always, 80 % sold: root of the discounted table."""
    costs = CostParameters(
        cost_of_capital=0.13,
        life_years=4.0,
        colocation_usd_per_kw_month=130.0,
        electricity_usd_per_kwh=0.08,
        power_usage_effectiveness=1.25,
        load_busy=0.8,
        load_idle=0.8,
        operations_share_of_capital=0.02,
        overhead_share_of_revenue=0.0,
    )
    found = break_even_price(cost_of(costs, 46_000.0, 1.75), 0.8).price_usd_per_gpu_hour
    assert found == pytest.approx(2.902587483, abs=2.9e-6)


def test_at_full_use_without_overhead_the_price_is_the_full_cost() -> None:
    cost = cost_of(ROUND.model_copy(update={"overhead_share_of_revenue": 0.0}))
    assert break_even_price(cost, 1.0).price_usd_per_gpu_hour == pytest.approx(cost.full_cost_usd_per_gpu_hour)


def test_nothing_sold_breaks_even_at_no_price() -> None:
    found = break_even_price(cost_of(), 0.0)
    assert (found.price_usd_per_gpu_hour, found.reason) == (None, "not reachable: no hours are sold")


def test_a_price_that_needs_more_than_all_hours_says_how_many() -> None:
    # 1.2 / (1.25 × 0.8 - 0.10) = 1.33
    found = break_even_utilisation(cost_of(), 1.25)
    assert (found.utilisation, found.reason) == (None, "not reachable: 1.33 of all hours would have to be sold")


def test_a_price_under_the_cost_of_serving_breaks_even_nowhere() -> None:
    found = break_even_utilisation(
        cost_of(), 0.125
    )  # 0.10 after overhead, what a busy hour costs more than an idle one
    assert found.utilisation is None
    assert found.reason == "not reachable: a sold hour brings less than serving it costs"


@given(st.floats(0.02, 1.0), st.floats(0.0, 0.4), st.floats(0.0, 0.9))
def test_the_price_at_a_use_breaks_even_at_that_use(utilisation: float, rate: float, overhead: float) -> None:
    cost = cost_of(ROUND.model_copy(update={"cost_of_capital": rate, "overhead_share_of_revenue": overhead}))
    price = break_even_price(cost, utilisation).price_usd_per_gpu_hour
    assert price is not None
    back = break_even_utilisation(cost, price * (1 + 1e-12)).utilisation
    assert back == pytest.approx(utilisation, rel=1e-6)


# ------------------------------------------------------------------------------------------------ payback and return


def earned(cost: OwnersCost, rent: Rent, life_years: float = 5.0, capital_usd: float = CAPITAL_USD) -> Return:
    return returns(cost, capital_usd, life_years, rent)


def test_payback_by_hand() -> None:
    # half of the hours at 5.625: 0.5 × (4.50 - 0.10) - 0.20 = 2.00 an hour, 17,520 a year, 43,800 in two and a half
    found = earned(cost_of(), Rent(5.625, 0.5))
    assert found.cash_usd_per_year == pytest.approx(17_520)
    assert found.payback_years == pytest.approx(2.5)
    assert found.payback_weeks == pytest.approx(2.5 * WEEKS_PER_YEAR)
    assert found.earned_usd == pytest.approx(5 * 17_520)


def test_return_by_hand() -> None:
    # 57.619 a year for two years is worth 57.619 / 1.1 + 57.619 / 1.21 = 100 at 10 %
    cash = 100 / (1 / 1.1 + 1 / 1.21)
    found = earned(plain(), Rent(cash / 8760, 1.0), life_years=2.0, capital_usd=100.0)
    assert found.irr_per_year == pytest.approx(0.10, abs=1e-9)


def test_money_back_and_no_more_returns_nothing() -> None:
    found = earned(plain(), Rent(10.0 / 8760, 1.0), life_years=4.0, capital_usd=40.0)
    assert found.irr_per_year == pytest.approx(0.0, abs=1e-9)
    assert found.payback_years == pytest.approx(4.0)


def test_half_of_the_money_back_after_a_year_returns_minus_a_half() -> None:
    found = earned(plain(), Rent(50.0 / 8760, 1.0), life_years=1.0, capital_usd=100.0)
    assert found.irr_per_year == pytest.approx(-0.5, abs=1e-9)
    assert (found.payback_weeks, found.payback_reason) == (None, "never: 50 of 100 USD earned over its life")


def test_a_life_of_a_week_is_a_week_of_cash() -> None:
    found = earned(plain(), Rent(1.0, 1.0), life_years=1 / WEEKS_PER_YEAR, capital_usd=84.0)
    assert found.earned_usd == pytest.approx(168)
    assert found.payback_weeks == pytest.approx(0.5)


def test_rent_under_running_cost_earns_nothing_and_says_so() -> None:
    found = earned(cost_of(), Rent(0.3, 0.5))
    assert (found.earned_usd, found.payback_weeks, found.irr_per_year, found.weeks_in_service) == (0, None, None, 0)
    assert found.payback_reason == "never: rent does not cover running cost"
    assert found.irr_reason == "rent never covers running cost"


def test_an_unused_gpu_earns_nothing() -> None:
    assert earned(cost_of(), Rent(100.0, 0.0)).irr_per_year is None


def test_a_price_falls_by_its_share_in_a_year_in_weekly_steps() -> None:
    path = Rent(4.0, 1.0, price_fall_per_year=0.5).prices_usd(106)
    assert path[0] == 4.0
    assert path[1] / path[0] == pytest.approx(0.5 ** (168 / 8760))
    assert path[105] == pytest.approx(4.0 * 0.5 ** (105 * 168 / 8760))


def test_a_gpu_is_switched_off_once_its_rent_does_not_cover_running() -> None:
    # at full use a sold hour must bring (0.20 + 0.10) / 0.8 = 0.375; from 1.50 at half a year to the half: two years
    found = earned(cost_of(), Rent(1.5, 1.0, price_fall_per_year=0.5))
    assert found.weeks_in_service == pytest.approx(2 * WEEKS_PER_YEAR, abs=1)


@given(st.floats(0.5, 12.0), st.floats(0.05, 1.0), st.floats(0.01, 0.4))
def test_the_break_even_price_returns_the_cost_of_capital(life: float, use: float, rate: float) -> None:
    costs = ROUND.model_copy(update={"cost_of_capital": rate, "life_years": life})
    cost = cost_of(costs)
    price = break_even_price(cost, use).price_usd_per_gpu_hour
    assert price is not None
    found = earned(cost, Rent(price, use), life_years=life)
    assert found.irr_per_year == pytest.approx(rate, rel=1e-6, abs=1e-9)


@given(st.floats(1.7, 20.0), st.floats(0.3, 1.0))
def test_payback_times_cash_is_the_capital(price: float, use: float) -> None:
    found = earned(cost_of(), Rent(price, use))
    if found.payback_years is None:
        assert found.earned_usd < CAPITAL_USD
    else:
        assert found.payback_years * found.cash_usd_per_year == pytest.approx(CAPITAL_USD)


@given(st.floats(1.0, 10.0), st.floats(0.2, 1.0), st.floats(0.0, 0.9), st.floats(0.01, 0.5))
def test_a_faster_fall_never_earns_more(price: float, use: float, fall: float, more: float) -> None:
    slow, fast = (earned(cost_of(), Rent(price, use, min(f, 1.0))) for f in (fall, fall + more))
    assert fast.earned_usd <= slow.earned_usd
    assert (fast.irr_per_year or -1.0) <= (slow.irr_per_year or -1.0) + 1e-9


@given(st.floats(0.0, 1.0), st.floats(0.5, 15.0))
def test_a_level_path_is_worth_what_the_annuity_says(rate: float, life: float) -> None:
    weeks = int(life * WEEKS_PER_YEAR)
    years = np.append(np.full(weeks, 1 / WEEKS_PER_YEAR), life - weeks / WEEKS_PER_YEAR)
    worth = present_value_usd(np.ones(len(years)), years, float(np.log1p(rate)))
    assert worth == pytest.approx(1 / capital_recovery(rate, life), rel=1e-9)
