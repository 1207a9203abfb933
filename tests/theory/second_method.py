"""A second table of known answers: other parameters, values by closed forms and searches without the market's code.

``python tests/theory/second_method.py`` writes ``cases/other_values.csv``; a test holds the file against this script.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from itertools import product
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, fsolve
from scipy.special import lambertw, ndtr

Answers = Mapping[str, float]
Row = tuple[str, str, dict[str, Any], Answers, float]
"""Family, name, inputs, answers, tolerance (0: one millionth of the value)."""

OUT = Path(__file__).parent / "cases" / "other_values.csv"
COST, VALUE, SENSITIVITY = "marginal_cost_usd_per_gpu_hour", "value_usd_per_gpu_hour", "price_sensitivity_per_usd"
PAYS, COMPARE = "willingness_to_pay_usd_per_gpu_hour", "shopper_fraction"


# ------------------------------------------------------------------------------------------------ logit


def reply(a: float, v: float, c: float, others: float) -> float:
    """Best reply against ``others``, the sum of the other exp-utilities, that of nothing included (Lambert's W)."""
    return float(c + (1.0 + lambertw(np.exp(a * (v - c) - 1.0) / others).real) / a)


def bertrand(
    a: float, v: list[float], c: list[float], outside: float = 1.0, cap: list[float] | None = None
) -> np.ndarray:
    """Prices by best replies in turn; with capacity the higher of the reply and what makes demand fit."""
    p, limit = np.array(c) + 1.0 / a, [9.0] * len(c) if cap is None else cap
    for _ in range(5000):
        for j in range(len(c)):
            others = outside + sum(exp(a * (v[i] - p[i])) for i in range(len(c)) if i != j)
            p[j] = reply(a, v[j], c[j], others)
            if limit[j] < 1.0:
                p[j] = max(p[j], v[j] - log(limit[j] / (1.0 - limit[j]) * others) / a)
    return p


def logit(a: float, v: list[float], p: np.ndarray, outside: float = 1.0) -> np.ndarray:
    weight = np.exp(a * (np.array(v) - p))
    return np.asarray(weight / (outside + weight.sum()))


def owners(a: float, v: list[float], c: list[float], owner: list[int]) -> np.ndarray:
    """Each owner's common markup, ``1/(a (1 - S_f))`` (Nocke & Schutz 2018)."""
    names = sorted(set(owner))

    def price(markup: np.ndarray) -> np.ndarray:
        return np.array(c) + np.array([markup[names.index(o)] for o in owner])

    def miss(markup: np.ndarray) -> list[float]:
        s = logit(a, v, price(markup))
        return [m - 1.0 / (a * (1.0 - s[np.array(owner) == n].sum())) for n, m in zip(names, markup, strict=True)]

    return price(fsolve(miss, np.full(len(names), 1.5 / a), xtol=1e-13))


def numbered(**columns: np.ndarray) -> dict[str, float]:
    return {f"{name}_{i}": float(x) for name, values in columns.items() for i, x in enumerate(values, start=1)}


def of_logit() -> Iterator[Row]:
    a, v, c, n = 2.2, 3.1, 0.7, 3
    p = bertrand(a, [v] * n, [c] * n)[0]
    s = logit(a, [v] * n, np.full(n, p))[0]
    through = 1.0 / (1.0 + s * (1.0 - n * s) / (1.0 - s) ** 2)
    answers = {
        "price": p,
        "share_each": s,
        "outside_share": 1 - n * s,
        "profit_each": (p - c) * s,
        "cost_pass_through": through,
    }
    inputs = {COST: c, VALUE: v, SENSITIVITY: a, "sellers": n, "outside_option": True}
    yield "logit_bertrand_symmetric", "three", inputs, answers, 0.01
    free = {COST: 0.02, VALUE: 2.0, SENSITIVITY: a, "sellers": 1, "outside_option": True}
    p = reply(a, 2.0, 0.02, 1.0)
    s = logit(a, [2.0], np.array([p]))[0]
    answers = {
        "price": p,
        "share_each": s,
        "outside_share": 1 - s,
        "profit_each": (p - 0.02) * s,
        "cost_pass_through": 1 - s,
    }
    yield "logit_bertrand_symmetric", "almost_no_cost", free, answers, 0.01

    vs, cs = [2.9, 2.2, 3.4], [1.0, 0.6, 1.7]
    prices = bertrand(a, vs, cs)
    shares = logit(a, vs, prices)
    hhi = {"hhi_of_sold_hours": float(((shares / shares.sum()) ** 2).sum())}
    many = {COST: cs, VALUE: vs, SENSITIVITY: a}
    yield "logit_bertrand_asymmetric", "three", many, numbered(price=prices, share=shares) | hhi, 0.01
    prices = owners(a, vs, cs, [1, 1, 1])
    shares = logit(a, vs, prices)
    total = {"share_total": float(shares.sum()), "profit_total": float((prices - cs) @ shares)}
    yield "logit_monopoly", "three_products", many, numbered(price=prices) | total, 0.01
    owner = [4, 4, 9]
    prices = owners(a, vs, cs, owner)
    shares = logit(a, vs, prices)
    held = {f"share_owner_{o}": float(shares[np.array(owner) == o].sum()) for o in (4, 9)}
    yield "logit_multiproduct", "two_of_three", many | {"owner_of_offer": owner}, numbered(price=prices) | held, 0.01

    k = [0.3, 0.15, 0.8]
    prices = bertrand(a, vs, cs, cap=k)
    shares = logit(a, vs, prices)
    rent = prices - np.array(cs) - 1.0 / (a * (1.0 - shares))
    capped = many | {"capacity_share_of_potential_hours": k}
    yield "logit_capacity_clearing", "three", capped, numbered(price=prices, share=shares, scarcity_rent=rent), 0.01
    yield from of_nests(a)
    yield from of_calvano()
    yield from of_headroom()
    yield from of_fees_and_desks()


def of_nests(a: float) -> Iterator[Row]:
    """First-order conditions of Berry 1994."""
    v, c, vendor, sigma = np.array([2.6, 2.4, 2.5]), np.array([1.1, 1.0, 0.8]), np.array([1, 1, 2]), 0.35

    def parts(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = np.exp(a * (v - p) / (1 - sigma))
        size = np.array([scaled[vendor == n].sum() for n in vendor])
        below = 1 + sum(scaled[vendor == n].sum() ** (1 - sigma) for n in (1, 2))
        within = scaled / size
        return within * size ** (1 - sigma) / below, within

    def miss(p: np.ndarray) -> np.ndarray:
        s, w = parts(p)
        return np.asarray((p - c) * a * (1 - sigma * w - (1 - sigma) * s) / (1 - sigma) - 1)

    p = fsolve(miss, c + 1 / a, xtol=1e-13)
    s, _ = parts(p)
    inputs = {COST: c.tolist(), VALUE: v.tolist(), SENSITIVITY: a, "vendor_of_offer": vendor.tolist()}
    inputs["within_vendor_correlation"] = sigma
    answers = numbered(price=p, share=s) | {"share_vendor_2_of_sold_hours": float(s[2] / s.sum())}
    yield "nested_logit_two_vendors", "weak", inputs, answers, 0.01


def of_calvano() -> Iterator[Row]:
    mu, c, n, plus, nothing = 0.4, 1.5, 3, 1.2, 0.1
    a, v = 1 / mu, c + plus
    out = exp(a * nothing)
    low = bertrand(a, [v] * n, [c] * n, out)[0]
    high = float(c + (1 + lambertw(n * np.exp(a * (v - c) - 1) / out).real) / a)

    def profit(p: float) -> float:
        return float((p - c) * exp(a * (v - p)) / (out + n * exp(a * (v - p))))

    index = (profit((low + high) / 2) - profit(low)) / (profit(high) - profit(low))
    inputs = {COST: c, "outside_good_quality": nothing, "quality_minus_cost": plus, "sellers": n, "taste_scale_mu": mu}
    yield "calvano_index", "three", inputs, {"nash_price": low, "monopoly_price": high}, 0.01
    exact = {
        "nash_profit_each": profit(low),
        "monopoly_profit_each": profit(high),
        "index_when_all_charge_the_midpoint": index,
    }
    yield "calvano_index", "three", inputs, exact, 0.0


def of_headroom() -> Iterator[Row]:
    """Rivals fill at a moment of the week; from then on the dearer seller stands beside buying nothing alone."""
    a, v, c, n = 2.5, 2.8, 1.0, 3
    p = bertrand(a, [v] * n, [c] * n)[0]
    s, e = logit(a, [v] * n, np.full(n, p))[0], exp(a * (v - p))

    def gains(ratio: float) -> float:
        cap, best = ratio * s, -1.0
        for q in np.linspace(p + 0.01, p + 5.0, 2000):
            mine = exp(a * (v - q))
            full = 1 + mine + (n - 1) * e
            until = min(1.0, cap / (e / full))
            best = max(best, (q - c) * min(cap, until * mine / full + (1 - until) * mine / (1 + mine)))
        return best - (p - c) * s

    ratio = brentq(gains, 1.001, 2.0, xtol=1e-4)
    answers = {"price": p, "share_each": s}
    inputs = {COST: c, VALUE: v, SENSITIVITY: a, "sellers": n}
    yield "logit_capacity_headroom", "three", inputs, answers, 0.01
    yield "logit_capacity_headroom", "three", inputs, {"least_capacity_over_share": ratio}, 0.03


def of_fees_and_desks() -> Iterator[Row]:
    a, v, c, n = 2.5, 2.8, 1.0, 2

    def after(t: float) -> float:
        return float(bertrand(a, [v] * n, [c / (1 - t)] * n)[0])

    t = 0.2
    p = after(t)
    s = logit(a, [v] * n, np.full(n, p))[0]
    inputs = {COST: c, VALUE: v, SENSITIVITY: a, "sellers": n, "take_rate": t}
    answers = {
        "price": p,
        "seller_net_price": (1 - t) * p,
        "share_each": s,
        "profit_each": ((1 - t) * p - c) * s,
        "platform_revenue": t * p * n * s,
    }
    yield "platform_take_rate", "two", inputs, answers, 0.01
    slope = (after(t + 1e-4) - after(t - 1e-4)) / 2e-4
    yield "platform_take_rate", "two", inputs, {"price_rise_per_unit_of_fee_at_this_rate": slope}, 0.05

    desk = {"backstop_price_usd_per_gpu_hour": 1.6, "backstop_value_usd_per_gpu_hour": 2.1}
    e = exp(a * (2.1 - 1.6))
    p = bertrand(a, [v] * n, [c] * n, 1 + e)[0]
    s = logit(a, [v] * n, np.full(n, p), 1 + e)[0]
    answers = {"price": p, "share_each": s, "backstop_share": (1 - n * s) * e / (1 + e)}
    answers["price_change_against_no_backstop"] = p - bertrand(a, [v] * n, [c] * n)[0]
    inputs = {COST: c, VALUE: v, SENSITIVITY: a, "sellers": n} | desk
    yield "backstop_logit_unlimited", "two", inputs, answers, 0.01

    cap, p = 0.12, reply(a, v, c, 1.0)
    mine = exp(a * (v - p))
    s = (1 - cap) * mine / (1 + mine)
    answers = {"price": p, "share": s, "profit": (p - c) * s, "backstop_share": cap}
    inputs = {COST: c, VALUE: v, SENSITIVITY: a, "backstop_capacity_share_of_potential_hours": cap} | desk
    yield "backstop_logit_limited", "cap_binds", inputs, answers, 0.01
    when = cap / (e / (1 + e + mine))
    yield "backstop_logit_limited", "cap_binds", inputs, {"backstop_sells_out_after": when}, 0.02


# ------------------------------------------------------------------------------------------------ rationing


def of_rationing() -> Iterator[Row]:
    units, utility, tenants = [3, 2, 6], [0.6, 1.2, -0.3], 8
    chances = {(0, 0, 0): 1.0}
    for _ in range(tenants):
        step: dict[tuple[int, ...], float] = {}
        for state, chance in chances.items():
            weight = [exp(u) if sold < k else 0.0 for u, sold, k in zip(utility, state, units, strict=True)]
            for offer in range(4):
                share = (weight[offer] if offer < 3 else 1.0) / (1 + sum(weight))
                then = tuple(sold + (i == offer) for i, sold in enumerate(state))
                step[then] = step.get(then, 0.0) + chance * share
        chances = {state: chance for state, chance in step.items() if chance > 0.0}
    answers = {}
    for i, limit in enumerate(units):
        answers[f"expected_units_{i + 1}"] = sum(chance * state[i] for state, chance in chances.items())
        answers[f"probability_{i + 1}_sold_out"] = sum(x for state, x in chances.items() if state[i] == limit)
    yield (
        "random_order_stockout",
        "three",
        {"tenants": tenants, "units_of_offer": units, "utility_of_offer": utility},
        answers,
        0.02,
    )

    small, large, c = 0.35, 0.6, 0.1
    high = (1 - small + c) / 2
    earns = (high - c) ** 2
    low = c + earns / large
    other = (low - c) * small

    def below(p: float) -> float:
        """Chance that the large seller asks less, from what leaves the small one indifferent."""
        first, second = min(small, 1 - p), max(0.0, min(small, 1 - p - large))
        return (first - other / (p - c)) / (first - second)

    top = 1 - below(high)
    mean_large = high - quad(below, low, high)[0]

    def below_small(p: float) -> float:
        first, second = min(large, 1 - p), max(0.0, 1 - p - small)
        return (first - earns / (p - c)) / (first - second)

    mean_small = high - quad(below_small, low, high)[0]
    demand = {"demand_gpu_hours": "1 - price"}
    inputs = {"capacity_1_gpu_hours": small, "capacity_2_gpu_hours": large, COST: c} | demand
    answers = {"price_low": low, "price_high": high, "mean_price_1": mean_small, "mean_price_2": mean_large}
    yield "bertrand_edgeworth_duopoly", "small_first_with_cost", inputs, answers, 0.005
    yield "bertrand_edgeworth_duopoly", "small_first_with_cost", inputs, {"profit_1": other, "profit_2": earns}, 0.003
    large_first = inputs | {"capacity_1_gpu_hours": large, "capacity_2_gpu_hours": small}
    answers = {"price_low": low, "price_high": high, "mean_price_1": mean_large, "mean_price_2": mean_small}
    yield "bertrand_edgeworth_duopoly", "large_first_with_cost", large_first, answers, 0.005
    yield (
        "bertrand_edgeworth_duopoly",
        "large_first_with_cost",
        large_first,
        {"profit_1": earns, "profit_2": other},
        0.003,
    )
    atom = {"probability_1_charges_top_price": top}
    yield "bertrand_edgeworth_duopoly", "large_first_with_cost", large_first, atom, 0.01

    n, k, need, v, c = 4, 0.5, 1.8, 3.0, 0.5
    earns = (v - c) * (need - (n - 1) * k)

    def missed(p: float) -> float:
        return 1 - ((k - earns / (p - c)) / (n * k - need)) ** (1 / (n - 1))

    low = c + earns / k
    answers = {"price_low": low, "profit_each": earns, "mean_posted_price": low + quad(missed, low, v)[0]}
    answers["mean_transaction_price"] = c + n * earns / need
    inputs = {"capacity_each_gpu_hours": k, COST: c, "need_gpu_hours": need, "sellers": n, PAYS: v}
    yield "bertrand_edgeworth_fixed_need", "four", inputs, answers, 0.01

    b = 0.25
    k = (1 - b) / 3
    inputs = {"capacity_cost_usd_per_gpu_hour": b} | demand
    yield "kreps_scheinkman", "quarter", inputs, {"capacity_each": k, "price": 1 - 2 * k}, 0.01
    yield "kreps_scheinkman", "quarter", inputs, {"profit_each": k * k}, 0.005
    yield "edgeworth_cycle", "wide", {"capacity_each_gpu_hours": 0.6, "tick_usd": 0.01}, cycle(0.6, 100), 0.02

    big_a, slope, c, g = 8.0, 1.5, 1.0, 0.5
    p = (big_a / (slope + g) + c) / 2
    inputs = {"demand_intercept_gpu_hours": big_a, "demand_slope": slope, "fringe_supply_slope": g, COST: c}
    yield "dominant_firm_fringe", "half", inputs, {"price": p}, 0.01
    answers = {"fringe_output": g * p, "dominant_output": big_a - slope * p - g * p}
    yield "dominant_firm_fringe", "half", inputs, answers, 0.05

    cap, fixed = 1.2, 1.8
    inputs = {"demand_intercept_gpu_hours": big_a, "demand_slope": slope, COST: c}
    inputs |= {"backstop_capacity_gpu_hours": cap, "backstop_price_usd_per_gpu_hour": fixed}
    price = (big_a - cap + slope * c) / (2 * slope)
    sold = big_a - cap - slope * price
    efficient, random = inputs | {"rationing": "efficient"}, inputs | {"rationing": "proportional"}
    yield "backstop_homogeneous", "efficient", efficient, {"incumbent_price": price}, 0.01
    answers = {"incumbent_output": sold, "incumbent_profit": (price - c) * sold}
    yield "backstop_homogeneous", "efficient", efficient, answers, 0.05
    price = (big_a / slope + c) / 2
    sold = (1 - cap / (big_a - slope * fixed)) * (big_a - slope * price)
    yield "backstop_homogeneous", "random", random, {"incumbent_price": price}, 0.01
    answers = {"incumbent_output": sold, "incumbent_profit": (price - c) * sold}
    yield "backstop_homogeneous", "random", random, answers, 0.05


def cycle(k: float, ticks: int) -> dict[str, float]:
    """Alternating best replies on whole ticks, payoffs by hand; the highest of equally good prices."""

    def earns(i: int, j: int) -> float:
        p, demand = i / ticks, 1 - i / ticks
        if i < j:
            return p * min(k, demand)
        if i == j:
            return p * min(k, max(demand / 2, demand - k))
        return p * min(k, max(0.0, demand - k))

    best = [max(range(ticks + 1), key=lambda i: (round(earns(i, j), 12), i)) for j in range(ticks + 1)]
    path = [ticks // 2]
    for _ in range(3000):
        path.append(best[path[-1]])
    settled = np.array(path[1500:]) / ticks
    return {"cycle_low": settled.min(), "cycle_high": settled.max(), "cycle_mean": settled.mean()}


# ------------------------------------------------------------------------------------------------ dispersion


def sales(n: int, m: float, c: float, top: float) -> dict[str, float]:
    """Moments of ``c + (top - c)/(1 + b z^(N-1))`` by quadrature."""
    b = n * m / (1 - m)

    def price(z: float) -> float:
        return c + (top - c) / (1 + b * z ** (n - 1))

    mean = quad(price, 0, 1)[0]
    spread = sqrt(quad(lambda z: (price(z) - mean) ** 2, 0, 1)[0])
    return {
        "price_low": price(1.0),
        "mean_posted_price": mean,
        "sd_posted_price": spread,
        "mean_transaction_price": c + (1 - m) * (top - c),
        "profit_each_per_tenant_hour": (top - c) * (1 - m) / n,
    }


def of_dispersion() -> Iterator[Row]:
    n, m, c, v = 3, 0.4, 0.8, 2.0
    inputs = {COST: c, "sellers": n, COMPARE: m, PAYS: v}
    yield "varian_sales", "three", inputs, sales(n, m, c, v), 0.01
    one = 0.3
    two = sales(2, 1 - one, c, v)
    lowest = quad(lambda z: 2 * z * (c + (v - c) / (1 + 2 * (1 - one) / one * z)), 0, 1)[0]
    answers = {name: two[name] for name in ("price_low", "mean_posted_price", "mean_transaction_price")}
    answers["gain_from_second_quote"] = two["mean_posted_price"] - lowest
    yield "burdett_judd", "some", {"fraction_with_one_quote": one, COST: c, PAYS: v}, answers, 0.01
    s, b = 0.1, n * m / (1 - m)
    top = c + s / (1 - quad(lambda z: 1 / (1 + b * z ** (n - 1)), 0, 1)[0])
    answers = {x: y for x, y in sales(n, m, c, min(top, v)).items() if not x.startswith("profit")}
    inputs = inputs | {"search_cost_usd_per_gpu_hour": s}
    yield "stahl_search", "three", inputs, answers | {"price_high": min(top, v)}, 0.01
    fee = 0.03
    chance = 1 - (n * fee / ((n - 1) * (v - c) * m)) ** (1 / (n - 1))
    earns = (v - c) * (1 - m) / n + fee / (n - 1)
    low = c + (earns + fee) / ((1 - m) / n + m)

    def dearer(p: float) -> float:
        """Chance that a listed price is above p."""
        return 1 - (1 - ((((earns + fee) / (p - c)) - (1 - m) / n) / m) ** (1 / (n - 1))) / chance

    listings = fee * n * chance
    answers = {
        "listing_probability": chance,
        "profit_each": earns,
        "price_low": low,
        "mean_listed_price": low + quad(dearer, low, v)[0],
        "platform_revenue": listings,
        "mean_transaction_price": c + n * earns + listings,  # what tenants pay is cost, profits and fees
    }
    inputs = {COST: c, "sellers": n, COMPARE: m, PAYS: v, "listing_fee_usd_per_potential_gpu_hour": fee}
    yield "listing_platform", "three", inputs, answers, 0.01


# ------------------------------------------------------------------------------------------------ switching


def of_switching() -> Iterator[Row]:
    c, v, s, d = 1.0, 2.2, 0.35, 0.8
    inputs = {COST: c, PAYS: v, "switching_cost_usd_per_gpu_hour": s, "discount_factor_per_contract": d}
    answers = {"price_to_old_tenants": c + min(s, v - c), "price_to_new_tenants": c - d * min(s, v - c)}
    yield "switching_two_period", "small", inputs, answers, 0.01

    a, g, d = 2.0, 1.5, 0.6
    q = brentq(lambda x: log(x / (1 - x)) - g + 1 / (1 - x) - 1 / x, 0.5, 0.99)
    gap = (q / (a * (1 - q)) - (1 - q) / (a * q)) / (1 - d * (2 * q - 1))
    worth = gap / (1 + d * (2 * q - 1) / (1 - d * (2 * q - 1)))
    own, rival = (c + 1 / (a * x) - d * worth for x in (1 - q, q))
    inertia = {COST: c, SENSITIVITY: a, "inertia_utility": g, "switching_cost_usd_per_gpu_hour": g / a}
    answers = {"price_to_own_tenants": own, "price_to_rival_tenants": rival, "retention_probability": q}
    answers["mean_transaction_price"] = q * own + (1 - q) * rival
    yield "switching_targeted_prices", "middle", inertia | {"discount_factor_per_contract": d}, answers, 0.01

    def stage(x: float) -> np.ndarray:
        """Static prices at a share of loyal tenants, by first-order conditions."""

        def miss(p: np.ndarray) -> list[float]:
            loyal, other = (1 / (1 + exp(-(a * (p[1] - p[0]) + sign * g))) for sign in (1, -1))
            sold = x * loyal + (1 - x) * other
            slope = a * (x * loyal * (1 - loyal) + (1 - x) * other * (1 - other))
            return [p[0] - c - sold / slope, p[1] - c - (1 - sold) / slope]

        return np.asarray(fsolve(miss, [c + 1.0, c + 1.0], xtol=1e-13))

    answers = {"price_at_equal_shares": stage(0.5)[0]}
    answers |= dict(
        zip(("price_with_80_percent_of_tenants", "price_with_20_percent_of_tenants"), stage(0.8), strict=True)
    )
    yield "switching_one_price_markov", "myopic", inertia | {"discount_factor_per_contract": 0.0}, answers, 0.01

    t, r = 0.5, 0.4
    inputs = {"differentiation_usd_per_gpu_hour": t, COST: c, "stay_probability_per_contract": r}
    answers = {"price_at_equal_shares": c + t / (1 - r), "share_persistence": r / 3}
    inputs["discount_factor_per_contract"] = 0.0
    yield "switching_full_lock_in", "myopic", inputs, answers, 0.01
    yield "switching_full_lock_in", "myopic", inputs, {"price_slope_in_own_share": 2 * t * r / (3 * (1 - r))}, 0.02


# ------------------------------------------------------------------------------------------------ finance


def value_now(flows: list[float], rate: float) -> float:
    return sum(flow / (1 + rate) ** year for year, flow in enumerate(flows))


def of_finance() -> Iterator[Row]:
    usd, r, per_year, years, after = 25_000.0, 0.09, 4, 3, 1
    i = (1 + r) ** (1 / per_year) - 1

    def left(payment: float, periods: int) -> float:
        balance = usd
        for _ in range(periods):
            balance = balance * (1 + i) - payment
        return balance

    payment = brentq(lambda x: left(x, per_year * years), 0, usd, xtol=1e-10)
    inputs = {"loan_usd": usd, "annual_rate": r, "payments_per_year": per_year, "years": years, "after_years": after}
    answers = {"payment": payment, "balance_after": left(payment, per_year * after)}
    yield "annuity", "quarterly", inputs, answers, 0.0

    capex, hours, running, residual, years = 38_000.0, 6500.0, 4200.0, 3000.0, 5
    sale = {"capex_usd_per_gpu": capex, "life_years": years, "residual_usd": residual}
    sale |= {"running_cost_usd_per_year": running, "sold_gpu_hours_per_year": hours}

    def life(price: float, fall: float = 0.0) -> list[float]:
        flows = [-capex] + [price * (1 - fall) ** year * hours - running for year in range(years)]
        flows[-1] += residual
        return flows

    rate, fall = 0.11, 0.15
    first = brentq(lambda p: value_now(life(p, fall), rate), 0.1, 50, xtol=1e-13)
    inputs = sale | {"annual_rate": rate, "annual_price_decline": fall}
    yield "breakeven_with_falling_rents", "fifteen", inputs, {"first_year_breakeven_price": first}, 0.0

    share, debt_rate, wanted = 0.5, 0.1, 0.22

    def owed(service: float) -> float:
        balance = share * capex
        for _ in range(years):
            balance = balance * (1 + debt_rate) - service
        return balance

    service = brentq(owed, 0, capex, xtol=1e-10)

    def equity(price: float) -> float:
        flows = [flow - service for flow in life(price)]
        flows[0] = -(1 - share) * capex
        return value_now(flows, wanted)

    price = brentq(equity, 0.1, 50, xtol=1e-13)
    inputs = sale | {"annual_debt_rate": debt_rate, "annual_required_equity_return": wanted, "debt_fraction": share}
    answers = {
        "breakeven_price": price,
        "debt_service": service,
        "debt_service_cover": (price * hours - running) / service,
    }
    yield "debt_and_equity", "half_debt", inputs, answers, 0.0

    inputs = {"annual_rate": 0.1, "capex_usd_per_gpu": capex, "colocation_usd_per_kw_month": 150.0}
    inputs |= {"electricity_usd_per_kwh": 0.06, "hours_per_year": 8760, "life_years": years, "load_factor": 0.7}
    inputs |= {"opex_fraction_of_capex_per_year": 0.03, "periods_per_year": 12, "power_kw_per_gpu": 1.4, "pue": 1.3}
    inputs |= {"residual_fraction_of_capex": 0.05, "utilisation": 0.7}
    sold, energy = 8760 * 0.7, 1.4 * 1.3 * 0.7 * 0.06 / 0.7
    i = 1.1 ** (1 / 12) - 1
    bills = 150.0 * 1.4 * 12 + 0.03 * capex

    def monthly(p: float, yearly: float) -> float:
        worth = -capex
        for month in range(1, 12 * years + 1):
            worth += (p * sold - yearly) / 12 / (1 + i) ** month
        return worth + 0.05 * capex / (1 + i) ** (12 * years)

    capital = brentq(lambda p: monthly(p, 0.0), 0.01, 50, xtol=1e-13)
    answers = {"capital_part": capital, "energy_part": energy, "breakeven_price": capital + energy + bills / sold}
    yield "levelised_cost", "monthly", inputs, answers, 0.0
    yield from of_rents()


def of_rents() -> Iterator[Row]:
    p0, floor, drift, sd, rate, quarters, hours = 2.0, 1.8, -0.1, 0.4, 0.04, 6, 2000.0
    put = total = 0.0
    for t in (np.arange(quarters) + 1) / 4:
        mean, spread = log(p0) + (drift - sd * sd / 2) * t, sd * sqrt(t)

        def short(z: float, mean: float = mean, spread: float = spread) -> float:
            return max(0.0, floor - exp(mean + spread * z)) * exp(-z * z / 2) / sqrt(2 * np.pi)

        edge = (log(floor) - mean) / spread
        put += hours * exp(-rate * t) * quad(short, -12, edge, epsabs=1e-14)[0]
        total += hours * exp(-rate * t) * p0 * exp(drift * t)
    inputs = {"annual_drift": drift, "annual_rate_continuous": rate, "annual_volatility": sd, "quarters": quarters}
    inputs |= {"floor_usd_per_gpu_hour": floor, "gpu_hours_per_quarter": hours, "rent_usd_per_gpu_hour": p0}
    yield (
        "leaseback_put",
        "six_quarters",
        inputs,
        {"put_value": put, "put_value_over_unfloored_revenue": put / total},
        0.0,
    )

    need, share, lease, use, years = 1.1, 0.3, 1.4, 0.75, 2
    rent = (need - share * lease) / ((1 - share) * use)
    inputs = {"annual_drift": drift, "annual_volatility": sd, "cash_need_usd_per_gpu_hour": need, "years": years}
    inputs |= {
        "lease_price_usd_per_gpu_hour": lease,
        "leased_share": share,
        "rent_usd_per_gpu_hour": p0,
        "utilisation": use,
    }
    yield "floor_and_default", "third_leased", inputs, {"trigger_price": rent}, 0.0
    end = float(ndtr((log(rent / p0) - (drift - sd * sd / 2)) / sd))
    yield "floor_and_default", "third_leased", inputs, {"probability_at_year_end": end}, 0.005
    weekly, always = (passage(log(p0 / rent), drift - sd * sd / 2, sd, years, bridge) for bridge in (False, True))
    answers = {"probability_ever_continuous": always, "probability_ever_weekly": weekly}
    yield "floor_and_default", "third_leased", inputs, answers, 0.01


def passage(above: float, pull: float, sd: float, years: int, bridge: bool) -> float:
    """Chance to have been below zero from ``above``, stepping a density weekly; between weeks too by the bridge."""
    step, grid = 1 / 52, np.linspace(0.0, 5.0, 1501)
    width = grid[1] - grid[0]
    moved = grid[None, :] - grid[:, None] - pull * step
    kernel = np.exp(-(moved**2) / (2 * sd * sd * step)) / sqrt(2 * np.pi * sd * sd * step)
    first = np.exp(-((grid - above - pull * step) ** 2) / (2 * sd * sd * step)) / sqrt(2 * np.pi * sd * sd * step)
    if bridge:
        kernel *= 1 - np.exp(-2 * grid[:, None] * grid[None, :] / (sd * sd * step))
        first *= 1 - np.exp(-2 * above * grid / (sd * sd * step))
    weight = np.full(len(grid), width)
    weight[[0, -1]] /= 2
    for _ in range(52 * years - 1):
        first = (first * weight) @ kernel
    return float(1 - first @ weight)


# ------------------------------------------------------------------------------------------------ busy fleets


def stationary(gpus: int, load: float, line: int = 0) -> np.ndarray:
    """Law of the number of requests in a fleet, by the balance of each two neighbouring states."""
    weight = [1.0]
    for n in range(1, gpus + line + 1):
        weight.append(weight[-1] * load / min(n, gpus))
    return np.array(weight) / np.sum(weight)


def of_fleets() -> Iterator[Row]:
    gpus, load = 20, 17.0
    law = stationary(gpus, load)
    inputs = {"gpus": gpus, "offered_load_gpus": load}
    yield "erlang_b", "twenty", inputs, {"blocking": law[-1]}, max(0.003, 0.03 * law[-1])
    yield "erlang_b", "twenty", inputs, {"utilisation": float(law @ np.arange(gpus + 1)) / gpus}, 0.005
    gpus, load = 4, 2.8
    law = stationary(gpus, load, 400)
    waits = float(law[gpus:].sum())
    queue = float(law[gpus:] @ np.arange(len(law) - gpus))
    inputs = {"gpus": gpus, "offered_load_gpus": load}
    yield "erlang_c", "four", inputs, {"wait_probability": waits}, 0.03 * waits
    yield "erlang_c", "four", inputs, {"mean_wait": queue / load}, 0.05 * queue / load
    gpus, sizes, loads = 24, [1, 4], [6.0, 3.0]
    weights = {
        (one, four): loads[0] ** one / factorial(one) * loads[1] ** four / factorial(four)
        for one, four in product(range(gpus + 1), range(gpus // 4 + 1))
        if one + 4 * four <= gpus
    }
    total = sum(weights.values())
    inputs = {"gpus": gpus, "job_gpus": sizes, "offered_jobs_of_size": loads}
    for size in sizes:
        lost = sum(w for (one, four), w in weights.items() if one + 4 * four > gpus - size) / total
        yield "multi_size_loss", "one_and_four", inputs, {f"blocking_of_{size}_gpu_jobs": lost}, max(0.003, 0.03 * lost)
    use = sum(w * (one + 4 * four) for (one, four), w in weights.items()) / total / gpus
    yield "multi_size_loss", "one_and_four", inputs, {"utilisation": use}, 0.005
    clouds, each, per = 3, 12, 0.85
    apart, together = (stationary(n * each, n * each * per) for n in (1, clouds))
    inputs = {"clouds": clouds, "gpus_each": each, "load_per_gpu": per}
    answers = {"blocking_separate": apart[-1], "blocking_pooled": together[-1]}
    yield "pooling", "three", inputs, answers, 0.004
    gain = per * (1 - together[-1]) - per * (1 - apart[-1])
    yield "pooling", "three", inputs, {"utilisation_gain": gain}, 0.005


def factorial(n: int) -> float:
    return float(np.prod(np.arange(1, n + 1, dtype=np.float64)))


# ------------------------------------------------------------------------------------------------ the table


def table() -> str:
    """The CSV text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["family", "case_id", "inputs", "quantity", "unit", "value", "tolerance", "source", "verified_by"])
    parts = (of_logit(), of_rationing(), of_dispersion(), of_switching(), of_finance(), of_fleets())
    for family, name, inputs, answers, tolerance in (row for part in parts for row in part):
        for quantity, value in answers.items():
            allowed = tolerance or 1e-6 * max(abs(value), 1e-3)
            cells = [
                f"{family}/{name}",
                json.dumps(inputs, sort_keys=True),
                quantity,
                "",
                f"{value:.10g}",
                f"{allowed:.3g}",
            ]
            writer.writerow([family, *cells, "other values", "tests/theory/second_method.py"])
    return text.getvalue()


if __name__ == "__main__":
    OUT.write_text(table(), encoding="utf-8")
