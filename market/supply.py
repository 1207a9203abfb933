"""Supply: deliveries that join fleets, and the price of a SKU that is new to its seller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, column_medians
from market.failure import release_stored
from market.opening import Delivery
from market.outlook import allocate, see_outlook, supply_limits
from market.randomness import Purpose, uniform
from market.units import Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["deliver", "median_prices", "own_core_median_ln", "partner_median_usd", "plan", "price_new_skus"]

_LEAST_ORDER_GPUS = 1.0


def deliver(model: MarketModel) -> None:
    """GPUs due this week join their fleets, on the books from this day; leases that end lapse in the review."""
    suppliers = model.suppliers
    suppliers.delivered_gpus[:] = 0.0
    stopped = model.accounts.covenants.standing_still  # nobody pays for what such a seller has ordered
    due = [order for order in model.pipeline if order.week == model.week and not stopped[order.supplier]]
    for order in due:
        suppliers.delivered_gpus[order.supplier, order.sku] += order.gpus
    model.pipeline = [order for order in model.pipeline if order.week > model.week]
    if due:
        model.accounts.take_delivery(model, suppliers.delivered_gpus)
        model.install(suppliers.delivered_gpus, 0.0)
    model.grant_covers(suppliers.delivered_gpus)
    release_stored(model)


def plan(model: MarketModel) -> None:
    """Every few weeks sellers order GPUs, vendors allocate them, and a dormant seller may wake."""
    p = model.world.capacity
    demand = float(model.sold_gpus().sum(axis=0) @ model.reference_work)
    capacity = float(np.maximum(model.listed_gpus(), 0.0).sum(axis=0) @ model.reference_work)
    unserved = min(model.unmet_h100e, p.unserved_maximum * capacity)
    model.outlook_memory.demand_h100e.append(demand + p.unserved_weight * unserved)
    if not p.orders or model.week % p.round_weeks:
        return
    outlook = see_outlook(model)
    stopped = model.accounts.covenants.standing_still  # lenders stand still: nothing is ordered
    buyers = [
        (row, seller)
        for row, seller in model.sellers
        if (model.suppliers.alive[row] and not stopped[row]) or seller.entrant
    ]
    orders = [seller.order(model.own_books(row), model.own_finance(row), outlook) for row, seller in buyers]
    living = [model.suppliers.alive[row] for row, _ in buyers]
    best = [float(order.profit_index.max()) for order, lives in zip(orders, living, strict=True) if lives]
    model.outlook_memory.best_index = max([index for index in best if np.isfinite(index)], default=1.0)
    chosen = [
        (row, order)
        for (row, _), order, lives in zip(buyers, orders, living, strict=True)
        if lives or (order.enters and p.entry and _wakes(model, row))
    ]
    limit, vendor_limit = supply_limits(model)
    got = allocate([order for _, order in chosen], outlook.work_per_gpu, limit, vendor_limit, model.sku_is_amd)
    for (row, _), gpus in zip(chosen, got, strict=True):
        _order(model, row, gpus)


def _wakes(model: MarketModel, row: int) -> bool:
    """Whether a dormant seller enters this round: a keyed draw; its owners pay in the opening cash. Once only."""
    key = model.suppliers.key[row]
    if any(default.seller == row for default in model.defaults):
        return False
    if uniform(model.seed, Purpose.ENTRY, model.week, key) >= model.world.capacity.entry_probability:
        return False
    model.suppliers.alive[row] = True
    cash = {entrant.name: entrant.cash_usd_m * 1e6 for entrant in model.tables.entrants}
    model.accounts.ledger.post("equity_in", model.accounts.world_row, row, cash[model.suppliers.names[row]])
    model.rank_sellers()
    return True


def _order(model: MarketModel, row: int, gpus: Floats) -> None:
    """Put what a buyer was allocated on its way; it arrives after the lead time and not before the launch."""
    p, key = model.world.capacity, model.suppliers.key[row]
    for sku in np.flatnonzero(gpus >= _LEAST_ORDER_GPUS).tolist():
        luck = float(uniform(model.seed, Purpose.DELIVERY, model.week, key, model.sku_keys[sku]))
        arrives = model.week + p.lead_weeks + int(np.floor(luck * (p.lead_spread_weeks + 1)))
        order = Delivery(row, sku, arrives, float(gpus[sku]), arrives)
        model.pipeline.append(order.not_before(int(model.launch_week[sku])))


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
