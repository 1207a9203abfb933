"""Sellers of the market who learn by trial walk the very path of the compiled duopoly, and know only what they may.

Source of the rule: Calvano, Calzolari, Denicolò & Pastorello 2020.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agents.rules.learning import play, state_of
from agents.rules.pricing import PRICING, PricingParameters, Quote
from market.arrays import Floats, Ints
from market.randomness import Purpose, gumbel, pair_key, uniform
from market.trade import pricing_luck
from market.view import OwnBooks, PricingLuck
from tests.theory.textbook import POTENTIAL_GPUS, ROOMY, Textbook, TextbookMarket, textbook

SEED, STEPS, ROWS = 5, 4, 20
VALUE, COST, SENSITIVITY, START = 2.0, 1.0, 4.0, 1.5
LEARNING = PricingParameters(
    floor_factor=0.0,
    learning_prices=STEPS,
    learning_lowest=1.2,
    learning_highest=0.9,
    learning_rate=0.3,
    learning_decay_per_week=0.005,
)


def learners() -> TextbookMarket:
    """Two sellers of one SKU in a textbook market, both learning."""
    world = Textbook([VALUE] * 2, [COST] * 2, SENSITIVITY, one_sku=True, rows=ROWS)
    market = textbook(world, [START] * 2, seed=SEED)
    for _, seller in market.model.sellers:
        seller.rule, seller.pricing = PRICING["q-learning"], LEARNING
    return market


def grid(market: TextbookMarket) -> Floats:
    """Prices on sale, USD: even steps in ln from 1.2 × running cost to 0.9 × full cost."""
    return np.geomspace(1.2 * COST, 0.9 * float(market.model.hardware.full_cost_usd[0]), STEPS)


def drawn_profit(market: TextbookMarket, prices: Floats, weeks: int) -> Floats:
    """Margin per available GPU of both sellers at any two prices, week by week, from the tenants' own keyed tastes."""
    model, week = market.model, np.arange(1, weeks + 1)[:, None]
    tenants, offers = model.tenants.key, pair_key(model.suppliers.key, model.hardware.keys[0])
    taste = [gumbel(SEED, Purpose.GUMBEL, week, tenants, int(offer))[:, :, None, None] for offer in offers]
    nothing = gumbel(SEED, Purpose.OUTSIDE, week, tenants)[:, :, None, None]
    utility = SENSITIVITY * (VALUE - prices)
    one, other = taste[0] + utility[:, None], taste[1] + utility[None, :]
    share = np.stack([((one > other) & (one > nothing)).mean(axis=1), ((other > one) & (other > nothing)).mean(axis=1)])
    margin = np.stack(np.broadcast_arrays((prices - COST)[:, None], (prices - COST)[None, :]))
    return np.ascontiguousarray(np.moveaxis(share * margin[:, None] / ROOMY, 0, -1))


def worth_at_first(market: TextbookMarket, prices: Floats) -> Floats:
    """By the believed elasticity from what each let at the opening, until the spare 18 % are let too, for ever."""
    let = market.model.sold_gpus()[market.lots][:, None] / (ROOMY * POTENTIAL_GPUS)
    use = np.minimum(let * (prices / START) ** -LEARNING.best_elasticity, let + 1.0 - 0.82)
    worth = (prices - COST) * use / (1.0 - LEARNING.learning_patience)
    return np.repeat(worth[:, None, :], STEPS**2, axis=1)


def walked(market: TextbookMarket, weeks: int) -> tuple[Floats, Floats, Ints]:
    """Prices of the compiled loop on the market's luck ``(weeks, 2)``, what was learnt, and the states at the end."""
    prices, model, p = grid(market), market.model, LEARNING
    worth, start = worth_at_first(market, prices), int(np.abs(np.log(prices / START)).argmin())
    state = np.full(2, state_of(start, start, STEPS))
    week = np.arange(1, weeks + 1)[:, None]
    draws = uniform(SEED, Purpose.EXPLORE, week, model.suppliers.key, int(model.hardware.keys[0]))
    rates = (p.learning_rate, p.learning_patience, p.learning_decay_per_week)
    steps, _ = play(worth, state, drawn_profit(market, prices, weeks), draws, 0, 0, weeks + 1, *rates)
    tried = draws < np.exp(-p.learning_decay_per_week * (week - 1))
    assert 0.1 < tried.mean() < 0.9
    assert len(np.unique(steps[~tried])) > 1, "a best step that never differs would prove little"
    return prices[steps], worth, state


@pytest.mark.parametrize("weeks", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_two_learners_of_the_market_walk_the_path_of_the_compiled_loop_to_the_last_lesson(weeks: int) -> None:
    market = learners()
    expected, worth, state = walked(market, weeks)
    asked = []
    for _ in range(weeks):
        market.model.step()
        asked.append(market.prices())
    np.testing.assert_allclose(asked, expected, rtol=1e-12)
    market.model.step()  # what a week teaches is learnt in the next
    for row, seller in market.model.sellers:
        assert seller.memory is not None
        assert seller.memory[0, :2].tolist() == [weeks, state[row]]
        np.testing.assert_allclose(seller.memory[0, 2:].reshape(STEPS**2, STEPS), worth[row], rtol=1e-12)


def test_one_more_seller_leaves_what_the_others_try_alone() -> None:
    two, three = (
        textbook(Textbook([VALUE] * n, [COST] * n, SENSITIVITY, one_sku=True), [START] * n, seed=SEED).model
        for n in (2, 3)
    )
    of_three, of_two = (np.array([luck.explore for luck in pricing_luck(model)]) for model in (three, two))
    np.testing.assert_array_equal(of_three[:2], of_two)
    assert (np.diff(of_three, axis=0) != 0.0).all()


# ------------------------------------------------------------------------------------------------ a seller alone


def asked(market: TextbookMarket, own: OwnBooks, p: PricingParameters = LEARNING, draw: float = 0.99) -> Quote:
    """What the first seller asks, given these books and this luck."""
    skus = len(own.holds)
    return PRICING["q-learning"](own, market.model.view, PricingLuck(np.zeros(skus), 0.5, np.full(skus, draw)), p)


def test_what_a_seller_remembers_is_not_written_over() -> None:
    market = learners()
    own = market.model.own_books(0)
    first = asked(market, own)
    assert first.memory is not None
    first.memory.setflags(write=False)  # a write would raise
    again = asked(market, replace(own, memory=first.memory))
    assert again.memory is not None
    assert (again.memory != first.memory).any()


def test_a_chip_that_is_gone_is_forgotten_and_learnt_from_the_beginning_when_it_comes_back() -> None:
    market = learners()
    own = market.model.own_books(0)
    memory = asked(market, replace(own, memory=asked(market, own).memory)).memory
    assert memory is not None
    assert memory[0, 0] == 1.0
    gone = asked(market, replace(own, memory=memory, holds=np.zeros(1, np.bool_)))
    np.testing.assert_array_equal(gone.list_ln, own.list_ln)
    back = asked(market, replace(own, memory=gone.memory))
    assert back.memory is not None
    assert back.memory[0, 0] == 0.0


def test_before_it_has_learnt_a_seller_asks_what_it_believes_to_pay_best() -> None:
    """Half let on short terms and a tenth spare, at elasticity 4.5: cut until the tenth is let, ln(.6 / .5)/4.5."""
    market = learners()
    own = replace(market.model.own_books(0), tightness=np.array([0.9]))
    own = replace(own, short_term_gpus=0.5 * own.available_gpus)
    fine = PricingParameters(floor_factor=0.0, learning_prices=30, learning_lowest=1.2, learning_highest=0.9)
    step = np.log(0.9 * own.full_cost_usd[0] / 1.2) / 29
    believed = own.list_ln[0] - np.log(0.6 / 0.5) / 4.5
    nothing_tried = fine.changed("learning_decay_per_week", 100.0)
    first = asked(market, own, nothing_tried)
    assert abs(asked(market, replace(own, memory=first.memory), nothing_tried).list_ln[0] - believed) <= step


@pytest.mark.parametrize("draw", [0.0, 0.5, 1.0 - 1e-9])
def test_no_price_leaves_the_grid_or_the_floor(draw: float) -> None:
    market = learners()
    own = market.model.own_books(0)
    for floor in (0.0, 1.5):
        p = LEARNING.changed("floor_factor", floor)
        usd = float(np.exp(asked(market, own, p, draw).list_ln[0]))
        low, high = max(1.2, floor) * COST, 0.9 * own.full_cost_usd[0]
        assert usd == pytest.approx(np.geomspace(low, high, STEPS)[min(int(draw * STEPS), STEPS - 1)])
