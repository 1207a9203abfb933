"""Levels and spread of rental prices: posted, open, realised, newly signed; by SKU and class of seller.

Posted prices are sellers' own on-demand list prices; vendors' desks and the pool have no row among sellers. Levels
weight sellers by the GPUs they can rent out, spread counts every seller once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.measure.records import HEADLINE, Bools, Cell, Floats, Records, Window, cell, mean_over_weeks, ratio
from market.units import HOURS_PER_WEEK

__all__ = [
    "PRICE_CLASSES",
    "law_of_one_price_gap",
    "posted",
    "price_change",
    "price_cv",
    "price_cv_balanced",
    "price_mean",
    "price_multiple",
    "price_new_lease",
    "price_open",
    "price_range",
    "price_ratio",
    "price_realised",
    "spot_over_on_demand",
    "term_ratio",
    "weekly_cv",
    "weekly_mean",
    "weights",
]

PRICE_CLASSES = (HEADLINE, "all", "neocloud", "hyperscaler")

SOLD_OUT_GPUS = 1.0
"""An offer with less than one GPU open is sold out."""

_SAME_SELLER = (("MI300X", "H100"), ("MI300X", "H200"))


@dataclass(frozen=True)
class Spread:
    """Posted prices across sellers by week and SKU, ``(weeks + 1, skus)``, USD/GPU-h; NaN where undefined.

    The standard deviation is the sample's (n - 1).
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats


def posted(records: Records, provider_class: str) -> Floats:
    """Posted prices of a class, ``(weeks + 1, series)``, NaN for other sellers and without an offer."""
    prices = records.lots["list_usd_per_gpu_hour"]
    return np.where(records.in_class(provider_class) & (prices > 0.0), prices, np.nan)


def weights(records: Records) -> Floats:
    """GPUs that a seller can rent out to tenants, ``(weeks + 1, series)``: firm GPUs are in nobody's offers."""
    return np.maximum(records.lots.known("available_gpus"), 0.0)


def _weighted(records: Records, prices: Floats) -> Floats:
    weight = np.where(np.isfinite(prices), weights(records), 0.0)
    return ratio(records.by_sku(np.nan_to_num(prices) * weight), records.by_sku(weight))


def weekly_mean(records: Records, provider_class: str) -> Floats:
    """`price_mean` of every week, ``(weeks + 1, skus)``, USD/GPU-h."""
    return _weighted(records, posted(records, provider_class))


def price_mean(records: Records, window: Window) -> Iterator[Cell]:
    """Posted on-demand price, weighted by available GPUs; mean over the weeks of the window, USD/GPU-h."""
    for name in PRICE_CLASSES:
        weekly = weekly_mean(records, name)[window.rows]
        yield from records.sku_cells(name, mean_over_weeks(weekly), "no seller has it to rent")


def price_open(records: Records, window: Window) -> Iterator[Cell]:
    """The same over offers not sold out at close: what a tenant who comes today can have, USD/GPU-h."""
    is_open = records.lots["open_gpus"] >= SOLD_OUT_GPUS
    for name in PRICE_CLASSES:
        weekly = _weighted(records, np.where(is_open, posted(records, name), np.nan))[window.rows]
        yield from records.sku_cells(name, mean_over_weeks(weekly), "no offer is open in any week")


def price_realised(records: Records, window: Window) -> Iterator[Cell]:
    """What active direct leases pay: rent over GPU-hours of the window, USD/GPU-h."""
    return _paid(records, window, "revenue_usd", "sold_gpus", "no active lease")


def price_new_lease(records: Records, window: Window) -> Iterator[Cell]:
    """What leases signed in the window pay: their weekly rent over weekly GPU-hours, USD/GPU-h."""
    return _paid(records, window, "new_revenue_usd", "new_gpus", "no lease signed")


def _paid(records: Records, window: Window, rent: str, gpus: str, reason: str) -> Iterator[Cell]:
    usd = records.lots.known(rent)[window.rows].sum(axis=0)
    hours = records.lots.known(gpus)[window.rows].sum(axis=0) * HOURS_PER_WEEK
    for name in PRICE_CLASSES:
        inside = records.in_class(name)
        price = ratio(records.by_sku(usd * inside), records.by_sku(hours * inside))
        yield from records.sku_cells(name, price, reason)


def spread(records: Records, prices: Floats) -> Spread:
    """Mean, standard deviation and extremes across sellers of ``prices``, ``(weeks + 1, series)``."""
    valid = np.isfinite(prices)
    count = records.by_sku(valid.astype(float))
    mean = ratio(records.by_sku(np.where(valid, prices, 0.0)), count)
    squares = np.where(valid, prices - mean[:, records.sku_of], 0.0) ** 2
    low = np.minimum.reduceat(np.where(valid, prices, np.inf), records.sku_starts, axis=1)
    high = np.maximum.reduceat(np.where(valid, prices, -np.inf), records.sku_starts, axis=1)
    several = count >= 2.0
    return Spread(
        mean=mean,
        sd=np.sqrt(ratio(records.by_sku(squares), count - 1.0)),
        low=np.where(several, low, np.nan),
        high=np.where(several, high, np.nan),
    )


def _spread_of(records: Records, provider_class: str) -> Spread:
    return records.once(("spread", provider_class), lambda: spread(records, posted(records, provider_class)))


_FEW = "fewer than two sellers in every week"


def weekly_cv(records: Records, provider_class: str) -> Floats:
    """`price_cv` of every week, ``(weeks + 1, skus)``."""
    weekly = _spread_of(records, provider_class)
    return ratio(weekly.sd, weekly.mean)


def price_cv(records: Records, window: Window) -> Iterator[Cell]:
    """Coefficient of variation of posted prices across sellers; mean over weeks with two sellers or more."""
    return _dispersion(records, window, weekly_cv)


def _weekly_range(records: Records, provider_class: str) -> Floats:
    weekly = _spread_of(records, provider_class)
    return ratio(weekly.high, weekly.low)


def price_range(records: Records, window: Window) -> Iterator[Cell]:
    """Dearest over cheapest posted price; mean over weeks with two sellers or more."""
    return _dispersion(records, window, _weekly_range)


def _dispersion(records: Records, window: Window, weekly: Callable[[Records, str], Floats]) -> Iterator[Cell]:
    for name in PRICE_CLASSES:
        yield from records.sku_cells(name, mean_over_weeks(weekly(records, name)[window.rows]), _FEW)


def price_cv_balanced(records: Records, window: Window) -> Iterator[Cell]:
    """`price_cv` over the sellers that post a price in every week of the window: entry and exit cannot move it."""
    for name in PRICE_CLASSES:
        prices = posted(records, name)
        weekly = spread(records, np.where(_always(prices, window), prices, np.nan))
        cv = mean_over_weeks(ratio(weekly.sd, weekly.mean)[window.rows])
        yield from records.sku_cells(name, cv, "fewer than two sellers post a price in every week")


def _always(prices: Floats, window: Window) -> Bools:
    return np.asarray(np.isfinite(prices[window.rows]).all(axis=0))


def price_multiple(records: Records, window: Window) -> Iterator[Cell]:
    """Plain mean of hyperscalers' posted prices over that of neoclouds, by SKU; mean over weeks."""
    over, under = (_spread_of(records, name).mean[window.rows] for name in ("hyperscaler", "neocloud"))
    values = mean_over_weeks(ratio(over, under))
    for found in records.sku_cells("hyperscaler", values, "not posted by both classes in one week"):
        yield found._replace(provider_class="hyperscaler/neocloud")


def price_ratio(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's posted price over Nvidia's at the same neocloud or marketplace; mean over sellers, then weeks."""
    for amd, nvidia in _SAME_SELLER:
        above, below = (_by_seller(records, sku)[window.rows] for sku in (amd, nvidia))
        weekly = mean_over_weeks(ratio(above, below).T)
        value = float(mean_over_weeks(weekly))
        reason = "no seller posts both"
        yield cell(value, reason, vendor="amd", sku=f"{amd}/{nvidia}", provider_class="same seller")


def _by_seller(records: Records, sku: str) -> Floats:
    """Posted prices of one SKU, ``(weeks + 1, sellers)`` over all sellers in order of name."""
    labels, prices = records.lots.labels, posted(records, HEADLINE)
    names = np.unique(labels["seller"])
    mine = labels["sku"] == sku
    placed = np.full((len(prices), len(names)), np.nan)
    placed[:, np.searchsorted(names, labels["seller"][mine])] = prices[:, mine]
    return placed


def term_ratio(records: Records, window: Window) -> Iterator[Cell]:
    """One-year price over the same seller's on-demand list price; mean over sellers, then weeks."""
    return _over_list(records, window, "one_year_usd_per_gpu_hour", "no seller posts a one-year price")


def spot_over_on_demand(records: Records, window: Window) -> Iterator[Cell]:
    """Spot price over the same seller's on-demand list price; mean over sellers with a spot tier, then weeks."""
    return _over_list(records, window, "spot_usd_per_gpu_hour", "no seller posts a spot price")


def _over_list(records: Records, window: Window, column: str, reason: str) -> Iterator[Cell]:
    for name in PRICE_CLASSES:
        ratios = ratio(records.lots[column], posted(records, name))[window.rows]
        yield from records.sku_cells(name, mean_over_weeks(_mean_of_sellers(records, ratios)), reason)


def _mean_of_sellers(records: Records, values: Floats) -> Floats:
    """Plain mean over the sellers that have a value, ``(weeks, series)`` to ``(weeks, skus)``."""
    known = np.isfinite(values)
    return ratio(records.by_sku(np.where(known, values, 0.0)), records.by_sku(known.astype(float)))


def price_change(records: Records, window: Window) -> Iterator[Cell]:
    """Relative change of posted prices from the week before the window to its last week.

    Mean over the sellers that post the SKU at both ends; entry and exit cannot move it.
    """
    for name in (*PRICE_CLASSES, "neocloud amd-heavy"):
        prices = posted(records, name)
        change = prices[window.last] / prices[window.first - 1] - 1.0
        values = _mean_of_sellers(records, change[None])[0]
        yield from records.sku_cells(name, values, "no seller posts a price at both ends")


def law_of_one_price_gap(records: Records, window: Window) -> Iterator[Cell]:
    """(Mean effective price paid - cheapest open effective price)/mean, by segment; mean over weeks.

    Effective prices are USD per H100e-hour, what tenants of the segment compare.
    """
    segments = records.segments
    paid, cheapest = (segments[f"{name}_usd_per_h100e_hour"][window.rows] for name in ("mean_paid", "cheapest_open"))
    for name, value in zip(segments.labels["segment"], mean_over_weeks(ratio(paid - cheapest, paid)), strict=True):
        yield cell(value, "nobody of the segment rents, or no offer is open to it", segment=str(name))
