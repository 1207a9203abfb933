"""Sellers who know demand rest at the prices of the logit textbook; built from the real market, frictions at zero.

Sources: Anderson, de Palma & Thisse 1992, ch. 7; Nocke & Schutz 2018; Berry 1994. Where nothing is said about capacity,
every offer could serve all tenants.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.theory.table import Case, family
from tests.theory.textbook import Textbook, TextbookMarket, at_rest, each, from_everywhere, textbook

GAIN = 1e-4  # no price change may gain more, USD per potential GPU-hour


def symmetric(case: Case) -> Textbook:
    count = case["sellers"]
    value = case.inputs.get("value_usd_per_gpu_hour", 0.0)  # without an outside option the value does not matter
    return Textbook(
        [value] * count,
        [case["marginal_cost_usd_per_gpu_hour"]] * count,
        case["price_sensitivity_per_usd"],
        outside=case.inputs.get("outside_option", True),
    )


def unlike(case: Case) -> Textbook:
    """Offers with values and costs of their own, and whatever else the family says about them."""
    vendors, alone = case.inputs.get("vendor_of_offer"), case.family == "logit_monopoly"
    return Textbook(
        case["value_usd_per_gpu_hour"],
        case["marginal_cost_usd_per_gpu_hour"],
        case["price_sensitivity_per_usd"],
        owner=[1] * len(case["value_usd_per_gpu_hour"]) if alone else case.inputs.get("owner_of_offer"),
        capacity=case.inputs.get("capacity_share_of_potential_hours"),
        amd=None if vendors is None else [vendor != vendors[0] for vendor in vendors],
        correlation=case.inputs.get("within_vendor_correlation", 0.0),
        unserved="leave" if case.family == "logit_capacity_clearing" else "next",
    )


def textbook_of(case: Case) -> Textbook:
    return symmetric(case) if "sellers" in case.inputs else unlike(case)


def measured(market: TextbookMarket) -> dict[str, float]:
    """Everything that the tables of these families ask for, by the names they use."""
    world, prices, shares, profits = market.case, market.prices(), market.expected(), market.profits()
    found = {"share_total": shares.sum(), "outside_share": 1.0 - shares.sum(), "profit_total": profits.sum()}
    if world.outside is False:
        del found["outside_share"]
    sold = np.bincount(world.owners, shares)
    found["hhi_of_sold_hours"] = float(((sold / sold.sum()) ** 2).sum())
    if world.amd is not None:
        found["share_vendor_2_of_sold_hours"] = shares[np.array(world.amd)].sum() / shares.sum()
    for offer, (price, share) in enumerate(zip(prices, shares, strict=True), start=1):
        found |= {f"price_{offer}": price, f"share_{offer}": share}
        markup = 1.0 / (world.sensitivity * (1.0 - share))
        found[f"scarcity_rent_{offer}"] = price - world.cost_usd[offer - 1] - markup
    for owner in dict.fromkeys(world.owner or ()):
        found[f"share_owner_{owner}"] = shares[np.array(world.owner) == owner].sum()
    return {name: float(value) for name, value in found.items()}


def measured_equal(market: TextbookMarket) -> dict[str, float]:
    of_each = {"price": market.prices(), "share_each": market.expected(), "profit_each": market.profits()}
    return measured(market) | {name: each(values) for name, values in of_each.items()}


def pass_through(world: Textbook, start: float) -> float:
    """Rise of the price by a rise of all costs, USD per USD."""
    shock = 0.02
    dearer = world.but(cost_usd=np.add(world.cost_usd, shock).tolist())
    before, after = (at_rest(one, start, tick_usd=1e-5).prices().mean() for one in (world, dearer))
    return float((after - before) / shock)


@from_everywhere
@family("logit_bertrand_symmetric")
def test_equal_sellers_rest_at_the_nash_price_and_its_shares(case: Case, start: float, order: str) -> None:
    case.agree(measured_equal(at_rest(symmetric(case), start, order)), partly=True)


@from_everywhere
@family("logit_bertrand_asymmetric", "logit_multiproduct", "nested_logit_two_vendors", "logit_monopoly")
def test_unlike_offers_rest_at_the_prices_of_their_owners(case: Case, start: float, order: str) -> None:
    case.agree(measured(at_rest(unlike(case), start, order)))


@from_everywhere
@family("logit_capacity_clearing")
def test_a_seller_short_of_capacity_rests_where_demand_meets_it(case: Case, start: float, order: str) -> None:
    case.agree(measured(at_rest(unlike(case), start, order)))


@family("logit_bertrand_symmetric")
def test_a_cost_shock_passes_through_by_the_stated_amount(case: Case) -> None:
    found = pass_through(symmetric(case), 1.5)
    case.agree({"cost_pass_through": found}, partly=True)


@family(
    "logit_bertrand_symmetric",
    "logit_bertrand_asymmetric",
    "logit_multiproduct",
    "nested_logit_two_vendors",
    "logit_monopoly",
    "logit_capacity_clearing",
)
def test_no_owner_gains_by_leaving_the_resting_price(case: Case) -> None:
    world = textbook_of(case)
    market = at_rest(world)
    for offer, cost in enumerate(world.cost_usd):
        assert market.gain_from_deviation(offer, np.linspace(cost, 3.0 * market.prices()[offer], 201)) <= GAIN


SALES_WEEKS, SALES_ROWS = 40, 1000


@family(
    "logit_bertrand_symmetric",
    "logit_bertrand_asymmetric",
    "logit_multiproduct",
    "nested_logit_two_vendors",
    "logit_monopoly",
)
def test_hours_sold_at_the_resting_price_agree_with_the_closed_form(case: Case) -> None:
    """Drawn choices in the real clearing: within 4.5 standard errors of what sellers expect."""
    world = textbook_of(case)
    market = at_rest(world)
    expected, prices = market.expected(), market.prices()
    crowd = textbook(world.but(rows=SALES_ROWS), prices)
    sold = crowd.sold(SALES_WEEKS)
    error = np.sqrt(expected * (1.0 - expected) / (SALES_WEEKS * SALES_ROWS))
    np.testing.assert_array_less(np.abs(sold.mean(axis=0) - expected), 4.5 * error + 1e-9)


def test_many_sellers_drive_the_markup_to_the_inverse_sensitivity_not_to_zero() -> None:
    market = at_rest(Textbook([2.5] * 40, [1.2] * 40, 3.0), 1.25)
    assert market.prices().mean() == pytest.approx(1.2 + 1.0 / 3.0, abs=0.02)


@pytest.mark.parametrize("correlation", [0.9, 0.98])
def test_near_perfect_correlation_takes_margins_inside_a_vendor_away(correlation: float) -> None:
    market = at_rest(Textbook([2.5] * 3, [1.2] * 3, 3.0, amd=[False, False, True], correlation=correlation))
    margin = market.prices() - 1.2
    assert margin[:2].max() < 1.0 / 3.0 * (1.0 - correlation) * 3.0
    assert margin[2] > 0.3


# ------------------------------------------------------------------------------------------------ headroom


def least_ratio(world: Textbook, price: float, share: float) -> float:
    """The least capacity over the Nash share at which nobody gains at the Nash price, by bisection."""
    low, high = 0.5, 3.0
    while high - low > 1e-3:
        ratio = (low + high) / 2
        high, low = (ratio, low) if _gain(world, price, ratio * share) <= 1e-7 else (high, ratio)
    return high


def _gain(world: Textbook, price: float, capacity: float) -> float:
    """The most a seller gains by another price when all charge ``price`` and the turned-away go on."""
    sellers = len(world.cost_usd)
    market = textbook(world.but(capacity=[capacity] * sellers), [price] * sellers)
    market.new_week()
    return market.gain_from_deviation(0, np.linspace(price, price + 8.0 / world.sensitivity, 161)[1:])


@family("logit_capacity_headroom")
def test_capacity_needs_headroom_where_the_turned_away_go_on(case: Case) -> None:
    world = symmetric(case)
    market = at_rest(world)
    found = measured_equal(market)
    known = case.known["least_capacity_over_share"]
    found["least_capacity_over_share"] = least_ratio(world, found["price"], found["share_each"])
    case.agree(found)
    for ratio, rests in ((known.value + known.tolerance, True), (known.value - known.tolerance, False)):
        short = world.but(capacity=[ratio * found["share_each"]] * len(world.cost_usd))
        there = textbook(short, market.prices())
        there.model.step()
        stays = np.abs(there.prices() - market.prices()).max() <= 0.01
        assert stays == rests, ratio
