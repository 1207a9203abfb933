"""Sellers' margins: over running cost and over full cost from the rent, the rest from the books. Always sums over sums.

Revenue is rent + pool + leaseback receipts. The steps are those that listed clouds report:

- ``ebitda``: revenue - running cost - overhead;
- ``operating``: EBITDA - depreciation, the field's standard term (reported operating margins stop before interest);
- ``pretax``: operating - interest: "operating margin after depreciation and interest", for readers who mean that;
- ``net``: pretax - tax.

Each over three populations: every seller while alive (no suffix); ``survivors``, alive in the last week of the window;
``cohort``, alive at the opening, failures included (see `_cohort`). A trend is the slope per year of the weekly
margin, with a Newey-West error; compression is minus the trend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from experiments.measure.estimators import newey_west_slope, undefined
from experiments.measure.records import HEADLINE, Bools, Cell, Floats, Records, Window, cell, ratio
from market.units import HOURS_PER_WEEK, WEEKS_PER_YEAR

__all__ = [
    "MARGINS",
    "MARGIN_CLASSES",
    "POPULATIONS",
    "book_margin",
    "book_margin_trend",
    "default_rate",
    "defaults",
    "failures",
    "lerner_margin",
    "lerner_margin_trend",
    "lives",
    "margin_over_full_cost",
    "profit_and_revenue",
]

MARGIN_CLASSES = (
    HEADLINE,
    "all",
    "neocloud",
    "neocloud amd-heavy",
    "neocloud nvidia-heavy",
    "neocloud largest",
    "hyperscaler",
    "marketplace",
)

Margin = Literal["ebitda", "operating", "pretax", "net"]
Population = Literal["", "survivors", "cohort"]
MARGINS: tuple[Margin, ...] = ("ebitda", "operating", "pretax", "net")
POPULATIONS: tuple[Population, ...] = ("", "survivors", "cohort")

_STEPS: dict[Margin, tuple[str, ...]] = {
    "ebitda": ("running_usd", "overhead_usd", "fee_usd"),
    "operating": ("depreciation_usd",),
    "pretax": ("interest_usd",),
    "net": ("tax_usd",),
}
_LAST_WEEKS = 13  # what a failed seller last earned is a mean over a quarter: debt is serviced once in it


class _Books(NamedTuple):
    """Weekly revenue, profits by margin and life of every agent, ``(weeks + 1, agents)``, USD."""

    revenue: Floats
    profits: dict[Margin, Floats]
    alive: Bools


def _books(records: Records) -> _Books:
    return records.once("books", lambda: _read_books(records))


def _read_books(records: Records) -> _Books:
    books = records.books
    revenue = books.known("rent_usd") + books.known("pool_usd") + books.known("leaseback_usd")
    profits: dict[Margin, Floats] = {}
    left = revenue
    for margin in MARGINS:
        for cost in _STEPS[margin]:
            left = left - books.known(cost)
        profits[margin] = left
    return _Books(revenue, profits, books.known("alive") > 0.0)


def _cohort(records: Records) -> _Books:
    """Books of the sellers alive at the opening, failures carried on: the margin of those who were there at the start.

    After its exit a seller keeps the mean revenue of its last quarter in the denominator and earns nothing on it, or
    goes on losing what it lost in that quarter. Dropping it, or forgiving its losses, would let the death of the worst
    seller look like a recovery of margins; this way no exit raises the cohort's margin.
    """
    return records.once("cohort", lambda: _carry_on(_books(records)))


def _carry_on(books: _Books) -> _Books:
    opening = books.alive[0]
    revenue = books.revenue * opening
    profits = {margin: profit * opening for margin, profit in books.profits.items()}
    for agent in np.flatnonzero(opening & ~books.alive.all(axis=0)):
        exit_week = int(np.argmin(books.alive[:, agent]))
        quarter = slice(max(1, exit_week - _LAST_WEEKS), exit_week)
        lived = exit_week > 1
        revenue[exit_week:, agent] = revenue[quarter, agent].mean() if lived else 0.0
        for profit in profits.values():
            profit[exit_week:, agent] = min(0.0, profit[quarter, agent].mean()) if lived else 0.0
    return _Books(revenue, profits, books.alive)


def profit_and_revenue(
    records: Records, window: Window, margin: Margin, population: Population, provider_class: str
) -> tuple[Floats, Floats]:
    """Profit and revenue of a group by week of the window, USD."""
    books = _cohort(records) if population == "cohort" else _books(records)
    inside = records.agents_in(provider_class)
    if population == "survivors":
        inside = inside & books.alive[window.last]
    rows = window.rows
    return books.profits[margin][rows][:, inside].sum(axis=1), books.revenue[rows][:, inside].sum(axis=1)


_NO_REVENUE = "no seller of the class earns revenue"


def book_margin(records: Records, window: Window, margin: Margin, population: Population = "") -> Iterator[Cell]:
    """Revenue less the costs down to this step, over revenue, from the sellers' books of the window, by class.

    The steps stand at the head of this module.
    """
    for name in MARGIN_CLASSES:
        profit, revenue = profit_and_revenue(records, window, margin, population, name)
        yield cell(float(ratio(profit.sum(), revenue.sum())), _NO_REVENUE, provider_class=name)


def book_margin_trend(records: Records, window: Window, margin: Margin, population: Population = "") -> Iterator[Cell]:
    """Slope per year of the weekly margin, by class, over the weeks with revenue; 0.01 is a point a year."""
    for name in MARGIN_CLASSES:
        yield _trend(ratio(*profit_and_revenue(records, window, margin, population, name)), window, name, _NO_REVENUE)


def _trend(weekly: Floats, window: Window, provider_class: str, reason: str) -> Cell:
    known = np.isfinite(weekly)
    years = np.arange(window.first, window.last + 1) / WEEKS_PER_YEAR
    slope = newey_west_slope(weekly[known], years[known]) if known.any() else undefined(reason)
    return cell(slope.value, slope.reason, slope.std_error, provider_class=provider_class)


def lerner_margin(records: Records, window: Window) -> Iterator[Cell]:
    """(Realised price - running cost)/realised price of direct leases, by SKU and all together."""
    return _over_cost(records, window, "running_usd_per_gpu_hour")


def margin_over_full_cost(records: Records, window: Window) -> Iterator[Cell]:
    """(Realised price - owner's full cost)/realised price of direct leases; unrented GPUs cost nothing here."""
    return _over_cost(records, window, "full_cost_usd_per_gpu_hour")


def _over_cost(records: Records, window: Window, column: str) -> Iterator[Cell]:
    rent, cost = (values[window.rows].sum(axis=0) for values in _rent_and_cost(records, column))
    for name in MARGIN_CLASSES:
        inside = records.in_class(name)
        sums, costs = records.by_sku(rent * inside), records.by_sku(cost * inside)
        yield from records.sku_cells(name, ratio(sums - costs, sums), "no active lease")
        total = sums.sum()
        yield cell(float(ratio(total - costs.sum(), total)), "no active lease", provider_class=name)


def _rent_and_cost(records: Records, column: str) -> tuple[Floats, Floats]:
    """Direct rent, and cost of the hours rented, by week and series, USD."""
    hours = records.lots.known("sold_gpus") * HOURS_PER_WEEK
    return records.lots.known("revenue_usd"), hours * records.lots.known(column)


def lerner_margin_trend(records: Records, window: Window) -> Iterator[Cell]:
    """Slope per year of the weekly Lerner margin of all SKUs together, by class."""
    rent, cost = _rent_and_cost(records, "running_usd_per_gpu_hour")
    for name in MARGIN_CLASSES:
        inside = records.in_class(name)
        sums = rent[window.rows][:, inside].sum(axis=1)
        weekly = ratio(sums - cost[window.rows][:, inside].sum(axis=1), sums)
        yield _trend(weekly, window, name, "no active lease")


def defaults(records: Records, window: Window) -> Iterator[Cell]:
    """Sellers that failed in the window: alive the week before, not alive any more."""
    for name, alive in lives(records, window):
        failed = float(failures(alive).sum())
        yield cell(failed if alive.any() else np.nan, "no seller in the class", provider_class=name)


def failures(alive: Bools) -> Floats:
    """Sellers that fail from each week to the next, ``(weeks,)`` from lives ``(weeks + 1, sellers)``."""
    return np.asarray((alive[:-1] & ~alive[1:]).sum(axis=1), float)


def default_rate(records: Records, window: Window) -> Iterator[Cell]:
    """Sellers alive before the window that failed in it, as a share."""
    for name, alive in lives(records, window):
        opening = alive[:, alive[0]]
        failed = (~opening.all(axis=0)).sum()
        yield cell(float(ratio(failed, opening.shape[1])), "no seller alive before the window", provider_class=name)


def lives(records: Records, window: Window) -> Iterator[tuple[str, Bools]]:
    """Life of each seller of a class from the week before the window on, ``(weeks + 1, sellers)``."""
    alive = _books(records).alive[window.first - 1 : window.last + 1]
    for name in MARGIN_CLASSES:
        yield name, alive[:, records.agents_in(name)]
