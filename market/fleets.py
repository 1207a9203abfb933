"""Fleets: GPUs that join them and get a price, and all that goes when a seller or a firm lease ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, ratio

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["close_seller", "install", "trim_cloud"]


def install(model: MarketModel, gpus: Floats, age_weeks: float) -> None:
    """GPUs ``(suppliers, skus)`` of an age join fleets; SKUs new to a seller get a price."""
    s = model.suppliers
    total = s.installed_gpus + gpus
    mixed = (s.installed_gpus * model.age_weeks + gpus * age_weeks) / np.maximum(total, 1e-300)
    model.age_weeks = np.where(total > 0.0, mixed, 0.0)
    s.installed_gpus = total
    _price_new_skus(model)


def _price_new_skus(model: MarketModel) -> None:
    """A seller's first GPUs of a SKU are listed at the peers' median without premia, times its own premia.

    The first seller of a SKU lists at its base price, moved like the H100's since the opening.
    """
    suppliers, hardware = model.suppliers, model.hardware
    new = (suppliers.installed_gpus > 0.0) & np.isnan(suppliers.list_ln) & suppliers.third_party[:, None]
    if not new.any():
        return
    base = np.log(hardware.base_list_usd)
    peers = suppliers.core_median_ln
    reference = model.tables.sku_index["H100"]
    moved = 0.0 if np.isnan(peers[reference]) else peers[reference] - base[reference]
    core = np.where(np.isnan(peers), base + moved, peers)
    opening = core[None, :] + suppliers.premium_ln[:, None] + suppliers.sku_premium_ln
    floor = np.log(np.maximum(hardware.floor_usd, 1e-300))
    suppliers.list_ln = np.where(new, np.maximum(opening, floor), suppliers.list_ln)
    suppliers.shadow_ln = np.where(new, suppliers.list_ln, suppliers.shadow_ln)
    suppliers.tightness = np.where(new, model.world.pricing.new_sku, suppliers.tightness)


def close_seller(model: MarketModel, row: int) -> None:
    """A failed seller leaves: no fleet, no orders, no offers; its tenants look again next week."""
    s, book = model.suppliers, model.book
    s.alive[row], model.pool_member[row] = False, False
    s.installed_gpus[row], s.firm_gpus[row], s.tightness[row] = 0.0, 0.0, 0.0
    _release_pooled(model, row)
    trim_cloud(model)
    model.leases = model.leases.keep(model.leases.lot // book.skus != row)
    model.pipeline = [order for order in model.pipeline if order.supplier != row]
    book.set_prices(row, np.full(book.price_usd.shape[1:], np.nan), model.week)
    book.open_gpus[row] = 0.0
    model.rank_sellers()


def _release_pooled(model: MarketModel, row: int) -> None:
    """Pooled hours that a failed member served end with it: every pooled lease of the SKU loses its part."""
    left = 1.0 - np.nan_to_num(ratio(model.pooled_gpus[row], model.pooled_gpus.sum(axis=0)))
    model.leases.shrink(model.pool_row, left)
    model.pooled_gpus[row] = 0.0


def trim_cloud(model: MarketModel, most_gpus: float = np.inf) -> None:
    """Leases at the developer cloud end in proportion where it has let more than is leased back, or may be let."""
    sold, firm = model.cloud_gpus(), np.minimum(model.suppliers.firm_gpus.sum(axis=0), most_gpus)
    model.leases.shrink(model.cloud_row, np.where(sold > firm, ratio(firm, sold), 1.0))
    model.leases = model.leases.keep(model.leases.gpus > 0.0)
