"""A chip vendor: one set of books, and desks that deal in the market on its behalf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mesa

from agents.vendor.developer_cloud import DeveloperCloud
from agents.vendor.leaseback import CoverDesk, Guarantee
from agents.vendor.pool import LeptonPool
from market.arrays import Bools, Floats
from market.decisions import CoverGrant, DeskOffer, PoolOffer
from market.throughput import SoftwareParameters
from market.view import MarketView

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Vendor"]


class Vendor(mesa.Agent):
    """AMD or Nvidia.

    Knows: the public view, members' asks, fleets it covers. Decides: what its desks offer. Source: announcements of
    June 2025 for the developer cloud and the pool; terms that were never published are marked assumptions.
    """

    role = "vendor"

    def __init__(
        self,
        model: MarketModel,
        name: str,
        *,
        developer_cloud: DeveloperCloud | None = None,
        pool: LeptonPool | None = None,
        covers: CoverDesk | None = None,
        guarantee: Guarantee | None = None,
        software: SoftwareParameters | None = None,
    ) -> None:
        super().__init__(model)
        self.name = name
        self.developer_cloud = developer_cloud
        self.pool = pool
        self.covers = covers
        self.guarantee = guarantee
        self.software = software

    @property
    def programme_usd_per_week(self) -> float:
        """What its software programme costs it, USD a week."""
        p = self.software
        return 0.0 if p is None else p.programme_usd_per_week * p.programme_spending

    def adopt(self, section: str, name: str, value: Any, week: int) -> None:
        """Take on a policy from a week on, at the desk that it is about."""
        for desk in (self.developer_cloud, self.pool, self.covers, self.guarantee):
            if desk is not None and desk.section == section:
                desk.adopt(name, value, week)
        if section == "software" and self.software is not None:
            self.software = self.software.changed(name, value)

    def desk_offer(self, view: MarketView) -> DeskOffer | None:
        """The developer cloud's offer of the week, if this vendor runs one and it is open."""
        return None if self.developer_cloud is None else self.developer_cloud.offer(view)

    def pool_is_open(self, week: int) -> bool:
        """Whether this vendor runs a pool that trades this week."""
        return self.pool is not None and self.pool.is_open(week)

    def pool_reviews(self, week: int) -> bool:
        """Whether sellers decide on pool membership this week."""
        return self.pool is not None and self.pool.reviews(week)

    def pool_offer(
        self, week: int, asks_usd: Floats, spare_gpus: Floats, volume_gpus: Floats, sku_is_nvidia: Bools
    ) -> PoolOffer | None:
        """The pool's offer of the week, if this vendor runs one and it is open."""
        if self.pool is None or not self.pool.is_open(week):
            return None
        return self.pool.offer(asks_usd, spare_gpus, volume_gpus, sku_is_nvidia)

    def grant_covers(self, week: int, available_gpus: Floats, delivered_gpus: Floats) -> CoverGrant | None:
        """Covers that this vendor grants this week."""
        return None if self.covers is None else self.covers.grant(week, available_gpus, delivered_gpus)

    @property
    def guarantee_fee(self) -> float:
        """Share of rent that those whose loans it guarantees pay for that."""
        return 0.0 if self.guarantee is None else self.guarantee.parameters.revenue_share

    def guarantees(self, supplier: int) -> bool:
        """Whether this vendor stands behind the loans of a seller: those that its covers are for."""
        return self.guarantee is not None and self.covers is not None and bool(self.covers.eligible[supplier].any())

    def guaranteed_share(self, supplier: int, owed_usd: float) -> float:
        """Part of a lender's loss on a seller that lenders count on this vendor for."""
        if self.guarantee is None or not self.guarantees(supplier):
            return 0.0
        return self.guarantee.counted_share(owed_usd)

    def call_guarantee(self, loss_usd: float) -> float:
        """What this vendor pays of a lender's loss on a partner, USD."""
        return 0.0 if self.guarantee is None else self.guarantee.call(loss_usd)
