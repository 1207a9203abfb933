"""Credit: who earns and who bears what, leverage and cover, breaches, causes of default, what vendors pay and fund."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from experiments.measure.margins import MARGIN_CLASSES
from experiments.measure.records import Bools, Cell, Floats, Records, Window, cell, members, ratio
from market.units import HOURS_PER_WEEK

__all__ = [
    "CAUSES",
    "breaches",
    "cover",
    "credit_loss_rate",
    "defaults_by_cause",
    "failed",
    "lender_exposure",
    "lender_loss",
    "leverage",
    "profit",
    "relet_share",
    "sellers",
    "vendor_funded_hours",
    "vendor_funded_share",
    "vendor_gross_profit",
    "vendor_payout",
]

CAUSES = {
    "cash": ("missed payment", "operating loss"),
    "covenant": ("covenant",),
    "lost_tenant": ("lost tenant",),
}
"""Causes of default as they are counted, and as they are recorded."""

_NO_DEBT = "no debt in the class"


def _over(records: Records, window: Window, column: str, agents: Bools) -> Floats:
    """A column of the books by week of the window, summed over agents."""
    return np.asarray(records.books.known(column)[window.rows][:, agents].sum(axis=1))


def _lender(records: Records) -> Bools:
    return np.asarray(records.books.labels["provider_class"] == "lender")


def _vendors(records: Records) -> Iterator[tuple[str, Bools]]:
    """Name of each vendor and its place in the books."""
    labels = records.books.labels
    for place in np.flatnonzero(labels["provider_class"] == "vendor"):
        yield str(labels["agent"][place]).lower(), np.arange(len(labels["agent"])) == place


def profit(records: Records, window: Window) -> Iterator[Cell]:
    """Profit over the window, USD: by class of seller, of lenders, and of each vendor.

    What the failed lose and what is forgiven them is in it, so the difference of two arms splits a loss between
    owners, lenders and vendors.
    """
    for name in MARGIN_CLASSES:
        agents = records.agents_in(name)
        total = float(_over(records, window, "profit_usd", agents).sum()) if agents.any() else np.nan
        yield cell(total, "no seller in the class", provider_class=name)
    lender = _lender(records)
    total = float(_over(records, window, "profit_usd", lender).sum()) if lender.any() else np.nan
    yield cell(total, "no lender in the books", provider_class="lender")
    for vendor, place in _vendors(records):
        yield cell(float(_over(records, window, "profit_usd", place).sum()), "", vendor=vendor, provider_class="vendor")


def vendor_payout(records: Records, window: Window) -> Iterator[Cell]:
    """What a vendor pays on its promises: covered hours that stayed idle, and guarantees; USD over the window."""
    for vendor, place in _vendors(records):
        paid = sum(_over(records, window, column, place).sum() for column in ("cover_paid_usd", "guarantee_paid_usd"))
        yield cell(float(paid), "", vendor=vendor)


def vendor_gross_profit(records: Records, window: Window) -> Iterator[Cell]:
    """GPUs sold less what they cost to make, USD over the window, by vendor."""
    for vendor, place in _vendors(records):
        sold, made = (_over(records, window, name, place).sum() for name in ("hardware_sales_usd", "hardware_cost_usd"))
        yield cell(float(sold - made), "", vendor=vendor)


def vendor_funded_share(records: Records, window: Window) -> Iterator[Cell]:
    """Part of sellers' revenue that vendors pay, for leased-back and covered hours, by class."""
    for name in MARGIN_CLASSES:
        agents = records.agents_in(name)
        funded, rent, pool = (
            float(_over(records, window, column, agents).sum()) for column in ("leaseback_usd", "rent_usd", "pool_usd")
        )
        yield cell(float(ratio(funded, funded + rent + pool)), "no revenue in the class", provider_class=name)


def vendor_funded_hours(records: Records, window: Window) -> Iterator[Cell]:
    """GPU-hours leased back in full that the vendor uses itself, over the window: no tenant pays for them."""
    yield cell(float(records.lots.known("vendor_use_gpus")[window.rows].sum()) * HOURS_PER_WEEK, "", vendor="amd")


def relet_share(records: Records, window: Window) -> Iterator[Cell]:
    """Part of the hours leased back in full that the vendor lets again on its cloud."""
    let, firm = (records.lots.known(name)[window.rows].sum() for name in ("developer_cloud_gpus", "firm_gpus"))
    yield cell(float(ratio(let, firm)), "nothing is leased back in full", vendor="amd")


def lender_loss(records: Records, window: Window) -> Iterator[Cell]:
    """Debt and interest written off, less guarantees received and gains on repossessed GPUs; USD over the window."""
    yield cell(float(_losses(records, window).sum()), "")


def _losses(records: Records, window: Window) -> Floats:
    lost, saved, resold = (
        _over(records, window, name, _lender(records))
        for name in ("credit_loss_usd", "guarantee_income_usd", "resale_result_usd")
    )
    return lost - saved - resold


def lender_exposure(records: Records, window: Window) -> Iterator[Cell]:
    """Loans outstanding, mean over the window, USD."""
    yield cell(float(_over(records, window, "debt_usd", records.agents_in("all")).mean()), "")


def credit_loss_rate(records: Records, window: Window) -> Iterator[Cell]:
    """Lenders' net loss over the window as a share of mean loans outstanding."""
    lent = float(_over(records, window, "debt_usd", records.agents_in("all")).mean())
    yield cell(float(ratio(_losses(records, window).sum(), lent)), "nothing is lent")


def leverage(records: Records, window: Window) -> Iterator[Cell]:
    """Debt over the second-hand value of fleets, sums over sums, by class; sellers without debt left out."""
    for name in MARGIN_CLASSES:
        debt = records.books.known("debt_usd")[window.rows][:, records.agents_in(name)]
        value = records.books.known("fleet_value_usd")[window.rows][:, records.agents_in(name)]
        owing = debt > 0.0
        yield cell(float(ratio((debt * owing).sum(), (value * owing).sum())), _NO_DEBT, provider_class=name)


def cover(records: Records, window: Window) -> Iterator[Cell]:
    """Smoothed debt service cover of sellers with debt, mean weighted by debt, by class."""
    for name in MARGIN_CLASSES:
        agents = records.agents_in(name)
        debt = records.books.known("debt_usd")[window.rows][:, agents]
        ratios = records.books.known("dscr")[window.rows][:, agents]
        yield cell(float(ratio((debt * ratios).sum(), debt.sum())), _NO_DEBT, provider_class=name)


def breaches(records: Records, window: Window) -> Iterator[Cell]:
    """Sellers that were in breach of a covenant in some week of the window, by class."""
    for name in MARGIN_CLASSES:
        agents = records.agents_in(name)
        inside = records.books.known("breach")[window.rows][:, agents] > 0.0
        found = float(inside.any(axis=0).sum()) if agents.any() else np.nan
        yield cell(found, "no seller in the class", provider_class=name)


def sellers(records: Records, window: Window) -> Iterator[Cell]:
    """Sellers alive before the window, by class."""
    for name, alive in _lives(records, window):
        yield cell(float(alive[0].sum()), "", provider_class=name)


def failed(records: Records, window: Window) -> Iterator[Cell]:
    """Sellers alive before the window that failed in it, by class: of those that `sellers` counts."""
    for name, alive in _lives(records, window):
        yield cell(float((alive[0] & ~alive.all(axis=0)).sum()), "", provider_class=name)


def _lives(records: Records, window: Window) -> Iterator[tuple[str, Bools]]:
    """Life of each seller of a class from the week before the window on, ``(weeks + 1, sellers)``."""
    alive = records.books.known("alive")[window.first - 1 : window.last + 1] > 0.0
    for name in MARGIN_CLASSES:
        yield name, alive[:, records.agents_in(name)]


def defaults_by_cause(records: Records, window: Window, cause: str) -> Iterator[Cell]:
    """Sellers that failed in the window of one of `CAUSES`, by class."""
    ended = records.failures.filter(
        pl.col("week").is_between(window.first, window.last), pl.col("cause").is_in(CAUSES[cause])
    )
    labels = ("seller", "provider_class", "heavy")
    names, kinds, heavy = (ended[column].to_numpy().astype(np.str_) for column in labels)
    for name in MARGIN_CLASSES:
        inside = members(name, names, kinds, heavy, records.largest)
        found = float(inside.sum()) if records.agents_in(name).any() else np.nan
        yield cell(found, "no seller in the class", provider_class=name)
