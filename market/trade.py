"""Trade: prices are posted, leases end or are reviewed, tenants choose, offers are cleared, tightness is felt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, Ints, totals
from market.choice import (
    Market,
    candidate_pairs,
    log_sums,
    outside_utility,
    rank_offers,
    systematic_utility,
    weekly_shocks,
)
from market.clearing.pool import PoolLot
from market.clearing.posted import Outcome, Queue, clear
from market.desks import post_cloud, post_pool
from market.leases import OPEN_ENDED, Leases
from market.randomness import Purpose, normal, uniform
from market.units import HOURS_PER_WEEK, TERM_WEEKS, Term
from market.view import PricingLuck

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Trades", "clear_market", "expire_and_review", "pricing_luck", "quote", "tighten"]


@dataclass(frozen=True, slots=True)
class Trades:
    """What happened in a clearing.

    Attributes:
        leases: Leases signed.
        turned_away_gpus: Wanted at the first choice and not free, ``(suppliers, skus)``.
        desk_requested_gpus: Asked of the desk after quota.
        unmet_h100e: Work turned away by capacity, by segment.
        movers: Weighted tenants who signed, by segment.
        switchers: Those of them who signed with another supplier than their last.
        surplus_usd: Log-sum surplus of what was signed, USD a week, by segment.
        rounds: Rounds of the clearing.
    """

    leases: Leases
    turned_away_gpus: Floats
    desk_requested_gpus: float
    unmet_h100e: Floats
    movers: Floats
    switchers: Floats
    surplus_usd: Floats
    rounds: int


def quote(model: MarketModel) -> None:
    """All sellers and desks decide from the same view; then prices are posted in supplier order."""
    suppliers, book, view = model.suppliers, model.book, model.view
    suppliers.revised[:] = False
    luck = pricing_luck(model)
    changes = [
        (row, seller.price(model.own_books(row), view, luck[row]))
        for row, seller in model.sellers
        if suppliers.alive[row]
    ]
    for row, change in changes:
        held = suppliers.available_gpus[row] > 0.0
        suppliers.revised[row] = held & (change.list_ln != suppliers.list_ln[row])
        suppliers.shadow_ln[row] = change.shadow_ln
        suppliers.list_ln[row] = change.list_ln
        book.set_prices(row, change.price_usd, model.week)
    post_cloud(model)
    post_pool(model)


def pricing_luck(model: MarketModel) -> list[PricingLuck]:
    """Keyed draws of each supplier's pricing this week."""
    key = model.suppliers.key
    noise = normal(model.seed, Purpose.PRICE_NOISE, model.week, key[:, None], model.hardware.keys[None, :])
    revision = uniform(model.seed, Purpose.REVISION, model.week, key)
    explore = uniform(model.seed, Purpose.EXPLORE, model.week, key[:, None], model.hardware.keys[None, :])
    return [PricingLuck(*draws) for draws in zip(noise, revision.tolist(), explore, strict=True)]


def held_work(model: MarketModel) -> Floats:
    """Work each tenant holds, H100e per tenant, ``(rows,)``."""
    leases, tenants = model.leases, model.tenants
    sku = leases.lot % len(model.tables.skus)
    work = leases.gpus * model.software.throughput[tenants.segment[leases.tenant], sku]
    return np.asarray(totals(leases.tenant, work, len(tenants)) / tenants.weight)


def expire_and_review(model: MarketModel) -> None:
    """Release leases that ended, all spot, and the on-demand leases of tenants who compare offers again.

    On-demand holders of far more than they want give back the rest.
    """
    leases, tenants, week = model.leases, model.tenants, model.week
    reviewing = np.zeros(len(tenants), np.bool_)
    for segment in model.segments:
        reviewing[segment.review(tenants, model.seed, week).tenants] = True
    on_demand = leases.term == Term.ON_DEMAND
    weekly = (leases.term == Term.SPOT) | (leases.lot // len(model.tables.skus) == model.pool_row)
    ends = (leases.end_week <= week) | weekly | (on_demand & reviewing[leases.tenant])
    model.pooled_gpus = np.zeros(model.book.open_gpus.shape)
    model.leases = leases = leases.keep(~ends)
    held = held_work(model)
    excess = held > model.world.clearing.shrink_threshold * tenants.wanted_h100e
    shrink = np.where(excess, tenants.wanted_h100e / np.maximum(held, 1e-300), 1.0)
    leases.gpus = np.where(leases.term == Term.ON_DEMAND, leases.gpus * shrink[leases.tenant], leases.gpus)


def choice_market(model: MarketModel) -> Market:
    """The market as choosing tenants face it."""
    return Market(
        suppliers=model.suppliers,
        sku_vendor_is_amd=model.hardware.is_amd,
        price_usd=model.book.price_usd,
        throughput=model.software.throughput,
        lock_left=model.software.lock_left,
        size_gpus=model.listed_gpus(),
        value_usd=model.value_usd,
        taste_scale=model.world.tenants.taste_scale,
        pool=model.pool_row,
        identity_erosion=0.0 if model.pool_offer is None else model.pool_offer.identity_erosion,
    )


def clear_market(model: MarketModel, terms: tuple[Term, ...] = tuple(Term)) -> Trades:
    """Tenants who need work choose, in order of priority; signed leases join the book.

    Args:
        model: The market.
        terms: Terms that trade (all; the opening trades short terms alone).
    """
    tenants = model.tenants
    lots = model.book.open_gpus.size
    model.book.open_week(model.listed_gpus(), model.leases.gpus_by_lot(lots).reshape(model.book.open_gpus.shape))
    rows, need = _requests(model, terms)
    market = choice_market(model)
    pairs = candidate_pairs(tenants, rows, market, model.world.choice)
    utility = systematic_utility(tenants, pairs, market, model.world.choice, model.seed)
    outside = outside_utility(tenants, rows, model.world.choice)
    correlation = model.world.choice.vendor_correlation
    shocks = weekly_shocks(tenants, rows, pairs, market, model.seed, model.week, model.hardware.keys, correlation)
    ranking = rank_offers(
        pairs, utility, outside, shocks, model.world.choice.gumbel_scale, model.world.clearing.offers_tried_maximum
    )
    queue = _queue(model, rows, need, ranking)
    outcome = clear(queue, model.book.open_gpus.ravel(), model.world.clearing, _pool_lots(model))
    signed = _sign(model, rows, ranking, outcome)
    scale = max(model.world.choice.gumbel_scale, 1e-6)
    gain = np.minimum((utility - outside[pairs.position]) / scale, 700.0)
    log_sum = scale * log_sums(pairs, gain, len(rows), market, correlation)
    trades = _trades(model, rows, ranking, outcome, signed, log_sum)
    _remember(model, rows, ranking, outcome)
    model.leases = model.leases.joined(signed)
    model.pooled_gpus = outcome.pooled_gpus.reshape(model.book.open_gpus.shape)
    taken = signed.gpus_by_lot(lots).reshape(model.book.open_gpus.shape) + model.pooled_gpus
    model.book.open_gpus[:] = np.maximum(model.book.open_gpus - taken, 0.0)
    return trades


def _pool_lots(model: MarketModel) -> list[PoolLot]:
    """The pool's lots with their members in merit order."""
    offer, skus = model.pool_offer, len(model.tables.skus)
    if offer is None:
        return []
    return [
        PoolLot(model.pool_row * skus + sku, np.array(members, np.int64) * skus + sku, offer.offered_share)
        for sku, members in offer.merit_order.items()
    ]


def _requests(model: MarketModel, terms: tuple[Term, ...]) -> tuple[Ints, Floats]:
    """Tenants that enter the market in order of service, and the work each needs (H100e per tenant)."""
    tenants, clearing = model.tenants, model.world.clearing
    held = held_work(model)
    requests = [segment.request(tenants, held) for segment in model.segments]
    rows = np.concatenate([request.tenants for request in requests])
    need = np.concatenate([request.need_h100e for request in requests])
    trades = np.isin(tenants.term[rows], terms)
    rows, need = rows[trades], need[trades]
    luck = uniform(model.seed, Purpose.PRIORITY, model.week, tenants.key[rows])
    priority = clearing.priority_base[tenants.term[rows]] + clearing.priority_spread * luck
    order = np.lexsort((rows, priority))
    return rows[order], need[order]


def _queue(model: MarketModel, rows: Ints, need: Floats, ranking: Ints) -> Queue:
    """The clearing's input: needs and capacities of whole rows, weights included."""
    tenants, skus = model.tenants, len(model.tables.skus)
    weight = tenants.weight[rows]
    supplier, sku = np.divmod(np.maximum(ranking, 0), skus)
    quota = np.full(ranking.shape, np.inf)
    if model.desk_offer is not None:
        at_desk = (supplier == model.cloud_row) & (ranking >= 0)
        room = np.maximum(model.desk_offer.quota_gpus - _desk_holdings(model)[rows], 0.0) * weight
        quota = np.where(at_desk, room[:, None], np.inf)
    return Queue(
        need_h100e=need * weight,
        wanted_h100e=tenants.wanted_h100e[rows] * weight,
        lots=ranking,
        work_per_gpu=model.software.throughput[tenants.segment[rows][:, None], sku],
        quota_gpus=quota,
    )


def _desk_holdings(model: MarketModel) -> Floats:
    """GPUs per tenant already held at desks, ``(rows,)``."""
    leases, tenants = model.leases, model.tenants
    at_desk = leases.lot // len(model.tables.skus) == model.cloud_row
    return np.asarray(totals(leases.tenant, leases.gpus * at_desk, len(tenants)) / tenants.weight)


def _sign(model: MarketModel, rows: Ints, ranking: Ints, outcome: Outcome) -> Leases:
    """Leases for what was taken."""
    row, rank = np.nonzero(outcome.taken_gpus > 0.0)
    tenant, lot = rows[row], ranking[row, rank]
    term = model.tenants.term[tenant]
    supplier, sku = np.divmod(lot, len(model.tables.skus))
    first = np.full(len(row), model.week, np.int32)
    length = np.array(TERM_WEEKS)[term]
    return Leases(
        tenant=tenant.astype(np.int32),
        lot=lot.astype(np.int32),
        term=term,
        gpus=outcome.taken_gpus[row, rank],
        price_usd=model.book.price_usd[supplier, sku, term],
        first_week=first,
        end_week=np.where(length > 0, first + length, OPEN_ENDED).astype(np.int32),
    )


def _trades(model: MarketModel, rows: Ints, ranking: Ints, outcome: Outcome, signed: Leases, log_sum: Floats) -> Trades:
    """Counts of the clearing by lot and segment."""
    tenants, skus = model.tenants, len(model.tables.skus)
    segment, weight = tenants.segment[rows], tenants.weight[rows]
    count = len(model.tables.segments)
    # Where a tenant was short of GPUs it asked for, its rest counts as turned away; unwilling tenants do not.
    short = (outcome.asked_gpus - outcome.taken_gpus > 1e-12).any(axis=1)
    signs = (outcome.taken_gpus > 0.0).any(axis=1)
    first = ranking[np.arange(len(rows)), np.argmax(outcome.taken_gpus > 0.0, axis=1)] // skus
    last = tenants.last_supplier[rows]
    switches = signs & (last >= 0) & (first != last)
    at_desk = (ranking >= 0) & (np.maximum(ranking, 0) // skus == model.cloud_row)
    return Trades(
        leases=signed,
        turned_away_gpus=outcome.turned_away_gpus.reshape(model.book.open_gpus.shape),
        desk_requested_gpus=float(outcome.asked_gpus[at_desk].sum()),
        unmet_h100e=totals(segment, outcome.left_h100e * short, count),
        movers=totals(segment, weight * signs, count),
        switchers=totals(segment, weight * switches, count),
        surplus_usd=_surplus(model, rows, signed, log_sum),
        rounds=outcome.rounds,
    )


def _surplus(model: MarketModel, rows: Ints, signed: Leases, log_sum: Floats) -> Floats:
    """Log-sum surplus of the work signed, USD a week by segment ``(segments,)``.

    Log utility: hours × own mean price × (log-sum - V_0)/a, first order; linear: work × (log-sum)/a. Without an outside
    option the money measure has no zero and is NaN.
    """
    tenants, count = model.tenants, len(model.tables.segments)
    if not model.world.choice.outside_option:
        return np.full(count, np.nan)
    unit = signed.price_usd
    if model.world.choice.utility == "linear":
        unit = model.software.throughput[tenants.segment[signed.tenant], signed.lot % len(model.tables.skus)]
    served = totals(signed.tenant, signed.gpus * unit, len(tenants))[rows]
    gain = HOURS_PER_WEEK * served * log_sum / tenants.sensitivity[rows]
    return np.asarray(totals(tenants.segment[rows], gain, count))


def _remember(model: MarketModel, rows: Ints, ranking: Ints, outcome: Outcome) -> None:
    """Tenants remember their supplier, weeks of failure, and how to run on AMD."""
    tenants, skus = model.tenants, len(model.tables.skus)
    took = outcome.taken_gpus > 0.0
    signs = took.any(axis=1)
    first = ranking[np.arange(len(rows)), np.argmax(took, axis=1)]
    tenants.last_supplier[rows[signs]] = (first[signs] // skus).astype(np.int16)
    on_amd = (took & model.hardware.is_amd[np.maximum(ranking, 0) % skus]).any(axis=1)
    tenants.amd_ready[rows[on_amd]] = True
    _remember_pool(model, rows, (took & (np.maximum(ranking, 0) // skus == model.pool_row)).any(axis=1))
    wanted = tenants.wanted_h100e[rows] * tenants.weight[rows]
    failed = outcome.left_h100e > model.world.clearing.need_threshold * wanted
    cap = model.world.choice.search_extra_maximum
    more = np.minimum(tenants.failures[rows].astype(np.int64) + 1, min(cap, 255))
    tenants.failures[rows] = np.where(failed, more, 0).astype(np.uint8)


def _remember_pool(model: MarketModel, rows: Ints, bought: Bools) -> None:
    """Who bought from the pool is its user and forgets it by a keyed draw."""
    tenants = model.tenants
    if tenants.pool_user.any():
        forgets = uniform(model.seed, Purpose.FORGET, model.week, tenants.key) < model.world.choice.pool_user_forgets
        tenants.pool_user &= ~forgets
    tenants.pool_user[rows[bought]] = True


def tighten(model: MarketModel, trades: Trades) -> None:
    """Sellers' tightness moves: smoothed use with turned-away demand, over available GPUs."""
    p, suppliers = model.world.pricing, model.suppliers
    model.unmet_h100e = float(trades.unmet_h100e.sum())
    available = suppliers.available_gpus
    used = model.sold_gpus() + model.pooled_gpus
    wanted = used + p.turned_away_weight * trades.turned_away_gpus
    now = np.minimum(wanted / np.maximum(available, 1e-300), p.maximum)
    counts = (available > 0.0) & suppliers.third_party[:, None]
    smoothed = suppliers.tightness + p.smoothing * (now - suppliers.tightness)
    suppliers.tightness = np.where(counts, smoothed, suppliers.tightness)
