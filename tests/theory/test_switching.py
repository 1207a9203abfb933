"""Switching costs: tenants who stay cheaply with their last seller; periods are contracts.

Sources: Klemperer 1995; Farrell & Klemperer 2007; Chen 1997 in logit form; Beggs & Klemperer 1992; Dubé, Hitsch & Rossi
2009. Sellers of the market look one week ahead; patience is added here, on demand that is the market's.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy.optimize import root_scalar

from market.arrays import Floats
from market.choice import Pairs, choice_probabilities, rank_offers
from tests.theory.table import Case, family
from tests.theory.textbook import ORDERS, Textbook, from_everywhere, textbook

# ------------------------------------------------------------------------------------------------ identical offers


def shares_taken(price_usd: Floats, value_usd: float, switching_usd: Floats) -> Floats:
    """Who takes which offer by the market's ranking, without weekly shocks; prices and costs ``(rows, offers)``."""
    rows, offers = price_usd.shape
    who = np.repeat(np.arange(rows), offers)
    pairs = Pairs(who, who, np.tile(np.arange(offers), rows))
    worth = (value_usd - price_usd - switching_usd).ravel()
    first = rank_offers(pairs, worth, np.full(rows, -1e-9), (np.zeros(len(who)), np.zeros(rows)), 0.0, 1)[:, 0]
    return (first[:, None] == np.arange(offers)).astype(np.float64)


def highest_kept(case: Case, tick: float) -> float:
    """The highest price at which an old tenant stays although the rival asks cost."""
    cost, value = case["marginal_cost_usd_per_gpu_hour"], case["willingness_to_pay_usd_per_gpu_hour"]
    price = cost + tick * np.arange(-1, round((value - cost) / tick) + 1)
    both = np.column_stack([price, np.full(len(price), cost)])
    kept = shares_taken(both, value, np.tile([0.0, case["switching_cost_usd_per_gpu_hour"]], (len(price), 1)))[:, 0]
    return float(price[kept > 0.0].max())


@family("switching_two_period")
def test_old_tenants_pay_for_leaving_and_new_ones_are_bought_with_what_they_will_pay(case: Case) -> None:
    """Two sellers of one thing undercut each other for new tenants until a tenant's life earns nothing."""
    tick, cost = 0.001, case["marginal_cost_usd_per_gpu_hour"]
    old, value = highest_kept(case, tick), case["willingness_to_pay_usd_per_gpu_hour"]
    later = case["discount_factor_per_contract"] * max(old - cost, 0.0)
    price = np.array([value, value])
    for turn in range(20_000):
        mover, rival = turn % 2, price[1 - turn % 2]
        bid = rival - tick
        offered = np.where(np.arange(2) == mover, bid, rival)[None, :]
        wins = shares_taken(offered, value + later, np.zeros((1, 2)))[0, mover]
        if wins * (bid - cost + later) < 0.0:
            break
        price[mover] = bid
    case.agree({"price_to_old_tenants": old, "price_to_new_tenants": float(price.min())})


# ------------------------------------------------------------------------------------------------ targeted prices


def duopoly(case: Case, cost_usd: float, loyal_share: float) -> Textbook:
    a = case["price_sensitivity_per_usd"]
    return Textbook(
        [0.0, 0.0],
        [cost_usd, cost_usd],
        a,
        outside=False,
        switching_usd=case["inertia_utility"] / a,
        loyal_share=loyal_share,
        rows=20,
    )


def prices_and_retention(case: Case, cost_usd: float, order: str, start: float = 1.0) -> tuple[float, float, float]:
    """Resting prices for tenants of the first seller, its own and its rival's, and how many stay.

    Only differences of prices matter to tenants without an outside option, so cost may be lifted above zero.
    """
    lift = max(0.2 - cost_usd, 0.0)
    market = textbook(duopoly(case, cost_usd + lift, 1.0), np.full(2, start * (cost_usd + lift)))
    market.rest(order)
    market.new_week()
    own, rival = market.prices() - lift
    return float(own), float(rival), float(market.expected()[0])


def value_of_a_tenant(case: Case, own: float, rival: float, stays: float) -> float:
    """What a tenant that is the own one is worth more than one of the rival's: Bellman's equations of both."""
    d, cost = case["discount_factor_per_contract"], case["marginal_cost_usd_per_gpu_hour"]
    moves = np.array([[stays, 1.0 - stays], [1.0 - stays, stays]])
    earned = np.array([(own - cost) * stays, (rival - cost) * (1.0 - stays)])
    of_own, of_rivals = np.linalg.solve(np.eye(2) - d * moves, earned)
    return float(of_own - of_rivals)


@from_everywhere
@family("switching_targeted_prices")
def test_own_and_rivals_tenants_are_quoted_what_patience_and_inertia_call_for(
    case: Case, start: float, order: str
) -> None:
    """Patient sellers act like myopic ones whose cost is lower by the discounted value of a tenant."""
    d, cost = case["discount_factor_per_contract"], case["marginal_cost_usd_per_gpu_hour"]

    def miss(worth: float) -> float:
        return value_of_a_tenant(case, *prices_and_retention(case, cost - d * worth, order, start)) - worth

    worth = root_scalar(miss, x0=0.0, x1=0.3, xtol=1e-4).root if d else 0.0
    own, rival, stays = prices_and_retention(case, cost - d * worth, order, start)
    found = {
        "price_to_own_tenants": own,
        "price_to_rival_tenants": rival,
        "retention_probability": stays,
        "mean_transaction_price": stays * own + (1.0 - stays) * rival,
    }
    case.agree(found)


# ------------------------------------------------------------------------------------------------ one price a seller


@pytest.mark.parametrize("order", ORDERS)
@family("switching_one_price_markov")
def test_sellers_who_look_one_week_ahead_rest_at_the_myopic_prices(case: Case, order: str) -> None:
    """The whole market, its rule `best-response`, shares of loyal tenants as given every week."""
    if case["discount_factor_per_contract"]:
        pytest.skip("patient sellers: see the next test")
    cost = case["marginal_cost_usd_per_gpu_hour"]
    found = {}
    for share in (0.5, 0.8):
        large, small = textbook(duopoly(case, cost, share), [cost, 2.0 * cost]).rest(order)
        if share == 0.5:
            found["price_at_equal_shares"] = large
        else:
            found |= {"price_with_80_percent_of_tenants": large, "price_with_20_percent_of_tenants": small}
    case.agree(found)


class MarkovGame:
    """Two patient sellers; state is the share of tenants loyal to the first. Demand is the market's logit choice."""

    nodes, prices = 12, 600

    def __init__(self, case: Case) -> None:
        self.a, self.g = case["price_sensitivity_per_usd"], case["inertia_utility"]
        self.cost, self.d = case["marginal_cost_usd_per_gpu_hour"], case["discount_factor_per_contract"]
        self.state = 0.5 + 0.5 * chebyshev.chebpts1(self.nodes)
        self.grid = self.cost + np.linspace(-3.0, 8.0, self.prices) / self.a

    def next_share(self, share: Floats, own: Floats, rival: Floats) -> Floats:
        """Share of the first seller after a contract; arguments of one shape."""
        loyal, other = (
            choice_probabilities(
                np.column_stack([-self.a * own.ravel() - mine, -self.a * rival.ravel() - theirs]),
                np.full(own.size, -np.inf),
            )[:, 0]
            for mine, theirs in ((0.0, self.g), (self.g, 0.0))
        )
        return np.asarray((share.ravel() * loyal + (1.0 - share.ravel()) * other).reshape(own.shape))

    def worth(self, value: Floats, share: Floats) -> Floats:
        """Continuation value at any state from its values at the nodes."""
        fit = chebyshev.chebfit(2.0 * self.state - 1.0, value, self.nodes - 1)
        return np.asarray(chebyshev.chebval(2.0 * share - 1.0, fit))

    def replies(self, value: Floats, rival: Floats) -> tuple[Floats, Floats]:
        """Best prices against the rival's at every node and what they earn: a grid, then a parabola about its best."""
        own = np.tile(self.grid, (self.nodes, 1))
        share = self.next_share(np.tile(self.state[:, None], self.prices), own, np.tile(rival[:, None], self.prices))
        earned = (own - self.cost) * share + self.d * self.worth(value, share)
        rows, best = np.arange(self.nodes), np.clip(earned.argmax(axis=1), 1, self.prices - 2)
        below, at, above = (earned[rows, best + step] for step in (-1, 0, 1))
        shift = 0.5 * (below - above) / (below - 2.0 * at + above)
        return self.grid[best] + shift * (self.grid[1] - self.grid[0]), at - 0.25 * (below - above) * shift

    def solve(self) -> tuple[Floats, Floats]:
        """Policy and value at the nodes; the rival's policy is the own one at the other's share."""
        price, value = np.full(self.nodes, self.cost + 2.0 / self.a), np.zeros(self.nodes)
        for _ in range(2000):
            reply, earned = self.replies(value, price[::-1])
            change = max(np.abs(reply - price).max(), np.abs(earned - value).max())
            price, value = 0.5 * (price + reply), earned
            if change < 1e-7:
                return price, value
        raise AssertionError("the game did not settle")


@family("switching_one_price_markov")
def test_patient_sellers_invest_in_loyal_tenants_at_one_price(case: Case) -> None:
    game = MarkovGame(case)
    price, _ = game.solve()
    at = {"at_equal_shares": 0.5, "with_80_percent_of_tenants": 0.8, "with_20_percent_of_tenants": 0.2}
    case.agree({f"price_{name}": float(game.worth(price, np.array(share))) for name, share in at.items()})


# ------------------------------------------------------------------------------------------------ full lock-in


def newcomers(differentiation_usd: float) -> float:
    """Newcomers won per USD of price advantage: tenants along a line, ranked by the market, offers at its ends."""
    count, reach = 2000, 0.5 * differentiation_usd
    place = (np.arange(count) + 0.5) / count
    way = differentiation_usd * np.column_stack([place, 1.0 - place])
    leads = np.linspace(-reach, reach, 9)
    won = [shares_taken(np.tile([0.0, lead], (count, 1)), 1e3, way)[:, 0].mean() for lead in leads]
    slope, middle = np.polyfit(leads, won, 1)
    assert middle == pytest.approx(0.5, abs=1e-3)
    return float(slope)


def lock_in_policy(case: Case) -> tuple[float, float, float]:
    """Price at equal shares, its slope in the own share and persistence, by backward induction over many contracts."""
    cost, d, stay = (
        case[f"{name}"]
        for name in ("marginal_cost_usd_per_gpu_hour", "discount_factor_per_contract", "stay_probability_per_contract")
    )
    won = (1.0 - stay) * newcomers(case["differentiation_usd_per_gpu_hour"])
    value = np.zeros(3)  # of the first seller, a + b share + c share²

    def period(share: float) -> tuple[Floats, float]:
        """Both prices and the next share: first-order conditions, linear in prices."""
        free = stay * share + 0.5 * (1.0 - stay)  # next share at equal prices
        _, b, c = value
        # d/dp_1: y - (p_1 - cost) won - d won (b + 2 c y) = 0 and the mirror image, with y = free + won (p_2 - p_1).
        keep = 1.0 - 2.0 * d * won * c
        left = np.array([[-won * keep - won, won * keep], [won * keep, -won * keep - won]])
        right = np.array([free * keep, (1.0 - free) * keep]) + won * (cost - d * b)
        prices = np.linalg.solve(left, -right)
        return prices, float(free + won * (prices[1] - prices[0]))

    for _ in range(400):
        shares = np.array([0.0, 0.5, 1.0])
        worth = []
        for share in shares:
            prices, then = period(share)
            worth.append((prices[0] - cost) * then + d * float(value @ [1.0, then, then**2]))
        value = np.linalg.solve(np.vander(shares, increasing=True), worth)
    (low, at_low), (high, at_high) = period(0.0), period(1.0)
    return float(period(0.5)[0][0]), float(high[0] - low[0]), at_high - at_low


@family("switching_full_lock_in")
def test_with_full_lock_in_prices_are_linear_in_the_share_of_locked_in_tenants(case: Case) -> None:
    price, slope, persistence = lock_in_policy(case)
    found = {
        "price_at_equal_shares": price,
        "price_slope_in_own_share": slope,
        "share_persistence": persistence,
    }
    case.agree(found)
