"""Calendar, terms and the names of things: weeks of 168 hours counted from Monday 2 June 2025.

A year has 8,760 hours, so 52.14 weeks; a month is a twelfth of that. Interest and hazards use these figures and
no others.
"""

from __future__ import annotations

from datetime import date, timedelta
from enum import IntEnum
from typing import Literal, get_args

__all__ = [
    "HOURS_PER_MONTH",
    "HOURS_PER_WEEK",
    "HOURS_PER_YEAR",
    "PROVIDER_CLASSES",
    "SEGMENTS",
    "START_DATE",
    "TERM_NAMES",
    "TERM_WEEKS",
    "VENDORS",
    "WEEKS_PER_MONTH",
    "WEEKS_PER_YEAR",
    "ProviderClass",
    "Segment",
    "Term",
    "Vendor",
    "date_of",
    "per_week",
    "week_of",
]

HOURS_PER_WEEK = 168
HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
WEEKS_PER_YEAR = HOURS_PER_YEAR / HOURS_PER_WEEK
WEEKS_PER_MONTH = WEEKS_PER_YEAR / 12
START_DATE = date(2025, 6, 2)

Vendor = Literal["nvidia", "amd"]
ProviderClass = Literal["hyperscaler", "neocloud", "marketplace"]
Segment = Literal["developer", "small_inference", "large_inference", "fine_tuning", "pre_training"]
VENDORS: tuple[Vendor, ...] = get_args(Vendor)
PROVIDER_CLASSES: tuple[ProviderClass, ...] = get_args(ProviderClass)
SEGMENTS: tuple[Segment, ...] = get_args(Segment)


class Term(IntEnum):
    """Length of a lease; the value is its column in arrays by term."""

    SPOT = 0
    ON_DEMAND = 1
    FOUR_WEEKS = 2
    ONE_YEAR = 3
    THREE_YEARS = 4


TERM_NAMES = ("spot", "on_demand", "4w", "52w", "156w")
TERM_WEEKS = (1, 0, 4, 52, 156)  # 0: open-ended


def date_of(week: int) -> date:
    """Monday on which ``week`` begins; weeks before June 2025 are negative."""
    return START_DATE + timedelta(weeks=week)


def week_of(day: date) -> int:
    """Week that contains ``day``."""
    return (day - START_DATE).days // 7


def per_week(annual_rate: float) -> float:
    """Simple rate of one week, ``annual_rate × 168 / 8,760``."""
    return annual_rate * HOURS_PER_WEEK / HOURS_PER_YEAR
