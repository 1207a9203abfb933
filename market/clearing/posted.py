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

from dataclasses import dataclass
from typing import Literal

import numpy as np

from market.arrays import Floats, Ints, totals
from market.parameters import Parameters, parameter

__all__ = ["ClearingParameters", "Outcome", "Queue", "clear"]


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
        asked_gpus: GPUs asked at each rank that was reached, after quota, ``(rows, ranks)``.
        left_h100e: Work not served, ``(rows,)``.
        turned_away_gpus: GPUs asked at the first choice and not free, by lot, ``(lots,)``.
        rounds: Rounds until no claim changed.
    """

    taken_gpus: Floats
    asked_gpus: Floats
    left_h100e: Floats
    turned_away_gpus: Floats
    rounds: int


@dataclass(slots=True)
class _Claims:
    taken: Floats
    asked: Floats
    left: Floats
    first_free: Floats


def _propose(queue: Queue, free: Floats, parameters: ClearingParameters) -> _Claims:
    """Every tenant walks down its ranking, ``free`` GPUs lying before it at each rank ``(rows, ranks)``."""
    rows, ranks = queue.lots.shape
    claims = _Claims(np.zeros((rows, ranks)), np.zeros((rows, ranks)), queue.need_h100e.copy(), free[:, 0])
    least = parameters.stop_threshold * queue.wanted_h100e
    walking = np.ones(rows, np.bool_)
    for rank in range(ranks):
        walking &= (queue.lots[:, rank] >= 0) & (claims.left > 0.0) & (claims.left >= least)
        wanted_gpus = claims.left / queue.work_per_gpu[:, rank]
        asked = np.where(walking, np.minimum(wanted_gpus, queue.quota_gpus[:, rank]), 0.0)
        taken = np.minimum(asked, free[:, rank])
        taken[taken < parameters.skip_threshold * wanted_gpus] = 0.0
        claims.asked[:, rank], claims.taken[:, rank] = asked, taken
        claims.left -= taken * queue.work_per_gpu[:, rank]
        if parameters.unserved == "leave":
            break
    return claims


@dataclass(frozen=True, slots=True)
class _Lots:
    """The lots that the queue names, and where each rank of each tenant lies among them."""

    capacity: Floats
    column: Ints

    def free_before(self, taken: Floats) -> Floats:
        """GPUs free at each rank when the claims of tenants served before are gone, ``(rows, ranks)``."""
        rows = len(taken)
        claimed = np.zeros((len(self.capacity), rows + 1))
        row = np.arange(rows)[:, None]
        # A tenant names a lot once; the surplus writes of empty ranks are zeros added to the first lot.
        np.add.at(claimed, (self.column, row + 1), taken)
        np.cumsum(claimed, axis=1, out=claimed)
        return np.maximum(self.capacity[self.column] - claimed[self.column, row], 0.0)


def _named_lots(queue: Queue, capacity: Floats) -> _Lots:
    """Only lots that somebody names need an account."""
    named, column = np.unique(np.maximum(queue.lots, 0), return_inverse=True)
    return _Lots(capacity[named], column.reshape(queue.lots.shape))


def clear(queue: Queue, capacity: Floats, parameters: ClearingParameters) -> Outcome:
    """Serve the queue from ``capacity`` GPUs by lot ``(lots,)``; see the module for the rule.

    Raises:
        RuntimeError: claims still change after as many rounds as there are tenants (a broken invariant).
    """
    rows = len(queue.need_h100e)
    if not rows:
        return Outcome(np.zeros(queue.lots.shape), np.zeros(queue.lots.shape), np.zeros(0), np.zeros(len(capacity)), 0)
    taken, lots = np.zeros(queue.lots.shape), _named_lots(queue, capacity)
    for rounds in range(1, rows + 2):
        claims = _propose(queue, lots.free_before(taken), parameters)
        if np.array_equal(claims.taken, taken):
            away = np.maximum(claims.asked[:, 0] - claims.first_free, 0.0)
            turned_away = totals(np.maximum(queue.lots[:, 0], 0), away, len(capacity))
            return Outcome(claims.taken, claims.asked, claims.left, turned_away, rounds)
        taken = claims.taken
    raise RuntimeError("clearing did not settle although every round fixes one more tenant")
