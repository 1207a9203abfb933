"""Do sellers who learn by trial and error end up above competitive prices? Two of them, for as long as it takes.

The duopoly of Calvano, Calzolari, Denicolò and Pastorello (2020, "Artificial Intelligence, Algorithmic Pricing, and
Collusion", American Economic Review 110, 3267-3297): each period both name a price on a grid, tenants choose by logit,
and each seller learns from its own profit. The sellers are those of the market's pricing rule ``q-learning``
(`agents.rules.learning`); here a period takes nanoseconds and not a week of a whole market.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from agents.rules.learning import best_step, play, state_of
from experiments.measure.equilibrium import Demand, Offers, monopoly, nash, profit_index
from market.arrays import Floats, Ints
from market.randomness import Purpose, agent_keys, uniform

__all__ = ["Duopoly", "Learned", "greedy_cycle", "learn", "price_grid_usd", "profit_table"]

_CHUNK = 50_000  # periods whose draws are made at once
_BOUNDS = {
    "taste_usd": (1e-3, np.inf),
    "prices": (2, 100),
    "widening": (0.0, 1.0),
    "rate": (0.0, 1.0),
    "patience": (0.0, 0.9999),
    "decay": (0.0, np.inf),
}


@dataclass(frozen=True)
class Duopoly:
    """Two alike sellers and their tenants; the numbers are the paper's baseline.

    Attributes:
        cost_usd: Cost of an hour, USD (c).
        quality_usd: What an hour is worth to tenants beyond its cost, USD (a - c); buying nothing is worth 0 (a_0).
        taste_usd: Scale of their tastes, USD (μ): demand is ``exp((a - p)/μ)`` over one and the sum of both.
        prices: Prices on the grid (m).
        widening: How far the grid goes beyond Nash and monopoly price, in parts of the distance between them (ξ).
        rate: Weight of what a period teaches (α).
        patience: Worth of the next period's profit in this one's (δ).
        decay: The chance to explore in period t is ``exp(-decay × t)`` (β).

    Raises:
        ValueError: a number is outside its range; the message names it, its value and the range.
    """

    cost_usd: float = 1.0
    quality_usd: float = 1.0
    taste_usd: float = 0.25
    prices: int = 15
    widening: float = 0.1
    rate: float = 0.15
    patience: float = 0.95
    decay: float = 4e-6

    def __post_init__(self) -> None:
        for name, value in ((field.name, getattr(self, field.name)) for field in fields(self)):
            low, high = _BOUNDS.get(name, (-np.inf, np.inf))
            if not (low <= value <= high and np.isfinite(value)):
                raise ValueError(f"{name} = {value!r}: must be a finite number from {low:g} to {high:g}")

    @property
    def demand(self) -> Demand:
        """Expected shares of all tenants at any two prices."""
        sensitivity, ones = 1.0 / self.taste_usd, np.ones((1, 2))
        utility = sensitivity * (self.cost_usd + self.quality_usd) * ones
        return Demand(utility, np.zeros(1), np.array([sensitivity]), ones, ones, np.zeros(2))

    def profit(self, price_usd: Floats) -> Floats:
        """Profit of both at these prices, USD per potential hour, ``(2,)``."""
        return np.asarray((price_usd - self.cost_usd) * self.demand(price_usd))


@dataclass(frozen=True)
class Learned:
    """What two sellers ended up doing.

    Attributes:
        price_usd, profit: Mean price (USD) and profit (USD per potential hour) of each in what they repeat, ``(2,)``.
        nash_usd, monopoly_usd: Prices of sellers who know demand, and of a single owner.
        gain: Mean profit between those of Nash (0) and monopoly (1): the paper's Δ.
        converged: Whether neither changed its mind in any state for as long as asked.
        periods: Periods played.
        cycle: Length of what they repeat, periods; 1 is a pair of prices that stands.
    """

    price_usd: Floats
    profit: Floats
    nash_usd: float
    monopoly_usd: float
    gain: float
    converged: bool
    periods: int
    cycle: int


@lru_cache(maxsize=64)
def _ends_usd(game: Duopoly) -> tuple[float, float]:
    """Nash and monopoly price."""
    offers = Offers.of([0, 1], [game.cost_usd] * 2)
    found = [solve(game.demand, offers) for solve in (nash, monopoly)]
    if found[0].price_usd is None or found[1].price_usd is None:
        raise ValueError(f"{game}: {found[0].reason or found[1].reason}")
    return float(found[0].price_usd[0]), float(found[1].price_usd[0])


def price_grid_usd(game: Duopoly) -> Floats:
    """Prices that sellers may name, USD ``(prices,)``: even steps around Nash and monopoly."""
    low, high = _ends_usd(game)
    beyond = game.widening * (high - low)
    return np.linspace(low - beyond, high + beyond, game.prices)


def profit_table(game: Duopoly) -> Floats:
    """Profit of both by steps of the first and of the second, USD per potential hour ``(prices, prices, 2)``."""
    grid = price_grid_usd(game)
    return np.array([[game.profit(np.array([one, other])) for other in grid] for one in grid])


def _worth_at_first(game: Duopoly, profit: Floats) -> Floats:
    """What each step earns for ever against a rival who draws its own, as in the paper, ``(2, states, prices)``."""
    against = np.stack([profit[:, :, 0].mean(axis=1), profit[:, :, 1].mean(axis=0)])
    return np.repeat(against[:, None, :], game.prices**2, axis=1) / (1.0 - game.patience)


def learn(
    game: Duopoly = Duopoly(),
    seed: int = 0,
    *,
    still_periods: int = 100_000,
    most_periods: int = 20_000_000,
) -> Learned:
    """Let two sellers learn until neither changes its strategy, and see what they do then.

    Args:
        game: The duopoly and how its sellers learn.
        seed: Seed of all draws (keyed: a session is a function of game and seed).
        still_periods: Periods without any change of a best price after which they count as converged.
        most_periods: Periods after which they stop in any case.

    Returns:
        Prices, profits and profit gain of the greedy play that follows, and whether they had converged.

    Raises:
        ValueError: a number of periods is under 1, or the game has no Nash or monopoly price.

    Source: Calvano et al. (2020), sections II and III.
    """
    for name, value in (("still_periods", still_periods), ("most_periods", most_periods)):
        if value < 1:
            raise ValueError(f"{name} = {value!r}: must be 1 or more")
    profit, keys = profit_table(game), agent_keys(["first learner", "second learner"])
    worth, state = _worth_at_first(game, profit), np.zeros(2, np.int64)
    periods = still = 0
    while still < still_periods and periods < most_periods:
        week = np.arange(periods, min(periods + _CHUNK, most_periods))
        draws = uniform(seed, Purpose.EXPLORE, week[:, None], keys[None, :])
        path, still = play(
            worth, state, profit[None], draws, periods, still, still_periods, game.rate, game.patience, game.decay
        )
        periods += len(path)
    return _learned(game, profit, greedy_cycle(worth, state), still >= still_periods, periods)


def greedy_cycle(worth: Floats, state: Ints) -> Ints:
    """Steps that two sellers repeat for ever once they explore no more, ``(length of the cycle, 2)``.

    Args:
        worth: What they have learnt, ``(2, states, prices)``.
        state: Where they stand, ``(2,)``.
    """
    steps, seen, path = worth.shape[2], dict[tuple[int, int], int](), list[tuple[int, int]]()
    here = (int(state[0]), int(state[1]))
    while here not in seen:
        seen[here] = len(path)
        one, other = (int(best_step(worth[seller, here[seller]])) for seller in range(2))
        path.append((one, other))
        here = (state_of(one, other, steps), state_of(other, one, steps))
    return np.array(path[seen[here] :], np.int64)


def _learned(game: Duopoly, profit: Floats, cycle: Ints, converged: bool, periods: int) -> Learned:
    low, high = _ends_usd(game)
    earned = profit[cycle[:, 0], cycle[:, 1]].mean(axis=0)
    ends = (float(game.profit(np.array([usd, usd])).mean()) for usd in (low, high))
    index = profit_index(float(earned.mean()), *ends)
    if index.value is None:
        raise ValueError(f"{game}: {index.reason}")
    return Learned(
        price_usd=price_grid_usd(game)[cycle].mean(axis=0),
        profit=earned,
        nash_usd=low,
        monopoly_usd=high,
        gain=index.value,
        converged=converged,
        periods=periods,
        cycle=len(cycle),
    )
