"""The serial walk, compiled: the same rule as the rounds of ``posted.py``, equal to the last bit, a tenant at a time.

Without numba the rounds serve alone; this module then does not import.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from market.arrays import Bools, Floats, Ints

__all__ = ["serial_walk"]


@njit(cache=True)
def _spare(capacity: Floats, used: Floats, lot: int) -> float:
    return float(max(capacity[lot] - used[lot], 0.0))


@njit(cache=True)
def _pool_free(
    capacity: Floats, used: Floats, members: Ints, first: int, last: int, pooled: float, share: float
) -> float:
    """What the pool still offers."""
    total = 0.0
    for place in range(first, last):
        total += _spare(capacity, used, members[place])
    return max(share * total - pooled, 0.0)


@njit(cache=True)
def _served(capacity: Floats, used: Floats, members: Ints, first: int, last: int, pooled: float, lot: int) -> float:
    """What the pool holds of a member, in merit order."""
    total = 0.0
    for place in range(first, last):
        spare = _spare(capacity, used, members[place])
        total += spare
        if members[place] == lot:
            return min(max(pooled - (total - spare), 0.0), spare)
    return 0.0


@njit(cache=True)
def serial_walk(
    need: Floats,
    wanted: Floats,
    columns: Ints,
    named: Bools,
    work: Floats,
    quota: Floats,
    capacity: Floats,
    pool_of: Ints,
    is_pool: Bools,
    pool_lot: Ints,
    pool_first: Ints,
    members: Ints,
    share: Floats,
    stop: float,
    skip: float,
    leave: bool,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Serve tenants in the order of the rows.

    Args:
        need: Work each tenant needs, ``(rows,)``.
        wanted: Work it wants in all, ``(rows,)``.
        columns: Lot at each rank, ``(rows, ranks)``.
        named: Whether there is one.
        work: Its work per GPU.
        quota: The most GPUs a tenant may take there.
        capacity: GPUs by lot, ``(lots,)``.
        pool_of: Pool that a lot belongs to, the number of pools for none.
        is_pool: Whether a lot is a pool's own.
        pool_lot: Own lot of each pool.
        pool_first: Where a pool's members start in ``members``; one more entry than pools.
        members: Members' lots in merit order, pool after pool.
        share: Part of members' spare hours on offer, by pool.
        stop: Stop threshold, as a share of wanted.
        skip: Skip threshold, as a share of need.
        leave: Whether the unserved leave.

    Returns:
        GPUs taken and asked ``(rows, ranks)``, work left and GPUs free at the first choice ``(rows,)``, GPUs that
        members serve through pools ``(lots,)``.
    """
    rows, ranks = columns.shape
    pools = len(pool_lot)
    taken, asked = np.zeros((rows, ranks)), np.zeros((rows, ranks))
    left, first_free = need.copy(), np.zeros(rows)
    used, own = np.zeros(len(capacity)), np.zeros((2, pools + 1))
    for row in range(rows):
        own[:] = 0.0
        for rank in range(ranks):
            lot = columns[row, rank]
            pool = pool_of[lot]
            pooled = 1 if is_pool[lot] else 0
            room = _spare(capacity, used, lot)
            if pool < pools:
                sold, first, last = used[pool_lot[pool]], pool_first[pool], pool_first[pool + 1]
                if pooled:
                    room = _pool_free(capacity, used, members, first, last, sold, share[pool])
                else:
                    room = room - _served(capacity, used, members, first, last, sold, lot)
            if rank == 0:
                first_free[row] = room
            if not (named[row, rank] and left[row] > 0.0 and left[row] >= stop * wanted[row]):
                break
            if pools:
                room = max(room - own[1 - pooled, pool], 0.0)
            wish = left[row] / work[row, rank]
            ask = 0.0 if quota[row, rank] < skip * wish else min(wish, quota[row, rank])
            take = min(ask, room)
            if take < skip * wish:
                take = 0.0
            asked[row, rank], taken[row, rank] = ask, take
            left[row] -= take * work[row, rank]
            if pool < pools:
                own[pooled, pool] += take
            if leave:
                break
        for rank in range(ranks):
            used[columns[row, rank]] += taken[row, rank]
    served = np.zeros(len(capacity))
    for pool in range(pools):
        for place in range(pool_first[pool], pool_first[pool + 1]):
            lot = members[place]
            served[lot] = _served(
                capacity, used, members, pool_first[pool], pool_first[pool + 1], used[pool_lot[pool]], lot
            )
    return taken, asked, left, first_free, served
