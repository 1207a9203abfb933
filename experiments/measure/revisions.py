"""How list prices move: how often, by how much, up or down."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from experiments.measure.estimators import MIN_TREND_WEEKS, clustered_slope
from experiments.measure.prices import posted
from experiments.measure.records import HEADLINE, Bools, Cell, Floats, Records, Window, cell, ratio
from market.units import WEEKS_PER_MONTH

__all__ = [
    "revision_cut_share",
    "revision_date_hazard",
    "revision_gap_closed",
    "revision_hazard",
    "revision_size_median",
]

_CLASSES = (HEADLINE, "all", "neocloud", "hyperscaler", "marketplace")
_NONE = "no list price moved"


def revision_hazard(records: Records, window: Window) -> Iterator[Cell]:
    """Revisions of a list price (seller × SKU) per month that it was posted, all SKUs."""
    revised = records.lots.known("revised") > 0.0
    for name in _CLASSES:
        at_risk = np.isfinite(_changes(records, window, name))
        months = at_risk.sum() / WEEKS_PER_MONTH
        count = float((revised[window.rows] & at_risk).sum())
        yield cell(count / months if months else np.nan, "no list price in two weeks running", provider_class=name)


def revision_date_hazard(records: Records, window: Window) -> Iterator[Cell]:
    """Weeks in which a seller revises any of its list prices, per month that it posts one.

    The measure of sellers known by the dates of their price changes: a sheet with many SKUs counts once.
    """
    revised = records.lots.known("revised")[window.rows] > 0.0
    sellers, owner = np.unique(records.lots.labels["seller"], return_inverse=True)
    for name in _CLASSES:
        at_risk = np.isfinite(_changes(records, window, name))
        posts, moves = (_any_by_owner(marks, owner, len(sellers)) for marks in (at_risk, revised & at_risk))
        months = posts.sum() / WEEKS_PER_MONTH
        value = float(moves.sum()) / months if months else np.nan
        yield cell(value, "no list price in two weeks running", provider_class=name)


def _any_by_owner(marks: Bools, owner: NDArray[np.intp], owners: int) -> Bools:
    """Whether any series of an owner is marked, ``(weeks, owners)`` from ``(weeks, series)``."""
    found = np.zeros((owners, len(marks)), np.bool_)
    np.logical_or.at(found, owner, marks.T)
    return found.T


def revision_gap_closed(records: Records, window: Window) -> Iterator[Cell]:
    """Part of the gap to a seller's usual place among its rivals that a revision closes, all SKUs.

    Slope through the origin of the change, ln, on (rivals' mean + the seller's mean distance from it - own price
    before), its error clustered by seller. Rivals are the others of the class with that SKU, at least two; the usual
    distance is the mean over the window. This is what can be seen from outside, and it comes out too large where a
    seller has few revisions in the window (.3 reads about .6 at three each): compare it with figures of panels as
    short, not with `pricing.close_share`.
    """
    for name in _CLASSES:
        gaps, moved = _gaps(records, window, name)
        changes = np.where(moved, _changes(records, window, name), 0.0)
        if moved.sum() < MIN_TREND_WEEKS or not gaps[moved].any():
            yield cell(np.nan, f"fewer than {MIN_TREND_WEEKS} revisions among three sellers", provider_class=name)
            continue
        owner = np.unique(records.lots.labels["seller"], return_inverse=True)[1]
        slope = clustered_slope(np.where(moved, gaps, 0.0), changes, owner)
        yield cell(slope.value, slope.reason, slope.std_error, provider_class=name)


def _gaps(records: Records, window: Window, provider_class: str) -> tuple[Floats, Bools]:
    """Gaps before a change and where a revision closes one, both ``(weeks of the window, series)``."""
    logs = np.log(posted(records, provider_class))
    now, before = logs[window.rows], logs[window.first - 1 : window.last]
    known = np.isfinite(now)
    total, count = (
        records.by_sku(part)[:, records.sku_of] for part in (np.where(known, now, 0.0), known.astype(float))
    )
    rivals = np.where(known & (count > 2), ratio(total - np.where(known, now, 0.0), count - 1.0), np.nan)
    distance = now - rivals
    usual = ratio(np.nansum(distance, axis=0), np.isfinite(distance).sum(axis=0))
    gaps = rivals + usual - before
    moved = (records.lots.known("revised")[window.rows] > 0.0) & np.isfinite(gaps) & (now != before)
    return np.where(moved, gaps, 0.0), np.asarray(moved)


def revision_size_median(records: Records, window: Window) -> Iterator[Cell]:
    """Median size of a revision, up or down, relative to the price before, all SKUs."""
    for name in _CLASSES:
        changes = _revisions(records, window, name)
        yield cell(np.median(np.abs(np.expm1(changes))) if len(changes) else np.nan, _NONE, provider_class=name)


def revision_cut_share(records: Records, window: Window) -> Iterator[Cell]:
    """Share of revisions that are cuts, all SKUs."""
    for name in _CLASSES:
        changes = _revisions(records, window, name)
        yield cell((changes < 0.0).mean() if len(changes) else np.nan, _NONE, provider_class=name)


def _changes(records: Records, window: Window, provider_class: str) -> Floats:
    """Weekly changes of ln list price, ``(weeks of the window, series)``; NaN without a price in both weeks."""
    logs = np.log(posted(records, provider_class))
    return np.asarray((logs[1:] - logs[:-1])[window.first - 1 : window.last])


def _revisions(records: Records, window: Window, provider_class: str) -> Floats:
    """The changes that are revisions."""
    changes = _changes(records, window, provider_class)
    moved = (records.lots.known("revised")[window.rows] > 0.0) & np.isfinite(changes) & (changes != 0.0)
    return np.asarray(changes[moved])
