"""A chip vendor: one set of books, and desks that deal in the market on its behalf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mesa

from agents.vendor.developer_cloud import DeveloperCloud
from market.decisions import DeskOffer
from market.view import MarketView

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Vendor"]


class Vendor(mesa.Agent):
    """AMD or Nvidia.

    Knows: the public view. Decides: what its desks offer. Source: announcements of June 2025 for the developer
    cloud; everything else is an assumption marked in the parameter table.
    """

    role = "vendor"

    def __init__(self, model: MarketModel, name: str, developer_cloud: DeveloperCloud | None = None) -> None:
        super().__init__(model)
        self.name = name
        self.developer_cloud = developer_cloud

    def desk_offer(self, view: MarketView) -> DeskOffer | None:
        """The developer cloud's offer of the week, if this vendor runs one and it is open."""
        return None if self.developer_cloud is None else self.developer_cloud.offer(view)
