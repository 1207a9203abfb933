"""Nvidia's DGX Lepton: one commodity offer per SKU over members' spare hours."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.rules.participation import LeptonParameters
from market.arrays import Bools, Floats
from market.decisions import PoolOffer

__all__ = ["LEPTON", "LeptonPool"]

LEPTON = "DGX Lepton"


class LeptonPool:
    """The desk that lists members' spare hours at the ask of the marginal member."""

    section = "lepton"

    def __init__(self, parameters: LeptonParameters) -> None:
        self.parameters = parameters
        self.new_mode_week = -1

    def adopt(self, name: str, value: Any, week: int) -> None:
        """Take on a policy: another value of a parameter from a week on; another mode calls for a review."""
        if name == "mode" and value != self.parameters.mode:
            self.new_mode_week = week
        self.parameters = self.parameters.changed(name, value)

    def is_open(self, week: int) -> bool:
        """Whether the pool trades in a week."""
        return self.parameters.mode != "off" and week >= self.parameters.open_week

    def reviews(self, week: int) -> bool:
        """Whether sellers decide on membership this week."""
        p = self.parameters
        regular = (week - p.open_week) % p.review_interval_weeks == 0
        return self.is_open(week) and (regular or week == self.new_mode_week)

    def offer(
        self, asks_usd: Floats, spare_gpus: Floats, volume_gpus: Floats, sku_is_nvidia: Bools
    ) -> PoolOffer | None:
        """Quotes and merit orders of the week; None without an open member.

        Args:
            asks_usd: Members' asks, USD per GPU-hour ``(suppliers, skus)``, NaN for everybody else.
            spare_gpus: Their free GPUs at last close, same shape.
            volume_gpus: Pooled GPUs of last week, ``(skus,)``.
            sku_is_nvidia: SKUs the pool lists, ``(skus,)``.
        """
        p = self.parameters
        quote = np.full(len(volume_gpus), np.nan)
        order: dict[int, list[int]] = {}
        for sku in np.flatnonzero(sku_is_nvidia).tolist():
            members = np.flatnonzero(~np.isnan(asks_usd[:, sku]))
            if not len(members):
                continue
            members = members[np.lexsort((members, asks_usd[members, sku]))]
            order[sku] = members.tolist()
            reach = np.cumsum(p.offered_share * spare_gpus[members, sku])
            marginal = min(int(np.searchsorted(reach, p.volume_margin * volume_gpus[sku])), len(members) - 1)
            quote[sku] = asks_usd[members[marginal], sku] / (1.0 - p.take_rate)
        if not order:
            return None
        return PoolOffer(quote, order, p.offered_share, p.take_rate, p.identity_erosion)
