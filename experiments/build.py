"""Put a population together: the one place that knows both the market and the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agents.lender import Lender
from agents.rules.capacity import CAPACITY
from agents.rules.participation import PARTICIPATION
from agents.rules.pricing import PRICING, PricingParameters
from agents.segment import Segment
from agents.seller import Seller
from agents.vendor.developer_cloud import DEVELOPER_CLOUD, DeveloperCloud
from agents.vendor.leaseback import CoverDesk, Guarantee, lease_rates_usd
from agents.vendor.pool import LEPTON, LeptonPool
from agents.vendor.vendor import Vendor
from market.accounts import LENDERS
from market.arrays import Bools, Floats
from market.events import in_order
from market.model import MarketModel
from market.opening import entrant_specs, firm_gpus_by_partner, seller_specs
from market.rows import EntrantRow, SellerRow
from market.suppliers import SupplierSpec
from market.tables import Tables
from market.units import TERM_NAMES, Term
from market.world import AgentBuilder, Population, PricingState, World

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = ["build", "pricing_rule_name"]

_BUYBACK_REFERENCE = "GB300"  # the GPU that the published floor is for


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
        sample_rows=pricing.best_response_sample_rows,
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
        capacity=scenario.capacity,
        roadmap=scenario.roadmap,
        pricing=state,
        events=tuple(in_order(scenario.events).values()),
    )


def _population(scenario: Scenario, tables: Tables) -> Population:
    cloud = scenario.developer_cloud
    firm = firm_gpus_by_partner(tables, cloud.sku, cloud.firm_gpus)
    premium = {
        "hyperscaler": scenario.pricing.hyperscaler_premium,
        "marketplace": scenario.pricing.marketplace_premium,
    }
    sellers = seller_specs(tables, firm, cloud.sku, premium, scenario.choice.hyperscaler_quality)
    suppliers = [*sellers, *entrant_specs(tables), _desk_spec(LEPTON, tables), _desk_spec(DEVELOPER_CLOUD, tables)]
    agents = [
        *_sellers(scenario, tables),
        *_vendors(scenario, tables, suppliers),
        *_segments(scenario, tables),
        lambda model: Lender(model, LENDERS, scenario.finance),
    ]
    return Population(
        suppliers=suppliers,
        agents=agents,
        partners=list(firm),
        desk_sku=cloud.sku,
        firm_lease_usd=float(_lease_rates(scenario, tables)[tables.sku_index[cloud.sku]]),
        firm_last_week=scenario.leaseback.term_weeks,
        cloud=DEVELOPER_CLOUD,
        pool=LEPTON,
        value_usd={},
    )


def _desk_spec(name: str, tables: Tables) -> SupplierSpec:
    """A vendor's desk as a supplier: no fleet of its own, short terms only."""
    skus = len(tables.skus)
    return SupplierSpec(
        name=name,
        provider_class="vendor_desk",
        vendors="both",
        alive=True,
        premium_ln=0.0,
        quality_ln=0.0,
        revision_hazard_per_month=0.0,
        offers_term=np.arange(len(TERM_NAMES)) <= Term.ON_DEMAND,
        installed_gpus=np.zeros(skus),
        firm_gpus=np.zeros(skus),
        list_usd=np.full(skus, np.nan),
    )


def _lease_rates(scenario: Scenario, tables: Tables) -> Floats:
    """AMD's rent for leased-back GPUs by SKU, USD per GPU-hour."""
    terms = scenario.leaseback
    return lease_rates_usd(_capex(tables), terms.lease_rate_usd_per_gpu_hour, terms.reference_capital_usd)


def _capex(tables: Tables) -> Floats:
    return np.array([sku.capex_usd for sku in tables.skus], np.float64)


def pricing_rule_name(row: SellerRow, pricing: PricingParameters) -> str:
    """Rule of a seller: its own from the table, else that of its class."""
    by_class = {
        "neocloud": pricing.neocloud_rule,
        "marketplace": pricing.marketplace_rule,
        "hyperscaler": pricing.hyperscaler_rule,
    }
    return row.pricing_rule or by_class[row.provider_class]


def _sellers(scenario: Scenario, tables: Tables) -> list[AgentBuilder]:
    def builder(row: SellerRow | EntrantRow, rule: str, entrant: bool) -> AgentBuilder:
        return lambda model: Seller(
            model,
            row.name,
            row.provider_class,
            row.vendors,
            pricing=(PRICING[rule], scenario.pricing),
            participation=(PARTICIPATION[scenario.lepton.mode], scenario.lepton),
            capacity=(CAPACITY[scenario.capacity.rule], scenario.capacity),
            entrant=entrant,
        )

    sellers = [builder(row, pricing_rule_name(row, scenario.pricing), False) for row in tables.sellers]
    return sellers + [builder(row, scenario.pricing.neocloud_rule, True) for row in tables.entrants]


def _vendors(scenario: Scenario, tables: Tables, suppliers: list[SupplierSpec]) -> list[AgentBuilder]:
    sku = tables.sku_index[scenario.developer_cloud.sku]
    amd_covers, nvidia_covers = _leaseback(scenario, tables, suppliers), _buyback(scenario, tables, suppliers)
    return [
        lambda model: Vendor(
            model,
            "AMD",
            developer_cloud=DeveloperCloud(sku, scenario.developer_cloud),
            covers=amd_covers,
            guarantee=Guarantee(scenario.backstop),
            software=scenario.software,
        ),
        lambda model: Vendor(model, "Nvidia", pool=LeptonPool(scenario.lepton), covers=nvidia_covers),
    ]


def _eligible(tables: Tables, sellers: list[bool], vendor: str) -> Bools:
    """Lots that a vendor may cover: its SKUs at eligible suppliers, ``(suppliers, skus)``."""
    skus = np.array([sku.vendor == vendor for sku in tables.skus])
    return np.asarray(np.array(sellers)[:, None] & skus[None, :])


def _leaseback(scenario: Scenario, tables: Tables, suppliers: list[SupplierSpec]) -> CoverDesk:
    """AMD's leaseback: neoclouds known as partners, or all that can hold AMD GPUs."""
    terms = scenario.leaseback
    named = {row.name for row in tables.sellers if row.leaseback_partner}
    chosen = [
        spec.provider_class == "neocloud"
        and spec.vendors != "nvidia"
        and (terms.partners == "all" or spec.name in named)
        for spec in suppliers
    ]
    return CoverDesk(
        section="leaseback",
        share=terms.share,
        opening_factor=terms.opening_factor,
        eligible=_eligible(tables, chosen, "amd"),
        rate_usd=_lease_rates(scenario, tables),
        start_week=0,
        term_weeks=terms.term_weeks,
        rent_share=terms.revenue_share,
        cap_usd=terms.cap_usd,
        enters_orders=terms.enters_orders,
        enters_loans=terms.enters_loans,
    )


def _buyback(scenario: Scenario, tables: Tables, suppliers: list[SupplierSpec]) -> CoverDesk:
    """Nvidia's purchase of unsold hours at neoclouds, against a share of their rent."""
    terms = scenario.buyback
    reference = tables.skus[tables.sku_index[_BUYBACK_REFERENCE]].capex_usd
    return CoverDesk(
        section="buyback",
        share=terms.share,
        opening_factor=1.0,
        eligible=_eligible(tables, [spec.provider_class == "neocloud" for spec in suppliers], "nvidia"),
        rate_usd=lease_rates_usd(_capex(tables), terms.floor_usd_per_gpu_hour, reference),
        start_week=terms.start_week,
        term_weeks=terms.term_weeks,
        rent_share=terms.revenue_share,
        cap_usd=terms.cap_usd,
        enters_orders=True,
        enters_loans=True,
    )


def _segments(scenario: Scenario, tables: Tables) -> list[AgentBuilder]:
    def builder(index: int) -> AgentBuilder:
        row = tables.segments[index]
        threshold = scenario.clearing.need_threshold
        return lambda model: Segment(model, row.name, index, row.review_hazard_per_week, threshold)

    return [builder(index) for index in range(len(tables.segments))]
