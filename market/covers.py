"""Covers: a vendor's commitment to rent a seller's idle hours at a fixed rate, for a share of its rent if so agreed.

AMD's leaseback and Nvidia's buy-back are this one contract with other terms. The seller sells first; the vendor pays
for covered hours that stayed idle. A cover ends with its last week.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from market.arrays import Floats, Ints, totals
from market.tranches import Tranches, no_floats, no_ints

__all__ = ["CoverPayments", "Covers"]


@dataclass(frozen=True, slots=True)
class CoverPayments:
    """Hours paid and what is owed, one entry per cover.

    Attributes:
        seller, sku, vendor: Rows.
        idle_gpus: Covered GPUs that stayed idle and are paid for.
        rate_usd: USD per GPU-hour.
        rent_share: Share of the rent of sold covered GPUs that the seller owes the vendor.
        sold_gpus: Covered GPUs that were sold.
    """

    seller: Ints
    sku: Ints
    vendor: Ints
    idle_gpus: Floats
    rate_usd: Floats
    rent_share: Floats
    sold_gpus: Floats


@dataclass(eq=False)
class Covers(Tranches):
    """Commitments in columns, one row each.

    Attributes:
        seller, sku: Whose GPUs, rows of suppliers and SKUs.
        vendor: Who pays, row of the ledger.
        gpus: GPUs covered.
        rate_usd: Rent of a covered idle hour, USD per GPU-hour.
        rent_share: Share of the rent of sold covered GPUs that the seller owes.
        last_week: Last week of the commitment.
    """

    seller: Ints = field(default_factory=no_ints)
    sku: Ints = field(default_factory=no_ints)
    vendor: Ints = field(default_factory=no_ints)
    gpus: Floats = field(default_factory=no_floats)
    rate_usd: Floats = field(default_factory=no_floats)
    rent_share: Floats = field(default_factory=no_floats)
    last_week: Ints = field(default_factory=no_ints)

    def add(
        self,
        seller: Ints,
        sku: Ints,
        vendor: Ints,
        gpus: Floats,
        rate_usd: Floats,
        last_week: int,
        rent_share: float = 0.0,
    ) -> None:
        """Add commitments; those over nothing are left out."""
        self._append(
            seller=seller,
            sku=sku,
            vendor=vendor,
            gpus=gpus,
            rate_usd=rate_usd,
            rent_share=rent_share,
            last_week=last_week,
        )
        self.keep(self.gpus > 0.0)

    def expire(self, week: int) -> None:
        """Drop commitments whose last week is over."""
        self.keep(self.last_week >= week)

    def gpus_by_lot(self, suppliers: int, skus: int) -> Floats:
        """Covered GPUs, ``(suppliers, skus)``."""
        return totals(self.seller * skus + self.sku, self.gpus, suppliers * skus).reshape(suppliers, skus)

    def pay(self, available_gpus: Floats, idle_gpus: Floats) -> CoverPayments:
        """What the vendors owe this week; arguments ``(suppliers, skus)``.

        Covers of one lot share its idle hours in proportion; a lot is never covered beyond its fleet.
        """
        covered = self.gpus_by_lot(*available_gpus.shape)
        at = (self.seller, self.sku)
        part = np.divide(self.gpus, covered[at], out=np.zeros(len(self)), where=covered[at] > 0.0)
        counted = np.minimum(covered, available_gpus)[at] * part
        idle = np.minimum(np.minimum(covered, available_gpus), idle_gpus)[at] * part
        return CoverPayments(
            self.seller, self.sku, self.vendor, idle, self.rate_usd, self.rent_share, np.maximum(counted - idle, 0.0)
        )
