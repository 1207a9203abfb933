"""What agents may say to the market: one frozen value per phase. The model applies them in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats

__all__ = ["DeskOffer", "PriceChange", "Requests", "Review"]


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A seller's prices for the week.

    Attributes:
        shadow_ln: What it would quote today by SKU, ln USD, ``(skus,)``; NaN for SKUs it does not hold.
        list_ln: Its on-demand price sheet, ln USD, ``(skus,)``.
        price_usd: Posted prices by SKU and term, ``(skus, terms)``, NaN where nothing is offered.
    """

    shadow_ln: Floats
    list_ln: Floats
    price_usd: Floats


@dataclass(frozen=True, slots=True)
class DeskOffer:
    """A capped offer of a vendor's desk.

    Attributes:
        sku: SKU on offer.
        price_usd: USD per GPU-hour for spot and on-demand tenants.
        cap_gpus: GPUs on offer; 0 closes the desk.
        quota_gpus: Most GPUs one tenant may hold.
        salience: Public attention to the price, 0 to 1.
        readiness_hazard: Weekly chance that a tenant of the segments it addresses learns to run on AMD.
    """

    sku: int
    price_usd: float
    cap_gpus: float
    quota_gpus: float
    salience: float
    readiness_hazard: float


@dataclass(frozen=True, slots=True)
class Review:
    """A segment's decision which on-demand holders compare offers again: rows of the tenant table."""

    tenants: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Requests:
    """A segment's requests: rows of the tenant table and the work each still needs, H100e per tenant."""

    tenants: NDArray[np.int64]
    need_h100e: Floats
