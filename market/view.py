"""What everybody can see, and what a seller knows of itself.

A decision is a function of these two and of the seller's own rule. Not visible: tastes, rivals' books and costs,
future events. Arrays cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from market.arrays import Bools, Floats
from market.decisions import DeskOffer

__all__ = ["MarketView", "OwnBooks", "OwnFinance", "PricingLuck"]


@dataclass(frozen=True, slots=True)
class MarketView:
    """The public state at last close.

    Attributes:
        week: Week being decided.
        date: Monday of that week.
        price_usd: Posted prices ``(suppliers, skus, terms)``.
        sold_out: Whether nothing was open, ``(suppliers, skus)``.
        median_price_usd: Median third-party price without hyperscalers by SKU and term, 1, 4 and 13 weeks back.
        public_utilisation: End tenants' hours over available hours by SKU, four weeks late, ``(skus,)``.
        delivered_gpus: Third-party GPUs installed by SKU, ``(skus,)``.
        announced_gpus: GPUs ordered and announced, not yet delivered, ``(skus,)``.
        launch_week: Launch by SKU as announced, ``(skus,)``.
        base_list_usd: List price of a seller without premium at the opening, ``(skus,)``.
        base_rate: Reference interest rate, per year.
        core_sum_ln: Sum over sellers (hyperscalers left out) of weight × list price without premia, ``(skus,)``.
        core_weight: Sum of those weights, the square root of the fleet, ``(skus,)``.
        core_median_ln: Median list price without premia, ``(skus,)``; NaN where nobody sells.
        neocloud_index_ln: Median neocloud quote for the H100 without premia over the base list, ln.
        premium_kept: Part of list premia that tenants still pay for.
        pool_quote_usd: The pool's quotes of last week, NaN where it sold nothing, ``(skus,)``.
        pool_volume_gpus: GPUs it sold, ``(skus,)``.
        desk: The developer cloud's offer of last week, None while closed.
        desk_free_share: Part of that offer nobody took.
        desk_partner_gpus: Third-party GPUs of the desk's SKU.
        partner_median_usd: Median on-demand price of the desk's partners, USD.
        demand: Expected GPUs of a supplier by SKU at given on-demand prices, from public segment laws:
            ``demand(supplier, price_usd) -> (skus,)``.
    """

    week: int
    date: date
    price_usd: Floats
    sold_out: Bools
    median_price_usd: dict[int, Floats]
    public_utilisation: Floats
    delivered_gpus: Floats
    announced_gpus: Floats
    launch_week: Floats
    base_list_usd: Floats
    base_rate: float
    core_sum_ln: Floats
    core_weight: Floats
    core_median_ln: Floats
    neocloud_index_ln: float
    premium_kept: float
    pool_quote_usd: Floats
    pool_volume_gpus: Floats
    desk: DeskOffer | None
    desk_free_share: float
    desk_partner_gpus: float
    partner_median_usd: float
    demand: Callable[[int, Floats], Floats]


@dataclass(frozen=True, slots=True)
class OwnBooks:
    """What a seller knows of itself, arrays ``(skus,)``.

    Attributes:
        supplier: Its row in supplier columns.
        installed_gpus: Fleet.
        available_gpus: Fleet less hours leased back in full.
        holds: SKUs it can offer.
        premium_ln: Its stable premium.
        sku_premium_ln: Its fixed premium by SKU.
        shadow_ln: Its quotes of last week.
        list_ln: Its price sheet.
        tightness: Smoothed use with turned-away demand.
        short_term_gpus: GPUs let directly on spot and on demand at last close.
        running_usd: Running cost of a rented GPU, USD per hour.
        full_cost_usd: Owner's full cost, USD per hour.
        revision_hazard_per_month: Its rate of sheet revisions.
        offers_term: Terms it sells, ``(terms,)``.
        kept_premium: Share of the premium that tenants pay for by term, ``(terms,)``.
        memory: What its pricing rule kept from last week, None at first.
    """

    supplier: int
    installed_gpus: Floats
    available_gpus: Floats
    holds: Bools
    premium_ln: float
    sku_premium_ln: Floats
    shadow_ln: Floats
    list_ln: Floats
    tightness: Floats
    short_term_gpus: Floats
    running_usd: Floats
    full_cost_usd: Floats
    revision_hazard_per_month: float
    offers_term: Bools
    kept_premium: Floats
    memory: Floats | None = None


@dataclass(frozen=True, slots=True)
class OwnFinance:
    """A seller's money, and the terms it is offered.

    Attributes:
        cash_usd: Cash.
        weekly_service_usd: Debt service, USD a week.
        book_usd: Written-down cost of its fleet as owners see it, whatever life the books choose.
        debt_usd: Debt.
        contracted_share: Share of its rent on terms of a year and longer.
        bankable_share: The same with contracts of weak tenants counted in part.
        guaranteed_share: Part of a lender's loss that vendors would carry, as far as lenders count it.
        below_covenant: Whether it is outside a covenant on its debt.
        pool_member: Whether it is a member of the pool.
        loan_to_value: Loan per USD of capital that lenders would give it.
        overhead_share: Sales and staff as a share of revenue.
        cover_share: Part of new GPUs that a vendor would cover, by SKU ``(skus,)``.
        cover_usd: Rent of a covered GPU, USD per GPU-hour ``(skus,)``.
        capex_usd: Capital cost, USD per GPU ``(skus,)``.
        sku_is_amd: Vendor by SKU, ``(skus,)``.
    """

    cash_usd: float
    weekly_service_usd: float
    book_usd: float
    debt_usd: float
    contracted_share: float
    bankable_share: float
    guaranteed_share: float
    below_covenant: bool
    pool_member: bool
    loan_to_value: float
    overhead_share: float
    cover_share: Floats
    cover_usd: Floats
    capex_usd: Floats
    sku_is_amd: Bools


@dataclass(frozen=True, slots=True)
class PricingLuck:
    """A seller's keyed draws of the week.

    Attributes:
        noise: Standard normals by SKU, ``(skus,)``.
        revision: A uniform for its price sheet.
        explore: Uniforms by SKU for trying prices, ``(skus,)``.
    """

    noise: Floats
    revision: float
    explore: Floats
