"""Calendar: weeks of 168 hours from Monday 2 June 2025."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.units import (
    HOURS_PER_WEEK,
    START_DATE,
    TERM_NAMES,
    TERM_WEEKS,
    WEEKS_PER_MONTH,
    WEEKS_PER_YEAR,
    Term,
    date_of,
    per_week,
    week_of,
)


def test_week_zero_is_monday_2_june_2025() -> None:
    assert date_of(0) == date(2025, 6, 2)
    assert START_DATE.weekday() == 0


def test_a_week_lasts_from_monday_to_sunday() -> None:
    assert [week_of(date(2025, 6, day)) for day in (2, 8, 9, 12)] == [0, 0, 1, 1]


def test_a_day_before_the_start_lies_in_week_minus_one() -> None:
    assert week_of(date(2025, 6, 1)) == -1


@given(st.integers(-2000, 2000), st.integers(0, 6))
def test_every_day_of_a_week_leads_back_to_that_week(week: int, day: int) -> None:
    assert week_of(date.fromordinal(date_of(week).toordinal() + day)) == week


def test_a_year_has_8760_hours() -> None:
    assert pytest.approx(8760) == WEEKS_PER_YEAR * HOURS_PER_WEEK
    assert pytest.approx(52.142857) == WEEKS_PER_MONTH * 12
    assert per_week(0.10) * WEEKS_PER_YEAR == pytest.approx(0.10)


def test_every_term_has_a_name_and_a_length() -> None:
    assert len(Term) == len(TERM_NAMES) == len(TERM_WEEKS)
    assert (TERM_NAMES[Term.ON_DEMAND], TERM_WEEKS[Term.ON_DEMAND]) == ("on_demand", 0)
    assert (TERM_NAMES[Term.THREE_YEARS], TERM_WEEKS[Term.THREE_YEARS]) == ("156w", 156)
