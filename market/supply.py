"""Supply: deliveries that join fleets, and the price of a SKU that is new to its seller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, column_medians
from market.units import Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["deliver", "median_prices", "own_core_median_ln", "partner_median_usd", "price_new_skus"]


def deliver(model: MarketModel) -> None:
    """GPUs due this week join their fleets, on the books from this day; leases that end lapse in the review."""
    suppliers = model.suppliers
    suppliers.delivered_gpus[:] = 0.0
    due = [order for order in model.pipeline if order.week == model.week]
    for order in due:
        suppliers.delivered_gpus[order.supplier, order.sku] += order.gpus
    if due:
        suppliers.installed_gpus += suppliers.delivered_gpus
        model.accounts.take_delivery(model, suppliers.delivered_gpus)
        price_new_skus(model)


def own_core_median_ln(model: MarketModel) -> Floats:
    """Median list price without premia by SKU over living third-party sellers, ln USD; NaN where nobody sells."""
    suppliers = model.suppliers
    counts = (suppliers.third_party & suppliers.alive)[:, None] & (suppliers.installed_gpus > 0.0)
    return column_medians(np.where(counts, suppliers.core_list_ln, np.nan))


def price_new_skus(model: MarketModel) -> None:
    """A seller's first GPUs of a SKU are listed at the peers' median without premia, times its own premia.

    The first seller of a SKU lists at its base price, moved like the H100's since the opening.
    """
    suppliers = model.suppliers
    new = (suppliers.installed_gpus > 0.0) & np.isnan(suppliers.list_ln) & suppliers.third_party[:, None]
    if not new.any():
        return
    base = np.log(model.base_list_usd)
    peers = own_core_median_ln(model)
    reference = model.tables.sku_index["H100"]
    moved = 0.0 if np.isnan(peers[reference]) else peers[reference] - base[reference]
    core = np.where(np.isnan(peers), base + moved, peers)
    opening = core[None, :] + suppliers.premium_ln[:, None] + suppliers.sku_premium_ln
    floor = np.log(np.maximum(model.floor_usd, 1e-300))
    suppliers.list_ln = np.where(new, np.maximum(opening, floor), suppliers.list_ln)
    suppliers.shadow_ln = np.where(new, suppliers.list_ln, suppliers.shadow_ln)
    suppliers.tightness = np.where(new, model.new_sku_tightness, suppliers.tightness)


def median_prices(model: MarketModel, members: Bools) -> Floats:
    """Median posted price over ``members (suppliers,)``, ``(skus, terms)``; NaN where none sells."""
    return column_medians(model.book.price_usd[members])


def partner_median_usd(model: MarketModel) -> float:
    """Median on-demand price of the developer cloud's partners for its SKU, USD; NaN without partners."""
    prices = model.book.price_usd[model.partners, model.desk_sku, Term.ON_DEMAND]
    prices = prices[~np.isnan(prices)]
    return float(np.median(prices)) if len(prices) else float("nan")
