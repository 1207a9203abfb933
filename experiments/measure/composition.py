"""Who moves the mean and the spread of posted prices: the same sellers, or those who come and go."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from experiments.measure.convergence import CONVERGENCE_CLASSES
from experiments.measure.prices import posted, spread, weights
from experiments.measure.records import Cell, Floats, Records, Window, ratio

__all__ = ["change_of_cv", "change_of_mean"]

_CHANGE_PARTS = ("total", "within", "between", "entry", "exit")


def change_of_mean(records: Records, window: Window, part: str) -> Iterator[Cell]:
    """A part of the change of the weighted mean posted price from the first to the last week of the window, USD/GPU-h.

    Melitz and Polanec (2015), weights by available GPUs; total = within + between + entry + exit:

    - within: stayers' price changes at their mean share among stayers (0 exactly if their prices are frozen);
    - between: stayers' share changes at their mean price;
    - entry: share of entrants × (their price - stayers' price) in the last week;
    - exit: share of leavers × (stayers' price - their price) in the first week.
    """
    for name in CONVERGENCE_CLASSES:
        parts = records.once(("change", window, name), partial(_changes, records, window, name))
        yield from records.sku_cells(name, parts[_CHANGE_PARTS.index(part)], "no seller posts a price in both weeks")


def _changes(records: Records, window: Window, provider_class: str) -> Floats:
    """All parts by SKU, ``(5, skus)``."""
    ends = [window.first, window.last]
    price = posted(records, provider_class)[ends]
    weight = np.where(np.isfinite(price), weights(records)[ends], 0.0)
    price = np.nan_to_num(price)
    stays = (weight > 0.0).all(axis=0)
    stayers = records.by_sku(weight * stays)
    share = ratio(weight * stays, stayers[:, records.sku_of])
    within = np.where(stays, share.mean(axis=0) * (price[1] - price[0]), 0.0)
    between = np.where(stays, (share[1] - share[0]) * price.mean(axis=0), 0.0)
    level = ratio(records.by_sku(weight * price * stays), stayers)
    gap = weight * ~stays * (price - level[:, records.sku_of])
    movers = ratio(records.by_sku(np.where(stays, 0.0, gap)), records.by_sku(weight))
    inside, across, entry, leaving = records.by_sku(within), records.by_sku(between), movers[1], 0.0 - movers[0]
    known = np.isfinite(level).all(axis=0)
    parts = np.stack([inside + across + entry + leaving, inside, across, entry, leaving])
    return np.where(known, parts, np.nan)


def change_of_cv(records: Records, window: Window, part: str) -> Iterator[Cell]:
    """A part of the change of the cross-seller coefficient of variation from the first to the last week of the window.

    ``total``, ``within`` (over the sellers present in both weeks) and ``composition`` (the rest: who is left).
    """
    for name in CONVERGENCE_CLASSES:
        prices = posted(records, name)
        stays = np.isfinite(prices[[window.first, window.last]]).all(axis=0)
        total, within = (_cv_change(records, window, chosen) for chosen in (prices, np.where(stays, prices, np.nan)))
        values = {"total": total, "within": within, "composition": total - within}[part]
        yield from records.sku_cells(name, values, "fewer than two sellers post a price in both weeks")


def _cv_change(records: Records, window: Window, prices: Floats) -> Floats:
    ends = spread(records, prices[[window.first, window.last]])
    cv = ratio(ends.sd, ends.mean)
    return np.asarray(cv[1] - cv[0])
