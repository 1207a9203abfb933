"""How much work a GPU-hour does: H100-equivalents by segment, and the maturity of the vendor's software.

The time of an H100 splits into shares for compute ``c``, memory bandwidth ``b`` and communication ``n``; another SKU
shortens each by its own ratio, and more memory helps with exponent ``x``::

    throughput = maturity × (HBM / HBM_H100)^x / (c FP8_H100/FP8 + b BW_H100/BW + n L_H100/L)
    1 / L      = d / scale-up + (1 - d) / NIC,    d = min(1, domain / group)

``d`` is the part of a work group's traffic that stays inside the scale-up domain: this is what a rack of 72 changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from market.parameters import Parameters, parameter
from market.tables import SegmentRow, Sku
from market.units import VENDORS

__all__ = [
    "SoftwareParameters",
    "link_seconds_per_gb",
    "maturity_start",
    "relative_throughput",
    "throughput",
    "vendor_index",
]

_REFERENCE = "H100"


class SoftwareParameters(Parameters):
    """ROCm productivity over CUDA by segment in June 2025; see ``parameters.csv``, section ``software``."""

    developer_start: float = parameter("software.developer_start")
    small_inference_start: float = parameter("software.small_inference_start")
    large_inference_start: float = parameter("software.large_inference_start")
    fine_tuning_start: float = parameter("software.fine_tuning_start")
    pre_training_start: float = parameter("software.pre_training_start")
    maturity_speed: float = parameter("software.maturity_speed")
    maturity_use_weight: float = parameter("software.maturity_use_weight")
    maturity_use_reference: float = parameter("software.maturity_use_reference")
    programme_spending: float = parameter("software.programme_spending")
    programme_usd_per_week: float = parameter("software.programme_usd_per_week")
    frontier_decay: float = parameter("software.frontier_decay")
    maturity_moves: bool = parameter("software.maturity_moves")
    use_raises_maturity: bool = parameter("software.use_raises_maturity")
    maturity_enters_choice: bool = parameter("software.maturity_enters_choice")


def _column(rows: Sequence[Sku] | Sequence[SegmentRow], name: str) -> NDArray[np.float64]:
    """One attribute of all rows."""
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)


def link_seconds_per_gb(skus: Sequence[Sku], group_gpus: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds per gigabyte exchanged in work groups of these sizes, shape (groups, SKUs)."""
    inside = np.minimum(1, _column(skus, "domain_gpus") / group_gpus[:, None])
    return inside / _column(skus, "scaleup_gb_per_s") + (1 - inside) / _column(skus, "nic_gb_per_s")


def relative_throughput(skus: Sequence[Sku], segments: Sequence[SegmentRow]) -> NDArray[np.float64]:
    """Work per GPU-hour from hardware alone, H100 = 1 in every segment, shape (segments, SKUs).

    Raises:
        ValueError: the H100, the unit of work, is not among ``skus``.
    """
    names = [sku.name for sku in skus]
    if _REFERENCE not in names:
        raise ValueError(f"the unit of work is the {_REFERENCE}, which is missing among {', '.join(names)}")
    base = names.index(_REFERENCE)
    rate, bandwidth, memory = (_column(skus, name) for name in ("fp8_tflops", "bandwidth_tb_per_s", "hbm_gb"))
    link_time = link_seconds_per_gb(skus, _column(segments, "group_gpus"))
    compute, stream, exchange, exponent = (
        _column(segments, name)[:, None]
        for name in ("compute_share", "memory_share", "communication_share", "hbm_exponent")
    )
    time = compute * rate[base] / rate + stream * bandwidth[base] / bandwidth
    time = time + exchange * link_time / link_time[:, base, None]
    work: NDArray[np.float64] = (memory / memory[base]) ** exponent / time
    return work / work[:, base, None]  # shares may sum to 1 only within rounding


def maturity_start(segments: Sequence[SegmentRow], software: SoftwareParameters) -> NDArray[np.float64]:
    """Software maturity in June 2025, CUDA = 1, shape (vendors, segments) in the order of ``VENDORS``."""
    rocm = [getattr(software, f"{segment.name}_start") for segment in segments]
    return np.array([np.ones(len(rocm)), rocm], dtype=np.float64)


def vendor_index(skus: Sequence[Sku]) -> NDArray[np.int64]:
    """Row of each SKU's vendor in arrays by vendor, shape (SKUs,)."""
    return np.array([VENDORS.index(sku.vendor) for sku in skus], dtype=np.int64)


def throughput(
    relative: NDArray[np.float64], vendor_of_sku: NDArray[np.int64], maturity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """H100-equivalents per GPU: hardware times the maturity of the SKU's vendor.

    Args:
        relative: `relative_throughput`, shape (segments, SKUs).
        vendor_of_sku: `vendor_index`, shape (SKUs,).
        maturity: CUDA = 1, shape (vendors, segments).

    Returns:
        Shape (segments, SKUs).
    """
    work: NDArray[np.float64] = maturity[vendor_of_sku].T * relative
    return work
