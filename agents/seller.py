"""A seller of GPU-hours: neocloud, hyperscaler or marketplace, by its class and its pricing rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import mesa

from agents.rules.pricing import PricingParameters, PricingRule, Quote, term_prices
from market.arrays import Floats
from market.decisions import PriceChange
from market.view import MarketView, OwnBooks, PricingLuck

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Seller"]


class Seller(mesa.Agent):
    """A third-party seller.

    Knows: the public view and its own books. Decides: quotes, price sheet and term prices, by its rule.
    """

    role = "seller"

    def __init__(
        self, model: MarketModel, name: str, provider_class: str, rule: PricingRule, pricing: PricingParameters
    ) -> None:
        super().__init__(model)
        self.name = name
        self.provider_class = provider_class
        self.rule = rule
        self.pricing = pricing
        self.memory: Floats | None = None

    def open_prices(self, own: OwnBooks) -> Floats:
        """Posted prices of the opening at its list prices and tightness, ``(skus, terms)``."""
        return term_prices(own, Quote(own.shadow_ln, own.list_ln, own.tightness), self.provider_class, self.pricing)

    def price(self, own: OwnBooks, view: MarketView, luck: PricingLuck) -> PriceChange:
        """New prices of the week."""
        quote = self.rule(replace(own, memory=self.memory), view, luck, self.pricing)
        self.memory = quote.memory
        return PriceChange(quote.shadow_ln, quote.list_ln, term_prices(own, quote, self.provider_class, self.pricing))
