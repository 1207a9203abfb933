"""Games of posted prices, many at a time, played by the market's own ranking and clearing.

A game is a row of prices, one a seller. Tenants are served in the order given; each takes its cheapest known seller
that still has hours, at a price not above what it would pay, and goes on to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from market.arrays import Bools, Floats
from market.choice import Pairs, rank_offers
from market.clearing.posted import Queue, clear
from tests.market.small_markets import plain_clearing

_LEAST = 1e-9  # USD: a tenant indifferent between paying and nothing pays
_TIE = 1e-7  # USD: what tips a tenant between equal prices
_PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Crowd:
    """Tenants in order of service.

    Attributes:
        pays_usd: Most a tenant would pay, ``(tenants,)``.
        hours: GPU-hours it wants, ``(tenants,)``.
        knows: Sellers it compares, ``(tenants, sellers)`` or ``(games, tenants, sellers)``; everybody if None.
        split: Whether tenants take turns in whom they prefer at equal prices; else ties go to the first seller.
    """

    pays_usd: Floats
    hours: Floats
    knows: Bools | None = None
    split: bool = False


def sold_hours(price_usd: Floats, capacity: Floats, crowd: Crowd) -> Floats:
    """Hours each seller sells in each game, ``(games, sellers)``.

    Args:
        price_usd: Prices, ``(games, sellers)``.
        capacity: Hours each seller has, broadcast to the same shape.
        crowd: The tenants of every game.
    """
    games, sellers = price_usd.shape
    capacity = np.broadcast_to(np.asarray(capacity, np.float64), price_usd.shape)
    at_once = max(_PAIRS_AT_ONCE // (sellers * len(crowd.hours)), 1)
    parts = []
    for first in range(0, games, at_once):
        part = slice(first, first + at_once)
        knows = crowd.knows[part] if crowd.knows is not None and crowd.knows.ndim == 3 else crowd.knows
        parts.append(_play(price_usd[part], capacity[part], crowd, knows))
    return np.concatenate(parts)


def _play(price: Floats, capacity: Floats, crowd: Crowd, knows: Bools | None) -> Floats:
    games, sellers = price.shape
    tenants = len(crowd.hours)
    shape = (games, tenants, sellers)
    met = np.ones(shape, np.bool_) if knows is None else np.broadcast_to(knows, shape)
    game, tenant, seller = np.nonzero(met)
    row = game * tenants + tenant
    pairs = Pairs(row, row, game * sellers + seller)
    tip = np.where((tenant + seller) % 2 == 0, _TIE, 0.0) if crowd.split else np.zeros(len(row))
    worth, rows = crowd.pays_usd[tenant] - price[game, seller] + _LEAST, games * tenants
    # What tips a tie must not make anybody pay more than it would.
    worth = np.where(worth > 0.0, worth + tip, -1.0)
    ranking = rank_offers(pairs, worth, np.zeros(rows), (np.zeros(len(row)), np.zeros(rows)), 0.0, sellers)
    need = np.tile(crowd.hours, games)
    queue = Queue(need, need, ranking, np.ones(ranking.shape), np.full(ranking.shape, np.inf))
    taken = clear(queue, capacity.ravel(), plain_clearing()).taken_gpus
    return np.bincount(np.maximum(ranking, 0).ravel(), taken.ravel(), games * sellers).reshape(games, sellers)


def line(count: int, intercept: float = 1.0, slope: float = 1.0, order: str = "efficient") -> tuple[Crowd, Floats]:
    """Tenants who together demand ``intercept - slope × price``, and prices at which they do so exactly.

    Args:
        count: Tenants.
        intercept: Hours at a price of nothing.
        slope: Hours lost per USD.
        order: Highest payers served first (``efficient``), or in an order that thins all kinds alike
            (``proportional``, multiples of the golden ratio).
    """
    each = intercept / count
    pays = (intercept - each * (np.arange(count) + 0.5)) / slope
    if order == "proportional":
        pays = pays[np.argsort(np.arange(1, count + 1) * 0.6180339887498949 % 1.0)]
    elif order != "efficient":
        raise ValueError(f"order is efficient or proportional, not {order!r}")
    prices = (intercept - each * np.arange(count, -1, -1)) / slope
    return Crowd(pays, np.full(count, each)), prices


def stratified(games: int, sellers: int, seed: int = 0) -> Floats:
    """Uniform draws in (0, 1), ``(games, sellers)``, each seller's evenly spread, sellers independent."""
    luck = np.random.default_rng(seed)
    even = (np.arange(games) + 0.5) / games
    return np.column_stack([luck.permutation(even) for _ in range(sellers)])


def quantile(law: Callable[[Floats], Floats], low: float, high: float) -> Callable[[Floats], Floats]:
    """Inverse of a distribution function on [low, high]; what is missing at ``high`` is a mass there."""
    grid = low + (high - low) * np.linspace(0.0, 1.0, 20_001) ** 2  # finer where laws are steep
    level = np.maximum.accumulate(np.clip(law(grid), 0.0, 1.0))
    return lambda u: np.interp(u, level, grid, left=low, right=high)
