"""Choice: utilities worked by hand, keyed choices against closed-form shares, search orders, expected demand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from market.choice import (
    Market,
    Pairs,
    candidate_pairs,
    choice_probabilities,
    expected_demand,
    known_suppliers,
    outside_utility,
    rank_offers,
    search_order,
    systematic_utility,
    weekly_shocks,
)
from market.clearing.posted import Queue, clear
from market.randomness import Purpose, agent_keys, uniform
from market.tenants import Tenants
from market.units import Term
from tests.market.small_markets import PLAIN_CHOICE, choice, market_of, plain_clearing, sellers, tenants_of

SMALLEST_P = 1e-4  # of each test; its cases share it out (Bonferroni)
SKU_KEYS = agent_keys(["H100"])
DRAWS = 100_000


def utilities(tenants: Tenants, market: Market, seed: int = 0, **changes: Any) -> np.ndarray:
    """Systematic utility ``(tenants, sellers)`` where all sellers are known."""
    parameters = choice(**({"all_sellers_known": True} | changes))
    pairs = candidate_pairs(tenants, np.arange(len(tenants)), market, parameters)
    return systematic_utility(tenants, pairs, market, parameters, seed).reshape(len(tenants), -1)


def ranked(tenants: Tenants, market: Market, *, seed: int, week: int = 1, ranks: int = 1, **changes: Any) -> np.ndarray:
    parameters = choice(**(PLAIN_CHOICE | changes))
    rows = np.arange(len(tenants))
    pairs = candidate_pairs(tenants, rows, market, parameters)
    utility = systematic_utility(tenants, pairs, market, parameters, seed)
    shocks = weekly_shocks(tenants, rows, pairs, market, seed, week, SKU_KEYS)
    outside = outside_utility(tenants, rows, parameters)
    return rank_offers(pairs, utility, outside, shocks, parameters.gumbel_scale, ranks)


# --- utility, worked by hand ---------------------------------------------------------------------------------------


def test_log_utility_is_sensitivity_times_what_a_unit_of_work_costs():
    market = market_of(sellers([2.0, 4.0]), [2.0, 4.0])
    market.throughput[:] = 0.5
    found = utilities(tenants_of(1, sensitivity=3.0), market, size_pull=0.0)
    assert found[0] == pytest.approx([-3.0 * math.log(4.0), -3.0 * math.log(8.0)])


def test_linear_utility_is_sensitivity_times_value_less_price_of_work():
    market = market_of(sellers([2.0, 4.0]), [2.0, 4.0], value_usd=[5.0, 6.0])
    market.throughput[:] = 0.5
    found = utilities(tenants_of(1, sensitivity=3.0), market, size_pull=0.0, utility="linear")
    assert found[0] == pytest.approx([3.0 * (5.0 - 4.0), 3.0 * (6.0 - 8.0)])


@pytest.mark.parametrize("form", ["log", "linear"])
def test_lock_in_shrinks_with_maturity_and_holds_for_amd_alone(form):
    who = tenants_of(1, sensitivity=2.0, lock_in_ln=0.3, vendor_taste_ln=0.1)
    nvidia = utilities(who, market_of(sellers([2.0]), [2.0]), utility=form)
    for left, cost in ((1.0, 0.4), (0.5, 0.25), (0.0, 0.1)):
        amd = utilities(who, market_of(sellers([2.0]), [2.0], amd=True, lock_left=left), utility=form)
        assert (nvidia - amd)[0, 0] == pytest.approx(2.0 * cost)


def test_a_first_port_costs_less_at_the_developer_cloud_and_nothing_to_the_ready():
    names = ["neocloud", "vendor_desk"]
    market = market_of(sellers([2.0, 2.0], names), [2.0, 2.0], amd=True)
    ready, unready = (
        utilities(
            tenants_of(1, amd_ready=ready), market, size_pull=0.0, port_cost=0.35, developer_cloud_port_factor=0.3
        )
        for ready in (True, False)
    )
    assert (ready - unready)[0] == pytest.approx([0.35, 0.105])
    assert ready[0, 0] == ready[0, 1]


def test_switching_is_free_at_the_last_seller_and_home_is_an_advantage():
    market = market_of(sellers([2.0] * 3), [2.0] * 3)
    who = tenants_of(1, sensitivity=2.0, switching_ln=0.1, last_supplier=1, home=2)
    found = utilities(who, market, home_advantage=1.0)[0]
    assert found - found[0] == pytest.approx([0.0, 0.2, 2.0])


def test_a_tenant_new_to_the_market_pays_to_move_to_any_seller():
    market = market_of(sellers([2.0] * 2), [2.0] * 2)
    settled, new = utilities(tenants_of(2, switching_ln=0.1, last_supplier=np.array([0, -1])), market)
    assert settled - new == pytest.approx([0.1, 0.0])


@pytest.mark.parametrize(
    ("term", "kept"),
    [(Term.SPOT, 1.0), (Term.ON_DEMAND, 1.0), (Term.FOUR_WEEKS, 0.7), (Term.ONE_YEAR, 0.5), (Term.THREE_YEARS, 0.35)],
)
def test_quality_counts_as_far_as_the_term_keeps_the_premium(term, kept):
    suppliers = sellers([2.0, 2.0])
    suppliers.quality_ln[:] = [0.0, 0.2]
    who = tenants_of(1, term=term, sensitivity=3.0, quality_weight=0.8)
    found = utilities(who, market_of(suppliers, [2.0, 2.0]))[0]
    assert found[1] - found[0] == pytest.approx(3.0 * 0.2 * 0.8 * kept)


def test_a_large_fleet_counts_as_many_offers_and_a_tiny_one_as_fifty_gpus():
    market = market_of(sellers([2.0] * 4, gpus=[1000.0, 4000.0, 50.0, 1.0]), [2.0] * 4)
    found = utilities(tenants_of(1, sensitivity=1.0), market, size_pull=0.5)[0]
    assert found - found[0] == pytest.approx([0.0, math.log(2.0), 0.5 * math.log(0.05), 0.5 * math.log(0.05)])


def test_buying_nothing_is_worth_the_reservation_price_or_zero_or_is_no_option():
    who = tenants_of(1, sensitivity=3.0, reservation_usd=2.5)
    assert outside_utility(who, np.array([0]), choice()) == pytest.approx([-3.0 * math.log(2.5)])
    assert outside_utility(who, np.array([0]), choice(utility="linear")).tolist() == [0.0]
    assert outside_utility(who, np.array([0]), choice(outside_option=False)).tolist() == [-math.inf]


def test_a_tenant_is_indifferent_at_its_reservation_price():
    market = market_of(sellers([2.5]), [2.5])
    who = tenants_of(1, sensitivity=3.0, reservation_usd=2.5)
    assert utilities(who, market, size_pull=0.0)[0, 0] == outside_utility(who, np.array([0]), choice())[0]


def test_a_taste_for_a_seller_is_the_tenants_own_and_lasts():
    market = market_of(sellers([2.0] * 3), [2.0] * 3, taste_scale=0.7)
    who = tenants_of(50)
    first, again = utilities(who, market, seed=4), utilities(who, market, seed=4)
    assert np.array_equal(first, again)  # no week enters
    assert len(np.unique(first)) == first.size
    assert not np.array_equal(first, utilities(who, market, seed=5))


# --- whom tenants know ---------------------------------------------------------------------------------------------


def test_offers_without_a_price_at_the_tenants_term_are_not_met():
    market = market_of(sellers([2.0] * 3), [2.0] * 3)
    market.price_usd[1, 0, Term.ON_DEMAND] = np.nan
    market.price_usd[2] = np.nan
    who = tenants_of(2, term=np.array([Term.ON_DEMAND, Term.ONE_YEAR]))
    pairs = candidate_pairs(who, np.arange(2), market, choice(all_sellers_known=True))
    assert list(zip(pairs.tenant.tolist(), pairs.lot.tolist(), strict=True)) == [(0, 0), (1, 0), (1, 1)]


def test_pairs_come_sorted_by_place_in_the_queue_then_lot():
    market = market_of(sellers([2.0] * 3), [2.0] * 3)
    pairs = candidate_pairs(tenants_of(5), np.array([4, 0, 2]), market, choice(all_sellers_known=True))
    assert pairs.position.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert pairs.tenant.tolist() == [4, 4, 4, 0, 0, 0, 2, 2, 2]
    assert pairs.lot.tolist() == [0, 1, 2] * 3


@pytest.mark.parametrize(("failures", "places"), [(0, 2), (1, 3), (3, 5), (200, 5)])
def test_every_week_of_failure_widens_the_search_by_one_seller_up_to_a_maximum(failures, places):
    suppliers = sellers([2.0] * 8)
    who = tenants_of(30, failures=failures)
    parameters = choice(search_sellers=2, search_extra_maximum=3)
    who.search_rank = search_order(who, suppliers, 0, parameters)
    known = known_suppliers(who, np.arange(30), suppliers, parameters)
    assert (known.sum(axis=1) == places).all()


def test_last_seller_home_and_desks_come_on_top_of_the_search_places():
    suppliers = sellers([2.0] * 8, ["neocloud"] * 7 + ["vendor_desk"])
    who = tenants_of(1, last_supplier=5, home=6)
    who.search_rank = np.array([[0, 1, 2, 3, 4, 5, 6, 65535]], np.uint16)
    known = known_suppliers(who, np.array([0]), suppliers, choice(search_sellers=2))
    assert np.flatnonzero(known[0]).tolist() == [0, 1, 5, 6, 7]


def test_the_first_place_of_a_search_follows_brand():
    fleets = [16.0, 81.0, 256.0, 625.0]  # brand = fleet^.25 = 2, 3, 4, 5
    suppliers, who = sellers([2.0] * 4, gpus=fleets), tenants_of(DRAWS)
    for seed in range(3):
        rank = search_order(who, suppliers, seed, choice(brand_exponent=0.25))
        assert (np.sort(rank, axis=1) == np.arange(4)).all()
        counts = np.bincount(rank.argmin(axis=1), minlength=4)
        assert stats.chisquare(counts, DRAWS * np.array([2, 3, 4, 5]) / 14).pvalue > SMALLEST_P / 3


def test_later_places_follow_brand_among_the_sellers_left():
    """Weighted sampling without replacement: P(first i, second j) = b_i/B × b_j/(B - b_i)."""
    brand = np.array([2.0, 3.0, 4.0, 5.0])
    rank = search_order(tenants_of(DRAWS), sellers([2.0] * 4, gpus=(brand**4).tolist()), 1, choice(brand_exponent=0.25))
    order = np.argsort(rank, axis=1)
    pairs = list(itertools.permutations(range(4), 2))
    counts = [((order[:, 0] == i) & (order[:, 1] == j)).sum() for i, j in pairs]
    expected = [brand[i] / 14 * brand[j] / (14 - brand[i]) for i, j in pairs]
    assert stats.chisquare(counts, DRAWS * np.array(expected)).pvalue > SMALLEST_P


def test_a_new_seller_leaves_the_order_of_all_others():
    names = [f"cloud {i}" for i in range(9)]
    few, many = (sellers([2.0] * n, names=names[:n]) for n in (8, 9))
    who = tenants_of(500)
    before, after = (search_order(who, suppliers, 2, choice()) for suppliers in (few, many))
    assert np.array_equal(np.argsort(before, axis=1), np.argsort(after[:, :8], axis=1, kind="stable"))
    assert len(np.unique(after[:, 8])) == 9  # it really stands somewhere


def test_sellers_without_an_offer_of_the_term_and_desks_take_no_place():
    suppliers = sellers([2.0] * 5, ["neocloud"] * 4 + ["vendor_desk"])
    suppliers.offers_term[1, Term.THREE_YEARS] = False
    suppliers.alive[2] = False
    who = tenants_of(40, term=np.arange(40) % 5)
    rank = search_order(who, suppliers, 0, choice())
    assert (rank[:, [2, 4]] == 65535).all()
    long = who.term == Term.THREE_YEARS
    assert (rank[long, 1] == 65535).all()
    assert (np.sort(rank[long][:, [0, 3]], axis=1) == [0, 1]).all()
    assert (np.sort(rank[~long][:, [0, 1, 3]], axis=1) == [0, 1, 2]).all()


# --- keyed choices against closed forms ----------------------------------------------------------------------------

PRICES = [1.8, 2.2, 3.0]


def logit_shares(form: str, sensitivity: float) -> np.ndarray:
    """Closed form: shares of three sellers and of buying nothing; reservation 2.6 (log), values 2.5 (linear)."""
    price = np.array(PRICES)
    if form == "log":
        weight = np.append(price**-sensitivity, 2.6**-sensitivity)
    else:
        weight = np.append(np.exp(sensitivity * (2.5 - price)), 1.0)
    return weight / weight.sum()


@pytest.mark.parametrize("form", ["log", "linear"])
def test_keyed_choices_follow_closed_form_logit_shares(form):
    market = market_of(sellers(PRICES), PRICES, value_usd=[2.5] * 3)
    who = tenants_of(DRAWS, sensitivity=2.0, reservation_usd=2.6)
    for seed, week in ((0, 1), (1, 1), (2, 77)):
        first = ranked(who, market, seed=seed, week=week, utility=form)[:, 0]
        counts = np.bincount(np.where(first < 0, 3, first), minlength=4)
        assert stats.chisquare(counts, DRAWS * logit_shares(form, 2.0)).pvalue > SMALLEST_P / 3


def test_whole_rankings_follow_the_plackett_luce_law():
    """The next choice among what is left is logit again: being turned away does not bend tastes."""
    market = market_of(sellers(PRICES), PRICES)
    who = tenants_of(DRAWS, sensitivity=2.0, reservation_usd=2.6)
    ranking = ranked(who, market, seed=8, ranks=3)
    weight = dict(zip([0, 1, 2, -1], logit_shares("log", 2.0), strict=True))
    laws: dict[tuple[int, ...], float] = {}
    for length in range(4):
        for order in itertools.permutations(range(3), length):
            chance, left = 1.0, 1.0
            for lot in (*order, -1):
                chance *= weight[lot] / left
                left -= weight[lot]
                if lot < 0:
                    break
            laws[(*order, *([-1] * (3 - length)))] = chance
    assert sum(laws.values()) == pytest.approx(1.0)
    counts = [(ranking == np.array(order)).all(axis=1).sum() for order in laws]
    assert sum(counts) == DRAWS
    assert stats.chisquare(counts, DRAWS * np.array(list(laws.values()))).pvalue > SMALLEST_P


def test_a_scale_of_the_weekly_shock_divides_utilities():
    market = market_of(sellers(PRICES), PRICES)
    who = tenants_of(DRAWS, sensitivity=2.0, reservation_usd=2.6)
    first = ranked(who, market, seed=3, gumbel_scale=0.5)[:, 0]
    counts = np.bincount(np.where(first < 0, 3, first), minlength=4)
    assert stats.chisquare(counts, DRAWS * logit_shares("log", 4.0)).pvalue > SMALLEST_P


def test_without_an_outside_option_everybody_buys_in_logit_shares():
    market = market_of(sellers(PRICES), PRICES)
    first = ranked(tenants_of(DRAWS, sensitivity=2.0), market, seed=6, outside_option=False)[:, 0]
    shares = logit_shares("log", 2.0)[:3]
    assert stats.chisquare(np.bincount(first, minlength=3), DRAWS * shares / shares.sum()).pvalue > SMALLEST_P


def test_choices_of_two_weeks_are_independent_without_fixed_tastes_and_tied_with_them():
    who = tenants_of(20_000, reservation_usd=1e9)
    for scale, tied in ((0.0, False), (2.0, True)):
        market = market_of(sellers([2.0, 2.0]), [2.0, 2.0], taste_scale=scale)
        one, two = (ranked(who, market, seed=1, week=week)[:, 0] for week in (3, 4))
        table = np.histogram2d(one, two, bins=2)[0]
        assert (stats.chi2_contingency(table).pvalue < SMALLEST_P) == tied


def test_a_price_or_a_seller_more_moves_nobody_elses_luck():
    names = ["a", "b", "c"]
    rows, who = np.arange(200), tenants_of(200)
    shocks = []
    for prices in ([2.0, 2.0], [2.0, 9.0], [2.0, 2.0, 1.0]):
        market = market_of(sellers(prices, names=names[: len(prices)]), prices)
        pairs = candidate_pairs(who, rows, market, choice(all_sellers_known=True))
        inside, outside = weekly_shocks(who, rows, pairs, market, 5, 9, SKU_KEYS)
        shocks.append((inside.reshape(200, -1)[:, :2], outside))
    assert all(np.array_equal(a, shocks[0][0]) and np.array_equal(b, shocks[0][1]) for a, b in shocks)


def test_a_dearer_offer_loses_only_tenants_who_leave_it():
    """Common random numbers: nobody who had chosen another offer moves."""
    who = tenants_of(5000, sensitivity=3.0, reservation_usd=2.6)
    before, after = (
        ranked(who, market_of(sellers(prices), prices), seed=2)[:, 0] for prices in (PRICES, [1.8, 2.5, 3.0])
    )
    moved = before != after
    assert 0 < moved.sum() < 1500
    assert (before[moved] == 1).all()


def test_ties_go_to_the_lower_lot_and_equal_to_nothing_is_not_bought():
    pairs = Pairs(np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([4, 7, 9]))
    shocks = (np.zeros(3), np.zeros(1))
    assert rank_offers(pairs, np.ones(3), np.zeros(1), shocks, 1.0, 4).tolist() == [[4, 7, 9, -1]]
    assert rank_offers(pairs, np.ones(3), np.ones(1), shocks, 1.0, 2).tolist() == [[-1, -1]]


def test_tenants_without_any_offer_rank_nothing():
    pairs = Pairs(np.array([1]), np.array([6]), np.array([3]))
    ranking = rank_offers(pairs, np.ones(1), np.zeros(3), (np.zeros(1), np.zeros(3)), 1.0, 2)
    assert ranking.tolist() == [[-1, -1], [3, -1], [-1, -1]]
    empty = Pairs(*(np.zeros(0, np.int64) for _ in range(3)))
    assert rank_offers(empty, np.zeros(0), np.zeros(2), (np.zeros(0), np.zeros(2)), 1.0, 2).tolist() == [[-1, -1]] * 2


def test_probabilities_are_logit_and_survive_extreme_utilities():
    found = choice_probabilities(np.array([[math.log(2.0), math.log(3.0), -np.inf]]), np.array([math.log(5.0)]))
    assert found[0] == pytest.approx([0.2, 0.3, 0.0])
    assert choice_probabilities(np.array([[2e4, -2e4]]), np.array([0.0]))[0] == pytest.approx([1.0, 0.0])
    assert choice_probabilities(np.array([[0.0, 0.0]]), np.array([-np.inf]))[0] == pytest.approx([0.5, 0.5])


# --- expected demand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unserved", ["next", "leave"])
def test_with_slack_expected_demand_is_the_sum_of_logit_probabilities(unserved):
    rng = np.random.default_rng(1)
    utility, outside = rng.normal(size=(40, 5)), rng.normal(size=40)
    gpus = rng.lognormal(size=(40, 5))
    weight = np.exp(np.column_stack([utility, outside]))
    shares = weight / weight.sum(axis=1, keepdims=True)
    expected = (shares[:, :5] * gpus).sum(axis=0)
    for capacity in (np.full(5, np.inf), expected * 1.0001):
        found = expected_demand(utility, outside, gpus, capacity, unserved=unserved)
        assert found == pytest.approx(expected, rel=1e-12)


def test_the_turned_away_leave_or_go_on():
    """One offer of half its demand: leaving tenants are lost, others split over what is open, in the fluid limit.

    Two equal offers without an outside option, one unit of demand, the first with 1/4 free: it is full at time 1/2,
    when both have sold 1/4; then all goes to the second.
    """
    utility, outside, gpus = np.zeros((1, 2)), np.array([-np.inf]), np.ones((1, 2))
    capacity = np.array([0.25, np.inf])
    assert expected_demand(utility, outside, gpus, capacity, unserved="leave") == pytest.approx([0.25, 0.5])
    assert expected_demand(utility, outside, gpus, capacity, unserved="next") == pytest.approx([0.25, 0.75])


def test_offers_fill_one_after_the_other_in_the_fluid_limit():
    """Weights 3 : 2 : 1 : 1 (nothing), one unit of demand, capacities .15 and .2 of the first two, worked by hand.

    Rates 3/7, 2/7, 1/7: the first is full at .35, when the second has .1 and the third .05. Then rates 1/2 and 1/4:
    the second is full .2 later, when the third has .1. In the remaining .45 the third sells at rate 1/2.
    """
    utility, outside = np.log([[3.0, 2.0, 1.0]]), np.zeros(1)
    found = expected_demand(utility, outside, np.ones((1, 3)), np.array([0.15, 0.2, np.inf]))
    assert found == pytest.approx([0.15, 0.2, 0.325])


def markov_chain_units(weight: tuple[float, float], units: tuple[int, int], tenants: int) -> tuple[float, float]:
    """Expected units sold of two offers to tenants of one unit in random order: exact enumeration of all states."""
    first, second = weight
    chance = np.zeros((units[0] + 1, units[1] + 1))
    chance[0, 0] = 1.0
    open_first, open_second = np.ones_like(chance), np.ones_like(chance)
    open_first[-1, :] = open_second[:, -1] = 0.0
    total = 1.0 + first * open_first + second * open_second
    to_first, to_second = first * open_first / total, second * open_second / total
    for _ in range(tenants):
        after = chance * (1.0 - to_first - to_second)
        after[1:, :] += (chance * to_first)[:-1, :]
        after[:, 1:] += (chance * to_second)[:, :-1]
        chance = after
    return float(chance.sum(axis=1) @ np.arange(units[0] + 1)), float(chance.sum(axis=0) @ np.arange(units[1] + 1))


@pytest.mark.parametrize(("first", "second"), [(0.2, 1.0), (0.2, 0.15), (0.05, 0.5), (0.45, 0.3)])
def test_expected_demand_is_the_limit_of_the_exact_chain_of_many_small_tenants(first, second):
    utility = np.array([[1.0, 0.5]])
    fluid = expected_demand(utility, np.zeros(1), np.ones((1, 2)), np.array([first, second]))
    gaps = []
    for count in (100, 400):
        units = (round(first * count), round(second * count))
        exact = np.array(markov_chain_units((math.e, math.exp(0.5)), units, count)) / count
        gaps.append(np.abs(exact - fluid).max())
    assert gaps[1] < 0.01
    assert gaps[1] <= gaps[0] * 0.6 + 1e-12  # the gap closes like 1/sqrt(tenants) or faster


def test_expected_demand_is_the_mean_of_many_random_orders_of_unlike_tenants():
    rng = np.random.default_rng(4)
    kinds, sellers_, copies, worlds = 5, 4, 400, 25
    utility, outside = rng.normal(0.5, 1.0, (kinds, sellers_)), rng.normal(-0.5, 1.0, kinds)
    work = rng.uniform(0.5, 2.0, (kinds, sellers_))
    size = rng.uniform(0.5, 2.0, kinds) / copies
    capacity = np.array([0.4, 0.7, 6.0, 0.1])
    expected = expected_demand(utility, outside, copies * size[:, None] / work, capacity)
    kind = np.repeat(np.arange(kinds), copies)
    total = np.zeros(sellers_)
    for world in range(worlds):
        order = kind[np.argsort(uniform(world, Purpose.PRIORITY, 0, np.arange(len(kind))))]
        score = utility[order] + rng.gumbel(size=(len(kind), sellers_))
        nothing = outside[order] + rng.gumbel(size=len(kind))
        ranking = np.argsort(-score, axis=1)
        good = np.take_along_axis(score, ranking, axis=1) > nothing[:, None]
        needs = size[order]
        queue = Queue(
            needs,
            needs,
            np.where(good, ranking, -1),
            np.take_along_axis(work[order], ranking, axis=1),
            np.full(ranking.shape, np.inf),
        )
        taken = clear(queue, capacity, plain_clearing()).taken_gpus
        total += np.bincount(np.maximum(queue.lots, 0).ravel(), taken.ravel(), minlength=sellers_)
    assert (expected[[0, 3]] == capacity[[0, 3]]).all()  # the case has both full and open offers
    assert expected[2] < capacity[2]
    assert total / worlds == pytest.approx(expected, abs=0.015)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["next", "leave"]))
def test_expected_demand_stays_within_capacity_and_need(key, unserved):
    rng = np.random.default_rng(key)
    tenants, offers = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    utility = rng.normal(0, 2, (tenants, offers))
    utility[rng.random((tenants, offers)) < 0.2] = -np.inf
    outside = rng.normal(0, 2, tenants)
    size = rng.lognormal(size=tenants)
    capacity = rng.choice([0.0, np.inf, 0.3, 1.0, 5.0], offers) * rng.uniform(0.5, 1.5)
    found = expected_demand(utility, outside, np.repeat(size[:, None], offers, axis=1), capacity, unserved=unserved)
    assert (found >= 0.0).all()
    assert (found <= capacity).all()
    assert found.sum() <= size.sum() * (1 + 1e-12)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["next", "leave"]))
def test_a_better_offer_is_wanted_no_less_and_its_rivals_no_more(key, unserved):
    """Without rationing, or where the turned away leave; else an early sold-out may well help a rival."""
    rng = np.random.default_rng(key)
    utility, outside = rng.normal(0, 1, (4, 3)), rng.normal(0, 1, 4)
    capacity = rng.choice([0.4, 1.0, np.inf], 3) if unserved == "leave" else np.full(3, np.inf)
    before = expected_demand(utility, outside, np.ones((4, 3)), capacity, unserved=unserved)
    utility[:, 0] += 0.5
    after = expected_demand(utility, outside, np.ones((4, 3)), capacity, unserved=unserved)
    assert after[0] >= before[0] - 1e-12
    assert (after[1:] <= before[1:] + 1e-12).all()


def test_expected_demand_is_defined_when_all_is_sold_out_and_nothing_else_can_be_bought():
    found = expected_demand(np.zeros((2, 2)), np.full(2, -np.inf), np.ones((2, 2)), np.array([0.5, 0.5]))
    assert found == pytest.approx([0.5, 0.5])
    unknown = np.array([[0.0, 0.0], [-np.inf, -np.inf]])  # the second tenant knows no seller
    assert expected_demand(unknown, np.full(2, -np.inf), np.ones((2, 2)), np.full(2, np.inf)) == pytest.approx(
        [0.5] * 2
    )
