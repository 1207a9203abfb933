"""AMD's Developer Cloud: a capped public offer on GPUs that AMD leases back in full from named partners.

Its firm GPUs exist whatever it sells; what is not sold is the vendor's own use. So an offer differs from no offer in
what tenants can buy, at which price, and in what rivals can see.
"""

from __future__ import annotations

from typing import Any, Literal

from market.decisions import DeskOffer
from market.parameters import Parameters, parameter
from market.view import MarketView

__all__ = ["DEVELOPER_CLOUD", "DeveloperCloud", "DeveloperCloudParameters"]

DEVELOPER_CLOUD = "AMD Developer Cloud"


class DeveloperCloudParameters(Parameters):
    """Price, quantity and reach of the offer."""

    sku: str = parameter("developer_cloud.sku")
    price_usd_per_gpu_hour: float = parameter("developer_cloud.price_usd_per_gpu_hour")
    cap_gpus: float = parameter("developer_cloud.cap_gpus")
    firm_gpus: float = parameter("developer_cloud.firm_gpus")
    start_week: int = parameter("developer_cloud.start_week")
    price_rule: Literal["fixed", "partners-median"] = parameter("developer_cloud.price_rule")
    quota_minimum_gpus: float = parameter("developer_cloud.quota_minimum_gpus")
    quota_share_of_cap: float = parameter("developer_cloud.quota_share_of_cap")
    salience_speed: float = parameter("developer_cloud.salience_speed")
    readiness_hazard: float = parameter("developer_cloud.readiness_hazard")
    readiness_free_factor: float = parameter("developer_cloud.readiness_free_factor")
    readiness_full_gpus: float = parameter("developer_cloud.readiness_full_gpus")


class DeveloperCloud:
    """The desk. Its only state is public attention to its price, which fades as the offer fills (assumption)."""

    section = "developer_cloud"

    def __init__(self, sku: int, parameters: DeveloperCloudParameters) -> None:
        self.sku = sku
        self.parameters = parameters
        self.salience = 1.0

    def adopt(self, name: str, value: Any, week: int) -> None:
        """Take on a policy: another value of a parameter from a week on."""
        self.parameters = self.parameters.changed(name, value)

    def is_open(self, week: int) -> bool:
        """Whether the desk sells in a week."""
        return self.parameters.cap_gpus > 0.0 and week >= self.parameters.start_week

    def offer(self, view: MarketView) -> DeskOffer | None:
        """The week's offer; None before the policy starts and at cap 0."""
        if not self.is_open(view.week):
            return None
        p = self.parameters
        free_share = 1.0
        if view.desk is not None:
            free_share = view.desk_free_share
            self.salience += p.salience_speed * (free_share - self.salience)
        reach = min(1.0, p.readiness_free_factor * free_share) * min(1.0, p.cap_gpus / p.readiness_full_gpus)
        return DeskOffer(
            sku=self.sku,
            price_usd=p.price_usd_per_gpu_hour if p.price_rule == "fixed" else view.partner_median_usd,
            cap_gpus=p.cap_gpus,
            quota_gpus=max(p.quota_minimum_gpus, p.quota_share_of_cap * p.cap_gpus),
            salience=self.salience,
            readiness_hazard=p.readiness_hazard * reach,
        )
