"""Who rents out the hours: AMD's share in five measures, utilisation, concentration.

End tenants' GPU-hours are direct + pool + developer cloud; a vendor's own use of leased-back GPUs is nobody's demand.
Report the shares side by side: they disagree, and each is right about something else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.measure.margins import MARGIN_CLASSES
from experiments.measure.records import HEADLINE, Bools, Cell, Floats, Records, Window, cell, ratio

__all__ = [
    "amd_and_all",
    "amd_hour_share",
    "amd_new_work_share",
    "amd_shipment_share",
    "amd_spend_share",
    "amd_unit_share",
    "cloud_rent",
    "hhi_seller",
    "hhi_vendor",
    "pool_hour_share",
    "rented_and_available",
    "sellers_rent",
    "tenants_gpus",
    "utilisation",
]

SHARE_CLASSES = ("all", HEADLINE)


def tenants_gpus(records: Records) -> Floats:
    """GPUs held by end tenants through any channel, ``(weeks + 1, series)``."""
    lots = records.lots
    return lots.known("sold_gpus") + lots.known("pool_gpus") + lots.known("developer_cloud_gpus")


def amd_and_all(records: Records, quantity: Floats, provider_class: str) -> tuple[Floats, Floats]:
    """AMD's part of a quantity ``(weeks + 1, series)`` in a class, and the whole of it, by week ``(weeks + 1,)``."""
    inside, amd = records.in_class(provider_class), records.lots.labels["vendor"] == "amd"
    return quantity[:, inside & amd].sum(axis=1), quantity[:, inside].sum(axis=1)


def _amd_share(
    records: Records, window: Window, quantity: Floats, reason: str, elsewhere: Floats | float = 0.0
) -> Iterator[Cell]:
    """AMD's share of the sum over the window of ``quantity``, ``(weeks + 1, series)``, by class.

    ``elsewhere`` is AMD's too, ``(weeks + 1,)``, and no seller's.
    """
    for name in SHARE_CLASSES:
        amd, every = ((part + elsewhere)[window.rows].sum() for part in amd_and_all(records, quantity, name))
        yield cell(float(ratio(amd, every)), reason, vendor="amd", provider_class=name)


def amd_hour_share(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's share of end tenants' GPU-hours, by class of seller and by segment of tenant."""
    yield from _amd_share(records, window, tenants_gpus(records), "no GPU is rented")
    yield from _by_segment(records, window, "amd_gpus", "nvidia_gpus", "the segment holds no GPU")


def amd_spend_share(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's share of end tenants' spend: direct rent, pool (what sellers receive, the fee left out), developer cloud.

    The developer cloud's rent goes to the vendor and is counted in every class: its hosts are neoclouds.
    """
    return _amd_share(records, window, sellers_rent(records), "no tenant pays", cloud_rent(records))


def sellers_rent(records: Records) -> Floats:
    """Rent of end tenants that sellers receive, direct and pool, ``(weeks + 1, series)``, USD."""
    return records.lots.known("revenue_usd") + records.lots.known("pool_revenue_usd")


def cloud_rent(records: Records) -> Floats:
    """Rent of the developer cloud, ``(weeks + 1,)``, USD."""
    return np.asarray(records.desks.known("rent_usd")[:, _developer_cloud(records)].sum(axis=1))


def _developer_cloud(records: Records) -> Bools:
    return np.asarray(records.desks.labels["desk"] == "developer_cloud")


def amd_unit_share(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's share of installed rentable GPUs, mean over the window."""
    return _amd_share(records, window, records.lots.known("installed_gpus"), "no GPU is installed")


def amd_shipment_share(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's share of the GPUs delivered in the window."""
    return _amd_share(records, window, records.lots.known("delivered_gpus"), "no GPU is delivered")


def amd_new_work_share(records: Records, window: Window) -> Iterator[Cell]:
    """AMD's share of the work placed in the window, at base-week throughput: maturity alone moves no share."""
    amd, nvidia = "amd_new_work_h100e", "nvidia_new_work_h100e"
    work = [float(records.segments.known(column)[window.rows].sum()) for column in (amd, nvidia)]
    yield cell(float(ratio(work[0], sum(work))), "no work is placed", vendor="amd")
    yield from _by_segment(records, window, amd, nvidia, "the segment places no work")


def _by_segment(records: Records, window: Window, amd: str, nvidia: str, reason: str) -> Iterator[Cell]:
    ours, theirs = (records.segments.known(column)[window.rows].sum(axis=0) for column in (amd, nvidia))
    for name, share in zip(records.segments.labels["segment"], ratio(ours, ours + theirs), strict=True):
        yield cell(share, reason, vendor="amd", segment=str(name))


def utilisation(records: Records, window: Window) -> Iterator[Cell]:
    """End tenants' hours over hours available to them, by SKU and class.

    Firm GPUs behind the developer cloud are in neither: they are in no seller's offers, and would move the ratio
    between arms by arithmetic alone.
    """
    rented, available = (gpus[window.rows].sum(axis=0) for gpus in rented_and_available(records))
    for name in MARGIN_CLASSES:
        inside = records.in_class(name)
        used, had = records.by_sku(rented * inside), records.by_sku(available * inside)
        yield from records.sku_cells(name, ratio(used, had), "no GPU is available")
        yield cell(float(ratio(used.sum(), had.sum())), "no GPU is available", provider_class=name)


def rented_and_available(records: Records) -> tuple[Floats, Floats]:
    """GPUs that sellers rent out, and those they can, ``(weeks + 1, series)``."""
    lots = records.lots
    rented = lots.known("sold_gpus") + lots.known("pool_gpus")
    return rented, np.maximum(lots.known("available_gpus") - lots.known("down_gpus"), 0.0)


def pool_hour_share(records: Records, window: Window) -> Iterator[Cell]:
    """Share of end tenants' GPU-hours that are rented through the pool."""
    pool, hours = records.lots.known("pool_gpus")[window.rows], tenants_gpus(records)[window.rows]
    for name in SHARE_CLASSES:
        inside = records.in_class(name)
        share = float(ratio(pool[:, inside].sum(), hours[:, inside].sum()))
        yield cell(share, "no GPU is rented", provider_class=name)


def hhi_vendor(records: Records, window: Window) -> Iterator[Cell]:
    """Herfindahl index of vendors' shares of end tenants' GPU-hours, 0 to 1."""
    return _herfindahl(records, window, "vendor")


def hhi_seller(records: Records, window: Window) -> Iterator[Cell]:
    """Herfindahl index of sellers' shares of end tenants' GPU-hours, 0 to 1."""
    return _herfindahl(records, window, "seller")


def _herfindahl(records: Records, window: Window, label: str) -> Iterator[Cell]:
    owner = np.unique(records.lots.labels[label], return_inverse=True)[1]
    hours = tenants_gpus(records)[window.rows].sum(axis=0)
    for name in SHARE_CLASSES:
        shares = np.bincount(owner, hours * records.in_class(name))
        index = float(ratio((shares**2).sum(), shares.sum() ** 2))
        yield cell(index, "no GPU is rented", provider_class=name)
