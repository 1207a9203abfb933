"""What vendors promise sellers and their lenders: covers of GPUs to be bought, guarantees, and covers granted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from market.arrays import Floats

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["cover_for_loans", "cover_for_orders", "grant_covers", "guaranteed_share"]


def _desks(vendors: Iterable[Any]) -> Iterator[Any]:
    """Vendors' desks that grant covers."""
    return (vendor.covers for vendor in vendors if vendor.covers is not None)


def cover_for_orders(vendors: Iterable[Any], row: int, week: int, skus: int) -> tuple[Floats, Floats]:
    """Share of new GPUs that vendors promise a seller to cover, and the rent, USD, as far as buyers count on it.

    Both ``(skus,)``.
    """
    share, rate = np.zeros(skus), np.zeros(skus)
    for desk in _desks(vendors):
        if desk.enters_orders:
            promised = desk.promised_share(row, week)
            share, rate = share + promised, np.where(promised > 0.0, desk.rate_usd, rate)
    return share, rate


def cover_for_loans(vendors: Iterable[Any], row: int, week: int, skus: int) -> Floats:
    """Share of a seller's new GPUs under a vendor's cover that lenders count, ``(skus,)``."""
    share = np.zeros(skus)
    for desk in _desks(vendors):
        if desk.enters_loans:
            share = share + desk.promised_share(row, week)
    return share


def guaranteed_share(vendors: Iterable[Any], row: int, owed_usd: float) -> float:
    """Part of a lender's loss on a seller that vendors would carry, as far as lenders count it."""
    return min(1.0, float(sum(vendor.guaranteed_share(row, owed_usd) for vendor in vendors)))


def grant_covers(model: MarketModel, delivered_gpus: Floats) -> None:
    """Vendors grant covers over what was delivered, or over standing fleets when a programme starts."""
    available = np.where(model.suppliers.third_party[:, None], model.suppliers.available_gpus, 0.0)
    for vendor in model.vendors:
        grant = vendor.grant_covers(model.week, available, delivered_gpus)
        if grant is not None:
            model.accounts.grant(vendor.name.lower(), grant)
