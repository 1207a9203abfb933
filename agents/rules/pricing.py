"""Pricing rules: how a seller moves its quote and its price sheet from one week to the next.

A rule is a function of the seller's own books, the public view, its luck and the parameters; it returns the new
quote (*shadow* price, which negotiated terms follow each week) and the new list price, both in ln USD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from agents.rules.learning import chance_to_explore, chosen_step, learn_from, nearest_steps, state_of
from market.arrays import Floats
from market.parameters import Parameters, parameter
from market.units import WEEKS_PER_MONTH, Term
from market.view import MarketView, OwnBooks, PricingLuck

__all__ = ["PRICING", "PricingParameters", "PricingRule", "Quote", "rival_core_ln", "term_prices"]


class PricingParameters(Parameters):
    """Speeds, targets and factors of all pricing rules."""

    neocloud_rule: str = parameter("pricing.neocloud_rule")
    marketplace_rule: str = parameter("pricing.marketplace_rule")
    hyperscaler_rule: str = parameter("pricing.hyperscaler_rule")
    adjust_per_week: float = parameter("pricing.adjust_per_week")
    target_utilisation: float = parameter("pricing.target_utilisation")
    rival_pull: float = parameter("pricing.rival_pull")
    noise_sd: float = parameter("pricing.noise_sd")
    sku_premium_sd: float = parameter("pricing.sku_premium_sd")
    floor_factor: float = parameter("pricing.floor_factor")
    tightness_smoothing: float = parameter("pricing.tightness_smoothing")
    turned_away_weight: float = parameter("pricing.turned_away_weight")
    tightness_maximum: float = parameter("pricing.tightness_maximum")
    opening_tightness: float = parameter("pricing.opening_tightness")
    new_sku_tightness: float = parameter("pricing.new_sku_tightness")
    revision_gap: float = parameter("pricing.revision_gap")
    revision_factor_minimum: float = parameter("pricing.revision_factor_minimum")
    revision_factor_maximum: float = parameter("pricing.revision_factor_maximum")
    revision_scale: float = parameter("pricing.revision_scale")
    revision_sku_share: float = parameter("pricing.revision_sku_share")
    close_share: float = parameter("pricing.close_share")
    smallest_move: float = parameter("pricing.smallest_move")
    marketplace_close_share: float = parameter("pricing.marketplace_close_share")
    hyperscaler_follow: float = parameter("pricing.hyperscaler_follow")
    hyperscaler_speed: float = parameter("pricing.hyperscaler_speed")
    hyperscaler_adjust: float = parameter("pricing.hyperscaler_adjust")
    hyperscaler_gap: float = parameter("pricing.hyperscaler_gap")
    hyperscaler_close_share: float = parameter("pricing.hyperscaler_close_share")
    hyperscaler_premium: float = parameter("pricing.hyperscaler_premium")
    marketplace_premium: float = parameter("pricing.marketplace_premium")
    term_factor_4w: float = parameter("pricing.term_factor_4w")
    term_factor_52w: float = parameter("pricing.term_factor_52w")
    term_factor_156w: float = parameter("pricing.term_factor_156w")
    term_tightness_slope: float = parameter("pricing.term_tightness_slope")
    term_tightness_clip: float = parameter("pricing.term_tightness_clip")
    term_factor_minimum: float = parameter("pricing.term_factor_minimum")
    term_factor_maximum: float = parameter("pricing.term_factor_maximum")
    term_shadow_weight: float = parameter("pricing.term_shadow_weight")
    spot_factor_neocloud: float = parameter("pricing.spot_factor_neocloud")
    spot_hyperscaler_base: float = parameter("pricing.spot_hyperscaler_base")
    spot_hyperscaler_threshold: float = parameter("pricing.spot_hyperscaler_threshold")
    spot_hyperscaler_minimum: float = parameter("pricing.spot_hyperscaler_minimum")
    spot_hyperscaler_maximum: float = parameter("pricing.spot_hyperscaler_maximum")
    spot_marketplace_base: float = parameter("pricing.spot_marketplace_base")
    spot_marketplace_slope: float = parameter("pricing.spot_marketplace_slope")
    spot_marketplace_minimum: float = parameter("pricing.spot_marketplace_minimum")
    spot_marketplace_maximum: float = parameter("pricing.spot_marketplace_maximum")
    spot_floor: float = parameter("pricing.spot_floor")
    follow_multiple: float = parameter("pricing.follow_multiple")
    cost_speed: float = parameter("pricing.cost_speed")
    cost_markup: float = parameter("pricing.cost_markup")
    cost_utilisation: float = parameter("pricing.cost_utilisation")
    cost_premium_share: float = parameter("pricing.cost_premium_share")
    cost_tightness: float = parameter("pricing.cost_tightness")
    derivative_step: float = parameter("pricing.derivative_step")
    derivative_interval_weeks: int = parameter("pricing.derivative_interval_weeks")
    best_speed: float = parameter("pricing.best_speed")
    best_elasticity: float = parameter("pricing.best_elasticity")
    best_slack: float = parameter("pricing.best_slack")
    best_range: float = parameter("pricing.best_range")
    best_response_tick_usd: float = parameter("pricing.best_response_tick_usd")
    best_response_sample_rows: int = parameter("pricing.best_response_sample_rows")
    best_response_fee_share: float = parameter("pricing.best_response_fee_share")
    learning_prices: int = parameter("pricing.learning_prices")
    learning_lowest: float = parameter("pricing.learning_lowest")
    learning_highest: float = parameter("pricing.learning_highest")
    learning_rate: float = parameter("pricing.learning_rate")
    learning_patience: float = parameter("pricing.learning_patience")
    learning_decay_per_week: float = parameter("pricing.learning_decay_per_week")
    pool_anchor_weight: float = parameter("pricing.pool_anchor_weight")
    pool_anchor_fleet_share: float = parameter("pricing.pool_anchor_fleet_share")
    anchor_weight: float = parameter("pricing.anchor_weight")
    anchor_fleet_share: float = parameter("pricing.anchor_fleet_share")
    anchor_offset: float = parameter("pricing.anchor_offset")
    pull_gap: float = parameter("pricing.pull_gap")
    pull_hazard: float = parameter("pricing.pull_hazard")
    pull_salience_minimum: float = parameter("pricing.pull_salience_minimum")


@dataclass(frozen=True, slots=True)
class Quote:
    """A rule's answer by SKU ``(skus,)``: quote and price sheet in ln USD, the tightness that terms follow, memory."""

    shadow_ln: Floats
    list_ln: Floats
    tightness: Floats
    memory: Floats | None = None


_LEAST_USD = 1e-3  # per GPU-hour: where an hour costs nothing, a grid of ln prices still has to begin somewhere
_LEAST_RANGE_LN = 0.01  # of such a grid
_SCANS = 4  # of twenty-fold each: a cost of nothing, or of next to nothing, must not bound the price

PricingRule = Callable[[OwnBooks, MarketView, PricingLuck, PricingParameters], Quote]


def _floor_ln(own: OwnBooks, p: PricingParameters) -> Floats:
    """Lowest list price, ln USD."""
    if p.floor_factor == 0.0:
        return np.full(len(own.running_usd), -np.inf)
    return np.asarray(np.log(p.floor_factor * own.running_usd))


def _anchor_force(view: MarketView, p: PricingParameters) -> float:
    """How much of the market the capped public offer can speak for, times public attention (0 while closed)."""
    desk = view.desk
    if desk is None or desk.cap_gpus <= 0.0:
        return 0.0
    return desk.salience * desk.cap_gpus / (desk.cap_gpus + p.anchor_fleet_share * view.desk_partner_gpus)


def rival_core_ln(own: OwnBooks, view: MarketView, p: PricingParameters) -> Floats:
    """Weighted mean of living rivals' list prices without premia, ln USD ``(skus,)``.

    Weights are square roots of fleets; hyperscalers and desks are left out. For the developer cloud's SKU its public
    price is blended in (assumption; see ``pricing.anchor_weight``). Without rivals it is the seller's own core price.
    """
    premium = (own.premium_ln + own.sku_premium_ln) * view.premium_kept
    own_core = own.list_ln - premium
    own_weight = np.sqrt(np.where(own.holds, own.available_gpus, 0.0))
    weight = view.core_weight - own_weight
    total = view.core_sum_ln - np.where(own.holds, own_weight * own_core, 0.0)
    core = np.where(weight > 1e-9, total / np.maximum(weight, 1e-9), own_core)
    if view.desk is not None and (share := p.anchor_weight * _anchor_force(view, p)) > 0.0:
        sku = view.desk.sku
        core[sku] = (1.0 - share) * core[sku] + share * (np.log(view.desk.price_usd) + p.anchor_offset)
    return core - _pool_pull(core, view, p)


def _pool_pull(core_ln: Floats, view: MarketView, p: PricingParameters) -> Floats:
    """How far the pool's quote pulls the reference price down, ln; nothing where it is not lower (assumption)."""
    fleet = np.maximum(view.delivered_gpus, 1e-300) * p.pool_anchor_fleet_share
    weight = p.pool_anchor_weight * np.minimum(1.0, view.pool_volume_gpus / fleet)
    quoted = np.where(np.isnan(view.pool_quote_usd), np.inf, view.pool_quote_usd)
    return np.where(np.log(quoted) < core_ln, weight * (core_ln - np.log(np.minimum(quoted, 1e300))), 0.0)


def _revise_list(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters, shadow_ln: Floats) -> Floats:
    """Open the price sheet by a keyed hazard that grows with the gap, and close part of the gap (ln USD)."""
    gap = shadow_ln - own.list_ln
    eagerness = np.clip(np.abs(gap) / p.revision_gap, p.revision_factor_minimum, p.revision_factor_maximum)
    hazard = own.revision_hazard_per_month / WEEKS_PER_MONTH * eagerness * p.revision_scale * p.revision_sku_share
    desk = view.desk
    if desk is not None and p.anchor_weight > 0.0 and desk.salience > p.pull_salience_minimum:
        above = own.list_ln[desk.sku] > np.log(desk.price_usd) + p.pull_gap
        if above:
            hazard[desk.sku] = max(hazard[desk.sku], p.pull_hazard * _anchor_force(view, p))
    move = p.close_share * gap
    revised = (luck.revision < hazard) & (np.abs(move) >= p.smallest_move)
    return np.asarray(np.where(revised, own.list_ln + move, own.list_ln))


def fixed(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Never moves; terms keep their factors at target tightness. A yardstick."""
    return Quote(own.shadow_ln, own.list_ln, np.full_like(own.tightness, p.target_utilisation))


def _rival_gap(own: OwnBooks, view: MarketView, p: PricingParameters) -> Floats:
    """Rivals' core price plus the own premium, less the own quote, ln USD."""
    premium = (own.premium_ln + own.sku_premium_ln) * view.premium_kept
    return rival_core_ln(own, view, p) + premium - own.shadow_ln


def _target_shadow(
    own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters, pull_multiple: float = 1.0
) -> Floats:
    """The quote rises with tightness above target and is pulled towards rivals (ln USD); assumption, see parameters."""
    pull = pull_multiple * p.rival_pull * _rival_gap(own, view, p)
    return own.shadow_ln + p.adjust_per_week * (own.tightness - p.target_utilisation) + pull + p.noise_sd * luck.noise


def _sheet(
    own: OwnBooks,
    view: MarketView,
    luck: PricingLuck,
    p: PricingParameters,
    shadow: Floats,
    memory: Floats | None = None,
) -> Quote:
    """A quote held above the floor, and the price sheet that follows it by revisions."""
    floor = _floor_ln(own, p)
    shadow = np.maximum(shadow, floor)
    listed = np.maximum(_revise_list(own, view, luck, p, shadow), floor)
    return Quote(shadow, listed, own.tightness, memory)


def target(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Default of neoclouds: aim at a utilisation, look at rivals, revise the sheet now and then."""
    return _sheet(own, view, luck, p, _target_shadow(own, view, luck, p))


def follow(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """The target rule with a stronger look at rivals (assumption)."""
    return _sheet(own, view, luck, p, _target_shadow(own, view, luck, p, p.follow_multiple))


def cost(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Move towards a markup on the owner's full cost at target use, dearer when tight (assumption)."""
    tight = p.cost_tightness * np.clip(own.tightness - p.target_utilisation, -0.5, 0.4)
    premium = p.cost_premium_share * (own.premium_ln + own.sku_premium_ln) * view.premium_kept
    aim = np.log(p.cost_markup * own.full_cost_usd / p.cost_utilisation) + premium + tight
    return _sheet(own, view, luck, p, own.shadow_ln + p.cost_speed * (aim - own.shadow_ln))


def derivative(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Try a step every few weeks; turn round when use × margin fell since the last one (derivative follower).

    Source: Kephart, Hanson & Greenwald 2000, "Dynamic pricing by software agents". The first step goes the way that
    tightness points. Memory: direction and margin at the last step, ``(2, skus)``.
    """
    shadow = own.shadow_ln + p.rival_pull * _rival_gap(own, view, p)
    if view.week % p.derivative_interval_weeks:
        return _sheet(own, view, luck, p, shadow, own.memory)
    margin = own.tightness * (np.exp(own.list_ln) - own.running_usd)
    direction = np.where(own.tightness >= p.target_utilisation, 1.0, -1.0)
    if own.memory is not None:
        before = np.where(np.isnan(own.memory[0]), direction, own.memory[0])
        direction = np.where(margin < own.memory[1], -before, before)
    memory = np.where(own.holds, np.array([direction, margin]), np.nan)
    return _sheet(own, view, luck, p, shadow + p.derivative_step * direction, memory)


def best(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Move towards a constant-elasticity markup over opportunity cost: the cheap relative of ``best-response``.

    With slack an hour costs its running cost; as the fleet fills, it costs what rivals would pay for it.
    """
    e = p.best_elasticity
    scarce = np.clip((own.tightness - p.best_slack) / p.best_range, 0.0, 1.0)
    rivals = np.exp(own.shadow_ln + _rival_gap(own, view, p))
    marginal = own.running_usd + scarce * np.maximum(rivals * (1.0 - 1.0 / e) - own.running_usd, 0.0)
    aim = np.log(marginal * e / (e - 1.0))
    return _sheet(own, view, luck, p, own.shadow_ln + p.best_speed * (aim - own.shadow_ln))


def asks(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Default of marketplaces: the target rule with asks that move every week."""
    floor = _floor_ln(own, p)
    shadow = np.maximum(_target_shadow(own, view, luck, p), floor)
    listed = own.list_ln + p.marketplace_close_share * (shadow - own.list_ln)
    return Quote(shadow, np.maximum(listed, floor), own.tightness)


def step(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Default of hyperscalers: follow half of the neocloud index slowly, then move the list rarely.

    Source: four dates with list changes in 126 provider-months, from 1 to 45 % at once.
    """
    aim = (
        np.log(view.base_list_usd) + own.premium_ln + own.sku_premium_ln + p.hyperscaler_follow * view.neocloud_index_ln
    )
    shadow = own.shadow_ln + p.hyperscaler_speed * (aim - own.shadow_ln)
    shadow = np.maximum(shadow + p.hyperscaler_adjust * (own.tightness - p.target_utilisation), _floor_ln(own, p))
    gap = shadow - own.list_ln
    moves = (luck.revision < own.revision_hazard_per_month / WEEKS_PER_MONTH) & (np.abs(gap) > p.hyperscaler_gap)
    return Quote(shadow, np.where(moves, own.list_ln + p.hyperscaler_close_share * gap, own.list_ln), own.tightness)


def best_response(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Maximise this week's margin over running cost, knowing the public laws of demand and rivals' posted prices.

    The margin is the price less a platform's fee (``best_response_fee_share``) and running cost.
    All short-term tenants are taken to choose afresh; longer terms follow by their factors. One SKU is set after the
    other, counting what it costs the seller's other offers. Rests at the Nash price, or where demand meets capacity.
    """
    price = np.exp(own.list_ln)

    def profit(sku: int, candidate_usd: float) -> float:
        trial = price.copy()
        trial[sku] = candidate_usd
        gpus = view.demand(own.supplier, trial)
        held = own.holds
        return float((((1.0 - p.best_response_fee_share) * trial - own.running_usd) * gpus)[held].sum())

    for sku in np.flatnonzero(own.holds).tolist():
        price[sku] = _best_price(partial(profit, sku), float(own.running_usd[sku]), p)
    listed = np.where(own.holds, np.maximum(np.log(np.maximum(price, 1e-300)), _floor_ln(own, p)), own.list_ln)
    return Quote(listed, listed, own.tightness)


def _best_price(profit: Callable[[float], float], cost_usd: float, p: PricingParameters) -> float:
    """Most profitable price on the tick grid: a wide scan in steps of 5 %, then a bounded search around its best.

    The scan starts at cost and goes on as long as the dearest price tried is the best, within `_SCANS`.
    """
    tick = p.best_response_tick_usd
    grid = (cost_usd + tick) * np.exp(np.linspace(0.0, 3.0, 61))
    best = int(np.argmax([profit(float(usd)) for usd in grid]))
    for _ in range(_SCANS - 1):
        if best < len(grid) - 1:
            break
        grid = grid[-2] * np.exp(np.linspace(0.0, 3.0, 61))
        best = int(np.argmax([profit(float(usd)) for usd in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda usd: -profit(usd), bounds=(low, high), method="bounded", options={"xatol": tick / 4})
    around = tick * (np.round(float(found.x) / tick) + np.array([-1.0, 0.0, 1.0]))
    return float(max(around, key=profit))


def q_learning(own: OwnBooks, view: MarketView, luck: PricingLuck, p: PricingParameters) -> Quote:
    """Learn by trial which price pays in which state, SKU by SKU; the list moves every week (`agents.rules.learning`).

    Source: Calvano, Calzolari, Denicolò & Pastorello 2020. State: the grid steps of last week's own list and of
    rivals' core price at the own premium. Reward: last week's margin over running cost on hours let on spot and on
    demand, at the list price, per available GPU. It starts from what each price would earn for ever by a believed
    elasticity (assumption). Memory ``(skus, 2 + steps³)``: week of learning, state, worth; NaN where there is none.
    """
    steps, grid = p.learning_prices, _learning_grid_ln(own, view, p)
    at, rival = nearest_steps(own.list_ln, grid), nearest_steps(own.shadow_ln + _rival_gap(own, view, p), grid)
    memory, listed = _recalled(own, steps), own.list_ln.copy()
    first, margin = _worth_at_first(own, grid, p), (np.exp(own.list_ln) - own.running_usd) * _short_term_use(own)
    for sku in np.flatnonzero(own.holds).tolist():
        (last_week, before), worth = memory[sku, :2], memory[sku, 2:].reshape(steps * steps, steps)
        state, week = state_of(int(at[sku]), int(rival[sku]), steps), 0
        if np.isnan(last_week):
            worth[:] = first[sku]
        else:
            week = int(last_week) + 1
            learn_from(worth, int(before), state, float(margin[sku]), p.learning_rate, p.learning_patience)
        memory[sku, :2] = week, state
        chance = chance_to_explore(week, p.learning_decay_per_week)
        listed[sku] = grid[sku, chosen_step(worth[state], chance, float(luck.explore[sku]))]
    listed = np.where(own.holds, np.maximum(listed, _floor_ln(own, p)), listed)
    return Quote(listed, listed, own.tightness, memory)


def _learning_grid_ln(own: OwnBooks, view: MarketView, p: PricingParameters) -> Floats:
    """Prices that learning sellers try, ln USD ``(skus, steps)``: even steps from running cost up (assumption).

    The lowest is a multiple of running cost or the floor, the highest a multiple of full cost, and of the own premium.
    """
    premium = np.maximum((own.premium_ln + own.sku_premium_ln) * view.premium_kept, 0.0)
    low = np.maximum(np.log(np.maximum(p.learning_lowest * own.running_usd, _LEAST_USD)), _floor_ln(own, p))
    high = np.log(np.maximum(p.learning_highest * own.full_cost_usd, _LEAST_USD)) + premium
    return np.linspace(low, np.maximum(high, low + _LEAST_RANGE_LN), p.learning_prices, axis=1)


def _recalled(own: OwnBooks, steps: int) -> Floats:
    """A copy of what the seller has learnt; nothing of SKUs that it has just begun or ceased to hold."""
    memory = np.full((len(own.holds), 2 + steps**3), np.nan) if own.memory is None else own.memory.copy()
    memory[~own.holds] = np.nan
    return memory


def _short_term_use(own: OwnBooks) -> Floats:
    """Part of its available GPUs that a seller let on spot and on demand, ``(skus,)``."""
    return own.short_term_gpus / np.where(own.holds, own.available_gpus, np.inf)


def _worth_at_first(own: OwnBooks, grid_ln: Floats, p: PricingParameters) -> Floats:
    """What each price would earn for ever per available GPU, USD ``(skus, steps)``, by the elasticity of rule ``best``.

    Short-term use grows from what it is (without any, from tightness) until nothing is spare.
    """
    let, spare = _short_term_use(own), np.maximum(1.0 - own.tightness, 0.0)
    now = np.where(let > 0.0, let, own.tightness)[:, None]
    more_ln = np.minimum(-p.best_elasticity * (grid_ln - own.list_ln[:, None]), 50.0)  # beyond any fleet
    use = np.minimum(now * np.exp(more_ln), now + spare[:, None])
    return np.asarray((np.exp(grid_ln) - own.running_usd[:, None]) * use / (1.0 - p.learning_patience))


def term_prices(own: OwnBooks, quote: Quote, provider_class: str, p: PricingParameters) -> Floats:
    """Posted prices by SKU and term, USD per GPU-hour ``(skus, terms)``, NaN where nothing is offered.

    On demand is the list price. Spot is a share of it (a fixed tier at neoclouds; by slack at hyperscalers and
    marketplaces). Longer terms follow a mix of quote and list, shed part of the seller's premium, and cost more when
    the seller is tight.
    """
    clip = p.term_tightness_clip
    tight = 1.0 + p.term_tightness_slope * np.clip(quote.tightness - p.target_utilisation, -clip, clip)
    blend = p.term_shadow_weight * quote.shadow_ln + (1.0 - p.term_shadow_weight) * quote.list_ln
    prices = np.full((len(quote.list_ln), len(Term)), np.nan)
    prices[:, Term.ON_DEMAND] = np.exp(quote.list_ln)
    prices[:, Term.SPOT] = np.exp(quote.list_ln) * _spot_factor(quote.tightness, provider_class, p)
    factors = {
        Term.FOUR_WEEKS: p.term_factor_4w,
        Term.ONE_YEAR: p.term_factor_52w,
        Term.THREE_YEARS: p.term_factor_156w,
    }
    for term, factor in factors.items():
        level = np.clip(factor * tight, p.term_factor_minimum, p.term_factor_maximum)
        prices[:, term] = level * np.exp(blend - own.premium_ln * (1.0 - own.kept_premium[term]))
    floor = p.floor_factor * own.running_usd
    np.maximum(prices[:, Term.FOUR_WEEKS :], floor[:, None], out=prices[:, Term.FOUR_WEEKS :])
    prices[:, Term.SPOT] = np.maximum(prices[:, Term.SPOT], p.spot_floor * floor)
    prices[~own.holds, :] = np.nan
    prices[:, ~own.offers_term] = np.nan
    return prices


def _spot_factor(tightness: Floats, provider_class: str, p: PricingParameters) -> Floats:
    """Spot price over on-demand by class, ``(skus,)``."""
    if provider_class == "hyperscaler":
        rise = np.maximum(0.0, tightness - p.spot_hyperscaler_threshold)
        return np.clip(p.spot_hyperscaler_base + rise, p.spot_hyperscaler_minimum, p.spot_hyperscaler_maximum)
    if provider_class == "marketplace":
        level = p.spot_marketplace_base + p.spot_marketplace_slope * (tightness - p.target_utilisation)
        return np.clip(level, p.spot_marketplace_minimum, p.spot_marketplace_maximum)
    return np.full(len(tightness), p.spot_factor_neocloud)


PRICING: dict[str, PricingRule] = {
    "fixed": fixed,
    "target": target,
    "follow": follow,
    "cost": cost,
    "derivative": derivative,
    "best": best,
    "asks": asks,
    "step": step,
    "best-response": best_response,
    "q-learning": q_learning,
}
