"""Capacity rules: how many GPUs of which SKU a seller orders in a round.

A rule is a function of the seller's books, the public outlook and the terms of leaseback it is offered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from market.arrays import Floats
from market.decisions import HardwareOrder
from market.outlook import CapacityParameters, Outlook
from market.units import HOURS_PER_YEAR
from market.view import OwnBooks, OwnFinance

__all__ = ["CAPACITY", "Buyer", "CapacityRule", "profit_index"]


@dataclass(frozen=True, slots=True)
class Buyer:
    """What a buyer knows beside its fleet and its prices.

    Attributes:
        provider_class: Its class.
        vendors: Whose GPUs it runs: nvidia, amd or both.
        entrant: Whether it is a dormant seller without fleet.
        resentment: How much better AMD chips look to a pressed member of Nvidia's pool.
        finance: Its money and the terms it is offered.
    """

    provider_class: str
    vendors: str
    entrant: bool
    resentment: float
    finance: OwnFinance


CapacityRule = Callable[[OwnBooks, Buyer, Outlook, CapacityParameters], HardwareOrder]


def _present_value(rate: float, years: float) -> float:
    """Value of 1 a year for ``years`` years, continuously discounted."""
    return years if abs(rate) < 1e-12 else float(-np.expm1(-rate * years) / rate)


def profit_index(own: OwnBooks, buyer: Buyer, outlook: Outlook, p: CapacityParameters) -> Floats:
    """Worth of a GPU's life over its capital by SKU, ``(skus,)``; 1 just earns the hurdle rate.

    Revenue at the one-year price and expected use, falling with the expected drift, uncontracted revenue at a haircut;
    a leaseback floor under idle hours for its term; running cost; a residual value. Source: assumption, hurdle and
    drift between loan rates and equity returns of neoclouds.
    """
    money = buyer.finance
    share = money.cover_share
    contracted = np.minimum(p.contracted_base + share, 0.95)
    hurdle = p.hurdle_rate - p.hurdle_contracted * (contracted - p.contracted_base)
    use = min(p.used_maximum, outlook.expected_use)
    falling = np.array([_present_value(float(rate) - p.rent_drift_per_year, p.horizon_years) for rate in hurdle])
    level = np.array([_present_value(float(rate), p.horizon_years) for rate in hurdle])
    floor_years = np.array([_present_value(float(rate), p.floor_years) for rate in hurdle])
    kept = (1.0 - money.overhead_share) * (1.0 - p.haircut * (1.0 - contracted))
    revenue = outlook.price_usd * use * kept * falling
    floor = np.minimum(1.0 - use, share) * money.cover_usd * floor_years
    worth = revenue + floor - own.running_usd * level
    residual = p.residual_share * np.exp(-p.horizon_years * hurdle)
    return np.asarray(worth * HOURS_PER_YEAR / money.capex_usd + residual + _bias(buyer, p))


def _bias(buyer: Buyer, p: CapacityParameters) -> Floats:
    """What a class of buyers adds to the index by SKU: habit, cheaper capital, resentment (assumptions)."""
    amd = buyer.finance.sku_is_amd
    bias = np.zeros(len(amd))
    if buyer.provider_class == "hyperscaler":
        bias += p.hyperscaler_bonus - p.hyperscaler_amd_bias * amd
    elif buyer.vendors == "nvidia":
        bias -= p.nvidia_only_bias * amd
    if buyer.vendors == "amd":
        bias = np.where(amd, bias, -np.inf)
    return np.asarray(bias + buyer.resentment * amd)


def _affordable_share(capital_usd: float, buyer: Buyer, p: CapacityParameters) -> float:
    """Part of an order whose own share cash above the reserve and owners' money of a round can pay."""
    money = buyer.finance
    own = capital_usd * (1.0 - money.loan_to_value)
    spare = max(0.0, money.cash_usd - p.service_reserve_weeks * money.weekly_service_usd)
    owners = max(p.equity_share_of_book / 13.0 * money.book_usd, p.equity_floor_usd)
    return 1.0 if own <= 0.0 else min(1.0, (spare + owners) / own)


def lifetime_margin(own: OwnBooks, buyer: Buyer, outlook: Outlook, p: CapacityParameters) -> HardwareOrder:
    """Order a share of the market's gap, of the SKUs that earn more than the hurdle over their life (default)."""
    index = np.where(outlook.orderable, profit_index(own, buyer, outlook, p), -np.inf)
    best, gap = float(index.max()), outlook.gap_h100e(p)
    if best <= 1.0 or gap <= 0.0:
        return HardwareOrder(np.zeros(len(index)), index)
    work = _size(own, buyer, outlook, p, best, gap)
    weight = np.where(index > 1.0, np.exp((index - best) / p.choice_temperature), 0.0)
    by_sku = work * weight / weight.sum()
    capital = float((by_sku / outlook.work_per_gpu) @ buyer.finance.capex_usd)
    enters = buyer.entrant and best > p.entry_index
    return HardwareOrder(by_sku * _affordable_share(capital, buyer, p), index, enters)


def _size(own: OwnBooks, buyer: Buyer, outlook: Outlook, p: CapacityParameters, best: float, gap: float) -> float:
    """Work ordered in all, H100 equivalents: the own share of the gap, slower at thin margins, within limits."""
    fleet = max(float(own.available_gpus @ outlook.work_per_gpu), 0.0)
    if buyer.entrant:
        return min(p.gap_share * gap, p.entrant_allowance_h100e)
    by_class = {"hyperscaler": p.hyperscaler_weight, "marketplace": p.marketplace_weight}
    weight = fleet**p.fleet_exponent * by_class.get(buyer.provider_class, 1.0)
    weight *= p.covenant_weight if buyer.finance.below_covenant else 1.0
    eagerness = p.least_eagerness + (1.0 - p.least_eagerness) * min(1.0, (best - 1.0) / p.full_margin)
    wish = p.gap_share * gap * weight / max(outlook.order_weight, 1e-300) * eagerness
    return float(min(wish, p.fleet_share_maximum * fleet + p.order_allowance_h100e))


def none(own: OwnBooks, buyer: Buyer, outlook: Outlook, p: CapacityParameters) -> HardwareOrder:
    """Never order. A yardstick."""
    return HardwareOrder(np.zeros(len(outlook.price_usd)), np.full(len(outlook.price_usd), -np.inf))


CAPACITY: dict[str, CapacityRule] = {"lifetime-margin": lifetime_margin, "none": none}
