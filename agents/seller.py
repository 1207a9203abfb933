"""A seller of GPU-hours: neocloud, hyperscaler or marketplace, by its class and its rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mesa
import numpy as np

from agents.rules.capacity import Buyer, CapacityRule
from agents.rules.participation import PARTICIPATION, LeptonParameters, ParticipationRule
from agents.rules.pricing import PricingParameters, PricingRule, Quote, term_prices
from market.arrays import Floats
from market.decisions import HardwareOrder, LoanApplication, PoolDecision, PriceChange
from market.outlook import CapacityParameters, Outlook
from market.view import MarketView, OwnBooks, OwnFinance, PricingLuck

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Seller"]


class Seller(mesa.Agent):
    """A third-party seller.

    Knows: the public view and its own books. Decides: quotes, price sheet and term prices; whether to join the pool and
    at which ask; how many GPUs to order; how much to borrow. Each by a rule.
    """

    role = "seller"

    def __init__(
        self,
        model: MarketModel,
        name: str,
        provider_class: str,
        vendors: str,
        *,
        pricing: tuple[PricingRule, PricingParameters],
        participation: tuple[ParticipationRule, LeptonParameters],
        capacity: tuple[CapacityRule, CapacityParameters],
        entrant: bool = False,
    ) -> None:
        super().__init__(model)
        self.name = name
        self.provider_class = provider_class
        self.vendors = vendors
        self.entrant = entrant
        self.rule, self.pricing = pricing
        self.participation, self.lepton = participation
        self.capacity_rule, self.capacity = capacity
        self.memory: Floats | None = None

    def adopt(self, section: str, name: str, value: Any, week: int) -> None:
        """Take on a policy from a week on: other terms of the pool, another view of orders."""
        if section == "lepton":
            self.lepton = self.lepton.changed(name, value)
            if name == "mode":
                self.participation = PARTICIPATION[self.lepton.mode]
        if section == "capacity":
            self.capacity = self.capacity.changed(name, value)

    def open_prices(self, own: OwnBooks) -> Floats:
        """Posted prices of the opening at its list prices and tightness, ``(skus, terms)``."""
        return term_prices(own, Quote(own.shadow_ln, own.list_ln, own.tightness), self.provider_class, self.pricing)

    def price(self, own: OwnBooks, view: MarketView, luck: PricingLuck) -> PriceChange:
        """New prices of the week."""
        quote = self.rule(replace(own, memory=self.memory), view, luck, self.pricing)
        self.memory = quote.memory
        return PriceChange(quote.shadow_ln, quote.list_ln, term_prices(own, quote, self.provider_class, self.pricing))

    def join_pool(self, own: OwnBooks, spare_share: float) -> PoolDecision:
        """Its chance to join the pool at a review; sellers below the quality floor may not."""
        if own.premium_ln < self.lepton.quality_floor_ln:
            return PoolDecision(0.0)
        return PoolDecision(self.participation(own, spare_share, self.lepton))

    def ask(self, own: OwnBooks, spare_share: Floats) -> Floats:
        """Asks as a pool member, USD per GPU-hour ``(skus,)``, NaN for SKUs it does not hold.

        Between a floor over running cost and a share of its quote without premia: the more spare hours, the closer to
        the floor (assumption; members compete on price alone).
        """
        p = self.lepton
        floor = self.pricing.floor_factor * own.running_usd
        core = p.core_share * np.exp(own.shadow_ln - own.premium_ln - own.sku_premium_ln)
        rivalry = 1.0 - p.pool_rivalry * np.minimum(1.0, spare_share / p.spare_full)
        return np.where(own.holds, np.maximum(floor + (core - floor) * rivalry, floor), np.nan)

    def order(self, own: OwnBooks, finance: OwnFinance, outlook: Outlook) -> HardwareOrder:
        """GPUs it wishes to order in this round."""
        buyer = Buyer(
            provider_class=self.provider_class,
            vendors=self.vendors,
            entrant=self.entrant and not own.holds.any(),
            resentment=self.lepton.resentment * self.lepton.allocation_pressure * finance.pool_member,
            finance=finance,
        )
        return self.capacity_rule(own, buyer, outlook, self.capacity)

    def apply_for_loan(self, finance: OwnFinance, capital_usd: float, covered_share: float) -> LoanApplication:
        """A loan on GPUs: rent under contract, the vendor's cover and its guarantee all count as contracted."""
        contracted, bankable = (
            min(1.0, share + covered_share + finance.guaranteed_share * (1.0 - min(1.0, share + covered_share)))
            for share in (finance.contracted_share, finance.bankable_share)
        )
        return LoanApplication(capital_usd, contracted, bankable, finance.debt_usd)
