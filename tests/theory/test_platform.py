"""A platform's fee, a vendor's desk at a fixed price, and the index of market power, on the textbook market.

Sources: Anderson, de Palma & Kreider 2001 (fee); Anderson, de Palma & Thisse 1992 (fixed offer); Davidson & Deneckere
1986 (random order); Calvano et al. 2020 (index).
"""

from __future__ import annotations

import numpy as np
import pytest

from experiments.measure.equilibrium import Demand, Offers, monopoly, nash, profit_index
from market.randomness import Purpose, uniform
from tests.theory.table import Case, family
from tests.theory.textbook import STARTS, Backstop, Textbook, at_rest, each, from_everywhere, textbook

starts = pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())


def equal_sellers(case: Case) -> Textbook:
    count = case.inputs.get("sellers", 1)
    value, cost = case["value_usd_per_gpu_hour"], case["marginal_cost_usd_per_gpu_hour"]
    return Textbook([value] * count, [cost] * count, case["price_sensitivity_per_usd"])


# ------------------------------------------------------------------------------------------------ a platform's fee


@from_everywhere
@family("platform_take_rate")
def test_sellers_pass_a_fee_on_but_not_all_of_it(case: Case, start: float, order: str) -> None:
    rate = case["take_rate"]
    market = at_rest(equal_sellers(case).but(fee_share=rate), start, order)
    price, share = each(market.prices()), each(market.expected())
    found = {
        "price": price,
        "seller_net_price": (1.0 - rate) * price,
        "share_each": share,
        "profit_each": each(market.profits()),
        "platform_revenue": rate * float(market.prices() @ market.expected()),
    }
    case.agree(found, partly=True)


@family("platform_take_rate")
def test_the_price_rises_by_the_stated_amount_per_unit_of_fee(case: Case) -> None:
    step, rate = 0.002, case["take_rate"]
    low, high = max(rate - step, 0.0), rate + step
    prices = [
        at_rest(equal_sellers(case).but(fee_share=fee), 1.5, tick_usd=1e-5).prices().mean() for fee in (low, high)
    ]
    case.agree({"price_rise_per_unit_of_fee_at_this_rate": (prices[1] - prices[0]) / (high - low)}, partly=True)


def test_the_books_pay_the_fee_that_sellers_reckon_with() -> None:
    market = at_rest(Textbook([2.5] * 3, [1.2] * 3, 3.0, fee_share=0.1, rows=200))
    market.model.step()
    book = market.model.recorder.tables()["book_week"]
    last = (book["week"] == book["week"].max()) & (book["provider_class"] == "neocloud")
    assert book["rent_usd"][last].min() > 0.0
    assert book["overhead_usd"][last] == pytest.approx(0.1 * book["rent_usd"][last])


# ------------------------------------------------------------------------------------------------ a fixed offer


def beside_a_desk(case: Case) -> Textbook:
    cap = case.inputs.get("backstop_capacity_share_of_potential_hours", 1.25)
    desk = Backstop(case["backstop_price_usd_per_gpu_hour"], case["backstop_value_usd_per_gpu_hour"], cap)
    return equal_sellers(case).but(backstop=desk)


@from_everywhere
@family("backstop_logit_unlimited")
def test_a_fixed_offer_without_a_cap_lowers_every_price(case: Case, start: float, order: str) -> None:
    market = at_rest(beside_a_desk(case), start, order)
    alone = at_rest(equal_sellers(case), start, order)
    price = each(market.prices())
    found = {
        "price": price,
        "share_each": each(market.expected()),
        "backstop_share": market.backstop_share(),
        "price_change_against_no_backstop": price - each(alone.prices()),
    }
    case.agree(found)


ROWS, WEEKS = 20_000, 4


def sold_out_after(world: Textbook, prices: np.ndarray) -> float:
    """Part of the week's arrivals after which the desk has nothing left (1: never), mean of weeks of drawn choices."""
    market = textbook(world.but(rows=ROWS), prices)
    model, moments = market.model, []
    if world.backstop is None or world.backstop.capacity == 0.0:
        return 0.0  # nothing to sell is sold out from the start
    market.hold()
    for _ in range(WEEKS):
        model.step()
        at_desk = model.leases.tenant[model.leases.lot // len(model.tables.skus) == model.cloud_row]
        full = model.book.open_gpus[model.cloud_row, model.desk_sku] < 1e-6
        luck = uniform(model.seed, Purpose.PRIORITY, model.week, model.tenants.key[at_desk])
        moments.append(float(luck.max()) if full else 1.0)
    return float(np.mean(moments))


@from_everywhere
@family("backstop_logit_limited")
def test_beside_a_capped_offer_prices_move_only_where_the_cap_is_slack(case: Case, start: float, order: str) -> None:
    market = at_rest(beside_a_desk(case), start, order)
    found = {
        "price": each(market.prices()),
        "share": each(market.expected()),
        "profit": each(market.profits()),
        "backstop_share": market.backstop_share(),
    }
    case.agree(found, partly=True)


@family("backstop_logit_limited")
def test_drawn_choices_sell_the_desk_out_when_expected_and_leave_the_incumbent_the_rest(case: Case) -> None:
    world = beside_a_desk(case)
    market = at_rest(world)
    case.agree({"backstop_sells_out_after": sold_out_after(world, market.prices())}, partly=True)
    sold = textbook(world.but(rows=ROWS), market.prices()).sold(WEEKS).mean(axis=0)
    np.testing.assert_allclose(sold, market.expected(), atol=4.5 * 0.5 / np.sqrt(ROWS * WEEKS))


@family("backstop_logit_limited", "backstop_logit_unlimited")
def test_beside_a_desk_nobody_gains_by_another_price(case: Case) -> None:
    market = at_rest(beside_a_desk(case))
    cost = case["marginal_cost_usd_per_gpu_hour"]
    assert market.gain_from_deviation(0, np.linspace(cost, 3.0 * market.prices()[0], 301)) <= 1e-4


# ------------------------------------------------------------------------------------------------ market power


def calvano(case: Case) -> Textbook:
    cost = case["marginal_cost_usd_per_gpu_hour"]
    value = cost + case["quality_minus_cost"] - case["outside_good_quality"]
    return Textbook([value] * case["sellers"], [cost] * case["sellers"], 1.0 / case["taste_scale_mu"])


def yardsticks(world: Textbook) -> tuple[Demand, np.ndarray, np.ndarray]:
    """Demand of the market itself per unit of potential, and its Nash and monopoly prices by the solver."""
    offers, a = len(world.cost_usd), world.sensitivity
    ones = np.ones((1, offers))
    demand = Demand(a * np.array([world.value_usd]), np.zeros(1), np.array([a]), ones, ones, np.zeros(offers))
    game = Offers.of(range(offers), world.cost_usd)
    low, high = nash(demand, game).price_usd, monopoly(demand, game).price_usd
    assert low is not None
    assert high is not None
    return demand, low, high


@family("calvano_index")
def test_the_solver_finds_both_ends_and_the_index_between_them(case: Case) -> None:
    world = calvano(case)
    demand, low, high = yardsticks(world)

    def profit(price: np.ndarray) -> float:
        return float(((price - world.cost_usd) * demand(price)).mean())

    middle = profit_index(profit((low + high) / 2), profit(low), profit(high)).value
    assert middle is not None
    found = {
        "nash_price": each(low),
        "monopoly_price": each(high),
        "nash_profit_each": profit(low),
        "monopoly_profit_each": profit(high),
        "index_when_all_charge_the_midpoint": middle,
    }
    case.agree(found)


@starts
@family("calvano_index")
def test_rivals_who_know_demand_score_nought_and_a_single_owner_one(case: Case, start: float) -> None:
    world = calvano(case)
    demand, low, high = yardsticks(world)
    ends = [float(((price - world.cost_usd) * demand(price)).mean()) for price in (low, high)]
    for owner, score in ((None, 0.0), ([1] * len(world.cost_usd), 1.0)):
        profits = at_rest(world.but(owner=owner), start).profits()
        assert profit_index(float(profits.mean()), *ends).value == pytest.approx(score, abs=0.02)
