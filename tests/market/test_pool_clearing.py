"""The pool in the clearing: three procedures agree, merit order is kept, no GPU is sold directly and pooled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market import reference
from market.clearing.pool import PoolLot, merit_order_fill
from market.clearing.posted import ClearingParameters, Outcome, clear_by_rounds, clear_serially
from market.reference import Request, Service
from tests.market.small_markets import plain_clearing, queue_of, scarce_queues

PROCEDURES = {"rounds": clear_by_rounds, "compiled walk": clear_serially}


def pools_over(lots: int, share: float) -> list[PoolLot]:
    """One pool on the last lot over the first half of the others, dearest lot number first."""
    members = np.arange(lots // 2, dtype=np.int64)[::-1].copy()
    return [PoolLot(lots - 1, members, share)] if len(members) else []


def both(
    requests: Sequence[Request], capacity: Sequence[float], parameters: ClearingParameters, pools: Sequence[PoolLot]
) -> tuple[Outcome, Outcome, list[Service]]:
    queue = queue_of(list(requests))
    rounds, walk = (clear(queue, np.array(capacity), parameters, pools) for clear in PROCEDURES.values())
    return rounds, walk, reference.serve(requests, capacity, parameters, pools)


@settings(deadline=None, max_examples=200)
@given(scarce_queues(), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_rounds_compiled_walk_and_reference_agree_to_the_last_bit(
    case: tuple[list[Request], list[float], ClearingParameters], share: float
) -> None:
    requests, capacity, parameters = case
    pools = pools_over(len(capacity), share)
    rounds, walk, services = both(requests, capacity, parameters, pools)
    for name in ("taken_gpus", "asked_gpus", "left_h100e", "turned_away_gpus", "pooled_gpus"):
        assert getattr(rounds, name).tolist() == getattr(walk, name).tolist(), name
    for row, service in enumerate(services):
        assert walk.taken_gpus[row, : len(service.taken_gpus)].tolist() == service.taken_gpus


@settings(deadline=None, max_examples=200)
@given(scarce_queues(), st.sampled_from([0.5, 0.9, 1.0]))
def test_members_sell_no_gpu_both_directly_and_pooled_and_serve_all_the_pool_sold(
    case: tuple[list[Request], list[float], ClearingParameters], share: float
) -> None:
    requests, capacity, parameters = case
    pools = pools_over(len(capacity), share)
    _, outcome, services = both(requests, capacity, parameters, pools)
    sold = np.zeros(len(capacity))
    for request, service in zip(requests, services, strict=True):
        np.add.at(sold, list(request.lots), service.taken_gpus)
    for pool in pools:
        served = outcome.pooled_gpus[pool.members]
        assert served.sum() == pytest.approx(sold[pool.lot], abs=1e-9)
        spare = np.maximum(np.array(capacity)[pool.members] - sold[pool.members], 0.0)
        assert (served <= spare + 1e-9).all()
        # Merit order: a dearer member serves only where cheaper ones have nothing left.
        for place in range(1, len(served)):
            assert served[place] <= 1e-12 or (spare[:place] - served[:place] <= 1e-9).all()


def test_three_tenants_two_members_and_their_pool_by_hand() -> None:
    # Lots: member 0 (dear, 4 GPUs), member 1 (cheap, 2 GPUs), the pool (all spare hours). Everybody needs 3 GPUs.
    pool = PoolLot(2, np.array([1, 0], np.int64), 1.0)
    one, inf = (1.0,), (float("inf"),)
    requests = [
        Request(3.0, 3.0, (2,), one, inf),  # takes 3 from the pool: 2 of member 1, 1 of member 0
        Request(3.0, 3.0, (1, 0), one * 2, inf * 2),  # member 1 serves the pool; 3 of member 0
        Request(3.0, 3.0, (2, 0), one * 2, inf * 2),  # nothing is left anywhere
    ]
    rounds, walk, _ = both(requests, [4.0, 2.0, 0.0], plain_clearing(), [pool])
    for outcome in (rounds, walk):
        assert outcome.taken_gpus.sum(axis=1).tolist() == [3.0, 3.0, 0.0]
        assert outcome.pooled_gpus.tolist() == [1.0, 2.0, 0.0]


def test_merit_order_fills_the_cheapest_first() -> None:
    assert merit_order_fill(np.array([2.0, 5.0, 1.0]), np.float64(4.0)).tolist() == [2.0, 2.0, 0.0]


@pytest.mark.parametrize("procedure", PROCEDURES.values(), ids=PROCEDURES.keys())
def test_a_pool_that_offers_nothing_changes_nothing(procedure: type) -> None:
    requests = [Request(3.0, 3.0, (0, 1), (1.0, 1.0), (9.0, 9.0))] * 3
    capacity = np.array([4.0, 2.0, 0.0])
    pool = PoolLot(2, np.array([1, 0], np.int64), 0.0)
    without = procedure(queue_of(requests), capacity, plain_clearing())
    with_pool = procedure(queue_of(requests), capacity, plain_clearing(), [pool])
    assert without.taken_gpus.tolist() == with_pool.taken_gpus.tolist()
    assert with_pool.pooled_gpus.tolist() == [0.0, 0.0, 0.0]
