"""A tenant segment: one agent for all tenants of a kind, who are columns of the tenant table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mesa
import numpy as np

from market.arrays import Floats
from market.decisions import Requests, Review
from market.randomness import Purpose, uniform
from market.tenants import Tenants

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Segment"]


class Segment(mesa.Agent):
    """Developers, inference, fine-tuning or pre-training tenants.

    Knows: its own tenants. Decides: which on-demand holders compare offers again (a keyed hazard per tenant and
    week), and how much work each tenant asks for. Choosing is the market's, since the queue runs across segments.
    """

    role = "segment"

    def __init__(
        self, model: MarketModel, name: str, index: int, review_hazard_per_week: float, need_threshold: float
    ) -> None:
        super().__init__(model)
        self.name = name
        self.index = index
        self.review_hazard_per_week = review_hazard_per_week
        self.need_threshold = need_threshold

    def review(self, tenants: Tenants, seed: int, week: int) -> Review:
        """On-demand holders who compare offers again this week."""
        rows = tenants.slice_of(self.index)
        fires = uniform(seed, Purpose.REVIEW, week, tenants.key[rows]) < self.review_hazard_per_week
        return Review(np.flatnonzero(fires) + rows.start)

    def request(self, tenants: Tenants, held_h100e: Floats) -> Requests:
        """Tenants whose unmet need exceeds the threshold, and that need; ``held_h100e`` per tenant, ``(rows,)``."""
        rows = tenants.slice_of(self.index)
        need = tenants.wanted_h100e[rows] - held_h100e[rows]
        asks = np.flatnonzero(need > self.need_threshold * tenants.wanted_h100e[rows])
        return Requests(asks + rows.start, need[asks])
