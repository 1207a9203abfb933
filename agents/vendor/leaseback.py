"""Covers that a vendor grants: AMD's leaseback, Nvidia's buy-back, and AMD's guarantee to lenders.

A vendor sells GPUs to a seller and commits to rent idle hours of a part of them at a fixed rate: a floor under the
seller's revenue. Leaseback and buy-back are the same contract with other terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from market.arrays import Bools, Floats
from market.decisions import CoverGrant
from market.parameters import Parameters, parameter

__all__ = [
    "BackstopParameters",
    "BuybackParameters",
    "CoverDesk",
    "Guarantee",
    "LeasebackParameters",
    "lease_rates_usd",
]


class LeasebackParameters(Parameters):
    """Terms of AMD's leaseback."""

    lease_rate_usd_per_gpu_hour: float = parameter("leaseback.lease_rate_usd_per_gpu_hour")
    reference_capital_usd: float = parameter("leaseback.reference_capital_usd")
    share: float = parameter("leaseback.share")
    opening_factor: float = parameter("leaseback.opening_factor")
    term_weeks: int = parameter("leaseback.term_weeks")
    partners: Literal["named", "all"] = parameter("leaseback.partners")
    enters_orders: bool = parameter("leaseback.enters_orders")
    enters_loans: bool = parameter("leaseback.enters_loans")
    revenue_share: float = parameter("leaseback.revenue_share")
    cap_usd: float = parameter("leaseback.cap_usd")


class BuybackParameters(Parameters):
    """Terms of Nvidia's purchase of unsold hours against a share of revenue."""

    share: float = parameter("buyback.share")
    floor_usd_per_gpu_hour: float = parameter("buyback.floor_usd_per_gpu_hour")
    revenue_share: float = parameter("buyback.revenue_share")
    start_week: int = parameter("buyback.start_week")
    term_weeks: int = parameter("buyback.term_weeks")
    cap_usd: float = parameter("buyback.cap_usd")


class BackstopParameters(Parameters):
    """AMD's guarantee to lenders of its partners."""

    guarantee_share: float = parameter("backstop.guarantee_share")
    cap_usd: float = parameter("backstop.cap_usd")
    revenue_share: float = parameter("backstop.revenue_share")
    enters_loans: bool = parameter("backstop.enters_loans")


def lease_rates_usd(capex_usd: Floats, reference_rate_usd: float, reference_capital_usd: float) -> Floats:
    """Rent of a covered GPU by SKU, USD per GPU-hour: the reference rate in proportion to capital (assumption)."""
    return np.asarray(reference_rate_usd * capex_usd / reference_capital_usd)


@dataclass(eq=False)
class CoverDesk:
    """Grants covers on eligible fleets from a start week on.

    Attributes:
        section: Programme: ``leaseback`` or ``buyback``.
        share: Part of GPUs covered.
        opening_factor: Part of that share for GPUs that stand when the programme starts.
        eligible: Lots that qualify, ``(suppliers, skus)``.
        rate_usd: Rent by SKU, USD per GPU-hour.
        start_week: Week 0 covers opening fleets.
        term_weeks: Length of a cover.
        rent_share: Share of covered rent that the seller pays for it.
        cap_usd: Most that the vendor pays for covered hours in all.
        enters_orders, enters_loans: Whether buyers and lenders count on it.
    """

    section: str
    share: float
    opening_factor: float
    eligible: Bools
    rate_usd: Floats
    start_week: int
    term_weeks: int
    rent_share: float
    cap_usd: float
    enters_orders: bool
    enters_loans: bool

    def adopt(self, name: str, value: Any, week: int) -> None:
        """Take on a policy: other terms of the covers granted from a week on. Those granted before run on."""
        setattr(self, "rent_share" if name == "revenue_share" else name, value)

    def grant(self, week: int, available_gpus: Floats, delivered_gpus: Floats) -> CoverGrant | None:
        """Covers of the week: over standing fleets when the programme starts, over deliveries after it."""
        if self.share <= 0.0 or week < self.start_week:
            return None
        base = self.opening_factor * available_gpus if week == self.start_week else delivered_gpus
        gpus = np.where(self.eligible, self.share * base, 0.0)
        return CoverGrant(gpus, self.rate_usd, week + self.term_weeks, self.rent_share) if gpus.any() else None

    def promised_share(self, supplier: int, week: int) -> Floats:
        """Part of new GPUs that a seller can count on being covered, by SKU ``(skus,)``."""
        active = self.share if week >= self.start_week else 0.0
        return np.where(self.eligible[supplier], active, 0.0)


class Guarantee:
    """A guarantee to lenders up to a cap in all."""

    section = "backstop"

    def __init__(self, parameters: BackstopParameters) -> None:
        self.parameters = parameters
        self.paid_usd = 0.0

    def adopt(self, name: str, value: Any, week: int) -> None:
        """Take on a policy: another value of a parameter from a week on."""
        self.parameters = self.parameters.changed(name, value)

    def call(self, loss_usd: float) -> float:
        """What the vendor pays of a lender's loss, USD."""
        left = self.parameters.cap_usd - self.paid_usd
        usd = max(0.0, min(self.parameters.guarantee_share * loss_usd, left))
        self.paid_usd += usd
        return usd

    def counted_share(self, owed_usd: float) -> float:
        """Part of a loss that a lender counts on: the guaranteed share, within what the cap leaves of the debt."""
        p = self.parameters
        left = max(0.0, p.cap_usd - self.paid_usd)
        if not p.enters_loans:
            return 0.0
        return min(p.guarantee_share, left / owed_usd) if owed_usd > 0.0 else p.guarantee_share * (left > 0.0)
