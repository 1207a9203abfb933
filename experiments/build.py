"""Put a population together: the one place that knows both the market and the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agents.rules.pricing import PRICING, PricingParameters
from agents.segment import Segment
from agents.seller import Seller
from agents.vendor.developer_cloud import DEVELOPER_CLOUD, DeveloperCloud
from agents.vendor.leaseback import lease_rate_usd
from agents.vendor.vendor import Vendor
from market.model import AgentBuilder, MarketModel, Population, PricingState, World
from market.opening import firm_gpus_by_partner, seller_specs
from market.rows import SellerRow
from market.suppliers import SupplierSpec
from market.tables import Tables
from market.units import TERM_NAMES, Term

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = ["build"]


def build(scenario: Scenario, seed: int) -> MarketModel:
    """The market of a scenario under one seed, at its opening state."""
    tables = scenario.tables()
    return MarketModel(_world(scenario, tables), _population(scenario, tables), seed)


def _world(scenario: Scenario, tables: Tables) -> World:
    pricing = scenario.pricing
    state = PricingState(
        smoothing=pricing.tightness_smoothing,
        turned_away_weight=pricing.turned_away_weight,
        maximum=pricing.tightness_maximum,
        opening=pricing.opening_tightness,
        new_sku=pricing.new_sku_tightness,
        sku_premium_sd=pricing.sku_premium_sd,
        floor_factor=pricing.floor_factor,
    )
    return World(
        tables=tables,
        tenants=scenario.tenants,
        demand=scenario.demand,
        choice=scenario.choice,
        clearing=scenario.clearing,
        software=scenario.software,
        costs=scenario.costs,
        finance=scenario.finance,
        pricing=state,
    )


def _population(scenario: Scenario, tables: Tables) -> Population:
    cloud = scenario.developer_cloud
    firm = firm_gpus_by_partner(tables, cloud.sku, cloud.firm_gpus)
    premium = {
        "hyperscaler": scenario.pricing.hyperscaler_premium,
        "marketplace": scenario.pricing.marketplace_premium,
    }
    sellers = seller_specs(tables, firm, cloud.sku, premium, scenario.choice.hyperscaler_quality)
    capex = tables.skus[tables.sku_index[cloud.sku]].capex_usd
    return Population(
        suppliers=[*sellers, _desk_spec(len(tables.skus))],
        agents=[*_sellers(scenario, tables), *_vendors(scenario, tables), *_segments(scenario, tables)],
        partners=list(firm),
        desk_sku=cloud.sku,
        firm_lease_usd=lease_rate_usd(capex, scenario.leaseback),
        value_usd={},
    )


def _desk_spec(skus: int) -> SupplierSpec:
    """The developer cloud as a supplier: no fleet of its own, short terms only."""
    return SupplierSpec(
        name=DEVELOPER_CLOUD,
        provider_class="vendor_desk",
        premium_ln=0.0,
        quality_ln=0.0,
        revision_hazard_per_month=0.0,
        offers_term=np.arange(len(TERM_NAMES)) <= Term.ON_DEMAND,
        installed_gpus=np.zeros(skus),
        firm_gpus=np.zeros(skus),
        list_usd=np.full(skus, np.nan),
    )


def pricing_rule_name(row: SellerRow, pricing: PricingParameters) -> str:
    """Rule of a seller: its own from the table, else that of its class."""
    by_class = {
        "neocloud": pricing.neocloud_rule,
        "marketplace": pricing.marketplace_rule,
        "hyperscaler": pricing.hyperscaler_rule,
    }
    return row.pricing_rule or by_class[row.provider_class]


def _sellers(scenario: Scenario, tables: Tables) -> list[AgentBuilder]:
    def builder(row: SellerRow) -> AgentBuilder:
        rule = PRICING[pricing_rule_name(row, scenario.pricing)]
        return lambda model: Seller(model, row.name, row.provider_class, rule, scenario.pricing)

    return [builder(row) for row in tables.sellers]


def _vendors(scenario: Scenario, tables: Tables) -> list[AgentBuilder]:
    sku = tables.sku_index[scenario.developer_cloud.sku]
    return [
        lambda model: Vendor(model, "AMD", DeveloperCloud(sku, scenario.developer_cloud)),
        lambda model: Vendor(model, "Nvidia"),
    ]


def _segments(scenario: Scenario, tables: Tables) -> list[AgentBuilder]:
    def builder(index: int) -> AgentBuilder:
        row = tables.segments[index]
        threshold = scenario.clearing.need_threshold
        return lambda model: Segment(model, row.name, index, row.review_hazard_per_week, threshold)

    return [builder(index) for index in range(len(tables.segments))]
