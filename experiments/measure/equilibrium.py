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
from dataclasses import dataclass, replace
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

_STARTS = (1.05, 2.0, 4.0, 16.0)  # times cost
_ROUNDS = 4000
_CLOSE_USD = 1e-9  # residual at which iteration stops
_RESIDUAL_USD = 1e-5  # largest residual of an answer
_SAME_USD = 1e-4  # answers from two starts that differ by more are two equilibria
_POLISHED = 40  # offers up to which Newton's method finishes what iteration leaves
_NOTHING = 1e-250  # GPUs; less is a rounding of no demand
_ROUNDING = 1e-3  # of an index
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

    def of(self, offers: Bools) -> Demand:
        """Demand where only these of the offers can be had."""
        nests = None if self.nests is None else Nests(self.nests.vendor[offers], self.nests.correlation)
        return replace(
            self,
            utility=self.utility[:, offers],
            gpus=self.gpus[:, offers],
            work_per_gpu=self.work_per_gpu[:, offers],
            price_usd=self.price_usd[offers],
            nests=nests,
        )

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

    def among(self, chosen: Bools) -> Offers:
        """These of the offers."""
        return Offers(self.owner[chosen], self.cost_usd[chosen], self.capacity_gpus[chosen], self.fixed[chosen])


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
    """Prices at rest of the offers that have GPUs to sell; the others keep their price and sell nothing."""
    stocked = offers.capacity_gpus > 0.0
    if stocked.all():
        return _rest_of_stocked(demand, offers, same)
    if not stocked.any():
        return Equilibrium(None, None, None, float("inf"), 0, "no offer has a GPU to sell")
    among = None if same is None else same[np.ix_(stocked, stocked)]
    found = _rest_of_stocked(demand.of(stocked), offers.among(stocked), among)
    if found.price_usd is None or found.gpus is None or found.scarcity_usd is None:
        return found
    price, gpus, scarcity = demand.price_usd.copy(), np.zeros(len(stocked)), np.zeros(len(stocked))
    price[stocked], gpus[stocked], scarcity[stocked] = found.price_usd, found.gpus, found.scarcity_usd
    return replace(found, price_usd=price, gpus=gpus, scarcity_usd=scarcity)


def _rest_of_stocked(demand: Demand, offers: Offers, same: Bools | None) -> Equilibrium:
    """Search from several starts; one answer, or the reason why not."""
    # A fixed price can clear nothing: who does not get an hour at it leaves.
    free = replace(offers, capacity_gpus=np.where(offers.fixed, np.inf, offers.capacity_gpus))
    found = [_search(demand, free, same, start) for start in _STARTS]
    good = [point for point in found if point is not None and point.miss <= _RESIDUAL_USD]
    if not good:
        least = min((point.miss for point in found if point is not None), default=float("inf"))
        away = all(point is None for point in found)
        why = "prices grow without bound" if away else "no prices at rest were found"
        return Equilibrium(None, None, None, least, 0, why)
    best = min(good, key=lambda point: point.miss)
    if max(float(np.abs(point.price - best.price).max()) for point in good) > _SAME_USD:
        if same is None or not same.all():
            return Equilibrium(None, None, None, best.miss, len(good), "several prices at rest, one by start")
        best = max(good, key=lambda point: _profit_usd(demand, offers, point.price))  # of one owner: its best
    gpus = np.minimum(demand(best.price), offers.capacity_gpus)
    return Equilibrium(best.price, gpus, best.scarcity, best.miss, len(good))


def _profit_usd(demand: Demand, offers: Offers, price_usd: Floats) -> float:
    """Margin over cost of all offers that move, USD an hour."""
    sold = np.minimum(demand(price_usd), offers.capacity_gpus)
    return float(((price_usd - offers.cost_usd) * sold)[~offers.fixed].sum())


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
    bounded, moving = np.isfinite(offers.capacity_gpus), ~offers.fixed
    prices = int(moving.sum())

    def read(x: Floats) -> tuple[Floats, Floats]:
        price, scarcity = point.price.copy(), np.zeros(size)
        price[moving], scarcity[bounded] = np.maximum(x[:prices], 1e-9), x[prices:]
        return price, scarcity

    def missed(x: Floats) -> Floats:
        price, scarcity = read(x)
        markup, over = _replies(demand, offers, same, price, scarcity)
        slack = -over[bounded]
        # Fischer & Burmeister: zero where scarcity and slack are at least 0 and one of them is 0.
        both = x[prices:] + slack - np.hypot(x[prices:], slack)
        return np.concatenate([(x[:prices] - (offers.cost_usd + scarcity + markup)[moving]), both])

    start = np.concatenate([point.price[moving], point.scarcity[bounded]])
    found = root(missed, start, method="hybr", options={"xtol": 1e-13})
    miss = float(np.abs(missed(found.x)).max())
    price, scarcity = read(found.x)
    return _Point(price, scarcity, miss) if miss < point.miss and (found.x[:prices] > 0.0).all() else point


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
    """Index of given prices, each yardstick weighted by what is expected to be sold at these prices.

    Between 0 and 1, or null with the reason: prices that nobody set in this game may lie outside both yardsticks, as
    lists do that answer late to a shortage. Within a thousandth of a bound it is that bound: so exact are yardsticks.
    """
    low, high = competitive(demand, offers), monopoly(demand, offers)
    if low.price_usd is None or high.price_usd is None:
        return Conduct(None, low.reason or high.reason)
    weight = np.where(offers.fixed, 0.0, np.minimum(demand(price_usd), offers.capacity_gpus))
    mean = [float(weight @ prices / weight.sum()) for prices in (price_usd, low.price_usd, high.price_usd)]
    return _bounded(price_index(*mean))


def _bounded(found: Conduct) -> Conduct:
    """An index between its bounds, or the reason why it is not."""
    if found.value is None or 0.0 <= found.value <= 1.0:
        return found
    bound = min(max(found.value, 0.0), 1.0)
    if abs(found.value - bound) <= _ROUNDING:
        return Conduct(bound)
    why = "under that of sellers without power: more is wanted than there is" if bound == 0.0 else "over one owner's"
    return Conduct(None, f"the price is {why} (index {found.value:.3g})")
