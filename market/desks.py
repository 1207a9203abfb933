"""Vendors' desks: the pool reviews its members and posts its quotes, the developer cloud posts its offer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats, ratio
from market.fleets import trim_cloud
from market.randomness import Purpose, uniform
from market.units import Term

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["post_cloud", "post_pool"]

_ROUNDING = 1e-9


def _spare_gpus(model: MarketModel) -> Floats:
    """GPUs not sold directly at last close, ``(suppliers, skus)``; pooled lots last a week and are spare again."""
    return np.asarray(model.book.open_gpus + model.pooled_gpus)


def _review_members(model: MarketModel) -> None:
    """Sellers of Nvidia GPUs decide on membership; a keyed draw meets each one's chance to join."""
    s = model.suppliers
    nvidia = np.where(~model.hardware.is_amd, s.available_gpus, 0.0).sum(axis=1)
    spare = np.where(~model.hardware.is_amd, _spare_gpus(model), 0.0).sum(axis=1)
    spare_share = np.nan_to_num(ratio(spare, nvidia))
    luck = uniform(model.seed, Purpose.POOL, model.week, s.key)
    model.pool_member[:] = False
    for row, seller in model.sellers:
        if s.alive[row] and nvidia[row] > 0.0:
            chance = seller.join_pool(model.own_books(row), float(spare_share[row])).join_probability
            model.pool_member[row] = luck[row] < chance


def post_pool(model: MarketModel) -> None:
    """Members post their asks, and the pool its quotes; without members there is no offer and nothing changes."""
    if model.pool_row < 0:
        return
    s = model.suppliers
    operators = [vendor for vendor in model.vendors if vendor.pool is not None]
    if any(vendor.pool_reviews(model.week) for vendor in operators):
        _review_members(model)
    elif not any(vendor.pool_is_open(model.week) for vendor in operators):
        model.pool_member[:] = False
    model.pool_offer = None
    if model.pool_member.any():
        spare = _spare_gpus(model)
        spare_share = np.nan_to_num(ratio(spare, s.available_gpus))
        asks = np.full(model.book.open_gpus.shape, np.nan)
        for row, seller in model.sellers:
            if model.pool_member[row]:
                asks[row] = np.where(model.hardware.is_amd, np.nan, seller.ask(model.own_books(row), spare_share[row]))
        spare = np.where(model.pool_member[:, None], spare, 0.0)
        volume = model.pooled_gpus.sum(axis=0)
        offers = [vendor.pool_offer(model.week, asks, spare, volume, ~model.hardware.is_amd) for vendor in operators]
        model.pool_offer = next((offer for offer in offers if offer is not None), None)
    prices = np.full(model.book.price_usd.shape[1:], np.nan)
    if model.pool_offer is not None:
        prices[:, [Term.SPOT, Term.ON_DEMAND]] = model.pool_offer.quote_usd[:, None]
    model.book.set_prices(model.pool_row, prices, model.week)


def post_cloud(model: MarketModel) -> None:
    """Post the developer cloud's offer of the week, or close it."""
    offers = [offer for vendor in model.vendors if (offer := vendor.desk_offer(model.view)) is not None]
    # What partners no longer lease back cannot be sold.
    firm = float(model.suppliers.firm_gpus[:, offers[0].sku].sum()) if offers else 0.0
    model.desk_offer = replace(offers[0], cap_gpus=min(offers[0].cap_gpus, firm)) if firm > 0.0 else None
    if model.cloud_row < 0:
        return
    cap = 0.0 if model.desk_offer is None else model.desk_offer.cap_gpus
    if model.desk_sold_gpus() > cap * (1.0 + _ROUNDING):
        trim_cloud(model, cap)
    prices = np.full(model.book.price_usd.shape[1:], np.nan)
    if model.desk_offer is not None:
        prices[model.desk_offer.sku, [Term.SPOT, Term.ON_DEMAND]] = model.desk_offer.price_usd
    model.book.set_prices(model.cloud_row, prices, model.week)
