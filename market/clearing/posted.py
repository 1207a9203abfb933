"""Clearing at posted prices: tenants in order of priority take what is open, down their ranking.

The rule is serial: the tenant with the lowest priority number walks down its offers first, takes what is free, and
goes on with what it still needs. Serial dictatorship with one common order equals deferred acceptance, so it is
found without a walk per tenant (Roth & Sotomayor 1990, ch. 5; the order is common to all sellers):

1. Everybody proposes down its ranking as if only the claims of tenants *before* it counted.
2. Claims change what is left for those behind; everybody proposes again.
3. When no claim changes, nobody before a tenant takes anything else: this is the serial outcome.

After round n at least the first n tenants are final; in practice a few rounds do. ``market/reference.py`` has the
serial walk written for reading, equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from market.arrays import Bools, Floats, Ints, totals
from market.clearing.pool import PoolLot, merit_order_fill, pool_free
from market.parameters import Parameters, parameter

try:
    from market.clearing.kernel import serial_walk
except ImportError:  # numba has no wheel for every Python; the rounds then serve alone
    serial_walk = None  # type: ignore[assignment]

__all__ = ["ClearingParameters", "Outcome", "Queue", "clear", "clear_by_rounds", "clear_serially"]


class ClearingParameters(Parameters):
    """Thresholds of the walk and the order of service."""

    need_threshold: float = parameter("clearing.need_threshold")
    stop_threshold: float = parameter("clearing.stop_threshold")
    skip_threshold: float = parameter("clearing.skip_threshold")
    offers_tried_maximum: int = parameter("clearing.offers_tried_maximum")
    shrink_threshold: float = parameter("clearing.shrink_threshold")
    priority_spot: float = parameter("clearing.priority_spot")
    priority_on_demand: float = parameter("clearing.priority_on_demand")
    priority_4w: float = parameter("clearing.priority_4w")
    priority_52w: float = parameter("clearing.priority_52w")
    priority_156w: float = parameter("clearing.priority_156w")
    priority_spread: float = parameter("clearing.priority_spread")
    unserved: Literal["next", "leave"] = parameter("clearing.unserved")

    @property
    def priority_base(self) -> Floats:
        """Base of the service order by term, ``(terms,)``."""
        return np.array(
            [self.priority_spot, self.priority_on_demand, self.priority_4w, self.priority_52w, self.priority_156w]
        )


@dataclass(frozen=True, slots=True)
class Queue:
    """Tenants in order of service.

    Attributes:
        need_h100e: Work each still needs, all tenants of the row together, ``(rows,)``.
        wanted_h100e: Work it wants in all, ``(rows,)``.
        lots: Columns of ``capacity`` from best to worst, -1 behind the last acceptable one, ``(rows, ranks)``.
        work_per_gpu: H100-equivalents of a GPU at that rank, ``(rows, ranks)``.
        quota_gpus: Most GPUs the tenant may take at that rank, ``(rows, ranks)``.
    """

    need_h100e: Floats
    wanted_h100e: Floats
    lots: Ints
    work_per_gpu: Floats
    quota_gpus: Floats


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of clearing.

    Attributes:
        taken_gpus: GPUs taken at each rank, ``(rows, ranks)``.
        asked_gpus: GPUs asked at each rank that was reached, after quota, ``(rows, ranks)``; 0 where the quota alone is
            under the skip threshold, as such a tenant does not queue.
        left_h100e: Work not served, ``(rows,)``.
        turned_away_gpus: GPUs asked at the first choice and not free, by lot, ``(lots,)``.
        pooled_gpus: GPUs that members serve through a pool, by their own lot, ``(lots,)``.
        rounds: Rounds until no claim changed.
    """

    taken_gpus: Floats
    asked_gpus: Floats
    left_h100e: Floats
    turned_away_gpus: Floats
    pooled_gpus: Floats
    rounds: int


@dataclass(slots=True)
class _Claims:
    taken: Floats
    asked: Floats
    left: Floats
    first_free: Floats


def _propose(queue: Queue, free: Floats, lots: _Lots, parameters: ClearingParameters) -> _Claims:
    """Every tenant walks down its ranking, ``free`` GPUs of each lot lying before it ``(lots, rows)``.

    Any member may serve what a tenant takes from a pool, so its pooled GPUs count against what it may still take of a
    member directly, and the other way round: cautious by at most its own lease, and no GPU is sold twice.
    """
    rows, ranks = queue.lots.shape
    every = np.arange(rows)
    claims = _Claims(
        np.zeros((rows, ranks)), np.zeros((rows, ranks)), queue.need_h100e.copy(), free[lots.column[:, 0], every]
    )
    least = parameters.stop_threshold * queue.wanted_h100e
    own = np.zeros((2, len(lots.pools) + 1, rows))  # taken directly of members, and from the pool, by pool
    for rank in range(ranks if parameters.unserved == "next" else 1):
        left = claims.left[every]
        every = every[(queue.lots[every, rank] >= 0) & (left > 0.0) & (left >= least[every])]
        if not len(every):
            break
        work = queue.work_per_gpu[every, rank]
        wanted = claims.left[every] / work
        quota = queue.quota_gpus[every, rank]
        asked = np.where(quota < parameters.skip_threshold * wanted, 0.0, np.minimum(wanted, quota))
        room = free[lots.column[every, rank], every]
        if lots.pools:
            lot = lots.column[every, rank]
            pool, pooled = lots.pool_of_lot[lot], lots.is_pool_lot[lot].astype(np.int64)
            room = np.maximum(room - own[1 - pooled, pool, every], 0.0)
        taken = np.minimum(asked, room)
        taken[taken < parameters.skip_threshold * wanted] = 0.0
        claims.asked[every, rank], claims.taken[every, rank] = asked, taken
        claims.left[every] -= taken * work
        if lots.pools:
            own[pooled, pool, every] += np.where(pool < len(lots.pools), taken, 0.0)
    return claims


@dataclass(frozen=True, slots=True)
class _Lots:
    """The lots that matter to the queue, and where each rank of each tenant lies among them.

    ``pool_of_lot`` is the pool that a lot belongs to (the number of pools for none), ``is_pool_lot`` whether it is the
    pool's own lot rather than a member's.
    """

    named: Ints
    capacity: Floats
    column: Ints
    pools: Sequence[PoolLot]
    pool_of_lot: Ints
    is_pool_lot: Bools

    def claimed(self, taken: Floats) -> Floats:
        """GPUs of each lot claimed by tenants served before each place of the queue, ``(lots, rows + 1)``."""
        claimed = np.zeros((len(self.capacity), len(taken) + 1))
        row, rank = np.nonzero(taken)  # a tenant names a lot once: no two claims meet in a cell
        claimed[self.column[row, rank], row + 1] = taken[row, rank]
        return np.cumsum(claimed, axis=1, out=claimed)

    def free_before(self, taken: Floats) -> Floats:
        """GPUs of each lot free before each tenant, the claims of tenants served earlier gone, ``(lots, rows)``."""
        claimed = self.claimed(taken)[:, :-1]
        free = np.maximum(self.capacity[:, None] - claimed, 0.0)
        for pool in self.pools:
            members, lot = self.pool_rows(pool)
            free[members], free[lot] = pool_free(free[members], claimed[lot], pool.offered_share)
        return free

    def pooled(self, taken: Floats, lots: int) -> Floats:
        """GPUs that members serve through pools when the queue is through, ``(lots,)``."""
        served = np.zeros(lots)
        claimed = self.claimed(taken)[:, -1] if self.pools else np.zeros(0)
        for pool in self.pools:
            members, lot = self.pool_rows(pool)
            spare = np.maximum(self.capacity[members] - claimed[members], 0.0)
            served[pool.members] = merit_order_fill(spare, claimed[lot])
        return served

    def pool_rows(self, pool: PoolLot) -> tuple[Ints, int]:
        """Rows of a pool's members and of its own lot."""
        return np.searchsorted(self.named, pool.members), int(np.searchsorted(self.named, pool.lot))


def _lots_of(queue: Queue, capacity: Floats, pools: Sequence[PoolLot]) -> _Lots:
    """Only lots that somebody names, and those of pools, need an account."""
    pooled = [np.append(pool.members, pool.lot) for pool in pools]
    named = np.unique(np.concatenate([np.maximum(queue.lots, 0).ravel(), *pooled]))
    column = np.searchsorted(named, np.maximum(queue.lots, 0))
    pool_of, is_pool = np.full(len(named), len(pools)), np.zeros(len(named), np.bool_)
    for index, pool in enumerate(pools):
        pool_of[np.searchsorted(named, [*pool.members.tolist(), pool.lot])] = index
        is_pool[np.searchsorted(named, pool.lot)] = True
    return _Lots(named, capacity[named], column, pools, pool_of, is_pool)


def clear(queue: Queue, capacity: Floats, parameters: ClearingParameters, pools: Sequence[PoolLot] = ()) -> Outcome:
    """Serve the queue from ``capacity`` GPUs by lot ``(lots,)``; see the module for the rule.

    Lots of pools have no capacity of their own: they draw on their members' (see ``clearing/pool.py``). The compiled
    walk is used where numba is installed, the rounds elsewhere.
    """
    if not len(queue.need_h100e):
        none, idle = np.zeros(queue.lots.shape), np.zeros(len(capacity))
        return Outcome(none, none, np.zeros(0), idle, idle, 0)
    procedure = clear_by_rounds if serial_walk is None else clear_serially
    return procedure(queue, capacity, parameters, pools)


def clear_by_rounds(
    queue: Queue, capacity: Floats, parameters: ClearingParameters, pools: Sequence[PoolLot] = ()
) -> Outcome:
    """The outcome by propose-and-cut, in numpy.

    Raises:
        RuntimeError: claims still change after as many rounds as there are tenants (a broken invariant).
    """
    rows = len(queue.need_h100e)
    taken, lots = np.zeros(queue.lots.shape), _lots_of(queue, capacity, pools)
    for rounds in range(1, rows + 2):
        claims = _propose(queue, lots.free_before(taken), lots, parameters)
        if np.array_equal(claims.taken, taken):
            return _outcome(queue, claims, lots.pooled(claims.taken, len(capacity)), len(capacity), rounds)
        taken = claims.taken
    raise RuntimeError("clearing did not settle although every round fixes one more tenant")


def clear_serially(
    queue: Queue, capacity: Floats, parameters: ClearingParameters, pools: Sequence[PoolLot] = ()
) -> Outcome:
    """The same outcome by the compiled walk."""
    lots = _lots_of(queue, capacity, pools)
    members = [lots.pool_rows(pool) for pool in pools]
    first = np.cumsum([0, *(len(rows) for rows, _ in members)])
    taken, asked, left, first_free, served = serial_walk(
        queue.need_h100e,
        queue.wanted_h100e,
        lots.column,
        queue.lots >= 0,
        queue.work_per_gpu,
        queue.quota_gpus,
        lots.capacity,
        lots.pool_of_lot,
        lots.is_pool_lot,
        np.array([lot for _, lot in members], np.int64),
        first.astype(np.int64),
        np.concatenate([rows for rows, _ in members]) if members else np.zeros(0, np.int64),
        np.array([pool.offered_share for pool in pools], np.float64),
        parameters.stop_threshold,
        parameters.skip_threshold,
        parameters.unserved == "leave",
    )
    pooled = np.zeros(len(capacity))
    pooled[lots.named] = served
    return _outcome(queue, _Claims(taken, asked, left, first_free), pooled, len(capacity), 1)


def _outcome(queue: Queue, claims: _Claims, pooled: Floats, lots: int, rounds: int) -> Outcome:
    """Claims that nobody can improve, as the result."""
    away = np.maximum(claims.asked[:, 0] - claims.first_free, 0.0)
    turned_away = totals(np.maximum(queue.lots[:, 0], 0), away, lots)
    return Outcome(claims.taken, claims.asked, claims.left, turned_away, pooled, rounds)
