"""Leases: accepted offers, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats, totals

__all__ = ["OPEN_ENDED", "Leases", "no_leases"]

OPEN_ENDED = np.iinfo(np.int32).max


@dataclass(slots=True)
class Leases:
    """Active leases, shapes ``(leases,)``.

    Attributes:
        tenant: Row of the tenant.
        lot: Supplier × SKU, see ``OfferBook``.
        term: Term of the lease.
        gpus: GPUs held, all tenants of the row together.
        price_usd: Price per GPU-hour; locked for fixed terms, for on-demand the price at signing.
        first_week: First billed week.
        end_week: First week no longer held; ``OPEN_ENDED`` on demand.
    """

    tenant: NDArray[np.int32]
    lot: NDArray[np.int32]
    term: NDArray[np.uint8]
    gpus: Floats
    price_usd: Floats
    first_week: NDArray[np.int32]
    end_week: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tenant)

    def keep(self, mask: NDArray[np.bool_]) -> Leases:
        """The leases under a mask."""
        return Leases(*(getattr(self, name)[mask] for name in self.__slots__))

    def joined(self, others: Leases) -> Leases:
        """These and other leases."""
        return Leases(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in self.__slots__))

    def shrink(self, supplier: int, left: Floats) -> None:
        """A supplier's leases keep a part of their GPUs by SKU, ``left (skus,)``."""
        here, skus = self.lot // len(left) == supplier, self.lot % len(left)
        self.gpus = np.where(here, self.gpus * left[skus], self.gpus)

    def gpus_by_lot(self, lots: int) -> Floats:
        """GPUs held in each lot, ``(lots,)``."""
        return totals(self.lot, self.gpus, lots)


def no_leases() -> Leases:
    """An empty book."""
    ints, floats = np.zeros(0, np.int32), np.zeros(0)
    return Leases(ints, ints, np.zeros(0, np.uint8), floats, floats, ints, ints)
