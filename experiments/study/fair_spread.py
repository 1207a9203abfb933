"""Fair spread of a GPU loan whose borrower's hours a vendor covers: by simulated rents, beside the closed form.

One GPU, one loan of level quarterly payments. The rent follows a lognormal walk. The borrower fails in the first week
in which what it earns an hour is less than running cost and debt service an hour; the lender then gets a share of what
is still owed. The fair spread makes the discounted payments and recoveries worth the loan::

    firm cover of share c    earns  (1 - c) use × rent + c × lease
    floor on idle hours      earns  use × rent + min(c, 1 - use) × lease
    fails at a rent below    trigger = (running + service - covered income) / (use of what is left to sell)

Without a cap on the vendor's payments the trigger is constant and the chance to fail before a date is the first
passage of Black and Cox (1976, J. Finance 31) under continuous watch, with a known correction for weekly watch. With a
cap only the simulation answers. Draws are the same for every spread, cover and cap of a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import ndtr

from experiments.engine.errors import ScenarioError, nearest
from market.arrays import Bools, Floats
from market.costs import running_usd_per_gpu_hour
from market.loans import LoanBook
from market.units import HOURS_PER_WEEK, WEEKS_PER_YEAR

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = [
    "SPREAD_SCHEMA",
    "Deal",
    "Spread",
    "closed_form_spread",
    "deal_of",
    "fair_spread",
    "tabled",
    "trigger_usd",
    "will_have_failed",
]

_GRID = 0.0025  # step in which the first fair spread is looked for
_HIGHEST = 0.6
_OVERSHOOT = 0.5826  # -ζ(1/2)/√(2π): mean step of a walk beyond a barrier, in standard deviations


@dataclass(frozen=True)
class Deal:
    """A loan on a GPU, the rent it lives on and the cover behind it.

    Attributes:
        capital_usd: of the GPU; ``loan_to_value`` of it is lent.
        payments: level payments, one every 13 weeks.
        risk_free_per_year: rate of a loan that cannot fail.
        recovery_share: of what is owed when the borrower fails.
        rent_usd: per sold GPU-hour at first; ``drift_per_year`` and ``volatility_per_year`` of its walk.
        use: share of hours sold of those it may sell.
        running_usd: cost of a GPU-hour.
        cover: ``firm`` (hours leased back whether used or not) or ``floor`` (idle hours only).
        cover_share: part of the hours; ``lease_usd`` paid for one.
        cap_usd: most the vendor pays in all, per GPU.
    """

    capital_usd: float = 31_100.0
    loan_to_value: float = 0.6
    payments: int = 16
    risk_free_per_year: float = 0.043
    recovery_share: float = 0.6
    rent_usd: float = 2.2
    drift_per_year: float = -0.1
    volatility_per_year: float = 0.25
    use: float = 0.8
    running_usd: float = 0.45
    cover: Literal["firm", "floor"] = "firm"
    cover_share: float = 0.0
    lease_usd: float = 1.3
    cap_usd: float = np.inf

    @property
    def loan_usd(self) -> float:
        """Amount lent."""
        return self.capital_usd * self.loan_to_value

    @property
    def covered_usd(self) -> float:
        """Income of an hour that the vendor pays, USD."""
        share = self.cover_share if self.cover == "firm" else min(self.cover_share, 1.0 - self.use)
        return share * self.lease_usd

    @property
    def sold_share(self) -> float:
        """Hours sold to tenants over all hours while the cover lasts."""
        return self.use * (1.0 - self.cover_share) if self.cover == "firm" else self.use


@dataclass(frozen=True)
class Spread:
    """What a simulation of a deal says at its fair spread.

    Attributes:
        spread_per_year: over the risk-free rate; None if no spread pays for the loan.
        failed_share: of paths, before the last payment; ``failed_error`` its standard error.
        payout_usd: mean that the vendor pays per GPU while the borrower lives; ``payout_95_usd`` its 95 % quantile.
    """

    spread_per_year: float | None
    failed_share: float
    failed_error: float
    payout_usd: float
    payout_95_usd: float


@dataclass(frozen=True)
class _Schedule:
    """Payments of the loan at a rate: USD paid each quarter, and owed before each payment, ``(payments,)``."""

    paid: Floats
    owed: Floats

    def need_usd(self, deal: Deal) -> float:
        """Running cost and debt service of an hour, USD."""
        return deal.running_usd + float(self.paid[0]) / (13 * HOURS_PER_WEEK)


@lru_cache(maxsize=512)
def _schedule(deal: Deal, spread: float) -> _Schedule:
    """The loan of a deal, from the loan book of the market."""
    book, paid, owed = LoanBook(), [], []
    book.append(0, 1, deal.loan_usd, deal.risk_free_per_year + spread, deal.payments, 13)
    for week in range(1, 13 * deal.payments + 1):
        book.accrue_week()
        service = book.due(week)
        if len(service.tranches):
            owed.append(float(book.balance_usd[0] + book.accrued_usd[0]))
            paid.append(float(service.interest.usd[0] + service.principal.usd[0]))
            book.pay(service)
    return _Schedule(np.array(paid), np.array(owed))


def trigger_usd(deal: Deal, spread: float) -> float:
    """Rent below which the borrower fails while the cover lasts, USD; minus infinity if nothing can make it fail."""
    short = _schedule(deal, spread).need_usd(deal) - deal.covered_usd
    if deal.sold_share > 0.0:
        return short / deal.sold_share
    return -np.inf if short <= 0.0 else np.inf


def will_have_failed(deal: Deal, trigger: float, years: Floats) -> Floats:
    """Chance that the rent has touched a trigger by some dates, watched continuously, ``(dates,)``."""
    if trigger <= 0.0:
        return np.zeros(len(years))
    if deal.rent_usd <= trigger:
        return np.ones(len(years))
    distance, drift = np.log(trigger / deal.rent_usd), deal.drift_per_year - 0.5 * deal.volatility_per_year**2
    if deal.volatility_per_year == 0.0:
        return np.asarray(drift * years <= distance, np.float64)
    sd = deal.volatility_per_year * np.sqrt(years)
    reflected = np.exp(2.0 * drift * distance / deal.volatility_per_year**2)
    return np.asarray(ndtr((distance - drift * years) / sd) + reflected * ndtr((distance + drift * years) / sd))


def _worth(deal: Deal, spread: float, failed: Floats) -> float:
    """Value of the loan less the loan, USD, from the share of borrowers that have failed by each payment."""
    schedule = _schedule(deal, spread)
    discount = np.exp(-_continuous(deal.risk_free_per_year) * _years(deal))
    fails = np.diff(failed, prepend=0.0)
    received = schedule.paid * (1.0 - failed) + deal.recovery_share * schedule.owed * fails
    return float(received @ discount) - deal.loan_usd


def _years(deal: Deal) -> Floats:
    return 13 * np.arange(1, deal.payments + 1) / WEEKS_PER_YEAR


def _continuous(rate: float) -> float:
    """Continuous rate under which a loan at the risk-free rate, simple within a quarter, is worth what is lent."""
    quarter = 13 / WEEKS_PER_YEAR
    return float(np.log1p(rate * quarter) / quarter)


def _first_fair(worth: Callable[[float], float]) -> float | None:
    """Lowest spread at which a loan is worth what is lent: higher spreads pay more and fail more."""
    if worth(0.0) >= -1e-9:
        return 0.0
    low = 0.0
    while low < _HIGHEST:
        if worth(low + _GRID) >= 0.0:
            return float(brentq(worth, low, low + _GRID, xtol=1e-7))
        low += _GRID
    return None


def closed_form_spread(deal: Deal, watch_weeks: float = 1.0) -> float | None:
    """Fair spread without a cap, by first passage; None if no spread pays for the loan.

    Args:
        deal: loan, rent and cover; its cap is left out.
        watch_weeks: how often the rent is looked at; 0 is all the time. Seldom watch lowers the trigger to
            ``trigger × e^(-0.5826 σ √interval)`` (Broadie, Glasserman and Kou 1997, Mathematical Finance 7).
    """
    years, sd = _years(deal), deal.volatility_per_year * np.sqrt(watch_weeks / WEEKS_PER_YEAR)

    def worth(spread: float) -> float:
        trigger = trigger_usd(deal, spread) * float(np.exp(-_OVERSHOOT * sd))
        return _worth(deal, spread, will_have_failed(deal, trigger, years))

    return _first_fair(worth)


def fair_spread(deal: Deal, paths: int = 20_000, seed: int = 0) -> Spread:
    """Fair spread by simulated rents, watched weekly, with the cap on the vendor's payments.

    Args:
        deal: loan, rent and cover.
        paths: simulated rents.
        seed: of their luck; the same for every deal.
    """
    rents = _rents(deal.rent_usd, deal.drift_per_year, deal.volatility_per_year, 13 * deal.payments, paths, seed)
    lowest = _lowest(deal, rents)

    def worth(spread: float) -> float:
        return _worth(deal, spread, _failed(deal, spread, lowest).mean(axis=1))

    spread = _first_fair(worth)
    weeks = _weeks_alive(deal, _HIGHEST if spread is None else spread, rents)
    payout = np.minimum(deal.covered_usd * HOURS_PER_WEEK * weeks, deal.cap_usd)
    failed = float((weeks < len(rents)).mean())
    error = float(np.sqrt(failed * (1.0 - failed) / paths))
    return Spread(spread, failed, error, float(payout.mean()), float(np.quantile(payout, 0.95)))


def _covered_weeks(deal: Deal) -> float:
    """Weeks that the cap pays for."""
    weekly = deal.covered_usd * HOURS_PER_WEEK
    return np.inf if weekly == 0.0 else deal.cap_usd / weekly


def _lowest(deal: Deal, rents: Floats) -> tuple[Floats, Floats]:
    """Lowest rent by each payment while the cover lasts, and after it, ``(payments, paths)``; infinite if none."""
    lasts = (np.arange(1, len(rents) + 1) <= _covered_weeks(deal))[:, None]
    parts = (np.where(lasts, rents, np.inf), np.where(lasts, np.inf, rents))
    while_covered, after = (np.minimum.accumulate(part, axis=0)[12::13] for part in parts)
    return while_covered, after


def _failed(deal: Deal, spread: float, lowest: tuple[Floats, Floats]) -> Bools:
    """Who has failed by each payment, ``(payments, paths)``."""
    bare = _schedule(deal, spread).need_usd(deal) / deal.use if deal.use > 0.0 else np.inf
    return np.asarray((lowest[0] < trigger_usd(deal, spread)) | (lowest[1] < bare))


def _weeks_alive(deal: Deal, spread: float, rents: Floats) -> Floats:
    """Weeks before the failure of each path, all weeks where it does not fail, ``(paths,)``."""
    bare = _schedule(deal, spread).need_usd(deal) / deal.use if deal.use > 0.0 else np.inf
    lasts = (np.arange(1, len(rents) + 1) <= _covered_weeks(deal))[:, None]
    short = rents < np.where(lasts, trigger_usd(deal, spread), bare)
    return np.where(short.any(axis=0), short.argmax(axis=0), len(rents)).astype(np.float64)


@lru_cache(maxsize=2)
def _rents(rent_usd: float, drift: float, volatility: float, weeks: int, paths: int, seed: int) -> Floats:
    """Rents at the end of each week, ``(weeks, paths)``; half of the paths mirror the other half."""
    step = 1.0 / WEEKS_PER_YEAR
    half = np.random.default_rng(seed).standard_normal((weeks, (paths + 1) // 2))
    normal = np.concatenate([half, -half], axis=1)[:, :paths]
    moves = (drift - 0.5 * volatility**2) * step + volatility * np.sqrt(step) * normal
    return np.asarray(rent_usd * np.exp(np.cumsum(moves, axis=0)))


def deal_of(
    scenario: Scenario,
    *,
    sku: str,
    price: float,
    utilisation: float,
    drift: float,
    volatility: float,
    ltv: float,
    recovery: float,
    cover: Literal["firm", "floor"],
) -> Deal:
    """A deal on a GPU of a scenario, at its cost, payments, reference rate and lease rate.

    Args:
        scenario: whose GPU, costs, finance and leaseback.
        sku: the GPU.
        price: rent at first, USD per sold GPU-hour.
        utilisation: share of hours sold.
        drift: of the rent, per year.
        volatility: of the rent, per root year.
        ltv: loan over capital.
        recovery: share of what is owed.
        cover: kind of cover.

    Raises:
        ScenarioError: bad input, in one line.
    """
    tables = scenario.check()
    if sku not in tables.sku_index:
        raise ScenarioError(f"--sku {sku!r}: no such GPU{nearest(sku, tables.sku_index)}")
    gpu, finance, lease = tables.skus[tables.sku_index[sku]], scenario.finance, scenario.leaseback
    return Deal(
        capital_usd=gpu.capex_usd,
        loan_to_value=ltv,
        payments=finance.tenor_payments,
        risk_free_per_year=finance.base_rate,
        recovery_share=recovery,
        rent_usd=price,
        drift_per_year=drift,
        volatility_per_year=volatility,
        use=utilisation,
        running_usd=float(running_usd_per_gpu_hour([gpu], scenario.costs, scenario.costs.load_busy)[0]),
        cover=cover,
        lease_usd=lease.lease_rate_usd_per_gpu_hour * gpu.capex_usd / lease.reference_capital_usd,
    )


SPREAD_SCHEMA: dict[str, pl.DataType] = {
    "cover_share": pl.Float64(),
    "cap_usd_per_gpu": pl.Float64(),
    "fair_spread_per_year": pl.Float64(),
    "closed_form_per_year": pl.Float64(),
    "failed_share": pl.Float64(),
    "vendor_pays_usd_per_gpu": pl.Float64(),
    "vendor_pays_95_usd_per_gpu": pl.Float64(),
}
"""Columns of the table of spreads; a null cap is none, a null spread does not exist, the closed form knows no cap."""


def tabled(deal: Deal, shares: Sequence[float], caps_usd: Sequence[float], paths: int, seed: int) -> pl.DataFrame:
    """Fair spreads by cover share, without a cap and with each of some caps, with `SPREAD_SCHEMA`."""
    rows = []
    for share in shares:
        for cap in (np.inf, *caps_usd):
            one = replace(deal, cover_share=share, cap_usd=cap)
            found, free = fair_spread(one, paths, seed), bool(np.isinf(cap))
            closed = closed_form_spread(one) if free else None
            payouts = (found.failed_share, found.payout_usd, found.payout_95_usd)
            rows.append((share, None if free else cap, found.spread_per_year, closed, *payouts))
    return pl.DataFrame(rows, schema=SPREAD_SCHEMA, orient="row")
