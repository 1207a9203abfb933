"""Homogeneous hours and limits to capacity: who sells what at posted prices is the clearing's, the laws theory's.

Sellers draw from the equilibrium; they must earn the stated profit, and no fixed price may earn more. Sources: Kreps &
Scheinkman 1983; Osborne & Pitchik 1986; Maskin & Tirole 1988; Levitan & Shubik 1972; Davidson & Deneckere 1986;
Carlton & Perloff, ch. 4.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from market.arrays import Floats
from tests.theory.posted import Crowd, line, quantile, sold_hours, stratified
from tests.theory.table import Case, family

Draw = Callable[[Floats], Floats]
TENANTS = 400
DRAWS = 32  # quantiles of each seller's prices; games are all pairs


def _demand(case: Case) -> None:
    shape = case["demand_gpu_hours"]
    assert shape == "1 - price", f"{case.name}: demand is {shape!r}, not '1 - price'"


# ------------------------------------------------------------------------------------------------ the price game


def as_second(prices: Floats, own: Floats, rival: Floats, cost: float, crowd: Crowd) -> Floats:
    """What every price earns after a rival who asks less, one row per pair of capacities ``(pairs, prices)``."""
    return _earned(prices, own, rival, cost, crowd, -1.0)


def as_first(prices: Floats, own: Floats, rival: Floats, cost: float, crowd: Crowd) -> Floats:
    """What every price earns before a rival who asks more than anybody pays."""
    return _earned(prices, own, rival, cost, crowd, 2.0)


def _earned(prices: Floats, own: Floats, rival: Floats, cost: float, crowd: Crowd, rivals_price: float) -> Floats:
    asked = np.tile(prices, len(own))
    both = np.column_stack([asked, np.full(len(asked), rivals_price)])
    hours = np.column_stack([np.repeat(capacity, len(prices)) for capacity in (own, rival)])
    sold = sold_hours(both, hours, crowd)[:, 0]
    return np.asarray(((asked - cost) * sold).reshape(len(own), len(prices)))


def support(prices: Floats, large: Floats, small: Floats, cost: float, crowd: Crowd) -> tuple[Floats, Floats, Floats]:
    """Lowest and highest price of the game and what the larger seller earns, by pair of capacities ``(pairs,)``.

    It can always earn what the highest payers left over pay best; it asks no price below the one at which selling
    first earns no more than that.
    """
    second, first = as_second(prices, large, small, cost, crowd), as_first(prices, large, small, cost, crowd)
    earns = second.max(axis=1)
    enough = (first >= earns[:, None] - 1e-12) & (prices >= cost - 1e-12)
    low = prices[enough.argmax(axis=1)]
    high = np.where(earns > 1e-9, prices[second.argmax(axis=1)], low)
    return low, high, earns


def duopoly_laws(capacity: Floats, cost: float, low: float, high: float, earns: Floats) -> list[Draw]:
    """Quantile functions of both sellers' prices: each makes the other indifferent (Osborne & Pitchik 1986)."""
    laws = []
    for mine in (0, 1):
        rival = 1 - mine

        def law(p: Floats, rival: int = rival, mine: int = mine) -> Floats:
            first = np.minimum(capacity[rival], 1.0 - p)
            second = np.clip(1.0 - p - capacity[mine], 0.0, capacity[rival])
            return (first - earns[rival] / np.maximum(p - cost, 1e-12)) / np.maximum(first - second, 1e-12)

        laws.append(quantile(law, low, high))
    return laws


def theory_of(case: Case) -> tuple[Floats, float, float, float, Floats]:
    """Capacities, cost, and the theory of the game: lowest and highest price, profits."""
    capacity = np.array([case["capacity_1_gpu_hours"], case["capacity_2_gpu_hours"]])
    cost, large = case["marginal_cost_usd_per_gpu_hour"], int(capacity.argmax())
    k1, k2 = capacity[large], capacity[1 - large]
    high = (1.0 - k2 + cost) / 2.0
    if k2 >= 1.0 - cost:
        return capacity, cost, cost, cost, np.zeros(2)
    if k1 <= 1.0 - k2 - high:
        clears = 1.0 - k1 - k2
        return capacity, cost, clears, clears, (clears - cost) * capacity
    earned = (high - cost) ** 2
    low = cost + earned / k1
    if k1 > 1.0 - low:
        low = (1.0 + cost - np.sqrt((1.0 - cost) ** 2 - 4.0 * earned)) / 2.0
    earns = np.where(np.arange(2) == large, earned, (low - cost) * min(k2, 1.0 - low))
    return capacity, cost, low, high, earns


def _prices(laws: list[Draw], case_low: float, count: int, pure: bool) -> list[Floats]:
    """Evenly spread draws of both sellers; the one price where they do not mix."""
    even = (np.arange(count) + 0.5) / count
    return [np.full(1, case_low) if pure else law(even) for law in laws]


@family("bertrand_edgeworth_duopoly")
def test_sellers_short_of_hours_earn_the_stated_profits_and_no_price_earns_more(case: Case) -> None:
    _demand(case)
    capacity, cost, low, high, earns = theory_of(case)
    (crowd, grid), large = line(TENANTS), int(capacity.argmax())
    from_clearing = support(grid, capacity[[large]], capacity[[1 - large]], cost, crowd)
    pure = high - low < 1e-9
    laws = duopoly_laws(capacity, cost, low, high, earns)
    drawn = _prices(laws, low, DRAWS, pure)
    games = np.array(np.meshgrid(*drawn, indexing="ij")).reshape(2, -1).T
    profits = ((games - cost) * sold_hours(games, capacity, crowd)).mean(axis=0)
    found = {
        "price_low": float(from_clearing[0][0]),
        "price_high": float(from_clearing[1][0]),
        "profit_1": profits[0],
        "profit_2": profits[1],
    }
    fine = _prices(laws, low, 20_000, pure)
    found |= {f"mean_price_{seller}": float(asked.mean()) for seller, asked in enumerate(fine, start=1)}
    found["probability_1_charges_top_price"] = float((fine[0] > high - 1e-9).mean())
    case.agree(found)
    for mine in (0, 1):
        most = _most(mine, grid[:: TENANTS // 40], drawn[1 - mine], capacity, cost, crowd)
        assert most <= earns[mine] + case.known[f"profit_{mine + 1}"].tolerance


def _most(mine: int, trial: Floats, rival: Floats, capacity: Floats, cost: float, crowd: Crowd) -> float:
    """The most a fixed price earns against the rival's drawn prices."""
    asked = np.empty((len(trial) * len(rival), 2))
    asked[:, mine], asked[:, 1 - mine] = np.repeat(trial, len(rival)), np.tile(rival, len(trial))
    gained = (asked[:, mine] - cost) * sold_hours(asked, capacity, crowd)[:, mine]
    return float(gained.reshape(len(trial), len(rival)).mean(axis=1).max())


def box_law(sellers: int, each: float, need: float, pays: float, cost: float) -> tuple[float, Draw]:
    """Profit of each and the quantile function of prices where all tenants pay up to ``pays``."""
    left = need - (sellers - 1) * each
    if left <= 0.0:
        return 0.0, lambda u: np.full(u.shape, cost)
    if sellers * each <= need:
        return (pays - cost) * each, lambda u: np.full(u.shape, pays)
    earns = (pays - cost) * left

    def law(p: Floats) -> Floats:
        lost = np.clip((each - earns / np.maximum(p - cost, 1e-12)) / (sellers * each - need), 0.0, 1.0)
        return np.asarray(lost ** (1.0 / (sellers - 1)))

    return earns, quantile(law, cost + earns / each, pays)


GAMES = 40_000


@family("bertrand_edgeworth_fixed_need")
def test_with_a_fixed_need_price_is_cost_while_one_seller_can_be_spared_and_value_at_full_use(case: Case) -> None:
    sellers, each, need = case["sellers"], case["capacity_each_gpu_hours"], case["need_gpu_hours"]
    pays, cost = case["willingness_to_pay_usd_per_gpu_hour"], case["marginal_cost_usd_per_gpu_hour"]
    crowd = Crowd(np.array([pays]), np.array([need]))
    earns, draw = box_law(sellers, each, need, pays, cost)
    games = draw(stratified(GAMES, sellers))
    sold = sold_hours(games, np.full(sellers, each), crowd)
    # The lowest price worth asking: selling all that one has earns what is left over by cheaper rivals does at the top.
    left = sold_hours(np.array([[pays] + [cost] * (sellers - 1)]), np.full(sellers, each), crowd)[0, 0]
    full = sold_hours(np.array([[cost] + [pays] * (sellers - 1)]), np.full(sellers, each), crowd)[0, 0]
    found = {
        "price_low": cost + (pays - cost) * left / full,
        "profit_each": float(((games - cost) * sold).mean()),
        "mean_transaction_price": float((games * sold).sum() / sold.sum()),
        "mean_posted_price": float(games.mean()),
    }
    case.agree(found)
    trial = np.linspace(cost, pays, 41)
    asked = np.repeat(trial, 4000)
    others = draw(stratified(4000, sellers - 1, seed=1)) if sellers > 1 else np.zeros((4000, 0))
    against = np.column_stack([asked, np.tile(others, (len(trial), 1))])
    gained = ((asked - cost) * sold_hours(against, np.full(sellers, each), crowd)[:, 0]).reshape(len(trial), -1)
    noise = 4.0 * gained.std(axis=1).max() / np.sqrt(4000)
    assert gained.mean(axis=1).max() <= earns + case.known["profit_each"].tolerance + noise


# ------------------------------------------------------------------------------------------------ capacity, then prices


def stage_profit(own: Floats, rival: float, crowd: Crowd, prices: Floats) -> tuple[Floats, Floats]:
    """What capacities ``own`` earn in the price game beside the rival's, and its highest price ``(capacities,)``."""
    large, small = np.maximum(own, rival), np.minimum(own, rival)
    low, high, earns = support(prices, large, small, 0.0, crowd)
    return np.where(own >= rival, earns, low * np.minimum(own, 1.0 - low)), high


def best_capacity(rival: float, unit_cost: float, crowd: Crowd, prices: Floats) -> float:
    """The most profitable capacity: first in steps of .05, then of .01."""
    best = 0.35
    for steps in (np.arange(-0.30, 0.31, 0.05), np.arange(-0.05, 0.055, 0.01)):
        trial = np.maximum(best + steps, 0.01)
        best = float(trial[(stage_profit(trial, rival, crowd, prices)[0] - unit_cost * trial).argmax()])
    return best


@family("kreps_scheinkman")
@pytest.mark.parametrize("start", [(0.05, 0.6), (0.5, 0.1)])
def test_capacity_then_prices_gives_the_quantities_of_cournot(case: Case, start: tuple[float, float]) -> None:
    """Alternating best replies in capacity, on what the clearing lets each capacity earn in the price game."""
    _demand(case)
    unit_cost, (crowd, prices) = case["capacity_cost_usd_per_gpu_hour"], line(100)
    capacity = list(start)
    for _ in range(12):
        before = tuple(capacity)
        for mine in (0, 1):
            capacity[mine] = best_capacity(capacity[1 - mine], unit_cost, crowd, prices)
        if np.abs(np.subtract(capacity, before)).max() < 1e-9:
            break
    earns, high = stage_profit(np.array([capacity[0]]), capacity[1], crowd, prices)
    found = {
        "capacity_each": float(np.mean(capacity)),
        "price": float(high[0]),
        "profit_each": float(earns[0] - unit_cost * capacity[0]),
    }
    case.agree(found)


@family("edgeworth_cycle")
def test_alternating_best_replies_never_rest_but_cycle_through_the_stated_band(case: Case) -> None:
    """Prices fall tick by tick and jump up; equal split at ties, the highest of equally good prices."""
    each, tick = case["capacity_each_gpu_hours"], case["tick_usd"]
    crowd, grid = line(round(1.0 / tick))
    crowd = Crowd(crowd.pays_usd, crowd.hours, split=True)
    games = np.array(np.meshgrid(grid, grid, indexing="ij")).reshape(2, -1).T
    earned = (games[:, 0] * sold_hours(games, np.full(2, each), crowd)[:, 0]).reshape(len(grid), len(grid))
    best = earned.max(axis=0)
    reply = len(grid) - 1 - (earned >= best - 1e-9)[::-1].argmax(axis=0)
    path = [len(grid) // 2]
    for _ in range(4000):
        path.append(int(reply[path[-1]]))
    settled = grid[np.array(path[2000:])]
    found = {"cycle_low": settled.min(), "cycle_high": settled.max(), "cycle_mean": settled.mean()}
    case.agree({name: float(price) for name, price in found.items()})
    falls = [after - before for before, after in pairwise(settled.tolist()) if after < before]
    assert max(abs(np.array(falls) + tick)) < 1e-9  # down by one tick at a time
    assert len(set(settled.tolist())) > 2


# ------------------------------------------------------------------------------------------------ price leaders


@family("dominant_firm_fringe")
def test_a_dominant_seller_rests_where_the_fringe_leaves_it_most(case: Case) -> None:
    """Small sellers take the price, so they have more hours to sell the higher it is, and sell before it."""
    intercept, slope = float(case["demand_intercept_gpu_hours"]), float(case["demand_slope"])
    crowd, prices = line(1000, intercept, slope)
    both = np.repeat(prices[:, None], 2, axis=1)
    hours = np.column_stack([case["fringe_supply_slope"] * np.maximum(prices, 0.0), np.full(len(prices), intercept)])
    sold = sold_hours(both, hours, crowd)
    best = int(((prices - case["marginal_cost_usd_per_gpu_hour"]) * sold[:, 1]).argmax())
    case.agree({"price": prices[best], "fringe_output": sold[best, 0], "dominant_output": sold[best, 1]})


@family("backstop_homogeneous")
def test_beside_a_fixed_offer_of_the_same_hours_the_order_of_tenants_decides_about_the_price(case: Case) -> None:
    intercept, slope = float(case["demand_intercept_gpu_hours"]), float(case["demand_slope"])
    cost, fixed = case["marginal_cost_usd_per_gpu_hour"], case["backstop_price_usd_per_gpu_hour"]
    crowd, prices = line(2000, intercept, slope, case["rationing"])
    prices = np.append(prices[(prices > fixed) & (prices <= intercept / slope)][::2], fixed)
    both = np.column_stack([prices, np.full(len(prices), fixed)])
    sold = sold_hours(both, np.array([np.inf, case["backstop_capacity_gpu_hours"]]), crowd)[:, 0]
    above, match = (prices - cost) * sold, (fixed - cost) * sold[-1]
    # Thinned tenants leave some grain: the top of a parabola through the upper prices.
    near = above[:-1] >= 0.8 * above[:-1].max()
    fit = np.polynomial.Polynomial.fit(prices[:-1][near], above[:-1][near], 2)
    top = float(fit.deriv().roots()[0])
    price = top if fit(top) >= match else fixed
    output = float(np.interp(price, prices[:-1], sold[:-1])) if price > fixed else float(sold[-1])
    case.agree({"incumbent_price": price, "incumbent_output": output, "incumbent_profit": (price - cost) * output})
