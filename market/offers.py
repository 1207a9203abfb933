"""The offer book: what is on sale, at which price, with how many GPUs open.

A supplier keeps one row for each SKU and term, reserved from the day it joins, so that a row number is an identity:
``row = (supplier × skus + sku) × terms + term``. Rows are appended, never removed. All terms of a supplier's SKU
share its open GPUs, a *lot*: ``lot = supplier × skus + sku``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats
from market.units import TERM_NAMES

__all__ = ["CHANNELS", "Offer", "OfferBook"]

CHANNELS = ("direct", "pool", "developer_cloud")


@dataclass(frozen=True, slots=True)
class Offer:
    """One row of the book, for people."""

    row: int
    supplier: int
    sku: int
    term: str
    channel: str
    price_usd_per_gpu_hour: float
    open_gpus: float
    listed_gpus: float
    last_change_week: int


class OfferBook:
    """Offers of all suppliers.

    Attributes:
        price_usd: Posted price, USD per GPU-hour, ``(suppliers, skus, terms)``; NaN where nothing is offered.
        last_change_week: Week in which the price last moved, same shape.
        listed_gpus: GPUs on sale at the open of the week, ``(suppliers, skus)``.
        open_gpus: GPUs not taken, ``(suppliers, skus)``.
        channel: Channel of a supplier, index into ``CHANNELS``, ``(suppliers,)``.
    """

    def __init__(self, channels: NDArray[np.int8], skus: int) -> None:
        self.skus = skus
        self.terms = len(TERM_NAMES)
        self.channel = np.zeros(0, np.int8)
        self.price_usd = np.zeros((0, skus, self.terms))
        self.last_change_week = np.zeros((0, skus, self.terms), np.int32)
        self.listed_gpus = np.zeros((0, skus))
        self.open_gpus = np.zeros((0, skus))
        self.append(channels)

    def append(self, channels: NDArray[np.int8]) -> None:
        """Reserve rows for further suppliers; existing rows keep their numbers."""
        more = len(channels)
        self.channel = np.concatenate([self.channel, channels.astype(np.int8)])
        self.price_usd = np.concatenate([self.price_usd, np.full((more, self.skus, self.terms), np.nan)])
        unchanged = np.full((more, self.skus, self.terms), -1, np.int32)
        self.last_change_week = np.concatenate([self.last_change_week, unchanged])
        self.listed_gpus = np.concatenate([self.listed_gpus, np.zeros((more, self.skus))])
        self.open_gpus = np.concatenate([self.open_gpus, np.zeros((more, self.skus))])

    def __len__(self) -> int:
        return self.price_usd.size

    def __getitem__(self, row: int) -> Offer:
        lot, term = divmod(range(len(self))[row], self.terms)
        supplier, sku = divmod(lot, self.skus)
        return Offer(
            row=lot * self.terms + term,
            supplier=supplier,
            sku=sku,
            term=TERM_NAMES[term],
            channel=CHANNELS[self.channel[supplier]],
            price_usd_per_gpu_hour=float(self.price_usd[supplier, sku, term]),
            open_gpus=float(self.open_gpus[supplier, sku]),
            listed_gpus=float(self.listed_gpus[supplier, sku]),
            last_change_week=int(self.last_change_week[supplier, sku, term]),
        )

    def row(self, supplier: int, sku: int, term: int) -> int:
        """Row number of an offer."""
        return (supplier * self.skus + sku) * self.terms + term

    def set_prices(self, supplier: int, price_usd: Floats, week: int) -> None:
        """Post a supplier's prices ``(skus, terms)``; the week of change is kept where the price moved."""
        old = self.price_usd[supplier]
        moved = (old != price_usd) & ~(np.isnan(old) & np.isnan(price_usd))
        self.last_change_week[supplier][moved] = week
        self.price_usd[supplier] = price_usd

    def open_week(self, listed_gpus: Floats, committed_gpus: Floats) -> None:
        """List the suppliers' GPUs and close those that leases hold; both ``(suppliers, skus)``."""
        self.listed_gpus[:] = listed_gpus
        # Rounding of committed hours may leave a hair below zero; it is no GPU.
        self.open_gpus[:] = np.maximum(listed_gpus - committed_gpus, 0.0)
