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
from market.clearing.posted import ClearingParameters, Outcome, clear, clear_by_rounds
from market.model import MarketModel
from market.reference import Request, Service
from tests.market.small_markets import queue_of, scarce_queues


def assert_same_outcome(requests: list[Request], services: list[Service], outcome: Outcome, away: list[float]) -> None:
    ranks = outcome.taken_gpus.shape[1]
    for row, service in enumerate(services):
        blank = [0.0] * (ranks - len(requests[row].lots))
        assert outcome.taken_gpus[row].tolist() == service.taken_gpus + blank
        assert outcome.asked_gpus[row].tolist() == service.asked_gpus + blank
        assert outcome.left_h100e[row] == service.left_h100e
    assert outcome.turned_away_gpus.tolist() == away


@settings(deadline=None, max_examples=300)
@given(scarce_queues())
def test_clearing_equals_the_serial_walk(case: tuple[list[Request], list[float], ClearingParameters]) -> None:
    requests, capacity, parameters = case
    services = reference.serve(requests, capacity, parameters)
    outcome = clear(queue_of(requests), np.array(capacity), parameters)
    assert_same_outcome(requests, services, outcome, reference.turned_away(requests, services, len(capacity)))


def test_clearing_equals_the_serial_walk_in_a_long_queue() -> None:
    rng = np.random.default_rng(5)
    capacity = (rng.exponential(40.0, 25) * (rng.random(25) > 0.2)).tolist()
    requests = []
    for need in rng.lognormal(0.0, 1.5, 800).tolist():
        lots = tuple(rng.permutation(25)[: rng.integers(0, 12)].tolist())
        work, quota = rng.uniform(0.3, 4.0, len(lots)), rng.choice([np.inf, 2.0], len(lots), p=[0.8, 0.2])
        requests.append(Request(need, need * 1.5, lots, tuple(work.tolist()), tuple(quota.tolist())))
    parameters = ClearingParameters()
    services = reference.serve(requests, capacity, parameters)
    outcome = clear(queue_of(requests), np.array(capacity), parameters)
    assert_same_outcome(requests, services, outcome, reference.turned_away(requests, services, 25))
    assert sum(service.left_h100e > 0 for service in services) > 100
    rounds = clear_by_rounds(queue_of(requests), np.array(capacity), parameters).rounds
    assert rounds < 60  # a few rounds, not one per tenant


# --- whole weeks ---------------------------------------------------------------------------------------------------

CASES = {
    "baseline": {},
    "scarce": {"tenants.opening_demand_factor": 1.3},
    "linear, turned away leave": {"choice.utility": "linear", "clearing.unserved": "leave"},
    "everybody known, no tastes": {"choice.all_sellers_known": True, "tenants.taste_scale": 0.0},
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
    sku_keys = [int(key) for key in model.sku_keys]
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
            at_desk = lot // skus == model.cloud_row
            assert not at_desk or model.desk_offer is not None
            quota.append(
                max(model.desk_offer.quota_gpus - float(desk_holdings[row]), 0.0) * weight if at_desk else math.inf
            )
        work = tuple(float(model.throughput[who.segment, lot % skus]) for lot in lots)
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
    shocks = weekly_shocks(model.tenants, rows, pairs, market, model.seed, model.week, model.sku_keys)
    tried = model.world.clearing.offers_tried_maximum
    outside = outside_utility(model.tenants, rows, choice)
    ranking = rank_offers(pairs, utility, outside, shocks, choice.gumbel_scale, tried)
    for row, (_, one) in zip(ranking.tolist(), expected, strict=True):
        assert [lot for lot in row if lot >= 0] == list(one.lots)
    capacity = model.book.open_gpus.ravel()
    pools = trade._pool_lots(model)
    assert pools
    outcome = clear(trade._queue(model, rows, need, ranking), capacity, model.world.clearing, pools)
    requests = [one for _, one in expected]
    services = reference.serve(requests, capacity.tolist(), model.world.clearing, trade._pool_lots(model))
    away = reference.turned_away(requests, services, len(capacity))
    assert_same_outcome(requests, services, outcome, away)
    assert any(service.left_h100e > 0.0 for service in services)


def test_a_real_week_signs_the_leases_of_the_reference(open_week: MarketModel) -> None:
    model = open_week
    expected = reference_requests(model)
    capacity = model.book.open_gpus.ravel().tolist()
    pools = trade._pool_lots(model)
    services = reference.serve([one for _, one in expected], capacity, model.world.clearing, pools)
    signed = [
        (row, lot, gpus)
        for (row, one), service in zip(expected, services, strict=True)
        for lot, gpus in zip(one.lots, service.taken_gpus, strict=True)
        if gpus > 0.0
    ]
    leases = trade.clear_market(model).leases
    assert list(zip(leases.tenant.tolist(), leases.lot.tolist(), leases.gpus.tolist(), strict=True)) == signed


def test_utilities_of_a_real_week_equal_the_reference_to_the_last_bit(open_week: MarketModel) -> None:
    model, choice = open_week, open_week.world.choice
    market = trade.choice_market(model)
    rows = np.arange(0, len(model.tenants), 23)
    pairs = candidate_pairs(model.tenants, rows, market, choice)
    utility = systematic_utility(model.tenants, pairs, market, choice, model.seed)
    sku_keys = [int(key) for key in model.sku_keys]
    expected, lots = [], []
    for row in rows.tolist():
        who = reference.buyer(model.tenants, row)
        offers = reference.offers_known(who, market, choice, sku_keys)
        lots += [offer.lot for offer in offers]
        expected += [reference.utility(who, offer, choice, market.taste_scale, model.seed) for offer in offers]
    assert pairs.lot.tolist() == lots
    assert utility.tolist() == expected
    outside = [reference.outside_utility(reference.buyer(model.tenants, row), choice) for row in rows.tolist()]
    assert outside_utility(model.tenants, rows, choice).tolist() == outside
