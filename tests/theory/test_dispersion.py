"""Identical hours at different prices: tenants who know all prices, one or two of them.

Sellers draw from the equilibrium; who buys where is the market's ranking and clearing. Stated profits are earned, no
fixed price earns more. Sources: Varian 1980; Burdett & Judd 1983; Stahl 1989; Baye & Morgan 2001. Tenants of the market
do not search one by one at a cost, so Stahl's top price is taken from theory and checked against optimal stopping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from market.arrays import Floats
from tests.theory.posted import Crowd, quantile, sold_hours, stratified
from tests.theory.table import Case, family

GAMES = 20_000
Draw = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Sales:
    """A market in which a part of tenants compares all sellers and the others know one each; unit demand in all."""

    sellers: int
    shoppers: float
    cost_usd: float
    top_usd: float

    @property
    def crowd(self) -> Crowd:
        """One row for those who know one seller, by seller, and one for those who know all."""
        loyal = np.full(self.sellers, (1.0 - self.shoppers) / self.sellers)
        knows = np.vstack([np.eye(self.sellers, dtype=np.bool_), np.ones((1, self.sellers), np.bool_)])
        return Crowd(np.full(self.sellers + 1, self.top_usd), np.append(loyal, self.shoppers), knows)

    def sold(self, games: Floats) -> Floats:
        """Hours sold without limits to capacity, ``(games, sellers)``."""
        return sold_hours(games, np.full(self.sellers, np.inf), self.crowd)

    def law(self) -> Draw:
        """Price at a uniform draw: ``c + (top - c)/(1 + b z^(N-1))`` (Varian 1980)."""
        if self.shoppers == 0.0:
            return lambda z: np.full(z.shape, self.top_usd)
        b = self.sellers * self.shoppers / (1.0 - self.shoppers)
        return lambda z: self.cost_usd + (self.top_usd - self.cost_usd) / (1.0 + b * z ** (self.sellers - 1))

    def lowest(self) -> float:
        """Price at which selling to all who compare earns what the loyal alone pay at the top."""
        alone = np.full((2, self.sellers), self.top_usd)
        alone[0, 0], alone[1, 1:] = self.cost_usd, self.cost_usd
        first, last = self.sold(alone)[:, 0]
        return float(self.cost_usd + (self.top_usd - self.cost_usd) * last / first)

    def most(self, draw: Draw, games: int = 2000) -> tuple[float, float]:
        """The most any fixed price earns against rivals who draw, and four standard errors of it."""
        trial = np.linspace(self.cost_usd, self.top_usd, 21)
        others = draw(stratified(games, self.sellers - 1, seed=1))
        against = np.column_stack([np.repeat(trial, games), np.tile(others, (len(trial), 1))])
        earned = ((against[:, 0] - self.cost_usd) * self.sold(against)[:, 0]).reshape(len(trial), games)
        best = int(earned.mean(axis=1).argmax())
        return float(earned[best].mean()), float(4.0 * earned[best].std() / np.sqrt(games))


def played(market: Sales, draw: Draw) -> dict[str, float]:
    """What many weeks of drawn prices show."""
    games = draw(stratified(GAMES, market.sellers))
    sold = market.sold(games)
    return {
        "price_low": market.lowest(),
        "price_high": market.top_usd,
        "mean_posted_price": float(games.mean()),
        "sd_posted_price": float(games.std()),
        "mean_transaction_price": float((games * sold).sum() / sold.sum()),
        "profit_each_per_tenant_hour": float(((games - market.cost_usd) * sold).mean()),
    }


def check(case: Case, market: Sales, draw: Draw, more: dict[str, float] | None = None) -> None:
    """Numbers of the table, and no fixed price that earns more than what all earn."""
    found = played(market, draw) | (more or {})
    case.agree(found)
    most, noise = market.most(draw)
    assert most <= found["profit_each_per_tenant_hour"] + noise + 1e-3


@family("varian_sales")
def test_sellers_who_hold_sales_earn_what_their_loyal_tenants_alone_would_pay(case: Case) -> None:
    market = Sales(
        case["sellers"],
        case["shopper_fraction"],
        case["marginal_cost_usd_per_gpu_hour"],
        case["willingness_to_pay_usd_per_gpu_hour"],
    )
    check(case, market, market.law())


@family("burdett_judd")
def test_prices_differ_where_some_tenants_see_one_quote_and_others_two(case: Case) -> None:
    """Two drawn quotes stand for a large number of sellers: a tenant with two compares any two of them."""
    one = case["fraction_with_one_quote"]
    market = Sales(2, 1.0 - one, case["marginal_cost_usd_per_gpu_hour"], case["willingness_to_pay_usd_per_gpu_hour"])
    games = market.law()(stratified(GAMES, 2))
    paid = []
    for shoppers in (0.0, 1.0):
        sold = Sales(2, shoppers, market.cost_usd, market.top_usd).sold(games)
        paid.append(float((games * sold).sum() / sold.sum()))
    check(case, market, market.law(), {"gain_from_second_quote": paid[0] - paid[1]})


def reservation_price(market: Sales, search_usd: float, prices: Floats) -> float:
    """Price at which one more quote is just not worth its cost, by optimal stopping on drawn prices."""
    low, high = market.cost_usd, market.cost_usd + 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(middle - prices, 0.0).mean() < search_usd else (low, middle)
    return high


@family("stahl_search")
def test_the_cost_of_one_more_quote_caps_prices(case: Case) -> None:
    cost, value, search = (
        case[name]
        for name in (
            "marginal_cost_usd_per_gpu_hour",
            "willingness_to_pay_usd_per_gpu_hour",
            "search_cost_usd_per_gpu_hour",
        )
    )
    sellers, shoppers = case["sellers"], case["shopper_fraction"]
    draws = (np.arange(100_000) + 0.5) / 100_000
    # Prices scale with the top price: the mean of the law between cost and 1 USD above it.
    scale = float((Sales(sellers, shoppers, 0.0, 1.0).law()(draws)).mean())
    top = min(value, cost + search / (1.0 - scale)) if scale < 1.0 else value
    market = Sales(sellers, shoppers, cost, top)
    stops_at = reservation_price(market, search, market.law()(draws))
    if top < value:
        assert abs(stops_at - top) < 1e-3
    else:
        assert stops_at >= value - 1e-3
    check(case, market, market.law())


# ------------------------------------------------------------------------------------------------ a listing platform


@dataclass(frozen=True)
class Listing:
    """A platform that shows members side by side for a fee; shoppers look there, the loyal do not."""

    market: Sales
    fee_usd: float

    @property
    def probability(self) -> float:
        """Chance that a seller lists (Baye & Morgan 2001)."""
        n, m = self.market.sellers, self.market
        worth = (n - 1) * (m.top_usd - m.cost_usd) * m.shoppers
        return float(max(1.0 - (n * self.fee_usd / worth) ** (1.0 / (n - 1)), 0.0)) if worth > 0.0 else 0.0

    @property
    def profit(self) -> float:
        """What each seller earns."""
        n, m = self.market.sellers, self.market
        return (m.top_usd - m.cost_usd) * (1.0 - m.shoppers) / n + self.fee_usd / (n - 1)

    def law(self) -> Draw:
        """Listed price at a uniform draw."""
        m, n, chance = self.market, self.market.sellers, self.probability
        loyal, needs = (1.0 - m.shoppers) / n, self.profit + self.fee_usd

        def law(p: Floats) -> Floats:
            undercut = (needs / np.maximum(p - m.cost_usd, 1e-12) - loyal) / m.shoppers
            return np.asarray((1.0 - np.clip(undercut, 0.0, 1.0) ** (1.0 / (n - 1))) / chance)

        return quantile(law, m.cost_usd + needs / (loyal + m.shoppers), m.top_usd)

    def sold(self, games: Floats, listed: np.ndarray) -> Floats:
        """Hours sold: shoppers see the listed, or anybody where nobody lists."""
        shown = np.where(listed.any(axis=1)[:, None], listed, True)
        knows = np.repeat(self.market.crowd.knows[None], len(games), axis=0)  # type: ignore[index]
        knows[:, -1] = shown
        crowd = Crowd(self.market.crowd.pays_usd, self.market.crowd.hours, knows)
        hours = sold_hours(games, np.full(self.market.sellers, np.inf), crowd)
        nobody = ~listed.any(axis=1)
        # Where all ask the same top price shoppers go anywhere: an equal part each.
        hours[nobody] = 1.0 / self.market.sellers
        return hours

    def draw(self, games: int, seed: int) -> tuple[Floats, np.ndarray]:
        """Prices and who lists."""
        luck, n = stratified(games, 2 * self.market.sellers, seed), self.market.sellers
        listed = luck[:, :n] < self.probability
        return np.where(listed, self.law()(luck[:, n:]), self.market.top_usd), listed


@family("listing_platform")
def test_a_listing_fee_keeps_some_sellers_away_and_all_earn_the_same(case: Case) -> None:
    market = Sales(
        case["sellers"],
        case["shopper_fraction"],
        case["marginal_cost_usd_per_gpu_hour"],
        case["willingness_to_pay_usd_per_gpu_hour"],
    )
    platform = Listing(market, case["listing_fee_usd_per_potential_gpu_hour"])
    games, listed = platform.draw(GAMES, 0)
    sold = platform.sold(games, listed)
    earned = (games - market.cost_usd) * sold - platform.fee_usd * listed
    first, _ = Sales(market.sellers, market.shoppers, market.cost_usd, market.top_usd).sold(
        np.array([[market.cost_usd] + [market.top_usd] * (market.sellers - 1)] * 2)
    )[:, 0]
    found = {
        "listing_probability": float(listed.mean()),
        "profit_each": float(earned.mean()),
        "price_low": market.cost_usd + (float(earned.mean()) + platform.fee_usd) / first,
        "mean_listed_price": float(games[listed].mean()),
        "platform_revenue": float(platform.fee_usd * listed.sum(axis=1).mean()),
        "mean_transaction_price": float((games * sold).sum() / sold.sum()),
    }
    case.agree(found)
    # No listed price and not staying away earns more.
    count = 4000
    others, shown = platform.draw(count, 1)
    for price in np.append(np.linspace(market.cost_usd, market.top_usd, 21), np.nan):
        trial, lists = others.copy(), shown.copy()
        trial[:, 0], lists[:, 0] = (market.top_usd, False) if np.isnan(price) else (price, True)
        gain = (trial[:, 0] - market.cost_usd) * platform.sold(trial, lists)[:, 0] - platform.fee_usd * lists[:, 0]
        assert gain.mean() <= platform.profit + 4.0 * gain.std() / np.sqrt(count) + 1e-3
