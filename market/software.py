"""Software maturity as a state: how much of a GPU's hardware a vendor's software turns into work.

``m += speed × spending × (ceiling - m) × (1 + w × min(2, share of use / reference)) - decay × m`` for AMD; CUDA is the
reference at 1. The vendor pays for its programme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from market.throughput import throughput, vendor_index

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["amd_share_of_use", "mature"]

_AMD = 1


def amd_share_of_use(model: MarketModel) -> float:
    """AMD's share of the GPUs that end tenants hold, 0 without tenants."""
    sold = model.sold_gpus().sum(axis=0)
    total = float(sold.sum())
    return float(sold[model.sku_is_amd].sum()) / total if total > 0.0 else 0.0


def mature(model: MarketModel) -> None:
    """Move AMD's maturity by segment, and with it the work that tenants get from AMD GPUs."""
    p = model.world.software
    if p.maturity_moves:
        use = 0.0
        if p.use_raises_maturity:
            use = p.maturity_use_weight * min(2.0, amd_share_of_use(model) / p.maturity_use_reference)
        speed = min(1.0, p.maturity_speed * p.programme_spending * (1.0 + use))  # no step beyond the ceiling
        m = model.maturity[_AMD]
        gap = model.maturity_ceiling - m
        # Where a start lies above its ceiling, nothing pulls it down but the frontier.
        model.maturity[_AMD] = np.maximum(m + speed * np.maximum(gap, 0.0) - p.frontier_decay * m, 1e-6)
    if p.maturity_enters_choice:
        model.throughput = throughput(model.relative_work, vendor_index(model.tables.skus), model.maturity)
        gap = 1.0 - model.opening_maturity[_AMD]
        left = np.maximum(1.0 - model.maturity[_AMD], 0.0) / np.where(gap > 0.0, gap, 1.0)
        # Where software was as good as CUDA from the start, what locks tenants in is something else, and stays.
        model.lock_left = np.where(gap > 0.0, left, 1.0)
