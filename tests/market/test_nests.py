"""Tastes that offers of one vendor share: the law of the shocks, shares, and what the correlation cannot touch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from market.choice import (
    Market,
    Pairs,
    candidate_pairs,
    choice_probabilities,
    log_sums,
    outside_utility,
    rank_offers,
    systematic_utility,
    weekly_shocks,
)
from market.nests import Nests, nested_probabilities, vendor_shock
from market.randomness import agent_keys
from tests.market.small_markets import PLAIN_CHOICE, choice, market_of, sellers, tenants_of

SMALLEST_P = 1e-4
ROWS = 60_000
VENDOR = [0, 0, 1]
UTILITY = [0.4, 0.1, 0.7]

correlations = st.floats(0.01, 0.95)
utilities = st.lists(st.floats(-8.0, 8.0), min_size=1, max_size=6)


def shares_by_hand(utility: list[float], vendor: list[int], correlation: float) -> list[float]:
    """Nested logit in plain sums (Berry 1994, eq. 22)."""
    scaled = [math.exp(v / (1 - correlation)) for v in utility]
    size = {n: sum(x for x, m in zip(scaled, vendor, strict=True) if m == n) for n in vendor}
    below = 1 + sum(total ** (1 - correlation) for total in size.values())
    return [x / size[n] ** correlation / below for x, n in zip(scaled, vendor, strict=True)]


@pytest.mark.parametrize("correlation", [0.05, 0.5, 0.9])
def test_the_shock_of_an_offer_stays_gumbel_at_any_correlation(correlation: float) -> None:
    keys = np.arange(ROWS, dtype=np.uint64)
    shared = vendor_shock(3, 1, keys, 1, correlation)
    own = stats.gumbel_r.ppf((np.random.default_rng(0).permutation(ROWS) + 0.5) / ROWS)
    assert stats.kstest(shared + (1 - correlation) * own, stats.gumbel_r.cdf).pvalue > SMALLEST_P


@pytest.mark.parametrize("correlation", [0.3, 0.8])
def test_keyed_choices_follow_nested_shares(correlation: float) -> None:
    wide = market_with_vendors()
    who, rows = tenants_of(ROWS), np.arange(ROWS)
    parameters = choice(**PLAIN_CHOICE, utility="linear")
    pairs = candidate_pairs(who, rows, wide, parameters)
    utility = systematic_utility(who, pairs, wide, parameters, 0)
    shocks = weekly_shocks(who, rows, pairs, wide, 0, 1, agent_keys(["one", "other"]), correlation)
    first = rank_offers(pairs, utility, outside_utility(who, rows, parameters), shocks, 1.0, 1)[:, 0]
    lots = np.unique(pairs.lot)
    counts = [(first == lot).sum() for lot in lots]
    law = shares_by_hand(UTILITY, VENDOR, correlation)
    assert stats.chisquare([*counts, ROWS - sum(counts)], ROWS * np.array([*law, 1 - sum(law)])).pvalue > SMALLEST_P


def market_with_vendors() -> Market:
    """Sellers one and two sell Nvidia's SKU, the third AMD's; utilities as ``UTILITY`` at sensitivity 1."""
    narrow = market_of(sellers([2.0] * 3), [2.0] * 3)
    price = np.full((3, 2, narrow.price_usd.shape[2]), np.nan)
    for seller, vendor in enumerate(VENDOR):
        price[seller, vendor] = 2.0
    return replace(
        narrow,
        price_usd=price,
        sku_vendor_is_amd=np.array([False, True]),
        throughput=np.ones((1, 2)),
        size_gpus=np.ones((3, 2)),
        value_usd=np.repeat(np.array(UTILITY)[:, None] + 2.0, 2, axis=1),
    )


@given(utilities, correlations, st.data())
def test_nested_shares_are_those_of_the_textbook(utility: list[float], correlation: float, data: st.DataObject) -> None:
    vendor = data.draw(st.lists(st.integers(0, 1), min_size=len(utility), max_size=len(utility)))
    found = nested_probabilities(np.array([utility]), np.zeros(1), Nests(np.array(vendor), correlation))
    assert found[0] == pytest.approx(shares_by_hand(utility, vendor, correlation), abs=1e-12)


@given(utilities)
def test_without_correlation_nests_are_plain_logit_to_the_bit(utility: list[float]) -> None:
    plain = choice_probabilities(np.array([utility]), np.zeros(1))
    nests = Nests(np.arange(len(utility)) % 2, 0.0)
    assert choice_probabilities(np.array([utility]), np.zeros(1), nests).tolist() == plain.tolist()


@given(utilities, correlations)
def test_an_offer_alone_in_its_nest_does_not_feel_the_correlation(utility: list[float], correlation: float) -> None:
    few = utility[:2]
    nests = Nests(np.arange(len(few)), correlation)
    found = nested_probabilities(np.array([few]), np.zeros(1), nests)
    assert found[0] == pytest.approx(choice_probabilities(np.array([few]), np.zeros(1))[0], abs=1e-12)


def test_offers_that_are_not_available_get_nothing_and_change_nothing() -> None:
    nests = Nests(np.array([0, 0, 1]), 0.7)
    found = nested_probabilities(np.array([[0.3, -np.inf, -np.inf]]), np.array([0.1]), nests)
    alone = nested_probabilities(np.array([[0.3]]), np.array([0.1]), Nests(np.array([0]), 0.7))
    assert found[0] == pytest.approx([alone[0, 0], 0.0, 0.0])
    nobody = nested_probabilities(np.full((1, 3), -np.inf), np.array([-np.inf]), nests)
    assert nobody.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_log_sum_is_the_log_of_one_over_the_outside_share(correlation: float) -> None:
    market = market_with_vendors()
    pairs = Pairs(np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([0, 2, 5]))
    found = log_sums(pairs, np.array(UTILITY), 1, market, correlation)[0]
    assert found == pytest.approx(-math.log(1 - sum(shares_by_hand(UTILITY, VENDOR, correlation))))
