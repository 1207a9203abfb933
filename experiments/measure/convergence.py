"""Do prices of the same GPU converge? Sigma, beta, stable premia; all on posted prices.

Sigma asks whether the spread shrinks, beta whether dear sellers fall towards cheap ones. Beta without seller effects
is convergence to one common price; with seller effects it is the return to each seller's own premium.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.measure.estimators import (
    MIN_TREND_WEEKS,
    Slope,
    clustered_slope,
    newey_west_slope,
    undefined,
    within_sellers,
    within_weeks,
)
from experiments.measure.prices import posted, spread
from experiments.measure.records import HEADLINE, Bools, Cell, Floats, Records, Window, cell, ratio
from market.units import WEEKS_PER_YEAR

__all__ = [
    "CONVERGENCE_CLASSES",
    "beta",
    "beta_within",
    "half_life",
    "half_life_within",
    "price_drift",
    "price_premium_share",
    "sigma_trend",
]

CONVERGENCE_CLASSES = (HEADLINE, "all", "neocloud")

LAG_WEEKS = 4
"""Weeks over which beta measures a price change."""

MIN_SELLERS = 3
"""Fewest sellers behind a cross-section."""

_NO_SPREAD = 1e-9  # in ln: below, sellers' prices are equal


def _logs(records: Records, provider_class: str) -> Floats:
    return records.once(("logs", provider_class), lambda: np.log(posted(records, provider_class)))


def sigma_trend(records: Records, window: Window) -> Iterator[Cell]:
    """Slope per year of ln sd of ln posted prices across sellers, Newey-West error; negative: the spread shrinks.

    Weeks with fewer than three sellers are left out; null if the spread is zero in a week (its logarithm does not
    exist).
    """
    years = np.arange(records.weeks + 1) / WEEKS_PER_YEAR
    for name in CONVERGENCE_CLASSES:
        logs = _logs(records, name)
        sd = records.once(("spread of logs", name), partial(spread, records, logs)).sd
        count = records.by_sku(np.isfinite(logs).astype(float))
        weekly = np.where(count >= MIN_SELLERS, sd, np.nan)[window.rows]
        slopes = [_sigma(column, years[window.rows]) for column in weekly.T]
        yield from _slope_cells(records, name, slopes)


def _sigma(sd: Floats, years: Floats) -> Slope:
    known = np.isfinite(sd)
    if not known.any():
        return undefined("fewer than three sellers in every week")
    if (sd[known] <= _NO_SPREAD).any():
        return undefined("no spread between sellers in a week")
    return newey_west_slope(np.log(sd[known]), years[known])


def _slope_cells(records: Records, provider_class: str, slopes: list[Slope]) -> Iterator[Cell]:
    """Cells for each SKU; each undefined slope keeps its own reason."""
    values, errors = np.array([(slope.value, slope.std_error) for slope in slopes]).T
    for found in records.sku_cells(provider_class, values, "", errors):
        if found.value is not None:
            yield found
        else:
            yield found._replace(reason=slopes[records.skus.index(found.sku)].reason)


class _Pairs(NamedTuple):
    """Week-demeaned prices and their changes over four weeks, ``(weeks - 4, series)``; 0 where there is no pair."""

    level: Floats
    change: Floats
    valid: Bools
    moved: Bools


def _pairs(records: Records, window: Window, provider_class: str) -> _Pairs:
    logs = _logs(records, provider_class)[window.rows]
    start, change = logs[:-LAG_WEEKS], logs[LAG_WEEKS:] - logs[:-LAG_WEEKS]
    valid = np.isfinite(change)
    level, relative = (within_weeks(part, valid, records.sku_starts, records.sku_of) for part in (start, change))
    return _Pairs(level, relative, valid, valid & (change != 0.0))


def _betas(records: Records, window: Window, provider_class: str, seller_effects: bool) -> list[Slope]:
    """Slopes by SKU, then of all SKUs pooled."""
    key = ("betas", window, provider_class, seller_effects)
    return records.once(key, lambda: _all_betas(records, window, provider_class, seller_effects))


def _all_betas(records: Records, window: Window, provider_class: str, seller_effects: bool) -> list[Slope]:
    if window.weeks <= LAG_WEEKS:
        return [undefined("the window is shorter than five weeks")] * (len(records.skus) + 1)
    pairs = _pairs(records, window, provider_class)
    if seller_effects:
        pairs = _without_seller_effects(records, pairs)
    owner = np.unique(records.lots.labels["seller"], return_inverse=True)[1]
    blocks = [np.flatnonzero(records.sku_of == k) for k in range(len(records.skus))]
    return [_beta(pairs, block, owner) for block in [*blocks, np.arange(len(owner))]]


def _without_seller_effects(records: Records, pairs: _Pairs) -> _Pairs:
    both = np.stack([pairs.level, pairs.change])
    blocks = zip(records.sku_starts, [*records.sku_starts[1:], both.shape[2]], strict=True)
    parts = [
        within_sellers(both[:, :, first:end], pairs.valid[:, first:end]) if pairs.valid[:, first:end].any()
        else both[:, :, first:end]
        for first, end in blocks
    ]  # fmt: skip
    level, change = np.concatenate(parts, axis=2)
    return pairs._replace(level=level, change=change)


def _beta(pairs: _Pairs, block: NDArray[np.intp], owner: NDArray[np.intp]) -> Slope:
    sellers = owner[block][pairs.valid[:, block].any(axis=0)]
    if len(np.unique(sellers)) < MIN_SELLERS:
        return undefined("fewer than three sellers")
    if not pairs.moved[:, block].any():
        return undefined("no price moved")
    level = pairs.level[:, block]
    if np.abs(level).max() < _NO_SPREAD:
        return undefined("no spread between sellers")
    return clustered_slope(level, pairs.change[:, block], owner[block])


def beta(records: Records, window: Window) -> Iterator[Cell]:
    """Slope of a seller's 4-week relative price change on its deviation from the mean before, per 4 weeks.

    Both in ln and relative to the mean over the sellers present at both ends (week effects), so the slope is
    Δ4(ln p - mean) on (ln p - mean); -1: gone after four weeks, 0: dear sellers stay dear. Pooled over overlapping
    weeks, errors clustered by seller; ``all`` pools SKUs, each with its own mean. Stable premia pull it towards 0: its
    limit is (ρ⁴ - 1) × transitory share of the variance.
    """
    return _beta_cells(records, window, seller_effects=False)


def beta_within(records: Records, window: Window) -> Iterator[Cell]:
    """`beta` with seller effects: the return to a seller's own premium, per 4 weeks.

    Biased downwards in short panels (Nickell 1981): by about -(1 + ρ)/T for T weeks of weekly data with persistence ρ
    and more for four-week changes, so that even a random walk shows reversion. Compare arms, not levels.
    """
    return _beta_cells(records, window, seller_effects=True)


def _beta_cells(records: Records, window: Window, *, seller_effects: bool) -> Iterator[Cell]:
    for name in CONVERGENCE_CLASSES:
        slopes = _betas(records, window, name, seller_effects)
        yield from _with_pooled(records, name, slopes)


def _with_pooled(records: Records, provider_class: str, slopes: list[Slope]) -> Iterator[Cell]:
    """Cells by SKU, and of the last slope as ``all``."""
    yield from _slope_cells(records, provider_class, slopes[:-1])
    yield cell(slopes[-1].value, slopes[-1].reason, slopes[-1].std_error, provider_class=provider_class)


def half_life(records: Records, window: Window) -> Iterator[Cell]:
    """Weeks until half of a deviation from the common mean is gone, by `beta`.

    4 ln 2 / -ln(1 + beta); null unless -1 < beta < 0.
    """
    return _half_life_cells(records, window, seller_effects=False)


def half_life_within(records: Records, window: Window) -> Iterator[Cell]:
    """The same from `beta_within`: of a deviation from the seller's own premium."""
    return _half_life_cells(records, window, seller_effects=True)


def _half_life_cells(records: Records, window: Window, *, seller_effects: bool) -> Iterator[Cell]:
    for name in CONVERGENCE_CLASSES:
        slopes = _betas(records, window, name, seller_effects)
        yield from _with_pooled(records, name, [_half_life(slope) for slope in slopes])


def _half_life(slope: Slope) -> Slope:
    """Half-life of a beta, its error by the delta method."""
    if slope.reason:
        return slope
    # A common move of all prices leaves rounding for a beta, and no half-life.
    if not -1.0 < slope.value < -_NO_SPREAD:
        return undefined("beta is not between -1 and 0")
    decay = -log(1.0 + slope.value)
    weeks = LAG_WEEKS * log(2.0) / decay
    return Slope(weeks, weeks * slope.std_error / (decay * (1.0 + slope.value)))


def price_premium_share(records: Records, window: Window) -> Iterator[Cell]:
    """Share of the variance of ln posted prices around week means that stable seller effects explain.

    1 - RSS with week and seller effects / RSS with week effects. In short panels persistent deviations count as
    effects.
    """
    for name in CONVERGENCE_CLASSES:
        logs = _logs(records, name)[window.rows]
        valid = np.isfinite(logs)
        deviations = within_weeks(logs, valid, records.sku_starts, records.sku_of)
        ends = [*records.sku_starts[1:], logs.shape[1]]
        shares = [
            _premium_share(deviations[:, first:end], valid[:, first:end])
            for first, end in zip(records.sku_starts, ends, strict=True)
        ]
        yield from _slope_cells(records, name, shares)


def _premium_share(deviations: Floats, valid: Bools) -> Slope:
    if valid.any(axis=0).sum() < MIN_SELLERS:
        return undefined("fewer than three sellers")
    if valid.any(axis=1).sum() < MIN_TREND_WEEKS:
        return undefined(f"fewer than {MIN_TREND_WEEKS} weeks")
    if np.abs(deviations).max() < _NO_SPREAD:
        return undefined("no spread between sellers")
    rest = within_sellers(deviations[None], valid)[0]
    return Slope(1.0 - float((rest**2).sum() / (deviations**2).sum()))


def price_drift(records: Records, window: Window) -> Iterator[Cell]:
    """Slope per year of ln posted price with seller effects (each seller against its own mean), clustered by seller."""
    years = np.arange(window.weeks)[:, None] / WEEKS_PER_YEAR
    for name in CONVERGENCE_CLASSES:
        logs = _logs(records, name)[window.rows]
        valid = np.isfinite(logs)
        time, price = (_own_deviation(values, valid) for values in (np.broadcast_to(years, logs.shape), logs))
        ends = [*records.sku_starts[1:], logs.shape[1]]
        slopes = [
            _drift(time[:, first:end], price[:, first:end], valid[:, first:end])
            for first, end in zip(records.sku_starts, ends, strict=True)
        ]
        yield from _slope_cells(records, name, slopes)


def _own_deviation(values: Floats, valid: Bools) -> Floats:
    mean = ratio(np.where(valid, values, 0.0).sum(axis=0), valid.sum(axis=0))
    return np.where(valid, values - mean, 0.0)


def _drift(time: Floats, price: Floats, valid: Bools) -> Slope:
    if valid.sum(axis=0).max() < MIN_TREND_WEEKS:
        return undefined(f"no seller posts a price for {MIN_TREND_WEEKS} weeks")
    return clustered_slope(time, price, np.arange(time.shape[1]))
