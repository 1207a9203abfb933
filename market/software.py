"""Software maturity as a state: how much of a GPU's hardware a vendor's software turns into work.

``m += speed × spending × (ceiling - m) × (1 + w × min(2, share of use / reference)) - decay × m`` for AMD; CUDA is the
reference at 1. The vendor pays for its programme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Floats
from market.tables import Tables
from market.throughput import SoftwareParameters, maturity_start, relative_throughput, throughput, vendor_index

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Software", "amd_share_of_use", "lock_in_left", "mature", "next_maturity"]

_AMD = 1


class Software:
    """What vendors' software makes of their hardware, as a state.

    Attributes:
        maturity: Now, CUDA = 1, ``(vendors, segments)``; ``opening_maturity`` that of week 0.
        ceiling: What AMD's tends to, ``(segments,)``.
        throughput: H100-equivalents of a GPU as tenants reckon, ``(segments, skus)``; ``base_throughput`` in week 0.
        reference_work: The same in week 0 over all segments, weighted with their demand, ``(skus,)``.
        lock_left: Part of the opening lock-in that remains, ``(segments,)``.
    """

    def __init__(self, tables: Tables, p: SoftwareParameters) -> None:
        skus, segments = tables.skus, tables.segments
        self.maturity = maturity_start(segments, p)
        self.opening_maturity = self.maturity.copy()
        self.ceiling = np.array([segment.software_ceiling for segment in segments])
        self._hardware_work, self._vendor_of_sku = relative_throughput(skus, segments), vendor_index(skus)
        self.throughput = throughput(self._hardware_work, self._vendor_of_sku, self.maturity)
        self.base_throughput = self.throughput.copy()
        share = np.array([segment.demand_share for segment in segments])
        self.reference_work = share @ self.throughput / share.sum()
        self.lock_left = np.ones(len(segments))

    def enter_choice(self) -> None:
        """Tenants reckon with today's maturity."""
        self.throughput = throughput(self._hardware_work, self._vendor_of_sku, self.maturity)
        self.lock_left = lock_in_left(self.maturity[_AMD], self.opening_maturity[_AMD])


def amd_share_of_use(model: MarketModel) -> float:
    """AMD's share of the GPUs that end tenants hold, 0 without tenants."""
    sold = model.sold_gpus().sum(axis=0)
    total = float(sold.sum())
    return float(sold[model.hardware.is_amd].sum()) / total if total > 0.0 else 0.0


def next_maturity(maturity: Floats, ceiling: Floats, share_of_use: float, p: SoftwareParameters) -> Floats:
    """AMD's maturity a week later, ``(segments,)``.

    Args:
        maturity: now, CUDA = 1.
        ceiling: what it tends to.
        share_of_use: AMD's share of the GPUs that end tenants hold.
        p: speed, spending, weight of use and decay.
    """
    use = 0.0
    if p.use_raises_maturity:
        use = p.maturity_use_weight * min(2.0, share_of_use / p.maturity_use_reference)
    speed = min(1.0, p.maturity_speed * p.programme_spending * (1.0 + use))  # no step beyond the ceiling
    gap = ceiling - maturity
    # Where a start lies above its ceiling, nothing pulls it down but the frontier.
    return np.asarray(np.maximum(maturity + speed * np.maximum(gap, 0.0) - p.frontier_decay * maturity, 1e-6))


def lock_in_left(maturity: Floats, opening_maturity: Floats) -> Floats:
    """Part of the opening lock-in that remains, ``(1 - m) / (1 - m_0)``, by segment ``(segments,)``."""
    gap = 1.0 - opening_maturity
    left = np.maximum(1.0 - maturity, 0.0) / np.where(gap > 0.0, gap, 1.0)
    # Where software was as good as CUDA from the start, what locks tenants in is something else, and stays.
    return np.where(gap > 0.0, left, 1.0)


def mature(model: MarketModel) -> None:
    """Move AMD's maturity by segment, and with it the work that tenants get from AMD GPUs."""
    p, software = model.world.software, model.software
    if p.maturity_moves:
        share = amd_share_of_use(model) if p.use_raises_maturity else 0.0
        software.maturity[_AMD] = next_maturity(software.maturity[_AMD], software.ceiling, share, p)
    if p.maturity_enters_choice:
        software.enter_choice()
