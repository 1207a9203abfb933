"""The market written for reading: one tenant and one offer at a time, in plain Python.

Nothing here is fast, and nothing in the market calls it. It says what ``market/choice.py`` and
``market/clearing`` must compute: the numpy and the compiled versions give the same numbers to the last bit on the same
keys. Arithmetic therefore keeps their order of operations, and logarithms are numpy's: those of ``math`` can differ in
the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from market.choice import ChoiceParameters, Market
from market.clearing.pool import PoolLot
from market.clearing.posted import ClearingParameters
from market.nests import vendor_shock
from market.randomness import Purpose, gumbel, pair_key
from market.suppliers import DESK
from market.tenants import Tenants

__all__ = [
    "Buyer",
    "Offered",
    "Request",
    "Service",
    "buyer",
    "offers_known",
    "outside_utility",
    "pooled",
    "rank",
    "serve",
    "turned_away",
    "utility",
]

_LEAST_SIZE_GPUS = 50.0
_SIZE_UNIT_GPUS = 1000.0


@dataclass(frozen=True, slots=True)
class Buyer:
    """One tenant row, as plain numbers; see `market.tenants.Tenants` for meanings and units."""

    key: int
    segment: int
    term: int
    sensitivity: float
    reservation_usd: float
    lock_in_ln: float
    vendor_taste_ln: float
    switching_ln: float
    quality_weight: float
    home: int
    pool_user: bool
    amd_ready: bool
    last_supplier: int
    failures: int
    search_rank: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offered:
    """One lot as a tenant of a given segment and term meets it; see `market.choice.Market`.

    Attributes:
        lot: Supplier × SKU.
        supplier: Row of the supplier.
        supplier_key: Key of the supplier, for tastes.
        offer_key: Key of supplier and SKU, for weekly luck.
        at_desk: Whether a vendor's desk offers it.
        at_pool: Whether it is the pool's.
        is_amd: Whether the SKU is AMD's.
        price_usd: Price of the tenant's term, USD per GPU-hour.
        work_per_gpu: H100-equivalents of a GPU in the tenant's segment.
        lock_left: Part of the opening lock-in that remains in the segment.
        quality_ln: Quality of the supplier, ln USD.
        identity_erosion: Part of that quality that pool users do not pay for.
        size_gpus: GPUs that count for the size variable.
        value_usd: Value under linear utility, USD per H100e-hour.
    """

    lot: int
    supplier: int
    supplier_key: int
    offer_key: int
    at_desk: bool
    at_pool: bool
    is_amd: bool
    price_usd: float
    work_per_gpu: float
    lock_left: float
    quality_ln: float
    identity_erosion: float
    size_gpus: float
    value_usd: float


def _ln(x: float) -> float:
    return float(np.log(x))


def buyer(tenants: Tenants, row: int) -> Buyer:
    """A row of the tenant table as plain numbers."""
    return Buyer(
        key=int(tenants.key[row]),
        segment=int(tenants.segment[row]),
        term=int(tenants.term[row]),
        sensitivity=float(tenants.sensitivity[row]),
        reservation_usd=float(tenants.reservation_usd[row]),
        lock_in_ln=float(tenants.lock_in_ln[row]),
        vendor_taste_ln=float(tenants.vendor_taste_ln[row]),
        switching_ln=float(tenants.switching_ln[row]),
        quality_weight=float(tenants.quality_weight[row]),
        home=int(tenants.home[row]),
        pool_user=bool(tenants.pool_user[row]),
        amd_ready=bool(tenants.amd_ready[row]),
        last_supplier=int(tenants.last_supplier[row]),
        failures=int(tenants.failures[row]),
        search_rank=tuple(tenants.search_rank[row].tolist()),
    )


def _knows(who: Buyer, supplier: int, at_desk: bool, parameters: ChoiceParameters) -> bool:
    """Whether a tenant compares a supplier: a search place, its last seller, its home, a desk, or everybody."""
    places = parameters.search_sellers + min(who.failures, parameters.search_extra_maximum)
    found = who.search_rank[supplier] < places
    return parameters.all_sellers_known or at_desk or supplier in (who.last_supplier, who.home) or found


def offers_known(who: Buyer, market: Market, parameters: ChoiceParameters, sku_keys: Sequence[int]) -> list[Offered]:
    """Lots that a tenant compares, in order: suppliers it knows, on sale at its term, sold out or not."""
    suppliers, offers = market.suppliers, []
    for supplier in range(len(suppliers)):
        at_desk = int(suppliers.provider_class[supplier]) == DESK
        if not _knows(who, supplier, at_desk, parameters):
            continue
        for sku, sku_key in enumerate(sku_keys):
            price = float(market.price_usd[supplier, sku, who.term])
            if np.isnan(price):
                continue
            offers.append(
                Offered(
                    lot=supplier * len(sku_keys) + sku,
                    supplier=supplier,
                    supplier_key=int(suppliers.key[supplier]),
                    offer_key=int(pair_key(int(suppliers.key[supplier]), int(sku_key))),
                    at_desk=at_desk,
                    at_pool=supplier == market.pool,
                    is_amd=bool(market.sku_vendor_is_amd[sku]),
                    price_usd=price,
                    work_per_gpu=float(market.throughput[who.segment, sku]),
                    lock_left=float(market.lock_left[who.segment]),
                    quality_ln=float(suppliers.quality_ln[supplier]),
                    identity_erosion=float(market.identity_erosion),
                    size_gpus=float(market.size_gpus[supplier, sku]),
                    value_usd=float(market.value_usd[supplier, sku]),
                )
            )
    return offers


def utility(who: Buyer, offer: Offered, parameters: ChoiceParameters, taste_scale: float, seed: int) -> float:
    """Utility of an offer without the shock of the week.

    Log: ``-a × [ln(price / work) + lock + switch - quality - home] + size + taste``; linear: the same with
    ``value - price / work`` in place of ``-ln(price / work)``. The pool is one offer whatever its members' fleets: no
    size.
    """
    effective_usd = offer.price_usd / offer.work_per_gpu
    worth = -_ln(effective_usd) if parameters.utility == "log" else offer.value_usd - effective_usd
    home = parameters.home_advantage if who.home == offer.supplier else 0.0
    burden = _lock(who, offer, parameters) + _switch(who, offer, parameters) - _quality(who, offer, parameters) - home
    size = parameters.size_pull * _ln(max(offer.size_gpus, _LEAST_SIZE_GPUS) / _SIZE_UNIT_GPUS)
    total = who.sensitivity * (worth - burden) + (0.0 if offer.at_pool else size)
    if taste_scale:
        total += taste_scale * float(gumbel(seed, Purpose.TASTE, 0, who.key, offer.supplier_key))
    return total


def _switch(who: Buyer, offer: Offered, parameters: ChoiceParameters) -> float:
    """What leaving the last supplier costs, ln USD: less to users of the pool, and less on the way to it."""
    if who.last_supplier == offer.supplier:
        return 0.0
    switch = who.switching_ln
    if who.pool_user:
        switch *= parameters.pool_user_switching_factor
    if offer.at_pool:
        switch *= parameters.pool_switching_factor
    return switch


def _quality(who: Buyer, offer: Offered, parameters: ChoiceParameters) -> float:
    """What the supplier's quality is worth, ln USD: users of the pool see less of who stands behind a GPU."""
    kept = (
        parameters.kept_premium_spot,
        parameters.kept_premium_on_demand,
        parameters.kept_premium_4w,
        parameters.kept_premium_52w,
        parameters.kept_premium_156w,
    )[who.term]
    quality = offer.quality_ln * who.quality_weight * kept
    return quality * (1.0 - offer.identity_erosion) if who.pool_user else quality


def _lock(who: Buyer, offer: Offered, parameters: ChoiceParameters) -> float:
    """What leaving CUDA costs, ln USD: what is left of the lock-in, a personal taste, and a first port."""
    if not offer.is_amd:
        return 0.0
    port = 0.0
    if not who.amd_ready:
        port = parameters.port_cost * (parameters.developer_cloud_port_factor if offer.at_desk else 1.0)
    return who.lock_in_ln * offer.lock_left + who.vendor_taste_ln + port


def outside_utility(who: Buyer, parameters: ChoiceParameters) -> float:
    """Utility of buying nothing without the shock of the week; minus infinity where that is no option."""
    if not parameters.outside_option:
        return -float("inf")
    return 0.0 if parameters.utility == "linear" else -who.sensitivity * _ln(who.reservation_usd)


def rank(
    who: Buyer,
    offers: Sequence[Offered],
    parameters: ChoiceParameters,
    taste_scale: float,
    *,
    seed: int,
    week: int,
    most: int,
) -> list[int]:
    """The lots that beat buying nothing this week, best first, at most ``most``; ties to the lower lot."""
    scale = parameters.gumbel_scale
    nothing = outside_utility(who, parameters) + scale * float(gumbel(seed, Purpose.OUTSIDE, week, who.key))
    scored = []
    for offer in offers:
        shock = float(gumbel(seed, Purpose.GUMBEL, week, who.key, offer.offer_key))
        if parameters.vendor_correlation:
            shared = float(vendor_shock(seed, week, who.key, int(offer.is_amd), parameters.vendor_correlation))
            shock = shared + (1.0 - parameters.vendor_correlation) * shock
        total = utility(who, offer, parameters, taste_scale, seed) + scale * shock
        if total > nothing:
            scored.append((-total, offer.lot))
    return [lot for _, lot in sorted(scored)[:most]]


@dataclass(frozen=True, slots=True)
class Request:
    """What one tenant row brings to the clearing; one row of `market.clearing.posted.Queue`.

    Attributes:
        need_h100e: Work it still needs.
        wanted_h100e: Work it wants in all.
        lots: Its ranking, best first.
        work_per_gpu: H100-equivalents of a GPU at each rank.
        quota_gpus: Most GPUs it may take at each rank.
    """

    need_h100e: float
    wanted_h100e: float
    lots: tuple[int, ...]
    work_per_gpu: tuple[float, ...]
    quota_gpus: tuple[float, ...]


@dataclass(slots=True)
class Service:
    """What one tenant row got.

    Attributes:
        asked_gpus: GPUs asked at each rank it reached, after quota; 0 where it did not come.
        taken_gpus: GPUs taken at each rank.
        left_h100e: Work not served.
        first_free_gpus: GPUs free at its first choice when its turn came.
    """

    asked_gpus: list[float]
    taken_gpus: list[float]
    left_h100e: float
    first_free_gpus: float


def serve(
    requests: Sequence[Request],
    capacity: Sequence[float],
    parameters: ClearingParameters,
    pools: Sequence[PoolLot] = (),
) -> list[Service]:
    """Serve tenants one after the other, in the order given; each walks down its ranking.

    A tenant takes what it needs, as far as it is free and within its quota. It passes over a lot that would serve less
    than ``skip_threshold`` of what it still needs, and stops when less than ``stop_threshold`` of what it wants is
    missing or its ranking ends. Under ``unserved = "leave"`` it tries its first choice only.

    What is free counts the tenants before it. Of its own, the GPUs it has pooled count against what it takes of that
    pool's members directly, and the other way round, as if they were the very same GPUs: it may get too little of a
    second channel, by at most its own lease, and never a GPU twice.
    """
    claimed = [0.0] * len(capacity)
    services = []
    for request in requests:
        service = _walk(request, capacity, claimed, parameters, pools)
        for lot, taken in zip(request.lots, service.taken_gpus, strict=True):
            claimed[lot] += taken
        services.append(service)
    return services


def _walk(
    request: Request,
    capacity: Sequence[float],
    claimed: Sequence[float],
    parameters: ClearingParameters,
    pools: Sequence[PoolLot],
) -> Service:
    """One tenant's way down its ranking, the claims of those before it gone."""
    ranks = len(request.lots)
    service = Service([0.0] * ranks, [0.0] * ranks, request.need_h100e, 0.0)
    for place, (lot, work, quota) in enumerate(
        zip(request.lots, request.work_per_gpu, request.quota_gpus, strict=True)
    ):
        free = _free(lot, capacity, claimed, pools)
        if place == 0:
            service.first_free_gpus = free
        if service.left_h100e <= 0.0 or service.left_h100e < parameters.stop_threshold * request.wanted_h100e:
            break
        wanted_gpus = service.left_h100e / work
        asked = 0.0 if quota < parameters.skip_threshold * wanted_gpus else min(wanted_gpus, quota)
        taken = min(asked, max(free - _taken_through_the_other_channel(request, service, lot, pools), 0.0))
        if taken < parameters.skip_threshold * wanted_gpus:
            taken = 0.0
        service.asked_gpus[place], service.taken_gpus[place] = asked, taken
        service.left_h100e -= taken * work
        if parameters.unserved == "leave":
            break
    return service


def _pool_of(lot: int, pools: Sequence[PoolLot]) -> PoolLot | None:
    """The pool that a lot belongs to, as its own lot or as a member's."""
    return next((pool for pool in pools if lot == pool.lot or lot in pool.members.tolist()), None)


def _spare(pool: PoolLot, capacity: Sequence[float], claimed: Sequence[float]) -> list[float]:
    """GPUs of each member that are not sold directly, in merit order."""
    return [max(capacity[member] - claimed[member], 0.0) for member in pool.members.tolist()]


def _fill(spare: Sequence[float], pooled_gpus: float) -> list[float]:
    """What each member serves of the pool's sales: whatever cheaper members cannot, as far as it has spare hours."""
    served, through = [], 0.0
    for hours in spare:
        through += hours
        cheaper = through - hours
        served.append(min(max(pooled_gpus - cheaper, 0.0), hours))
    return served


def _free(lot: int, capacity: Sequence[float], claimed: Sequence[float], pools: Sequence[PoolLot]) -> float:
    """GPUs of a lot that a further tenant may take.

    Of a member directly: what is spare and does not serve the pool. Of the pool: the share on offer of all that is
    spare, less what the pool has sold.
    """
    pool = _pool_of(lot, pools)
    if pool is None:
        return max(capacity[lot] - claimed[lot], 0.0)
    spare = _spare(pool, capacity, claimed)
    if lot == pool.lot:
        total = 0.0
        for hours in spare:  # not sum(): newer Pythons round it otherwise
            total += hours
        return max(pool.offered_share * total - claimed[lot], 0.0)
    place: int = pool.members.tolist().index(lot)
    return spare[place] - _fill(spare, claimed[pool.lot])[place]


def _taken_through_the_other_channel(request: Request, service: Service, lot: int, pools: Sequence[PoolLot]) -> float:
    """GPUs a tenant already has of a lot's pool: of its members for the pool's own lot, of the pool for a member's."""
    pool, gpus = _pool_of(lot, pools), 0.0
    if pool is None:
        return gpus
    for other, taken in zip(request.lots, service.taken_gpus, strict=True):
        same_pool = _pool_of(other, pools) is pool
        if same_pool and (other == pool.lot) != (lot == pool.lot):
            gpus += taken
    return gpus


def pooled(
    requests: Sequence[Request], services: Sequence[Service], capacity: Sequence[float], pools: Sequence[PoolLot]
) -> list[float]:
    """GPUs that members serve through pools when the queue is through, by their own lot."""
    claimed, served = [0.0] * len(capacity), [0.0] * len(capacity)
    for request, service in zip(requests, services, strict=True):
        for lot, taken in zip(request.lots, service.taken_gpus, strict=True):
            claimed[lot] += taken
    for pool in pools:
        fill = _fill(_spare(pool, capacity, claimed), claimed[pool.lot])
        for member, gpus in zip(pool.members.tolist(), fill, strict=True):
            served[member] = gpus
    return served


def turned_away(requests: Sequence[Request], services: Sequence[Service], lots: int) -> list[float]:
    """GPUs asked at a first choice and not free, by lot."""
    away = [0.0] * lots
    for request, service in zip(requests, services, strict=True):
        if request.lots:
            away[request.lots[0]] += max(service.asked_gpus[0] - service.first_free_gpus, 0.0)
    return away
