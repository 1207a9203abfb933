"""How list prices move: how often, by how much, up or down."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.measure.prices import posted
from experiments.measure.records import HEADLINE, Cell, Floats, Records, Window, cell
from market.units import WEEKS_PER_MONTH

__all__ = ["revision_cut_share", "revision_hazard", "revision_size_median"]

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
