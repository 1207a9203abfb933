"""Supply: deliveries that join fleets, rounds of orders, and sellers that enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats
from market.failure import release_stored
from market.fleets import install
from market.opening import Delivery
from market.outlook import allocate, see_outlook, supply_limits
from market.ownbooks import SellersFinance
from market.promises import grant_covers
from market.purchases import take_delivery
from market.randomness import Purpose, uniform

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["deliver", "plan"]

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
        take_delivery(model.accounts, model, suppliers.delivered_gpus)
        install(model, suppliers.delivered_gpus, 0.0)
    grant_covers(model, suppliers.delivered_gpus)
    release_stored(model)


def plan(model: MarketModel) -> None:
    """Every few weeks sellers order GPUs, vendors allocate them, and a dormant seller may wake."""
    p = model.world.capacity
    demand = float(model.sold_gpus().sum(axis=0) @ model.software.reference_work)
    capacity = float(np.maximum(model.listed_gpus(), 0.0).sum(axis=0) @ model.software.reference_work)
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
    finance = SellersFinance(model)
    orders = [seller.order(model.own_books(row), finance.of(row), outlook) for row, seller in buyers]
    living = [model.suppliers.alive[row] for row, _ in buyers]
    best = [float(order.profit_index.max()) for order, lives in zip(orders, living, strict=True) if lives]
    model.outlook_memory.best_index = max([index for index in best if np.isfinite(index)], default=1.0)
    chosen = [
        (row, order)
        for (row, _), order, lives in zip(buyers, orders, living, strict=True)
        if lives or (order.enters and p.entry and _wakes(model, row))
    ]
    limit, vendor_limit = supply_limits(model)
    got = allocate([order for _, order in chosen], outlook.work_per_gpu, limit, vendor_limit, model.hardware.is_amd)
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
        luck = float(uniform(model.seed, Purpose.DELIVERY, model.week, key, model.hardware.keys[sku]))
        arrives = model.week + p.lead_weeks + int(np.floor(luck * (p.lead_spread_weeks + 1)))
        order = Delivery(row, sku, arrives, float(gpus[sku]), arrives)
        model.pipeline.append(order.not_before(int(model.hardware.launch_week[sku])))
