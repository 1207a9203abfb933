"""The numpy market equals the scalar reference to the last bit: any queue, and whole weeks of the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings

from experiments.build import build
from experiments.scenario import Scenario
from market import reference, trade
from market.choice import (
    candidate_pairs,
    outside_utility,
    rank_offers,
    systematic_utility,
    weekly_shocks,
)
from market.clearing.posted import ClearingParameters, Outcome, clear_by_rounds, clear_serially, serial_walk
from market.model import MarketModel
from market.reference import Request, Service
from tests.market.small_markets import Pooled, clearing, pool, pooled_queues, queue_of, scarce_queues

PROCEDURES = [clear_by_rounds] if serial_walk is None else [clear_by_rounds, clear_serially]


def assert_same_outcome(case: Pooled, services: list[Service], outcome: Outcome) -> None:
    requests, capacity, _, pools = case
    ranks = outcome.taken_gpus.shape[1]
    for row, service in enumerate(services):
        blank = [0.0] * (ranks - len(requests[row].lots))
        assert outcome.taken_gpus[row].tolist() == service.taken_gpus + blank
        assert outcome.asked_gpus[row].tolist() == service.asked_gpus + blank
        assert outcome.left_h100e[row] == service.left_h100e
    assert outcome.turned_away_gpus.tolist() == reference.turned_away(requests, services, len(capacity))
    assert outcome.pooled_gpus.tolist() == reference.pooled(requests, services, capacity, pools)


def assert_all_agree(case: Pooled) -> tuple[list[Service], list[Outcome]]:
    """The scalar walk, the rounds and the compiled walk give the same numbers to the last bit."""
    requests, capacity, parameters, pools = case
    services = reference.serve(requests, capacity, parameters, pools)
    outcomes = [procedure(queue_of(requests), np.array(capacity), parameters, pools) for procedure in PROCEDURES]
    for outcome in outcomes:
        assert_same_outcome(case, services, outcome)
    return services, outcomes


@settings(deadline=None, max_examples=300)
@given(scarce_queues())
def test_clearing_equals_the_serial_walk(case: tuple[list[Request], list[float], ClearingParameters]) -> None:
    assert_all_agree((*case, []))


@settings(deadline=None, max_examples=500)
@given(pooled_queues())
def test_clearing_with_pools_equals_the_serial_walk(case: Pooled) -> None:
    assert_all_agree(case)


def long_queue(lots: int, rows: int) -> tuple[list[Request], list[float]]:
    """Many tenants of unlike size at lots of unlike size, a fifth of them empty."""
    rng = np.random.default_rng(5)
    capacity = (rng.exponential(40.0, lots) * (rng.random(lots) > 0.2)).tolist()
    requests = []
    for need in rng.lognormal(0.0, 1.5, rows).tolist():
        named = tuple(rng.permutation(lots)[: rng.integers(0, 12)].tolist())
        work, quota = rng.uniform(0.3, 4.0, len(named)), rng.choice([np.inf, 2.0], len(named), p=[0.8, 0.2])
        requests.append(Request(need, need * 1.5, named, tuple(work.tolist()), tuple(quota.tolist())))
    return requests, capacity


def test_clearing_equals_the_serial_walk_in_a_long_queue() -> None:
    services, outcomes = assert_all_agree((*long_queue(25, 800), ClearingParameters(), []))
    assert sum(service.left_h100e > 0 for service in services) > 100
    assert outcomes[0].rounds < 60  # a few rounds, not one per tenant


def test_clearing_with_pools_of_many_members_equals_the_serial_walk_in_a_long_queue() -> None:
    requests, capacity = long_queue(25, 800)
    pools = [pool(24, [3, 17, 0, 9, 21, 12, 6, 15, 1, 10, 19], 0.9), pool(2, [16, 8, 20])]
    for own in pools:
        capacity[own.lot] = 0.0
    services, outcomes = assert_all_agree((requests, capacity, ClearingParameters(), pools))
    assert sum(service.left_h100e > 0 for service in services) > 100
    assert all(outcomes[0].pooled_gpus[own.members].sum() > 0.0 for own in pools)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_large_pool_in_front_of_hardly_anybody_equals_the_serial_walk(rows: int) -> None:
    """Short queues take other paths of numpy's sums; members' hours are added in merit order all the same."""
    rng = np.random.default_rng(8)
    for _ in range(50):
        capacity = [*rng.exponential(40.0, 20).tolist(), 0.0]
        requests = [Request(1e4, 1e4, (20, 3), (0.7, 1.3), (math.inf, math.inf)) for _ in range(rows)]
        assert_all_agree((requests, capacity, clearing(), [pool(20, rng.permutation(20).tolist(), 0.7)]))


# --- whole weeks ---------------------------------------------------------------------------------------------------

CASES = {
    "baseline": {},
    "scarce": {"tenants.opening_demand_factor": 1.3},
    "linear, turned away leave": {"choice.utility": "linear", "clearing.unserved": "leave"},
    "everybody known, no tastes": {"choice.all_sellers_known": True, "tenants.taste_scale": 0.0},
    "tastes correlate within vendors": {"choice.vendor_correlation": 0.6},
    "no outside option": {"choice.outside_option": False, "choice.gumbel_scale": 0.5},
}


@pytest.fixture(params=list(CASES))
def open_week(request: pytest.FixtureRequest) -> Iterator[MarketModel]:
    """A market in week 7, prices posted and leases expired, just before tenants choose."""
    rows = 2000 if request.param == "baseline" else 400
    model = build(Scenario.load().with_({"tenants.rows": rows, **CASES[request.param]}), 11)
    model.run(6)
    model.open_week()
    trade.quote(model)
    trade.expire_and_review(model)
    lots = model.book.open_gpus.size
    model.book.open_week(model.listed_gpus(), model.leases.gpus_by_lot(lots).reshape(model.book.open_gpus.shape))
    return model


def reference_requests(model: MarketModel) -> list[tuple[int, Request]]:
    """Rows in order of service with all that the clearing needs, one tenant at a time."""
    tenants, world, skus = model.tenants, model.world, len(model.tables.skus)
    market = trade.choice_market(model)
    sku_keys = [int(key) for key in model.hardware.keys]
    rows, need = trade._requests(model, tuple(trade.Term))
    desk_holdings = trade._desk_holdings(model)
    requests = []
    for row, need_h100e in zip(rows.tolist(), need.tolist(), strict=True):
        who = reference.buyer(tenants, row)
        weight = float(tenants.weight[row])
        offers = reference.offers_known(who, market, world.choice, sku_keys)
        lots = reference.rank(
            who,
            offers,
            world.choice,
            market.taste_scale,
            seed=model.seed,
            week=model.week,
            most=world.clearing.offers_tried_maximum,
        )
        quota = []
        for lot in lots:
            at_cloud = lot // skus == model.cloud_row
            assert not at_cloud or model.desk_offer is not None
            quota.append(
                max(model.desk_offer.quota_gpus - float(desk_holdings[row]), 0.0) * weight if at_cloud else math.inf
            )
        work = tuple(float(model.software.throughput[who.segment, lot % skus]) for lot in lots)
        wanted = float(tenants.wanted_h100e[row]) * weight
        requests.append((row, Request(need_h100e * weight, wanted, tuple(lots), work, tuple(quota))))
    return requests


def test_a_real_week_equals_the_reference_in_rankings_and_outcome(open_week: MarketModel) -> None:
    model = open_week
    expected = reference_requests(model)
    rows, need = trade._requests(model, tuple(trade.Term))
    assert len(rows) > 50
    market, choice = trade.choice_market(model), model.world.choice
    pairs = candidate_pairs(model.tenants, rows, market, choice)
    utility = systematic_utility(model.tenants, pairs, market, choice, model.seed)
    shocks = weekly_shocks(
        model.tenants, rows, pairs, market, model.seed, model.week, model.hardware.keys, choice.vendor_correlation
    )
    tried = model.world.clearing.offers_tried_maximum
    outside = outside_utility(model.tenants, rows, choice)
    ranking = rank_offers(pairs, utility, outside, shocks, choice.gumbel_scale, tried)
    for row, (_, one) in zip(ranking.tolist(), expected, strict=True):
        assert [lot for lot in row if lot >= 0] == list(one.lots)
    capacity, pools = model.book.open_gpus.ravel(), trade._pool_lots(model)
    case = ([one for _, one in expected], capacity.tolist(), model.world.clearing, pools)
    services = reference.serve(*case)
    queue = trade._queue(model, rows, need, ranking)
    for procedure in PROCEDURES:
        assert_same_outcome(case, services, procedure(queue, capacity, model.world.clearing, pools))
    assert any(service.left_h100e > 0.0 for service in services)
    assert sum(reference.pooled(case[0], services, case[1], pools)) > 0.0  # the pool is open and sells


def test_a_real_week_signs_the_leases_of_the_reference(open_week: MarketModel) -> None:
    model = open_week
    expected = reference_requests(model)
    requests, capacity, pools = (
        [one for _, one in expected],
        model.book.open_gpus.ravel().tolist(),
        trade._pool_lots(model),
    )
    services = reference.serve(requests, capacity, model.world.clearing, pools)
    signed = [
        (row, lot, gpus)
        for (row, one), service in zip(expected, services, strict=True)
        for lot, gpus in zip(one.lots, service.taken_gpus, strict=True)
        if gpus > 0.0
    ]
    served = reference.pooled(requests, services, capacity, pools)
    leases = trade.clear_market(model).leases
    assert list(zip(leases.tenant.tolist(), leases.lot.tolist(), leases.gpus.tolist(), strict=True)) == signed
    assert model.pooled_gpus.ravel().tolist() == served


def test_utilities_of_a_real_week_equal_the_reference_to_the_last_bit(open_week: MarketModel) -> None:
    model, choice = open_week, open_week.world.choice
    market = trade.choice_market(model)
    rows = np.union1d(np.arange(0, len(model.tenants), 23), np.flatnonzero(model.tenants.pool_user))
    pairs = candidate_pairs(model.tenants, rows, market, choice)
    utility = systematic_utility(model.tenants, pairs, market, choice, model.seed)
    sku_keys = [int(key) for key in model.hardware.keys]
    expected, lots = [], []
    for row in rows.tolist():
        who = reference.buyer(model.tenants, row)
        offers = reference.offers_known(who, market, choice, sku_keys)
        lots += [offer.lot for offer in offers]
        expected += [reference.utility(who, offer, choice, market.taste_scale, model.seed) for offer in offers]
    assert (pairs.lot // len(sku_keys) == model.pool_row).any()
    assert model.tenants.pool_user[rows].any()
    assert pairs.lot.tolist() == lots
    assert utility.tolist() == expected
    outside = [reference.outside_utility(reference.buyer(model.tenants, row), choice) for row in rows.tolist()]
    assert outside_utility(model.tenants, rows, choice).tolist() == outside
