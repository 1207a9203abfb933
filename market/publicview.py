"""The public view: what everybody can see of a close, put together once a week.

Sellers decide from it in the next week. Tastes, rivals' books and costs, and events to come are not in it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, column_medians, frozen
from market.decisions import PoolOffer
from market.hardware import Hardware
from market.suppliers import HYPERSCALER, NEOCLOUD, Suppliers
from market.tenants import Tenants
from market.units import Term
from market.view import MarketView

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["PublicRecord"]

_UTILISATION_DELAY_WEEKS = 4
_PRICE_LAGS_WEEKS = (1, 4, 13)


class PublicRecord:
    """What the public has seen so far: median prices, and utilisation that becomes known weeks late."""

    def __init__(self) -> None:
        self._medians: deque[Floats] = deque(maxlen=max(_PRICE_LAGS_WEEKS))
        self._utilisation: deque[Floats] = deque(maxlen=_UTILISATION_DELAY_WEEKS + 1)

    def see(self, model: MarketModel) -> MarketView:
        """Note a close, and the view of it for the week to come."""
        s, hardware, offer = model.suppliers, model.hardware, model.desk_offer
        rivals = s.third_party & s.alive & (s.provider_class != HYPERSCALER)
        self._medians.append(column_medians(model.book.price_usd[rivals]))
        self._utilisation.append(_utilisation(s, model.sold_gpus() + model.pooled_gpus))
        kept = _premium_kept(model.tenants, model.pool_offer)
        core_sum_ln, core_weight = _core_prices(s, rivals, kept)
        return MarketView(
            week=model.week + 1,
            date=model.tables.date_of(model.week + 1),
            price_usd=frozen(model.book.price_usd),
            sold_out=(model.book.open_gpus <= 0.0) & (model.book.listed_gpus > 0.0),
            median_price_usd=self._median_prices(),
            public_utilisation=frozen(self._utilisation[0]),
            delivered_gpus=frozen(s.installed_gpus.sum(axis=0)),
            announced_gpus=frozen(model.announced_gpus()),
            launch_week=frozen(hardware.launch_week),
            base_list_usd=frozen(hardware.base_list_usd),
            base_rate=model.world.finance.base_rate,
            core_sum_ln=frozen(core_sum_ln),
            core_weight=frozen(core_weight),
            core_median_ln=frozen(s.core_median_ln),
            neocloud_index_ln=_neocloud_index_ln(s, hardware, model.tables.sku_index["H100"]),
            premium_kept=kept,
            pool_quote_usd=frozen(_pool_quote(model)),
            pool_volume_gpus=frozen(model.pooled_gpus.sum(axis=0)),
            desk=offer,
            desk_free_share=0.0 if offer is None else max(0.0, 1.0 - model.desk_sold_gpus() / offer.cap_gpus),
            desk_partner_gpus=float(s.available_gpus[s.third_party, model.desk_sku].sum()),
            partner_median_usd=_partner_median_usd(model),
            demand=model.forecast,
        )

    def _median_prices(self) -> dict[int, Floats]:
        """Median prices of rivals by weeks back, those of the opening where a market is younger."""
        return {lag: frozen(self._medians[-min(lag, len(self._medians))]) for lag in _PRICE_LAGS_WEEKS}


def _utilisation(suppliers: Suppliers, used_gpus: Floats) -> Floats:
    """End tenants' hours over third parties' available hours by SKU, NaN where there are none."""
    third = suppliers.third_party
    sold, available = used_gpus[third].sum(axis=0), suppliers.available_gpus[third].sum(axis=0)
    return np.asarray(np.divide(sold, available, out=np.full(len(sold), np.nan), where=available > 0.0))


def _core_prices(suppliers: Suppliers, rivals: Bools, kept: float) -> tuple[Floats, Floats]:
    """Sum over rivals of weight × list price without the premia that tenants pay for, and of weights; ``(skus,)``."""
    s = suppliers
    counts = rivals[:, None] & (s.available_gpus > 0.0)
    weight = np.where(counts, np.sqrt(np.maximum(s.available_gpus, 0.0)), 0.0)
    core = s.list_ln - (s.premium_ln[:, None] + s.sku_premium_ln) * kept
    return np.where(counts, weight * core, 0.0).sum(axis=0), weight.sum(axis=0)


def _premium_kept(tenants: Tenants, pool_offer: PoolOffer | None) -> float:
    """Part of list premia that tenants on short and monthly terms still pay for: pool users pay for less."""
    if pool_offer is None:
        return 1.0
    t = tenants
    short = (t.term == Term.ON_DEMAND) | (t.term == Term.SPOT) | (t.term == Term.FOUR_WEEKS)
    work = t.wanted_h100e * t.weight * short
    total = float(work.sum())
    used = float(work[t.pool_user].sum()) / total if total > 0.0 else 0.0
    return 1.0 - pool_offer.identity_erosion * used


def _neocloud_index_ln(suppliers: Suppliers, hardware: Hardware, sku: int) -> float:
    """Median neocloud quote for a SKU without premia over its base list, ln; 0 without neoclouds."""
    s = suppliers
    members = (s.provider_class == NEOCLOUD) & s.alive & (s.available_gpus[:, sku] > 0.0)
    if not members.any():
        return 0.0
    quotes = s.shadow_ln[members, sku] - s.premium_ln[members] - s.sku_premium_ln[members, sku]
    return float(np.median(quotes) - np.log(hardware.base_list_usd[sku]))


def _pool_quote(model: MarketModel) -> Floats:
    """The pool's quotes by SKU, USD; NaN where it sells nothing."""
    return np.full(model.book.skus, np.nan) if model.pool_offer is None else model.pool_offer.quote_usd


def _partner_median_usd(model: MarketModel) -> float:
    """Median on-demand price of the developer cloud's partners for its SKU, USD; NaN without partners."""
    prices = model.book.price_usd[model.partners, model.desk_sku, Term.ON_DEMAND]
    prices = prices[~np.isnan(prices)]
    return float(np.median(prices)) if len(prices) else float("nan")
