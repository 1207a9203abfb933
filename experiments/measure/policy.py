"""What the policies did and cost, and what tenants got: developer cloud, vendors' bills, surplus, unmet work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from experiments.measure.records import Cell, Floats, Panel, Records, Window, cell, ratio
from market.units import HOURS_PER_WEEK, WEEKS_PER_YEAR

__all__ = [
    "developer_cloud_bind_share",
    "developer_cloud_fill",
    "developer_cloud_hours",
    "developer_cloud_queue",
    "leaseback_cost",
    "loss_given_default",
    "pool_fee",
    "pool_participation",
    "stranded_debt",
    "switching_rate",
    "switching_share",
    "tenant_surplus",
    "unmet_share",
    "unmet_work",
    "vendor_hardware_sales",
    "vendor_net_cost",
]

BINDING = 0.99
"""A cap binds in a week in which at least this share of it is sold."""

_NO_CAP = "no developer cloud in the window"


def developer_cloud_hours(records: Records, window: Window) -> Iterator[Cell]:
    """End tenants' GPU-hours on the developer cloud over the window; 0 where there is none."""
    gpus = records.lots.known("developer_cloud_gpus")[window.rows].sum()
    yield cell(float(gpus * HOURS_PER_WEEK), "", vendor="amd")


def _desk(records: Records, window: Window, column: str) -> Floats:
    """A column of the developer cloud's desk by week, its SKUs summed."""
    desks = records.desks
    mine = desks.labels["desk"] == "developer_cloud"
    return np.asarray(desks.known(column)[window.rows][:, mine].sum(axis=1))


def developer_cloud_queue(records: Records, window: Window) -> Iterator[Cell]:
    """Share of the GPUs asked of the developer cloud, after quota, that were turned away: 1 - filled/requested."""
    reason = "nobody asks for the developer cloud"
    if "filled_gpus" not in records.desks.values:
        yield cell(np.nan, "what the desk filled is not recorded", vendor="amd")
        return
    filled, asked = (_desk(records, window, column).sum() for column in ("filled_gpus", "requested_gpus"))
    yield cell(1.0 - float(ratio(filled, asked)), reason, vendor="amd")


def developer_cloud_fill(records: Records, window: Window) -> Iterator[Cell]:
    """Hours sold on the developer cloud over hours under its cap."""
    sold, cap = (_desk(records, window, column).sum() for column in ("sold_gpus", "cap_gpus"))
    yield cell(float(ratio(sold, cap)), _NO_CAP, vendor="amd")


def developer_cloud_bind_share(records: Records, window: Window) -> Iterator[Cell]:
    """Share of the policy's weeks in which its cap binds."""
    sold, cap = (_desk(records, window, column) for column in ("sold_gpus", "cap_gpus"))
    binds = (cap > 0.0) & (sold >= BINDING * cap)
    yield cell(float(ratio(binds.sum(), (cap > 0.0).sum())), _NO_CAP, vendor="amd")


def leaseback_cost(records: Records, window: Window) -> Iterator[Cell]:
    """What a vendor pays for GPUs leased back, firm and floor, USD over the window."""
    return _vendors(records, records.books.known("leaseback_paid_usd")[window.rows].sum(axis=0))


def vendor_net_cost(records: Records, window: Window) -> Iterator[Cell]:
    """Leaseback, programme and guarantees paid less cloud rent and fees received, USD over the window.

    The margin on additional GPUs sold is a matter of two arms: it is the paired difference of `vendor_gross_profit`.
    """
    books = records.books
    paid = books.known("leaseback_paid_usd") + books.known("programme_usd") + books.known("guarantee_paid_usd")
    net = paid - books.known("developer_cloud_rent_usd") - books.known("fee_income_usd")
    return _vendors(records, net[window.rows].sum(axis=0))


def vendor_hardware_sales(records: Records, window: Window) -> Iterator[Cell]:
    """GPUs that a vendor sold to sellers, USD over the window."""
    return _vendors(records, records.books.known("hardware_sales_usd")[window.rows].sum(axis=0))


def _vendors(records: Records, usd: Floats) -> Iterator[Cell]:
    labels = records.books.labels
    for agent in np.flatnonzero(labels["provider_class"] == "vendor"):
        yield cell(usd[agent], "", vendor=str(labels["agent"][agent]).lower())


def pool_fee(records: Records, window: Window) -> Iterator[Cell]:
    """Fees and shares of rent that a vendor received from sellers, USD over the window."""
    return _vendors(records, records.books.known("fee_income_usd")[window.rows].sum(axis=0))


def pool_participation(records: Records, window: Window) -> Iterator[Cell]:
    """Share of Nvidia GPUs on sale that belong to pool members, mean over the window."""
    nvidia = records.lots.labels["vendor"] == "nvidia"
    available = records.lots.known("available_gpus")[window.rows][:, nvidia]
    member = records.lots.known("pool_member")[window.rows][:, nvidia] > 0.0
    yield cell(float(ratio((available * member).sum(), available.sum())), "no Nvidia GPU on sale", vendor="nvidia")


def stranded_debt(records: Records, window: Window) -> Iterator[Cell]:
    """Debt that lenders wrote off, USD over the window."""
    yield cell(float(records.books.known("credit_loss_usd")[window.rows].sum()), "")


def loss_given_default(records: Records, window: Window) -> Iterator[Cell]:
    """Lenders' loss over what sellers that failed in the window owed, guarantees counted as recovery.

    Repossessed GPUs count at what lenders took them for; what they sold for later is in `lender_loss`.
    """
    failed = records.failures.filter(pl.col("week").is_between(window.first, window.last))
    yield cell(float(ratio(failed["loss_usd"].sum(), failed["debt_usd"].sum())), "no debt failed in the window")


def tenant_surplus(records: Records, window: Window) -> Iterator[Cell]:
    """Log-sum surplus of tenants, USD over the window, by segment and together."""
    return _segments(records, records.segments["surplus_usd"][window.rows].sum(axis=0), "no money measure of surplus")


def unmet_work(records: Records, window: Window) -> Iterator[Cell]:
    """Work that capacity turned away, H100e-hours over the window, by segment and together."""
    unmet = records.segments["unmet_h100e"][window.rows].sum(axis=0) * HOURS_PER_WEEK
    return _segments(records, unmet, "not recorded in every week")


def unmet_share(records: Records, window: Window) -> Iterator[Cell]:
    """Work that capacity turned away over work wanted, by segment and together."""
    return _quotient(records, window, "unmet_h100e", "wanted_h100e", "no work is wanted")


def switching_share(records: Records, window: Window) -> Iterator[Cell]:
    """Share of the tenants who sign that sign with another seller than their last, by segment and together."""
    return _quotient(records, window, "switchers", "movers", "no tenant signs")


def switching_rate(records: Records, window: Window) -> Iterator[Cell]:
    """Changes of seller per tenant and year, by segment and together."""
    segments = records.segments
    if "tenants" not in segments.values:
        yield cell(np.nan, "the number of tenants is not recorded")
        return
    switches, tenants = (segments.known(column)[window.rows].sum(axis=0) for column in ("switchers", "tenants"))
    yield from _rates(segments, switches * WEEKS_PER_YEAR, tenants, "no tenant")


def _quotient(records: Records, window: Window, top: str, bottom: str, reason: str) -> Iterator[Cell]:
    over, under = (records.segments.known(column)[window.rows].sum(axis=0) for column in (top, bottom))
    return _rates(records.segments, over, under, reason)


def _rates(segments: Panel, top: Floats, bottom: Floats, reason: str) -> Iterator[Cell]:
    for name, value in zip(segments.labels["segment"], ratio(top, bottom), strict=True):
        yield cell(value, reason, segment=str(name))
    yield cell(float(ratio(top.sum(), bottom.sum())), reason)


def _segments(records: Records, values: Floats, reason: str) -> Iterator[Cell]:
    for name, value in zip(records.segments.labels["segment"], values, strict=True):
        yield cell(value, reason, segment=str(name))
    yield cell(float(values.sum()), reason)
