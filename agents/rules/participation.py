"""Participation rules: whether a seller of Nvidia GPUs joins the vendor's pool.

A rule gives the chance to join from the seller's own books and the pool's public terms; the draw is keyed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from market.parameters import Parameters, parameter
from market.view import OwnBooks

__all__ = ["PARTICIPATION", "LeptonParameters", "ParticipationRule"]


class LeptonParameters(Parameters):
    """Terms of the pool and how sellers answer to them."""

    mode: str = parameter("lepton.mode")
    open_week: int = parameter("lepton.open_week")
    review_interval_weeks: int = parameter("lepton.review_interval_weeks")
    take_rate: float = parameter("lepton.take_rate")
    allocation_pressure: float = parameter("lepton.allocation_pressure")
    pool_rivalry: float = parameter("lepton.pool_rivalry")
    core_share: float = parameter("lepton.core_share")
    spare_full: float = parameter("lepton.spare_full")
    offered_share: float = parameter("lepton.offered_share")
    volume_margin: float = parameter("lepton.volume_margin")
    identity_erosion: float = parameter("lepton.identity_erosion")
    quality_floor_ln: float = parameter("lepton.quality_floor_ln")
    join_intercept: float = parameter("lepton.join_intercept")
    join_spare_weight: float = parameter("lepton.join_spare_weight")
    join_spare_reference: float = parameter("lepton.join_spare_reference")
    join_premium_weight: float = parameter("lepton.join_premium_weight")
    join_premium_floor: float = parameter("lepton.join_premium_floor")
    join_pressure_weight: float = parameter("lepton.join_pressure_weight")
    join_fee_weight: float = parameter("lepton.join_fee_weight")
    join_fee_reference: float = parameter("lepton.join_fee_reference")
    resentment: float = parameter("lepton.resentment")


ParticipationRule = Callable[[OwnBooks, float, LeptonParameters], float]
"""Own books, share of own Nvidia GPUs that are spare, parameters → chance to join, 0 to 1."""


def off(own: OwnBooks, spare_share: float, p: LeptonParameters) -> float:
    """There is no pool."""
    return 0.0


def voluntary(own: OwnBooks, spare_share: float, p: LeptonParameters) -> float:
    """Utilisation to gain against price to lose and the fee (assumption; objections of sellers in June 2025)."""
    return _logistic(_gain(own, spare_share, p))


def pressed(own: OwnBooks, spare_share: float, p: LeptonParameters) -> float:
    """The same, and the wish to stay on good terms with the one who allocates GPUs.

    Source: "many joined to stay on good terms with Nvidia", June 2025; its weight is an assumption.
    """
    return _logistic(_gain(own, spare_share, p) + p.join_pressure_weight * p.allocation_pressure)


def mandatory(own: OwnBooks, spare_share: float, p: LeptonParameters) -> float:
    """Everybody with Nvidia GPUs is a member."""
    return 1.0


def _gain(own: OwnBooks, spare_share: float, p: LeptonParameters) -> float:
    gained = p.join_spare_weight * (spare_share - p.join_spare_reference)
    lost = p.join_premium_weight * max(own.premium_ln, p.join_premium_floor)
    return p.join_intercept + gained - lost - p.join_fee_weight * (p.take_rate - p.join_fee_reference)


def _logistic(x: float) -> float:
    return float(1.0 / (1.0 + np.exp(-np.clip(x, -700.0, 700.0))))


PARTICIPATION: dict[str, ParticipationRule] = {
    "off": off,
    "voluntary": voluntary,
    "pressed": pressed,
    "mandatory": mandatory,
}
