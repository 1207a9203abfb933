"""At what price an AMD GPU-hour costs a tenant the same per unit of work as an Nvidia one, by segment.

The tenant compares as in the market (log utility, same seller quality, its own taste for vendors apart)::

    flip price         = Nvidia price × throughput(AMD) / throughput(Nvidia)
    with switching     = flip price × e^-(lock-in × what is left of it + port cost + switching cost)

Throughput includes software maturity, now and some weeks later; later also less of the lock-in is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.study.calculator import opening_throughput
from market.arrays import Floats
from market.software import lock_in_left, next_maturity
from market.tables import SegmentRow, Sku
from market.throughput import SoftwareParameters, maturity_start
from market.units import VENDORS

__all__ = ["FlipPrice", "Switching", "flip_prices", "later_maturity"]

_AMD = VENDORS.index("amd")


@dataclass(frozen=True)
class Switching:
    """What holds a tenant where it is, beside the segment's lock-in.

    Attributes:
        port_cost_ln: first move from CUDA to ROCm, ln USD.
        switching_cost_ln: leaving its seller, ln USD.
    """

    port_cost_ln: float
    switching_cost_ln: float


@dataclass(frozen=True)
class FlipPrice:
    """AMD price of indifference in one segment.

    Attributes:
        segment: kind of work.
        amd_sku, nvidia_sku: what is compared.
        nvidia_price_usd_per_gpu_hour: given.
        work_ratio: work of an AMD GPU-hour over that of an Nvidia one.
        flip_price_usd_per_gpu_hour: below it the AMD hour is cheaper per unit of work.
        flip_price_with_switching_usd_per_gpu_hour: below it a median tenant that has never run on ROCm would move.
        weeks_later: how many weeks the figures named later lie ahead.
        work_ratio_later: with the software of then.
        flip_price_later_usd_per_gpu_hour: the same.
        flip_price_with_switching_later_usd_per_gpu_hour: the same, with what is left of the lock-in.
    """

    segment: str
    amd_sku: str
    nvidia_sku: str
    nvidia_price_usd_per_gpu_hour: float
    work_ratio: float
    flip_price_usd_per_gpu_hour: float
    flip_price_with_switching_usd_per_gpu_hour: float
    weeks_later: int
    work_ratio_later: float
    flip_price_later_usd_per_gpu_hour: float
    flip_price_with_switching_later_usd_per_gpu_hour: float


def later_maturity(
    segments: Sequence[SegmentRow], software: SoftwareParameters, weeks: int, share_of_use: float = 0.0
) -> Floats:
    """AMD's maturity as tenants see it after so many weeks, ``(segments,)``, CUDA = 1.

    Args:
        segments: with their ceilings.
        software: law of maturity.
        weeks: from June 2025.
        share_of_use: AMD's share of used GPUs all the while; 0 leaves out what use adds.
    """
    maturity: Floats = maturity_start(segments, software)[_AMD]
    if not (software.maturity_moves and software.maturity_enters_choice):
        return maturity
    ceiling = np.array([segment.software_ceiling for segment in segments])
    for _ in range(weeks):
        maturity = next_maturity(maturity, ceiling, share_of_use, software)
    return maturity


def flip_prices(
    skus: Sequence[Sku],
    segments: Sequence[SegmentRow],
    software: SoftwareParameters,
    switching: Switching,
    *,
    amd_sku: str,
    nvidia_sku: str,
    nvidia_price_usd_per_gpu_hour: float,
    weeks_later: int = 0,
    share_of_use: float = 0.0,
) -> tuple[FlipPrice, ...]:
    """Flip prices of an AMD GPU against an Nvidia GPU at its price, one per segment; see the module for the formula."""
    names = [sku.name for sku in skus]
    work = opening_throughput(skus, segments, software)
    ratio_now = work[:, names.index(amd_sku)] / work[:, names.index(nvidia_sku)]
    opening = maturity_start(segments, software)[_AMD]
    later = later_maturity(segments, software, weeks_later, share_of_use)
    ratio_later = ratio_now * later / opening
    left = lock_in_left(later, opening)

    def price(g: int, ratio: Floats, lock_left: float | None = None) -> float:
        """Flip price in a segment; with switching where a part of the lock-in is named."""
        held = 0.0
        if lock_left is not None:
            held = segments[g].lock_in * lock_left + switching.port_cost_ln + switching.switching_cost_ln
        return float(nvidia_price_usd_per_gpu_hour * ratio[g] * math.exp(-held))

    return tuple(
        FlipPrice(
            segment=segment.name,
            amd_sku=amd_sku,
            nvidia_sku=nvidia_sku,
            nvidia_price_usd_per_gpu_hour=nvidia_price_usd_per_gpu_hour,
            work_ratio=float(ratio_now[g]),
            flip_price_usd_per_gpu_hour=price(g, ratio_now),
            flip_price_with_switching_usd_per_gpu_hour=price(g, ratio_now, 1.0),
            weeks_later=weeks_later,
            work_ratio_later=float(ratio_later[g]),
            flip_price_later_usd_per_gpu_hour=price(g, ratio_later),
            flip_price_with_switching_later_usd_per_gpu_hour=price(g, ratio_later, float(left[g])),
        )
        for g, segment in enumerate(segments)
    )
