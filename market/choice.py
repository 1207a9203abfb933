"""Choice: utilities of offers, probabilities, one keyed choice, and the demand a seller may expect.

A tenant ``j`` of segment ``g`` compares offers by what a unit of its work costs. With log utility (default)::

    V = -a_j × [ ln(price / throughput) + lock + switch - quality - home ] + taste + size + Gumbel
    V_0 = -a_j × ln(reservation_j) + Gumbel

and with linear utility ``V = a_j × [ value - price / throughput - lock - switch + quality + home ] + ...`` and
``V_0 = Gumbel``. ``lock`` (AMD only) shrinks as the vendor's software matures and includes a first port; ``taste`` is
the tenant's fixed Gumbel taste for the seller; ``size`` counts a large fleet as many offers (McFadden 1978, size
variable of aggregate logit).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats, Ints, totals
from market.nests import Nests, nested_log_sum, nested_probabilities, vendor_shock
from market.parameters import Parameters, parameter
from market.randomness import Purpose, gumbel, pair_key, uniform
from market.suppliers import DESK, Suppliers
from market.tenants import Tenants
from market.units import Term

__all__ = [
    "ChoiceParameters",
    "Market",
    "Pairs",
    "candidate_pairs",
    "choice_probabilities",
    "expected_demand",
    "known_suppliers",
    "log_sums",
    "outside_utility",
    "rank_offers",
    "search_order",
    "systematic_utility",
    "weekly_shocks",
]


_SHORT_TERMS = (Term.SPOT, Term.ON_DEMAND)


class ChoiceParameters(Parameters):
    """What tenants weigh, and whom they know."""

    utility: Literal["log", "linear"] = parameter("choice.utility")
    size_pull: float = parameter("choice.size_pull")
    home_advantage: float = parameter("choice.home_advantage")
    hyperscaler_quality: float = parameter("choice.hyperscaler_quality")
    kept_premium_spot: float = parameter("choice.kept_premium_spot")
    kept_premium_on_demand: float = parameter("choice.kept_premium_on_demand")
    kept_premium_4w: float = parameter("choice.kept_premium_4w")
    kept_premium_52w: float = parameter("choice.kept_premium_52w")
    kept_premium_156w: float = parameter("choice.kept_premium_156w")
    port_cost: float = parameter("choice.port_cost")
    developer_cloud_port_factor: float = parameter("choice.developer_cloud_port_factor")
    search_sellers: int = parameter("choice.search_sellers")
    search_extra_maximum: int = parameter("choice.search_extra_maximum")
    brand_exponent: float = parameter("choice.brand_exponent")
    all_sellers_known: bool = parameter("choice.all_sellers_known")
    outside_option: bool = parameter("choice.outside_option")
    gumbel_scale: float = parameter("choice.gumbel_scale")
    vendor_correlation: float = parameter("choice.vendor_correlation")
    pool_switching_factor: float = parameter("choice.pool_switching_factor")
    pool_user_switching_factor: float = parameter("choice.pool_user_switching_factor")
    pool_user_forgets: float = parameter("choice.pool_user_forgets")
    readiness_hazard: float = parameter("choice.readiness_hazard")
    readiness_gap_weight: float = parameter("choice.readiness_gap_weight")

    @property
    def kept_premium(self) -> Floats:
        """Share of the list premium kept by term, ``(terms,)``."""
        return np.array(
            [
                self.kept_premium_spot,
                self.kept_premium_on_demand,
                self.kept_premium_4w,
                self.kept_premium_52w,
                self.kept_premium_156w,
            ]
        )


@dataclass(frozen=True, slots=True)
class Market:
    """What a choosing tenant faces this week.

    Attributes:
        suppliers: Supplier columns.
        sku_vendor_is_amd: Whether a SKU is AMD's, ``(skus,)``.
        price_usd: Posted prices ``(suppliers, skus, terms)``, NaN where not offered.
        throughput: H100-equivalents of a GPU, ``(segments, skus)``.
        lock_left: Part of the opening lock-in that remains, by segment ``(segments,)``: (1 - m) / (1 - m_0).
        size_gpus: GPUs that count for the size variable, ``(suppliers, skus)``.
        value_usd: Value of an offer under linear utility, USD per H100e-hour, ``(suppliers, skus)``.
        taste_scale: Scale of the fixed taste for a seller.
        pool: Supplier row of the pool, -1 without.
        identity_erosion: Part of a seller's quality that pool users do not pay for.
    """

    suppliers: Suppliers
    sku_vendor_is_amd: NDArray[np.bool_]
    price_usd: Floats
    throughput: Floats
    lock_left: Floats
    size_gpus: Floats
    value_usd: Floats
    taste_scale: float
    pool: int = -1
    identity_erosion: float = 0.0


@dataclass(frozen=True, slots=True)
class Pairs:
    """Tenant × lot pairs that meet, shapes ``(pairs,)``, sorted by tenant position then lot."""

    position: Ints
    tenant: Ints
    lot: Ints


def search_order(tenants: Tenants, suppliers: Suppliers, seed: int, parameters: ChoiceParameters) -> NDArray[np.uint16]:
    """Place of every supplier in each tenant's fixed search order ``(rows, suppliers)``, 0 first.

    A seller's score is u^(1/brand) with brand = opening fleet^exponent: large names come up first, small ones by luck
    (weighted sampling without replacement, Efraimidis & Spirakis 2006). Only third-party sellers that offer the
    tenant's term take places; everybody else stands behind all of them.
    """
    brand = np.maximum(suppliers.opening_gpus, 1.0) ** parameters.brand_exponent
    score = np.log(uniform(seed, Purpose.SEARCH, 0, tenants.key[:, None], suppliers.key[None, :])) / brand
    listed = suppliers.offers_term.T[tenants.term] & (suppliers.third_party & suppliers.alive)
    order = np.argsort(np.where(listed, -score, np.inf), axis=1, kind="stable")
    rank = np.empty(order.shape, np.uint16)
    np.put_along_axis(rank, order, np.arange(order.shape[1], dtype=np.uint16)[None, :], axis=1)
    rank[~listed] = np.iinfo(np.uint16).max
    return rank


def known_suppliers(
    tenants: Tenants, rows: Ints, suppliers: Suppliers, parameters: ChoiceParameters
) -> NDArray[np.bool_]:
    """Suppliers that tenants compare, ``(rows, suppliers)``: search places, last seller, home, and the desks."""
    if parameters.all_sellers_known:
        return np.ones((len(rows), len(suppliers)), np.bool_)
    extra = np.minimum(tenants.failures[rows], parameters.search_extra_maximum)
    known = tenants.search_rank[rows] < (parameters.search_sellers + extra)[:, None]
    known |= suppliers.provider_class == DESK
    for own in (tenants.last_supplier[rows], tenants.home[rows]):
        has = np.flatnonzero(own >= 0)
        known[has, own[has]] = True
    return known


def candidate_pairs(tenants: Tenants, rows: Ints, market: Market, parameters: ChoiceParameters) -> Pairs:
    """Pairs of choosing tenants and the lots on sale to them for their term (sold out or not)."""
    skus = market.price_usd.shape[1]
    known = known_suppliers(tenants, rows, market.suppliers, parameters)
    active = np.flatnonzero(~np.isnan(market.price_usd).all(axis=2).ravel())
    supplier, sku = np.divmod(active, skus)
    on_sale = ~np.isnan(market.price_usd[supplier, sku])
    meets = known[:, supplier] & on_sale.T[tenants.term[rows]]
    position, column = np.nonzero(meets)
    return Pairs(position, rows[position], active[column])


def systematic_utility(
    tenants: Tenants, pairs: Pairs, market: Market, parameters: ChoiceParameters, seed: int
) -> Floats:
    """Utility of each pair without the weekly Gumbel shock, ``(pairs,)``."""
    suppliers = market.suppliers
    tenant = pairs.tenant
    supplier, sku = np.divmod(pairs.lot, market.price_usd.shape[1])
    segment, term = tenants.segment[tenant], tenants.term[tenant]
    effective = market.price_usd[supplier, sku, term] / market.throughput[segment, sku]

    desk = suppliers.provider_class[supplier] == DESK
    port = parameters.port_cost * np.where(desk, parameters.developer_cloud_port_factor, 1.0)
    lock = tenants.lock_in_ln[tenant] * market.lock_left[segment] + tenants.vendor_taste_ln[tenant]
    lock += np.where(tenants.amd_ready[tenant], 0.0, port)
    lock *= market.sku_vendor_is_amd[sku]
    user = tenants.pool_user[tenant]
    at_pool = supplier == market.pool
    switch = np.where(tenants.last_supplier[tenant] == supplier, 0.0, tenants.switching_ln[tenant])
    switch *= np.where(user, parameters.pool_user_switching_factor, 1.0)
    switch *= np.where(at_pool, parameters.pool_switching_factor, 1.0)
    quality = suppliers.quality_ln[supplier] * tenants.quality_weight[tenant] * parameters.kept_premium[term]
    quality *= np.where(user, 1.0 - market.identity_erosion, 1.0)
    home = parameters.home_advantage * (tenants.home[tenant] == supplier)

    burden = lock + switch - quality - home
    worth = -np.log(effective) if parameters.utility == "log" else market.value_usd[supplier, sku] - effective
    size = parameters.size_pull * np.log(np.maximum(market.size_gpus[supplier, sku], 50.0) / 1000.0)
    size[at_pool] = 0.0
    utility = tenants.sensitivity[tenant] * (worth - burden) + size
    if market.taste_scale:
        utility += market.taste_scale * gumbel(seed, Purpose.TASTE, 0, tenants.key[tenant], suppliers.key[supplier])
    return np.asarray(utility)


def outside_utility(tenants: Tenants, rows: Ints, parameters: ChoiceParameters) -> Floats:
    """Utility of buying nothing without its Gumbel shock, ``(rows,)``."""
    if not parameters.outside_option:
        return np.full(len(rows), -np.inf)
    if parameters.utility == "linear":
        return np.zeros(len(rows))
    return -tenants.sensitivity[rows] * np.log(tenants.reservation_usd[rows])


def weekly_shocks(
    tenants: Tenants,
    rows: Ints,
    pairs: Pairs,
    market: Market,
    seed: int,
    week: int,
    sku_keys: NDArray[np.uint64],
    vendor_correlation: float = 0.0,
) -> tuple[Floats, Floats]:
    """Gumbel shocks of the week for pairs ``(pairs,)`` and for buying nothing ``(rows,)``.

    They are keyed by tenant, seller and SKU, so that one price or one more seller moves nobody else's luck. Where
    tastes correlate within a vendor a part is keyed by tenant and vendor (`market.nests`).
    """
    supplier, sku = np.divmod(pairs.lot, market.price_usd.shape[1])
    offer_key = pair_key(market.suppliers.key[:, None], sku_keys[None, :])[supplier, sku]
    inside = gumbel(seed, Purpose.GUMBEL, week, tenants.key[pairs.tenant], offer_key)
    if vendor_correlation:
        shared = vendor_shock(seed, week, tenants.key[rows][:, None], np.arange(2)[None, :], vendor_correlation)
        inside = (
            shared[pairs.position, market.sku_vendor_is_amd[sku].astype(np.int64)] + (1.0 - vendor_correlation) * inside
        )
    return inside, gumbel(seed, Purpose.OUTSIDE, week, tenants.key[rows])


def rank_offers(
    pairs: Pairs, utility: Floats, outside: Floats, shocks: tuple[Floats, Floats], scale: float, ranks: int
) -> Ints:
    """Each tenant's lots better than buying nothing, from best to worst, ``(rows, ranks)``, -1 behind the last.

    Args:
        pairs: Tenant × lot pairs.
        utility: Systematic utility, ``(pairs,)``.
        outside: Systematic utility of buying nothing, ``(rows,)``.
        shocks: Weekly shocks of pairs and of buying nothing.
        scale: Scale of the shocks.
        ranks: Offers kept. Ties go to the lower lot number.
    """
    total = utility + scale * shocks[0]
    good = total > (outside + scale * shocks[1])[pairs.position]
    # Pairs come sorted by tenant: lay them out as one short row per tenant and sort the rows.
    place = np.arange(len(total)) - np.searchsorted(pairs.position, pairs.position)
    width = max(int(place.max(initial=-1)) + 1, ranks)
    table, lots = np.full((len(outside), width), -np.inf), np.full((len(outside), width), -1, np.int64)
    table[pairs.position, place] = np.where(good, total, -np.inf)
    lots[pairs.position, place] = np.where(good, pairs.lot, -1)
    order = np.argsort(-table, axis=1, kind="stable")[:, :ranks]
    return np.take_along_axis(lots, order, axis=1)


def log_sums(pairs: Pairs, gain: Floats, rows: int, market: Market, vendor_correlation: float) -> Floats:
    """Log-sum of pairs by tenant ``(rows,)``: expected best utility over buying nothing, in units of the shock.

    Args:
        pairs: Tenant × lot pairs.
        gain: Utility over that of buying nothing, in units of the shock, ``(pairs,)``.
        rows: Number of tenants.
        market: The market they face.
        vendor_correlation: Correlation of tastes within a vendor.
    """
    if not vendor_correlation:
        return np.asarray(np.log1p(totals(pairs.position, np.exp(gain), rows)))
    vendor = market.sku_vendor_is_amd[pairs.lot % market.price_usd.shape[1]].astype(np.int64)
    return nested_log_sum(pairs.position, gain, rows, Nests(vendor, vendor_correlation))


def choice_probabilities(utility: Floats, outside: Floats, nests: Nests | None = None) -> Floats:
    """Logit probabilities ``(tenants, offers)``, nested where ``nests`` say so; offers at -inf are not available."""
    if nests is not None and nests.correlation:
        return nested_probabilities(utility, outside, nests)
    top = np.maximum(utility.max(axis=1), outside)
    top = np.where(np.isfinite(top), top, 0.0)  # a tenant that can get nothing, not even nothing
    weight = np.exp(utility - top[:, None])
    total = weight.sum(axis=1) + np.exp(outside - top)
    return np.asarray(weight / np.maximum(total, 1e-300)[:, None])


def expected_demand(
    utility: Floats,
    outside: Floats,
    gpus: Floats,
    capacity: Floats,
    *,
    unserved: Literal["next", "leave"] = "next",
    nests: Nests | None = None,
) -> Floats:
    """GPUs that each offer may expect to let, ``(offers,)``, when tenants arrive in random order.

    The weekly shocks are integrated out: each tenant chooses among open offers by logit. In the fluid limit of the
    random order demand flows at constant rates until an offer fills; its tenants then go to the remaining offers
    (``next``) or leave (``leave``).

    Args:
        utility: Systematic utility with scale-1 shocks, ``(tenants, offers)``, -inf where not known.
        outside: Utility of buying nothing, ``(tenants,)``.
        gpus: GPUs a tenant would take of each offer, ``(tenants, offers)``.
        capacity: GPUs open, ``(offers,)``; infinity for no limit.
        unserved: What tenants do whose choice is full.
        nests: Vendors whose offers share a taste; None for independent shocks.
    """
    full_rate = (choice_probabilities(utility, outside, nests) * gpus).sum(axis=0)
    if unserved == "leave":
        return np.asarray(np.minimum(full_rate, capacity))
    sold, clock, rate = np.zeros(len(capacity)), 0.0, full_rate
    is_open = capacity > 0.0
    while True:
        if not is_open.all():
            rate = (choice_probabilities(np.where(is_open, utility, -np.inf), outside, nests) * gpus).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            fills_in = np.where(is_open & (rate > 0.0), (capacity - sold) / rate, np.inf)
        step = min(float(fills_in.min(initial=np.inf)), 1.0 - clock)
        sold = sold + rate * step
        clock += step
        if clock >= 1.0:
            return np.asarray(np.minimum(sold, capacity))
        is_open = is_open & (fills_in > step)
