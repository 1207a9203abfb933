"""Formulas of value: limits, signs and bad input; their numbers stand in the tests of known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.valuation import (
    break_even_usd_per_gpu_hour,
    break_even_with_debt,
    failure_probability,
    failure_trigger_usd_per_gpu_hour,
    floor_value_usd,
    rent_value_usd,
)

rates = st.floats(0.0, 0.5)
walks = st.tuples(st.floats(0.5, 5.0), st.floats(0.1, 5.0), st.floats(-0.6, 0.3), st.floats(0.02, 0.8))
DATES = np.arange(1, 9) / 4.0


def test_a_price_without_interest_is_cost_over_hours():
    price = break_even_usd_per_gpu_hour(40_000.0, 2000.0, 7000.0, annual_rate=0.0, years=4, residual_usd=4000.0)
    assert price == pytest.approx((40_000.0 - 4000.0 + 4 * 2000.0) / (4 * 7000.0))


@given(rates, st.integers(1, 8), st.sampled_from([1, 4, 52]))
def test_more_frequent_rent_needs_no_higher_a_price(rate, years, periods):
    by_year, oftener = (
        break_even_usd_per_gpu_hour(40_000.0, 0.0, 7000.0, annual_rate=rate, years=years, periods_per_year=n)
        for n in (1, periods)
    )
    assert oftener <= by_year * (1.0 + 1e-12)


def test_without_debt_there_is_nothing_to_cover_and_dear_debt_is_no_help():
    terms = {"years": 4, "residual_usd": 4000.0, "equity_return": 0.2}
    alone = break_even_with_debt(40_000.0, 4000.0, 7000.0, debt_share=0.0, debt_rate=0.1, **terms)
    assert (alone.service_usd_per_year, alone.service_cover) == (0.0, None)
    for rate, cheaper in ((0.1, True), (0.3, False)):
        levered = break_even_with_debt(40_000.0, 4000.0, 7000.0, debt_share=0.7, debt_rate=rate, **terms)
        assert (levered.price_usd_per_gpu_hour < alone.price_usd_per_gpu_hour) == cheaper


@pytest.mark.parametrize(("hours", "years"), [(0.0, 4), (7000.0, 0), (7000.0, 2.5)])
def test_a_life_without_hours_or_whole_years_is_refused(hours, years):
    with pytest.raises(ValueError, match="whole year"):
        break_even_usd_per_gpu_hour(40_000.0, 0.0, hours, annual_rate=0.1, years=years)


@given(walks, st.floats(0.0, 0.1))
def test_a_floor_is_worth_at_least_its_worth_without_luck_and_rises_with_it(walk, rate):
    rent, floor, drift, volatility = walk
    values = [floor_value_usd(rent, floor, drift, sd, rate, DATES, 2190.0) for sd in (0.0, volatility, 2 * volatility)]
    assert values == sorted(values) or values == pytest.approx(sorted(values))
    assert values[0] >= 0.0
    # Put-call parity: floor and cap differ by the strip of forwards.
    cap = rent_value_usd(rent, drift, rate, DATES, 2190.0) - 2190.0 * floor * np.exp(-rate * DATES).sum() + values[1]
    assert cap >= -1e-6


@given(walks, st.floats(0.2, 5.0))
def test_failure_is_likelier_the_closer_the_watch(walk, years):
    rent, trigger, drift, volatility = walk
    end, weekly, always = (
        failure_probability(rent, trigger, drift, volatility, years, w) for w in ("end", "weekly", "continuous")
    )
    assert 0.0 <= end <= always + 1e-12
    assert weekly <= always + 1e-12
    assert always <= 1.0


def test_a_lease_that_pays_for_everything_never_fails():
    assert failure_trigger_usd_per_gpu_hour(1.0, 0.9, 1.6, 0.8) < 0.0
    assert failure_trigger_usd_per_gpu_hour(1.0, 1.0, 1.6, 0.8) == -np.inf
    assert failure_trigger_usd_per_gpu_hour(2.0, 1.0, 1.6, 0.8) == np.inf
    assert failure_probability(2.0, -0.1, -0.2, 0.3, 3.0) == 0.0
    assert failure_probability(2.0, 2.5, -0.2, 0.3, 3.0) == 1.0
    assert failure_probability(2.0, 1.0, -0.5, 0.0, 3.0) == 1.0
    assert failure_probability(2.0, 1.0, 0.0, 0.0, 3.0) == 0.0
