"""The pool's arithmetic: one commodity offer over several members' free hours, served in merit order.

Members sell the same GPUs directly and through the pool. Within a week a pooled lot is a commodity: it may be served by
any member, and it is served by the cheapest whose hours are free. So at any point of the queue, with ``D_i`` GPUs of
member i sold directly and ``P`` pooled GPUs sold so far::

    spare_i = F_i - D_i                                   free but for the pool
    Q_i     = clip(P - Σ_{cheaper j} spare_j, 0, spare_i)   what the pool holds of member i
    direct  = spare_i - Q_i,   pool = share × Σ spare - P   what a further tenant may take

A direct sale reduces the pool, a pooled lot reduces its member, and no GPU is sold twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from market.arrays import Floats, Ints

__all__ = ["PoolLot", "merit_order_fill", "pool_free"]


@dataclass(frozen=True, slots=True)
class PoolLot:
    """A pool's offer of one SKU.

    Attributes:
        lot: The pool's own lot.
        members: Lots of the members in merit order, cheapest ask first (ties: lower lot).
        offered_share: Part of the members' free hours on offer.
    """

    lot: int
    members: Ints
    offered_share: float


def merit_order_fill(spare: Floats, pooled: Floats) -> Floats:
    """GPUs of each member that serve ``pooled`` GPUs, cheapest first.

    Args:
        spare: Free GPUs of members in merit order, ``(members, ...)``.
        pooled: Pooled GPUs, ``(...)``.
    """
    cheaper = np.cumsum(spare, axis=0) - spare
    return np.asarray(np.clip(pooled - cheaper, 0.0, spare))


def pool_free(spare: Floats, pooled: Floats, offered_share: float) -> tuple[Floats, Floats]:
    """What a further tenant may take directly of each member ``(members, ...)`` and of the pool ``(...)``."""
    direct = spare - merit_order_fill(spare, pooled)
    total = np.cumsum(spare, axis=0)[-1] if len(spare) else 0.0  # in merit order: sum() adds pairwise for short queues
    return direct, np.maximum(offered_share * total - pooled, 0.0)
