"""Tenants in random order, each at its best offer that still has units: expected sales and sold-out probabilities.

Values of the exact Markov chain. Many small markets that share no seller
are cleared in one call: linear utility, one unit a tenant, one common priority base, no thresholds.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from market.choice import Pairs, outside_utility, rank_offers, systematic_utility, weekly_shocks
from market.clearing.posted import Queue, clear
from market.randomness import Purpose, agent_keys, uniform
from tests.market.small_markets import PLAIN_CHOICE, choice, market_of, plain_clearing, sellers, tenants_of
from tests.theory.table import Case, family

Floats = NDArray[np.float64]

PRICE_USD = 2.0
MARKETS_PER_CALL = 40
SKU_KEYS = agent_keys(["H100"])
SMALLEST_UNIT = 1e-6


def units_sold(
    tenants: int, units: list[float], utility: list[float], worlds: int, seed: int, unserved: str = "next"
) -> Floats:
    """Units of each offer that are sold, ``(worlds, offers)``."""
    offers, calls = len(units), -(-worlds // MARKETS_PER_CALL)
    suppliers = sellers([PRICE_USD] * (offers * MARKETS_PER_CALL))
    market = market_of(
        suppliers, [PRICE_USD] * len(suppliers), value_usd=np.tile(utility, MARKETS_PER_CALL) + PRICE_USD
    )
    parameters = choice(**PLAIN_CHOICE, utility="linear")
    capacity = np.tile(np.asarray(units, np.float64), MARKETS_PER_CALL)
    rows, count = np.arange(tenants * MARKETS_PER_CALL), tenants * MARKETS_PER_CALL
    sold = []
    for call in range(calls):
        who = tenants_of(count, key=call * count + rows)
        rows_served = np.argsort(uniform(seed, Purpose.PRIORITY, 1, who.key), kind="stable")
        position = np.repeat(np.arange(count), offers)
        tenant = rows_served[position]
        lot = (tenant // tenants) * offers + np.tile(np.arange(offers), count)
        pairs = Pairs(position, tenant, lot)
        ranking = rank_offers(
            pairs,
            systematic_utility(who, pairs, market, parameters, seed),
            outside_utility(who, rows_served, parameters),
            weekly_shocks(who, rows_served, pairs, market, seed, 1, SKU_KEYS),
            parameters.gumbel_scale,
            offers,
        )
        ones = np.ones(count)
        queue = Queue(ones, ones, ranking, np.ones(ranking.shape), np.full(ranking.shape, np.inf))
        taken = clear(queue, capacity, plain_clearing(unserved=unserved)).taken_gpus
        by_lot = np.bincount(np.maximum(ranking, 0).ravel(), taken.ravel(), minlength=len(capacity))
        sold.append(by_lot.reshape(MARKETS_PER_CALL, offers))
    return np.concatenate(sold)


def measured(case: Case, worlds: int, seed: int) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each quantity of a case."""
    units = case["units_of_offer"]
    sold = units_sold(case["tenants"], units, case["utility_of_offer"], worlds, seed)
    found = {}
    for offer, limit in enumerate(units):
        found[f"expected_units_{offer + 1}"] = sold[:, offer]
        found[f"probability_{offer + 1}_sold_out"] = sold[:, offer] >= limit - SMALLEST_UNIT
    return {name: (float(x.mean()), float(x.std() / np.sqrt(len(x)))) for name, x in found.items()}


@family("random_order_stockout")
def test_sales_agree_with_the_exact_chain_within_their_own_error(case: Case) -> None:
    found = measured(case, 4000, seed=1)
    assert set(found) == set(case.known)
    for name, (mean, error) in found.items():
        value = case.known[name].value
        at_most = 4.5 * max(error, np.sqrt(value * (1 - value) / 4000) if name.startswith("prob") else 1e-3)
        assert mean == pytest.approx(value, abs=at_most), name


@pytest.mark.soak
@family("random_order_stockout")
def test_sales_agree_with_the_exact_chain_to_the_tolerance_of_the_table(case: Case) -> None:
    found = measured(case, 140_000, seed=2)
    assert all(4 * error < case.known[name].tolerance for name, (_, error) in found.items())
    case.agree({name: mean for name, (mean, _) in found.items()})


def test_no_unit_is_sold_twice():
    sold = units_sold(10, [2, 2], [1.53, 0.78], 400, seed=3)
    assert sold.max() <= 2 + SMALLEST_UNIT
    assert np.abs(sold - np.round(sold)).max() < SMALLEST_UNIT


def test_where_the_turned_away_leave_the_second_offer_sells_only_to_those_who_like_it_best():
    """Twenty tenants, five units of the better offer: the other's sales are binomial at its logit share."""
    sold = units_sold(20, [5, 20], [1.53, 0.78], 2000, seed=4, unserved="leave")
    share = np.exp(0.78) / (1 + np.exp(0.78) + np.exp(1.53))
    assert sold[:, 1].mean() == pytest.approx(20 * share, abs=4.5 * np.sqrt(20 * share * (1 - share) / 2000))
    assert units_sold(20, [5, 20], [1.53, 0.78], 400, seed=4)[:, 1].mean() > 20 * share + 2
