"""What a GPU's hours must earn, what a floor under rents is worth, and when cash fails: formulas for calculators.

Prices are USD per GPU-hour, rates annual. Nothing here is called in the week.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from market.arrays import Floats
from market.costs import CostParameters, cost_parts_usd_per_gpu_hour
from market.credit import annuity_payment
from market.tables import Sku
from market.units import HOURS_PER_YEAR

__all__ = [
    "LeveragedPrice",
    "break_even_usd_per_gpu_hour",
    "break_even_with_debt",
    "failure_probability",
    "failure_trigger_usd_per_gpu_hour",
    "floor_value_usd",
    "levelised_parts_usd_per_gpu_hour",
    "rent_value_usd",
]

Watch = Literal["end", "weekly", "continuous"]
# A barrier watched at steps is reached like a continuous one this many standard deviations of a step further away:
# -zeta(1/2)/sqrt(2 pi) (Broadie, Glasserman & Kou 1997).
_STEP_SHIFT = 0.5825971579390107
_STEPS_PER_YEAR = 52.0


def break_even_usd_per_gpu_hour(
    capex_usd: float,
    running_usd_per_year: float,
    sold_hours_per_year: float,
    *,
    annual_rate: float,
    years: int,
    residual_usd: float = 0.0,
    periods_per_year: int = 1,
    annual_price_decline: float = 0.0,
) -> float:
    """First-year price at which a GPU's life has no net present value; flows at the end of periods, no tax.

    ``(capex + running - residual, all discounted) / (discounted sold hours, each counted at its year's price level)``.

    Args:
        capex_usd: Cost of the GPU.
        running_usd_per_year: Running cost, sold or not.
        sold_hours_per_year: Hours sold.
        annual_rate: Effective annual discount rate.
        years: Life.
        residual_usd: What it fetches at the end.
        periods_per_year: Payments a year.
        annual_price_decline: Fraction by which the price falls from year to year.

    Raises:
        ValueError: no hours are sold, or the life is no whole number of years above 0.
    """
    if sold_hours_per_year <= 0.0 or years < 1 or years != int(years):
        raise ValueError("a price breaks even only over at least one whole year with hours sold")
    period = np.arange(1, int(years) * periods_per_year + 1)
    discount = (1.0 + annual_rate) ** (-period / periods_per_year)
    level = (1.0 - annual_price_decline) ** ((period - 1) // periods_per_year)
    outlay = capex_usd + running_usd_per_year / periods_per_year * discount.sum() - residual_usd * discount[-1]
    return float(outlay / (sold_hours_per_year / periods_per_year * (discount * level).sum()))


def levelised_parts_usd_per_gpu_hour(
    sku: Sku,
    costs: CostParameters,
    *,
    utilisation: float,
    residual_share: float = 0.0,
    periods_per_year: int = 1,
    hours_per_year: float = HOURS_PER_YEAR,
) -> dict[str, float]:
    """Parts of the levelised cost of a *sold* GPU-hour; their sum is the break-even price.

    Everything is paid on installed hours, thus divided by utilisation. Space and upkeep are yearly bills, electricity
    goes by hours.

    Args:
        sku: Hardware.
        costs: Prices, rate of return and life.
        utilisation: Sold over installed hours.
        residual_share: Resale value at the end over capital cost.
        periods_per_year: Payments a year.
        hours_per_year: Hours of a year: 8,760, or 52 weeks of 168.
    """
    hourly = {name: float(part[0]) for name, part in cost_parts_usd_per_gpu_hour([sku], costs, costs.load_busy).items()}
    sold = hours_per_year * utilisation
    capital = break_even_usd_per_gpu_hour(
        sku.capex_usd,
        0.0,
        sold,
        annual_rate=costs.cost_of_capital,
        years=int(costs.life_years) if costs.life_years == int(costs.life_years) else 0,
        residual_usd=residual_share * sku.capex_usd,
        periods_per_year=periods_per_year,
    )
    return {
        "capital": capital,
        "colocation": hourly["colocation"] * HOURS_PER_YEAR / sold,
        "electricity": hourly["electricity"] / utilisation,
        "operations": hourly["operations"] * HOURS_PER_YEAR / sold,
    }


class LeveragedPrice(NamedTuple):
    """Price at which equity just earns its return, yearly debt service, and cash before service over service."""

    price_usd_per_gpu_hour: float
    service_usd_per_year: float
    service_cover: float | None


def break_even_with_debt(
    capex_usd: float,
    running_usd_per_year: float,
    sold_hours_per_year: float,
    *,
    debt_share: float,
    debt_rate: float,
    equity_return: float,
    years: int,
    residual_usd: float = 0.0,
) -> LeveragedPrice:
    """Price at which owners earn ``equity_return`` beside a level loan over the life; yearly flows, no tax.

    Without debt there is no cover.

    Raises:
        ValueError: as `break_even_usd_per_gpu_hour`.
    """
    service = float(annuity_payment(debt_share * capex_usd, debt_rate, years)) if debt_share else 0.0
    price = break_even_usd_per_gpu_hour(
        (1.0 - debt_share) * capex_usd,
        running_usd_per_year + service,
        sold_hours_per_year,
        annual_rate=equity_return,
        years=years,
        residual_usd=residual_usd,
    )
    before_service = price * sold_hours_per_year - running_usd_per_year
    return LeveragedPrice(price, service, before_service / service if service else None)


# --- floors and failure ----------------------------------------------------------------------------------------------


def floor_value_usd(
    rent_usd: float, floor_usd: float, drift: float, volatility: float, rate: float, dates_years: Floats, hours: float
) -> float:
    """Value of a floor under rents: a strip of puts on a rent that follows a lognormal walk (Black 1976).

    ``Σ hours × e^(-r t) × [K N(-d2) - F N(-d1)]`` with ``F = rent × e^(drift t)``; without volatility the discounted
    shortfall of F.

    Args:
        rent_usd: Rent now, USD per GPU-hour.
        floor_usd: Floor K.
        drift: Of the rent, annual, continuous.
        volatility: Of the rent, annual.
        rate: Continuous discount rate.
        dates_years: When rents are fixed and paid, years.
        hours: GPU-hours between dates.
    """
    forward, sd = rent_usd * np.exp(drift * dates_years), volatility * np.sqrt(dates_years)
    with np.errstate(divide="ignore"):
        d1 = np.where(sd > 0.0, np.log(forward / floor_usd) / np.maximum(sd, 1e-300) + sd / 2.0, 0.0)
    put = np.where(sd > 0.0, floor_usd * ndtr(sd - d1) - forward * ndtr(-d1), np.maximum(floor_usd - forward, 0.0))
    return float((hours * np.exp(-rate * dates_years) * put).sum())


def rent_value_usd(rent_usd: float, drift: float, rate: float, dates_years: Floats, hours: float) -> float:
    """Value of the rent itself on the same dates."""
    return float((hours * rent_usd * np.exp((drift - rate) * dates_years)).sum())


def failure_trigger_usd_per_gpu_hour(
    cash_need_usd: float, leased_share: float, lease_usd: float, utilisation: float
) -> float:
    """Rent below which a seller's cash flow is negative, all per installed GPU-hour.

    ``(need - share × lease) / ((1 - share) × utilisation)``; negative where the lease alone pays for everything.
    """
    left = cash_need_usd - leased_share * lease_usd
    open_hours = (1.0 - leased_share) * utilisation
    if open_hours <= 0.0:
        return float(np.copysign(np.inf, left))
    return left / open_hours


def failure_probability(
    rent_usd: float, trigger_usd: float, drift: float, volatility: float, years: float, watch: Watch = "continuous"
) -> float:
    """Chance that a lognormal rent is under a trigger: at the end, or ever until then (Black & Cox 1976).

    A weekly watch sees less than a continuous one: its barrier counts as .58 weekly standard deviations lower (Broadie,
    Glasserman & Kou 1997).

    Args:
        rent_usd: Rent now.
        trigger_usd: Rent under which cash fails.
        drift: Of the rent, annual, continuous (``E[rent] = rent × e^(drift t)``).
        volatility: Of the rent, annual.
        years: Horizon.
        watch: At the end, at the end of every week (52 a year), or all the time.
    """
    if trigger_usd <= 0.0:
        return 0.0
    distance, pull = float(np.log(trigger_usd / rent_usd)), drift - volatility**2 / 2.0
    if watch == "end":
        return _under(distance - pull * years, volatility * np.sqrt(years))
    if distance >= 0.0 and watch == "continuous":
        return 1.0
    if volatility == 0.0:
        return float(pull * years <= distance)
    if watch == "weekly":
        distance = min(distance - _STEP_SHIFT * volatility / np.sqrt(_STEPS_PER_YEAR), 0.0)
    sd = volatility * np.sqrt(years)
    # The mirrored term can be a huge factor on a tiny probability: add logarithms.
    mirrored = 2.0 * pull * distance / volatility**2 + log_ndtr((distance + pull * years) / sd)
    return float(min(ndtr((distance - pull * years) / sd) + np.exp(mirrored), 1.0))


def _under(distance: float, sd: float) -> float:
    return float(ndtr(distance / sd)) if sd > 0.0 else float(distance > 0.0)
