"""Clearing with a pool: worked by hand, no GPU sold through two channels, cheaper members first."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market import reference
from market.clearing.pool import PoolLot
from market.clearing.posted import (
    ClearingParameters,
    Outcome,
    clear,
    clear_by_rounds,
    clear_serially,
    serial_walk,
)
from market.reference import Request
from tests.market.small_markets import (
    Pooled,
    plain_clearing,
    pool,
    pooled_queues,
    queue_of,
    request,
    scarce_queues,
)

ROUNDING = 1e-9
CHEAP, DEAR, POOL = 0, 1, 2


def cleared(
    requests: list[Request], capacity: list[float], parameters: ClearingParameters, pools: list[PoolLot]
) -> Outcome:
    return clear(queue_of(requests), np.array(capacity), parameters, pools)


def scalar(
    requests: list[Request], capacity: list[float], parameters: ClearingParameters, pools: list[PoolLot]
) -> Outcome:
    """The reference's answer in the form of the others'."""
    services = reference.serve(requests, capacity, parameters, pools)
    ranks = max(len(one.lots) for one in requests)

    def table(name: str) -> np.ndarray:
        return np.array([[*getattr(one, name), *[0.0] * (ranks - len(getattr(one, name)))] for one in services])

    return Outcome(
        table("taken_gpus"),
        table("asked_gpus"),
        np.array([one.left_h100e for one in services]),
        np.array(reference.turned_away(requests, services, len(capacity))),
        np.array(reference.pooled(requests, services, capacity, pools)),
        1,
    )


def by_columns(procedure: Callable[..., Outcome]) -> Callable[..., Outcome]:
    return lambda requests, capacity, *rest: procedure(queue_of(requests), np.array(capacity), *rest)


@pytest.fixture(
    params=[
        pytest.param(scalar, id="reference"),
        pytest.param(by_columns(clear_by_rounds), id="rounds"),
        pytest.param(
            by_columns(clear_serially),
            id="compiled",
            marks=pytest.mark.skipif(serial_walk is None, reason="needs numba"),
        ),
    ]
)
def procedure(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    return request.param


# --- worked by hand ------------------------------------------------------------------------------------------------


def test_two_members_one_pool_and_three_tenants(procedure):
    """Cheap has 10 GPUs and dear 6.

    The first tenant pools 8, all served by cheap, of which 2 are left to sell directly. The second takes these 2, and 3
    of dear. Of 16 - 5 = 11 spare GPUs 8 are pooled: the third, who wants 5, gets 3 through the pool, from dear.
    """
    requests = [request(8, (POOL,)), request(5, (CHEAP, DEAR)), request(5, (POOL, DEAR))]
    outcome = procedure(requests, [10, 6, 0], plain_clearing(), [pool(POOL, [CHEAP, DEAR])])
    assert outcome.taken_gpus.tolist() == [[8, 0], [2, 3], [3, 0]]
    assert outcome.asked_gpus.tolist() == [[8, 0], [5, 3], [5, 2]]
    assert outcome.left_h100e.tolist() == [0, 0, 2]
    assert outcome.turned_away_gpus.tolist() == [3, 0, 2]
    assert outcome.pooled_gpus.tolist() == [8, 3, 0]


def test_a_direct_sale_of_the_cheap_member_moves_nothing_that_was_pooled_before(procedure):
    """8 are pooled at cheap, so a tenant who wants all its 10 GPUs directly gets 2 and dear still serves nobody."""
    requests = [request(8, (POOL,)), request(10, (CHEAP,))]
    outcome = procedure(requests, [10, 6, 0], plain_clearing(), [pool(POOL, [CHEAP, DEAR])])
    assert outcome.taken_gpus.tolist() == [[8], [2]]
    assert outcome.pooled_gpus.tolist() == [8, 0, 0]


def test_the_merit_order_and_not_the_number_of_a_lot_decides_who_serves(procedure):
    outcome = procedure([request(8, (POOL,))], [10, 6, 0], plain_clearing(), [pool(POOL, [DEAR, CHEAP])])
    assert outcome.pooled_gpus.tolist() == [2, 6, 0]


def test_the_pool_offers_its_share_of_spare_hours_and_the_rest_stays_with_the_members(procedure):
    """Half of 16 is 8; of 16 - 4 = 12 spare after a direct sale half is 6, and 8 are already pooled."""
    requests = [request(20, (POOL,)), request(4, (DEAR,)), request(1, (POOL,)), request(9, (CHEAP, DEAR))]
    outcome = procedure(requests, [10, 6, 0], plain_clearing(), [pool(POOL, [CHEAP, DEAR], 0.5)])
    assert outcome.taken_gpus.tolist() == [[8, 0], [4, 0], [0, 0], [2, 2]]
    assert outcome.pooled_gpus.tolist() == [8, 0, 0]


def test_a_tenants_own_pooled_gpus_count_against_what_it_takes_of_members_directly(procedure):
    """It pools 4 of 8 offered; of dear it then gets 6 - 4 = 2 although its pooled GPUs stand at cheap: caution."""
    one = Request(12.0, 12.0, (POOL, DEAR), (1.0, 1.0), (4.0, math.inf))
    outcome = procedure([one], [10, 6, 0], plain_clearing(), [pool(POOL, [CHEAP, DEAR], 0.5)])
    assert outcome.taken_gpus.tolist() == [[4, 2]]
    assert outcome.left_h100e.tolist() == [6]


def test_a_tenants_own_direct_gpus_count_against_what_it_takes_of_their_pool(procedure):
    """10 directly of cheap; the pool offered 14.4 = 0.9 × 16 when its turn came, of which 4.4 are left to it."""
    outcome = procedure([request(20, (CHEAP, POOL))], [10, 6, 0], plain_clearing(), [pool(POOL, [CHEAP, DEAR], 0.9)])
    assert outcome.taken_gpus[0].tolist() == [10, pytest.approx(4.4)]
    assert outcome.pooled_gpus.tolist() == [0, pytest.approx(4.4), 0]


def test_a_tenants_gpus_at_one_pool_do_not_count_at_another(procedure):
    """Lots 0 and 2 are one pool with its member, lots 1 and 3 another."""
    requests = [request(20, (2, 1, 3, 0))]
    outcome = procedure(requests, [10, 6, 0, 0], plain_clearing(), [pool(2, [0], 0.5), pool(3, [1])])
    assert outcome.taken_gpus.tolist() == [[5, 6, 0, 5]]
    assert outcome.pooled_gpus.tolist() == [5, 0, 0, 0]


# --- properties ----------------------------------------------------------------------------------------------------


def sold_by_lot(requests: list[Request], outcome: Outcome, lots: int) -> np.ndarray:
    sold = np.zeros(lots)
    for one, taken in zip(requests, outcome.taken_gpus, strict=True):
        for lot, gpus in zip(one.lots, taken, strict=False):
            sold[lot] += gpus
    return sold


def faults(case: Pooled, outcome: Outcome) -> list[str]:
    """What is wrong with the books of the pools at the close; only sums over the finished outcome."""
    requests, capacity, _, pools = case
    sold = sold_by_lot(requests, outcome, len(capacity))
    own = {one.lot for one in pools}
    found = [
        f"lot {lot} sold {sold[lot]} directly and {outcome.pooled_gpus[lot]} through a pool"
        for lot in range(len(capacity))
        if lot not in own and sold[lot] + outcome.pooled_gpus[lot] > capacity[lot] + ROUNDING
    ]
    for one in pools:
        served = outcome.pooled_gpus[one.members]
        if abs(served.sum() - sold[one.lot]) > ROUNDING:
            found.append(f"pool {one.lot} let {sold[one.lot]} and its members serve {served.sum()}")
        spare = np.array(capacity)[one.members] - sold[one.members] - served
        for place in np.flatnonzero(served > ROUNDING):
            if (spare[:place] > ROUNDING).any():
                found.append(f"member {one.members[place]} serves while a cheaper one has spare hours")
        if sold[one.lot] > one.offered_share * sum(capacity[lot] for lot in one.members) + ROUNDING:
            found.append(f"pool {one.lot} let more than its share of members' hours")
    members = {int(lot) for one in pools for lot in one.members}
    if any(outcome.pooled_gpus[lot] for lot in range(len(capacity)) if lot not in members):
        found.append("a lot outside every pool serves one")
    return found


@settings(deadline=None, max_examples=500)
@given(pooled_queues())
def test_no_gpu_is_sold_twice_and_cheaper_members_serve_first(case):
    assert not faults(case, cleared(*case))


@settings(deadline=None, max_examples=500)
@given(pooled_queues())
def test_at_no_point_of_the_queue_is_a_gpu_sold_twice(case):
    """The books hold for every part of the queue, not at its end alone."""
    requests, capacity, parameters, pools = case
    for rows in range(1, len(requests)):
        ahead = (requests[:rows], capacity, parameters, pools)
        assert not faults(ahead, cleared(*ahead))


@settings(deadline=None, max_examples=200)
@given(pooled_queues(), st.integers(1, 14))
def test_those_behind_never_change_what_those_ahead_get_of_a_pool(case, first):
    requests, capacity, parameters, pools = case
    whole, alone = cleared(*case), cleared(requests[:first], capacity, parameters, pools)
    ranks = alone.taken_gpus.shape[1]
    assert np.array_equal(alone.taken_gpus, whole.taken_gpus[:first, :ranks])
    assert np.array_equal(alone.left_h100e, whole.left_h100e[:first])


def assert_same(one: Outcome, other: Outcome) -> None:
    for name in ("taken_gpus", "asked_gpus", "left_h100e", "turned_away_gpus", "pooled_gpus"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@settings(deadline=None, max_examples=200)
@given(scarce_queues(), st.data())
def test_a_pool_without_members_changes_nothing(case, data):
    """Nor does it matter whether tenants rank it: its lot is an empty one."""
    requests, capacity, parameters = case
    lot = data.draw(st.integers(0, len(capacity) - 1))
    capacity[lot] = 0.0
    for procedure in (scalar, by_columns(clear_by_rounds), by_columns(clear)):
        assert_same(
            procedure(requests, capacity, parameters, [pool(lot, [])]), procedure(requests, capacity, parameters, [])
        )


@settings(deadline=None, max_examples=200)
@given(scarce_queues(), st.data())
def test_a_pool_that_offers_no_share_changes_nothing(case, data):
    requests, capacity, parameters = case
    lot, *others = data.draw(st.permutations(range(len(capacity))))
    members = others[: data.draw(st.integers(0, len(others)))]
    capacity[lot] = 0.0
    for procedure in (scalar, by_columns(clear_by_rounds), by_columns(clear)):
        closed = procedure(requests, capacity, parameters, [pool(lot, members, 0.0)])
        assert_same(closed, procedure(requests, capacity, parameters, []))
        assert not closed.pooled_gpus.any()


def test_a_checker_that_finds_nothing_would_find_a_planted_fault():
    requests = [request(8, (POOL,)), request(5, (CHEAP, DEAR))]
    case = (requests, [10.0, 6.0, 0.0], plain_clearing(), [pool(POOL, [CHEAP, DEAR])])

    def planted(taken: list[list[float]], pooled: list[float]) -> list[str]:
        return faults(case, Outcome(np.array(taken), np.array(taken), np.zeros(2), np.zeros(3), np.array(pooled), 1))

    assert not planted([[8, 0], [2, 3]], [8, 0, 0])
    assert planted([[8, 0], [5, 0]], [8, 0, 0])  # 13 GPUs of 10
    assert planted([[8, 0], [2, 3]], [7, 0, 0])  # one pooled GPU that nobody serves
    assert planted([[8, 0], [2, 3]], [7, 1, 0])  # dear serves while cheap has a GPU idle
    assert planted([[17, 0], [0, 0]], [10, 7, 0])  # the pool let more than there is
    assert planted([[8, 0], [2, 3]], [8, 0, 1])  # a pool serves itself
