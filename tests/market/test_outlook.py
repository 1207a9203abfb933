"""What sellers read from past demand."""

from __future__ import annotations

import numpy as np
import pytest

from market.outlook import OutlookMemory
from market.units import WEEKS_PER_YEAR

PRIOR = 0.3
QUARTER_WEEKS = 13


def _remembered(first: float, last: float, weeks: int = QUARTER_WEEKS + 1) -> OutlookMemory:
    memory = OutlookMemory()
    memory.demand_h100e.extend(np.linspace(first, last, weeks).tolist())
    return memory


def test_growth_is_last_quarters_change_a_year() -> None:
    growth = _remembered(1_000.0, 1_050.0).growth_per_year(PRIOR)
    assert growth == pytest.approx(np.log(1.05) * WEEKS_PER_YEAR / QUARTER_WEEKS)


def test_growth_is_the_prior_until_a_quarter_has_been_seen() -> None:
    assert _remembered(1_000.0, 2_000.0, QUARTER_WEEKS).growth_per_year(PRIOR) == PRIOR


def test_without_demand_a_quarter_ago_growth_is_the_prior() -> None:
    assert _remembered(0.0, 1_000.0).growth_per_year(PRIOR) == PRIOR


def test_demand_that_is_gone_shrinks_without_bound() -> None:
    assert _remembered(1_000.0, 0.0).growth_per_year(PRIOR) == -np.inf
