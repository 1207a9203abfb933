"""What agents may say to the market: one frozen value per phase. The model applies them in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats

__all__ = [
    "CoverGrant",
    "DeskOffer",
    "HardwareOrder",
    "LoanApplication",
    "LoanOffer",
    "PoolDecision",
    "PoolOffer",
    "PriceChange",
    "Requests",
    "Review",
]


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
class PoolDecision:
    """A seller's answer to the pool: its chance to join at a review, which a keyed draw decides."""

    join_probability: float


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """A pool's offers of the week.

    Attributes:
        quote_usd: Quote by SKU, USD per GPU-hour ``(skus,)``, NaN where no member sells.
        merit_order: Members' supplier rows by SKU, cheapest ask first.
        offered_share: Part of members' free hours on offer.
        take_rate: Fee on pooled rent.
        identity_erosion: Part of sellers' quality that pool users do not pay for.
    """

    quote_usd: Floats
    merit_order: dict[int, list[int]]
    offered_share: float
    take_rate: float
    identity_erosion: float


@dataclass(frozen=True, slots=True)
class HardwareOrder:
    """A buyer's wish for GPUs in a round of orders.

    Attributes:
        work_h100e: Work ordered by SKU, H100 equivalents ``(skus,)``.
        profit_index: Worth over cost by SKU as the buyer sees it, ``(skus,)``; what is not delivered spills to the
            next best above 1.
        enters: Whether a dormant seller would enter.
    """

    work_h100e: Floats
    profit_index: Floats
    enters: bool = False


@dataclass(frozen=True, slots=True)
class CoverGrant:
    """A vendor's commitment to rent idle hours.

    Attributes:
        gpus: GPUs covered, ``(suppliers, skus)``.
        rate_usd: Rent, USD per GPU-hour ``(skus,)``.
        last_week: Last week it is paid.
        rent_share: Share of covered rent that the seller pays for it.
    """

    gpus: Floats
    rate_usd: Floats
    last_week: int
    rent_share: float


@dataclass(frozen=True, slots=True)
class LoanApplication:
    """A request for a loan on GPUs.

    Attributes:
        capital_usd: What they cost, or are worth.
        contracted_share: Share of revenue under long contracts, vendors' covers included: what the amount follows.
        bankable_share: The same with contracts of weak tenants counted in part: what the rate follows.
        owed_usd: Debt of the borrower already.
    """

    capital_usd: float
    contracted_share: float
    bankable_share: float
    owed_usd: float


@dataclass(frozen=True, slots=True)
class LoanOffer:
    """A lender's answer: the amount, USD, and the annual rate."""

    amount_usd: float
    annual_rate: float


@dataclass(frozen=True, slots=True)
class Review:
    """A segment's decision which on-demand holders compare offers again: rows of the tenant table."""

    tenants: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Requests:
    """A segment's requests: rows of the tenant table and the work each still needs, H100e per tenant."""

    tenants: NDArray[np.int64]
    need_h100e: Floats
