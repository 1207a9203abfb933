"""Yardsticks: prices at which nobody would move, prices of a single owner, and prices of sellers without any power.

The game is the one that `best-response` sellers play: tenants on short terms choose afresh by (nested) logit, their
weekly shocks integrated out; an owner sets the prices of all its offers; tenants whose choice is full leave. With
expected demand ``D(p)``, cost c, capacity k and ``m = p - c - scarcity``::

    D_j + Σ_{i of the same owner} m_i dD_i/dp_j = 0,     scarcity_j >= 0,  D_j <= k_j,  one of them with equality

(Nocke & Schutz 2018; the fixed point is that of Morrow & Skerlos 2011.) One owner of everything is monopoly; ``m = 0``
is competition: price is cost, or what clears the market.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import root

from market.arrays import Bools, Floats, Ints
from market.choice import choice_probabilities
from market.forecast import DemandForecast
from market.model import MarketModel
from market.nests import Nests

__all__ = [
    "Conduct",
    "Demand",
    "Equilibrium",
    "Offers",
    "competitive",
    "conduct",
    "monopoly",
    "nash",
    "offers_of",
    "price_index",
    "profit_index",
]

_STARTS = (1.05, 2.0, 4.0)  # times cost
_ROUNDS = 4000
_CLOSE_USD = 1e-9  # residual at which iteration stops
_RESIDUAL_USD = 1e-5  # largest residual of an answer
_SAME_USD = 1e-4  # answers from two starts that differ by more are two equilibria
_POLISHED = 40  # offers up to which Newton's method finishes what iteration leaves
_NOTHING = 1e-250  # GPUs; less is a rounding of no demand
_FAR = 1e4  # prices beyond this multiple of cost run away


@dataclass(frozen=True, slots=True)
class Demand:
    """Expected demand of given tenants at any prices, without capacity limits.

    Attributes:
        utility: Utility at ``price_usd`` in units of the shock, ``(tenants, offers)``, -inf where not known.
        outside: Utility of buying nothing, ``(tenants,)``.
        sensitivity: Price sensitivity in units of the shock, per USD (linear) or per ln USD (log), ``(tenants,)``.
        gpus: GPUs a tenant would take, ``(tenants, offers)``.
        work_per_gpu: What one of them does, same shape.
        price_usd: Reference prices, ``(offers,)``.
        form: Utility in ln price or in price.
        nests: Vendors of the offers and correlation within one.
    """

    utility: Floats
    outside: Floats
    sensitivity: Floats
    gpus: Floats
    work_per_gpu: Floats
    price_usd: Floats
    form: Literal["log", "linear"] = "linear"
    nests: Nests | None = None

    def _at(self, price_usd: Floats) -> tuple[Floats, Floats]:
        """Probabilities and slopes of utility in the own price, both ``(tenants, offers)``."""
        if self.form == "log":
            utility = self.utility - self.sensitivity[:, None] * np.log(price_usd / self.price_usd)
            slope = -self.sensitivity[:, None] / price_usd
        else:
            slope = -self.sensitivity[:, None] / self.work_per_gpu
            utility = self.utility + slope * (price_usd - self.price_usd)
        return choice_probabilities(utility, self.outside, self.nests), np.broadcast_to(slope, utility.shape)

    def __call__(self, price_usd: Floats) -> Floats:
        """Expected GPUs by offer, ``(offers,)``."""
        return np.asarray((self._at(price_usd)[0] * self.gpus).sum(axis=0))

    def slopes(self, price_usd: Floats) -> tuple[Floats, Floats, Floats]:
        """Expected GPUs, own part and cross part of their slopes: ``dD_i/dp_j = δ_ij own_j - cross_ij``."""
        share, slope = self._at(price_usd)
        sold = share * self.gpus
        own, cross = (sold * slope).sum(axis=0), sold.T @ (share * slope)
        nests = self.nests
        if nests is not None and nests.correlation:
            s, same = nests.correlation, nests.vendor[:, None] == nests.vendor[None, :]
            of_nest = share @ same.astype(np.float64)
            within = np.divide(share, of_nest, out=np.zeros(share.shape), where=of_nest > 0.0)
            own, cross = own / (1.0 - s), cross + s / (1.0 - s) * same * (sold.T @ (within * slope))
        return np.asarray(sold.sum(axis=0)), own, np.asarray(cross)


@dataclass(frozen=True, slots=True)
class Offers:
    """Owner, cost (USD per GPU-hour) and capacity (GPUs, infinity for none) by offer, ``(offers,)``.

    ``fixed`` offers keep the reference price of the demand: a vendor's desk is no player.
    """

    owner: Ints
    cost_usd: Floats
    capacity_gpus: Floats
    fixed: Bools

    @classmethod
    def of(
        cls, owner: Sequence[int], cost_usd: Sequence[float], capacity_gpus: Sequence[float] | None = None
    ) -> Offers:
        """Offers that all move."""
        capacity = np.full(len(cost_usd), np.inf) if capacity_gpus is None else np.asarray(capacity_gpus, np.float64)
        fixed = np.zeros(len(cost_usd), np.bool_)
        return cls(np.asarray(owner, np.int64), np.asarray(cost_usd, np.float64), capacity, fixed)


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """Prices at rest, ``(offers,)``, or why there are none.

    Attributes:
        price_usd: Prices; None without an answer.
        gpus: Expected sales.
        scarcity_usd: Price over what it would be if a little more capacity cost nothing.
        residual_usd: Largest violation of the conditions of rest, USD.
        starts: Starts that reached it.
        reason: Why there is no answer.
    """

    price_usd: Floats | None
    gpus: Floats | None
    scarcity_usd: Floats | None
    residual_usd: float
    starts: int
    reason: str | None = None


def offers_of(model: MarketModel, *, forecast: DemandForecast | None = None) -> tuple[Demand, Offers, Ints]:
    """The price game of a market at its close: what its own tenants on short terms would buy, given leases held.

    Args:
        model: The market.
        forecast: Another forecast than that of the market's own tenants, such as ``model.forecast``.

    Returns:
        Demand, offers, and their lots (supplier × SKU) in this order.
    """
    seen = DemandForecast(model, model.tenants) if forecast is None else forecast
    seen.refresh()
    supplier, sku = np.divmod(seen.lots, len(model.tables.skus))
    demand = Demand(
        utility=seen.utility,
        outside=seen.outside,
        sensitivity=_sensitivity(seen),
        gpus=seen.gpus,
        work_per_gpu=seen.work_per_gpu,
        price_usd=seen.price_usd,
        form=model.world.choice.utility,
        nests=seen.nests,
    )
    fixed = ~model.suppliers.third_party[supplier]
    return demand, Offers(supplier, model.hardware.running_usd[sku], seen.capacity, fixed), seen.lots


def _sensitivity(seen: DemandForecast) -> Floats:
    """Price sensitivity of a forecast's tenants in units of the weekly shock, ``(tenants,)``."""
    return np.asarray(seen.tenants.sensitivity[seen.rows] / seen.scale)


def nash(demand: Demand, offers: Offers) -> Equilibrium:
    """Prices at which no owner gains by moving any of its own."""
    return _rest(demand, offers, offers.owner[:, None] == offers.owner[None, :])


def monopoly(demand: Demand, offers: Offers) -> Equilibrium:
    """Prices of one owner of all offers (those that move)."""
    return _rest(demand, offers, np.ones((len(offers.owner),) * 2, np.bool_))


def competitive(demand: Demand, offers: Offers) -> Equilibrium:
    """Prices of sellers who take prices as given: cost, or what clears the market where capacity binds."""
    return _rest(demand, offers, None)


@dataclass(slots=True)
class _Point:
    """A point of the search: prices, scarcity, what conditions are missed by (USD)."""

    price: Floats
    scarcity: Floats
    miss: float


def _rest(demand: Demand, offers: Offers, same: Bools | None) -> Equilibrium:
    """Search from several starts; one answer, or the reason why not."""
    found = [_search(demand, offers, same, start) for start in _STARTS]
    good = [point for point in found if point is not None and point.miss <= _RESIDUAL_USD]
    if not good:
        least = min((point.miss for point in found if point is not None), default=float("inf"))
        away = all(point is None for point in found)
        why = "prices grow without bound" if away else "no prices at rest were found"
        return Equilibrium(None, None, None, least, 0, why)
    best = min(good, key=lambda point: point.miss)
    if max(float(np.abs(point.price - best.price).max()) for point in good) > _SAME_USD:
        return Equilibrium(None, None, None, best.miss, len(good), "several prices at rest, one by start")
    gpus = np.minimum(demand(best.price), offers.capacity_gpus)
    return Equilibrium(best.price, gpus, best.scarcity, best.miss, len(good))


def _search(demand: Demand, offers: Offers, same: Bools | None, start: float) -> _Point | None:
    """Iterate markups and scarcity from a multiple of cost; None where prices run away."""
    price = np.where(offers.fixed, demand.price_usd, start * np.maximum(offers.cost_usd, 1e-3))
    scarcity, bounded = np.zeros(len(price)), np.isfinite(offers.capacity_gpus)
    point = _Point(price, scarcity, np.inf)
    for _ in range(_ROUNDS):
        markup, over = _replies(demand, offers, same, price, scarcity)
        aim = np.where(bounded, np.maximum(scarcity + over, 0.0), 0.0)
        target = np.where(offers.fixed, price, offers.cost_usd + aim + markup)
        miss = float(np.abs(target - price).max() + np.abs(aim - scarcity).max())
        if miss < point.miss:
            point = _Point(price, scarcity, miss)
        if miss < _CLOSE_USD:
            break
        price, scarcity = np.maximum(0.5 * (price + target), 1e-9), 0.5 * (scarcity + aim)
        if not np.isfinite(price).all() or (price > _FAR * np.maximum(offers.cost_usd, 1e-2)).any():
            return None
    return _polished(demand, offers, same, point) if point.miss > _CLOSE_USD else point


def _replies(
    demand: Demand, offers: Offers, same: Bools | None, price: Floats, scarcity: Floats
) -> tuple[Floats, Floats]:
    """Markup that the present prices call for, and how much dearer each offer must be to fit its capacity, USD."""
    gpus, own, cross = demand.slopes(price)
    steep = np.minimum(own, -1e-300)
    markup = np.zeros(len(price))
    if same is not None:
        counted = same & ~offers.fixed[:, None]
        margin = np.where(offers.fixed, 0.0, price - offers.cost_usd - scarcity)
        markup = -gpus / steep + ((counted * cross).T @ margin) / steep
    with np.errstate(over="ignore"):
        excess = np.log(np.maximum(gpus, 1e-300)) - np.log(np.maximum(offers.capacity_gpus, 1e-300))
    steepness = np.minimum(own - np.diag(cross), -1e-300)
    # Where demand is all but flat a full step would overshoot to where there is none at all.
    furthest = 0.25 * np.maximum(price, 0.1)
    over = np.where(gpus > _NOTHING, -excess * gpus / steepness, -furthest)
    return markup, np.clip(np.where(np.isfinite(offers.capacity_gpus), over, -furthest), -furthest, furthest)


def _polished(demand: Demand, offers: Offers, same: Bools | None, point: _Point) -> _Point:
    """Newton's method from where iteration slowed down, for games of moderate size."""
    size = len(point.price)
    if size > _POLISHED:
        return point
    bounded = np.isfinite(offers.capacity_gpus)

    def missed(x: Floats) -> Floats:
        price, scarcity = np.maximum(x[:size], 1e-9), np.where(bounded, x[size:], 0.0)
        markup, over = _replies(demand, offers, same, price, scarcity)
        moves = np.where(offers.fixed, 0.0, price - offers.cost_usd - scarcity - markup)
        slack = np.where(bounded, -over, 1.0)
        # Fischer & Burmeister: zero where scarcity and slack are at least 0 and one of them is 0.
        both = np.where(bounded, scarcity + slack - np.hypot(scarcity, slack), x[size:])
        return np.concatenate([moves, both])

    found = root(missed, np.concatenate([point.price, point.scarcity]), method="hybr", options={"xtol": 1e-13})
    miss = float(np.abs(missed(found.x)).max())
    return _Point(found.x[:size], np.where(bounded, found.x[size:], 0.0), miss) if miss < point.miss else point


@dataclass(frozen=True, slots=True)
class Conduct:
    """An index of market power, 0 for competition (or Nash) and 1 for monopoly, or why there is none."""

    value: float | None
    reason: str | None = None


def _between(value: float, low: float, high: float, why: str) -> Conduct:
    scale = max(abs(low), abs(high), 1e-12)
    return Conduct(None, why) if abs(high - low) < 1e-6 * scale else Conduct((value - low) / (high - low))


def price_index(price_usd: float, competitive_usd: float, monopoly_usd: float) -> Conduct:
    """``(price - competitive)/(monopoly - competitive)``."""
    return _between(price_usd, competitive_usd, monopoly_usd, "capacity binds everywhere")


def profit_index(profit_usd: float, nash_usd: float, monopoly_usd: float) -> Conduct:
    """``(profit - Nash)/(monopoly - Nash)`` from average profit per seller (Calvano et al. 2020)."""
    return _between(profit_usd, nash_usd, monopoly_usd, "a single owner earns no more than rivals do")


def conduct(demand: Demand, offers: Offers, price_usd: Floats) -> Conduct:
    """Index of given prices, each yardstick weighted by what is expected to be sold at these prices."""
    low, high = competitive(demand, offers), monopoly(demand, offers)
    if low.price_usd is None or high.price_usd is None:
        return Conduct(None, low.reason or high.reason)
    weight = np.where(offers.fixed, 0.0, np.minimum(demand(price_usd), offers.capacity_gpus))
    mean = [float(weight @ prices / weight.sum()) for prices in (price_usd, low.price_usd, high.price_usd)]
    return price_index(*mean)
