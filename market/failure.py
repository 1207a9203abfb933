"""Used GPUs: what they are worth, who buys repossessed ones, and fleets that retire.

Second-hand value is what the next owner expects to earn: rents at the neocloud median, falling, less running cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Floats, Ints, column_medians
from market.finance import FinanceParameters
from market.fleets import install
from market.liquidation import scrap, sell_repossessed, sell_retired
from market.suppliers import NEOCLOUD
from market.units import HOURS_PER_YEAR, WEEKS_PER_YEAR

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = [
    "Stored",
    "fleet_value_usd",
    "owners_value_usd",
    "release_stored",
    "resale_value_usd",
    "retire",
    "second_hand_value_usd",
]


@dataclass(frozen=True, slots=True)
class Stored:
    """Repossessed GPUs of one SKU in a lender's hands until ``week``, at ``book_usd``."""

    sku: int
    gpus: float
    age_weeks: float
    book_usd: float
    week: int


def resale_value_usd(
    quote_usd: ArrayLike, running_usd: ArrayLike, capex_usd: ArrayLike, age_weeks: ArrayLike, p: FinanceParameters
) -> Floats:
    """Value of a used GPU, USD; arguments broadcast.

    ``(quote factor × quote × use - running) × 8,760 × (1 - e^(-r L))/r`` with a remaining life L that falls with age,
    within a share of capital. Source: assumption between the two published resale curves of the H100.

    Args:
        quote_usd: what neoclouds quote on demand, USD per GPU-hour.
        running_usd: cost of keeping it in service, USD per GPU-hour.
        capex_usd: capital cost when new, USD.
        age_weeks: since it was new.
        p: finance parameters.
    """
    quote, running, capital = (np.asarray(usd, dtype=np.float64) for usd in (quote_usd, running_usd, capex_usd))
    years = np.maximum(np.asarray(age_weeks) / WEEKS_PER_YEAR - 0.5, 0.0)
    life = np.clip(p.resale_life_years - years / 2.0, 1.0, p.resale_life_years)
    margin = p.resale_quote_factor * quote * p.resale_use - running
    worth = margin * HOURS_PER_YEAR * -np.expm1(-p.resale_discount_per_year * life) / p.resale_discount_per_year
    return np.asarray(np.clip(worth, p.resale_minimum * capital, p.resale_maximum * capital))


def second_hand_value_usd(model: MarketModel, age_weeks: Floats) -> Floats:
    """Value of used GPUs of an age at the median neocloud quote, USD; ages ``(..., skus)``."""
    p, s = model.world.finance, model.suppliers
    members = (s.provider_class == NEOCLOUD) & s.alive
    quotes = np.where(s.installed_gpus[members] > 0.0, np.exp(s.shadow_ln[members]), np.nan)
    median = column_medians(quotes) if members.any() else np.full(len(model.hardware.base_list_usd), np.nan)
    median = np.where(np.isnan(median), model.hardware.base_list_usd, median)
    return resale_value_usd(median, model.hardware.running_usd, model.hardware.capex_usd, age_weeks, p)


def fleet_value_usd(model: MarketModel) -> Floats:
    """Second-hand value of fleets at last close, USD ``(suppliers,)``."""
    return np.asarray((second_hand_value_usd(model, model.age_weeks) * model.suppliers.installed_gpus).sum(axis=1))


def owners_value_usd(model: MarketModel) -> Floats:
    """What fleets are worth to their owners at last close, USD ``(suppliers,)``.

    A GPU that they keep earns rents at their own quotes, which a premium lifts over the median; one that they sell
    fetches its second-hand value. Owners count the larger of the two.

    Source: value in use against fair value less costs of disposal (IAS 36, paragraph 18).
    """
    s, hardware = model.suppliers, model.hardware
    quotes = np.exp(np.nan_to_num(s.shadow_ln))
    kept = resale_value_usd(quotes, hardware.running_usd, hardware.capex_usd, model.age_weeks, model.world.finance)
    worth = np.maximum(kept, second_hand_value_usd(model, model.age_weeks))
    return np.asarray((worth * s.installed_gpus).sum(axis=1))


def release_stored(model: MarketModel) -> None:
    """Stored GPUs go to solvent sellers able to run them, in proportion to min(fleet, multiple × median fleet)."""
    due = [stored for stored in model.stored if stored.week <= model.week]
    if not due:
        return
    model.stored = [stored for stored in model.stored if stored.week > model.week]
    offers = [(stored, _take_used(model, stored)) for stored in due]
    sales = [sale for _, sale in offers if sale is not None]
    if sales:
        buyers, price = (np.concatenate(column) for column in zip(*sales, strict=True))
        book = sum(stored.book_usd for stored, sale in offers if sale is not None)
        sell_repossessed(model.accounts, book, buyers, price)
    if len(sales) < len(offers):
        scrap(model.accounts, sum(stored.book_usd for stored, sale in offers if sale is None))


class _Sale(NamedTuple):
    """Who buys a stored lot and at what price, ``(buyers,)`` USD."""

    buyers: Ints
    price_usd: Floats


def _take_used(model: MarketModel, stored: Stored) -> _Sale | None:
    """Buyers take used GPUs at what they are worth now, written off over what is left of a used unit's life.

    None where nobody solvent can run them.
    """
    p = model.world.finance
    gpus = _buyer_shares(model, stored.sku, p) * stored.gpus
    buyers = np.flatnonzero(gpus > 0.0)
    if not len(buyers):
        return None
    age = stored.age_weeks + p.storage_weeks
    ages = np.full(len(model.hardware.base_list_usd), age)
    price = p.recovery_share * float(second_hand_value_usd(model, ages)[stored.sku]) * gpus[buyers]
    model.accounts.assets.append(buyers, stored.sku, gpus[buyers], price, p.opening_depreciation_weeks)
    added = np.zeros(model.suppliers.installed_gpus.shape)
    added[:, stored.sku] = gpus
    install(model, added, age)
    return _Sale(buyers, price)


def _buyer_shares(model: MarketModel, sku: int, p: FinanceParameters) -> Floats:
    """Share of each supplier in a resale, ``(suppliers,)``; none if nobody solvent can run the SKU."""
    s = model.suppliers
    fleet = s.available_gpus.sum(axis=1)
    able = s.third_party & s.alive & (fleet > 0.0) & s.runs(bool(model.hardware.is_amd[sku]))
    covenants, sellers = model.accounts.covenants, model.accounts.seller_rows
    able[sellers] &= (covenants.breach_weeks == 0) & ~covenants.standing_still
    if not able.any():
        return np.zeros(len(s))
    weight = np.where(able, np.minimum(fleet, p.buyer_size_multiple * np.median(fleet[able])), 0.0)
    return np.asarray(weight / weight.sum())


def retire(model: MarketModel) -> Floats:
    """Sell a part of fleets that have not covered their running cost for a quarter; GPUs sold, ``(suppliers, skus)``.

    Only GPUs that are not let can go. They leave this market at second-hand value.
    """
    p, s = model.world.capacity, model.suppliers
    sold = model.sold_gpus() + model.pooled_gpus
    available = np.maximum(s.available_gpus, 1e-300)
    use = np.clip(sold / available, 0.0, 1.0)
    earns = use * (1.0 - model.world.costs.overhead_share_of_revenue) * np.exp(np.nan_to_num(s.list_ln))
    costs = use * model.hardware.running_usd + (1.0 - use) * model.hardware.idle_usd
    held = (s.available_gpus > 0.0) & s.third_party[:, None]
    model.weeks_under_cost = np.where(held & (earns < costs), model.weeks_under_cost + 1, 0)
    leaving = np.zeros(s.installed_gpus.shape)
    if p.retirement:
        tired = model.weeks_under_cost > p.retirement_patience_weeks
        leaving = np.where(tired, np.minimum(p.retirement_share * s.available_gpus, model.book.open_gpus), 0.0)
    if leaving.any():
        sell_retired(model.accounts, leaving, second_hand_value_usd(model, model.age_weeks))
        s.installed_gpus = s.installed_gpus - leaving
        model.book.open_gpus[:] = model.book.open_gpus - leaving
    return leaving
