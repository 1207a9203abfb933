"""The yardstick solver: against a search without derivatives, several starts, capacity, and answers it must refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.build import build
from experiments.measure.equilibrium import (
    Demand,
    Offers,
    competitive,
    conduct,
    monopoly,
    nash,
    offers_of,
    price_index,
    profit_index,
)
from market.forecast import DemandForecast
from market.nests import Nests
from tests.worlds import few_sellers


def logit(values: list[float], sensitivity: list[float], outside: bool = True, nests: Nests | None = None) -> Demand:
    """Tenants of equal weight who differ in sensitivity; market size 1."""
    a = np.array(sensitivity)
    ones = np.ones((len(a), len(values)))
    nothing = np.full(len(a), 0.0 if outside else -np.inf)
    return Demand(a[:, None] * values, nothing, a, ones / len(a), ones, np.zeros(len(values)), "linear", nests)


@st.composite
def games(draw: st.DrawFn) -> tuple[Demand, Offers]:
    count = draw(st.integers(1, 4))
    values = draw(st.lists(st.floats(1.5, 4.0), min_size=count, max_size=count))
    cost = draw(st.lists(st.floats(0.2, 1.5), min_size=count, max_size=count))
    owner = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    vendor = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    nests = Nests(np.array(vendor), draw(st.sampled_from([0.0, 0.0, 0.4])))
    capacity = draw(st.lists(st.sampled_from([np.inf, 0.4, 0.1]), min_size=count, max_size=count))
    sensitivity = draw(st.lists(st.floats(1.0, 5.0), min_size=1, max_size=3))
    return logit(values, sensitivity, nests=nests), Offers.of(owner, cost, capacity)


@settings(max_examples=25)
@given(games())
def test_at_nash_no_owner_gains_by_any_price_of_any_of_its_offers(game: tuple[Demand, Offers]) -> None:
    demand, offers = game
    found = nash(demand, offers)
    if found.price_usd is None:
        assert found.reason
        return

    def profit(price: np.ndarray, owner: int) -> float:
        sold = np.minimum(demand(price), offers.capacity_gpus)
        return float(((price - offers.cost_usd) * sold)[offers.owner == owner].sum())

    for offer, owner in enumerate(offers.owner):
        for factor in np.linspace(0.5, 2.0, 61):
            trial = found.price_usd.copy()
            trial[offer] *= factor
            assert profit(trial, owner) <= profit(found.price_usd, owner) + 1e-6


@settings(max_examples=25)
@given(games())
def test_competition_clears_the_market_at_prices_not_above_those_of_one_owner(game: tuple[Demand, Offers]) -> None:
    demand, offers = game
    low, high = competitive(demand, offers), monopoly(demand, offers)
    assert low.price_usd is not None
    wanted = demand(low.price_usd)
    assert (wanted <= offers.capacity_gpus + 1e-6).all()
    dear = low.price_usd > offers.cost_usd + 1e-6
    assert wanted[dear] == pytest.approx(offers.capacity_gpus[dear], abs=1e-5)
    if high.price_usd is not None:
        margin = (high.price_usd - offers.cost_usd) @ np.asarray(high.gpus)
        assert margin >= (low.price_usd - offers.cost_usd) @ np.asarray(low.gpus) - 1e-6


def test_slopes_are_the_derivatives_of_demand() -> None:
    for nests in (None, Nests(np.array([0, 0, 1]), 0.6)):
        for form in ("linear", "log"):
            plain = logit([2.0, 2.5, 2.2], [3.0, 1.5], nests=nests)
            demand = Demand(
                **{**{k: getattr(plain, k) for k in plain.__slots__}, "form": form, "price_usd": np.ones(3)}
            )
            price = np.array([1.4, 1.9, 1.1])
            _, own, cross = demand.slopes(price)
            found = np.diag(own) - cross
            step = 1e-6 * np.eye(3)
            expected = np.array([(demand(price + h) - demand(price - h)) / 2e-6 for h in step]).T
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_without_anything_else_to_buy_one_owner_has_no_price() -> None:
    found = monopoly(logit([2.0, 2.0], [3.0], outside=False), Offers.of([0, 1], [1.0, 1.0]))
    assert found.price_usd is None
    assert found.reason
    index = conduct(logit([2.0, 2.0], [3.0], outside=False), Offers.of([0, 1], [1.0, 1.0]), np.full(2, 1.5))
    assert index.value is None
    assert index.reason == found.reason


def test_conduct_is_null_where_capacity_binds_everywhere() -> None:
    demand, offers = logit([2.5, 2.25], [3.0]), Offers.of([0, 1], [1.2, 0.9], [0.25, 0.25])
    found = conduct(demand, offers, np.array([2.7, 2.5]))
    assert found.value is None
    assert found.reason == "capacity binds everywhere"


def test_conduct_is_zero_at_competition_and_one_at_monopoly() -> None:
    demand, offers = logit([2.5, 2.25], [3.0, 2.0]), Offers.of([0, 1], [1.2, 0.9])
    for solve, value in ((competitive, 0.0), (monopoly, 1.0)):
        price = solve(demand, offers).price_usd
        assert price is not None
        assert conduct(demand, offers, price).value == pytest.approx(value, abs=1e-6)
    assert price_index(2.0, 1.0, 3.0).value == 0.5
    assert profit_index(1.0, 1.0, 1.0).value is None


def test_a_price_outside_the_yardsticks_has_no_conduct_and_says_on_which_side() -> None:
    demand, offers = logit([2.5, 2.25], [3.0, 2.0]), Offers.of([0, 1], [1.2, 0.9], [0.3, np.inf])
    low, high = competitive(demand, offers).price_usd, monopoly(demand, offers).price_usd
    assert low is not None
    assert high is not None
    for price, told in ((0.9 * low, "more is wanted than there is"), (1.1 * high, "over one owner's")):
        found = conduct(demand, offers, price)
        assert found.value is None
        assert told in str(found.reason)
    assert conduct(demand, offers, low * (1.0 - 1e-6)).value == 0.0


def test_an_offer_without_gpus_is_out_of_the_game_and_a_full_desk_turns_tenants_away() -> None:
    demand = logit([2.5, 2.5, 2.5, 2.5], [3.0, 2.0])
    free = Offers.of([0, 1], [1.2, 0.9])
    price = np.array([0.0, 0.0, 0.0, 1.3])
    priced = replace(demand, price_usd=price, utility=demand.utility - demand.sensitivity[:, None] * price)
    capacity, fixed = np.array([np.inf, np.inf, 0.0, 0.01]), np.array([False, False, False, True])
    four = Offers(np.array([0, 1, 2, 3]), np.array([1.2, 0.9, 0.5, 0.0]), capacity, fixed)
    three = replace(four, capacity_gpus=np.array([np.inf, np.inf, 0.0, np.inf]))
    for solve in (nash, monopoly, competitive):
        found, roomy = solve(priced, four), solve(priced, three)
        assert found.price_usd is not None
        assert found.gpus is not None
        assert found.price_usd == pytest.approx(roomy.price_usd)  # a cap that binds moves no price
        assert found.price_usd[[2, 3]].tolist() == [0.0, 1.3]
        assert found.gpus[2] == 0.0
        assert found.gpus[3] == 0.01
    without = logit([2.5, 2.5], [3.0, 2.0])
    closed = replace(four, capacity_gpus=np.array([np.inf, np.inf, 0.0, 0.0]))
    known = nash(without, free).price_usd
    assert known is not None
    assert np.asarray(nash(priced, closed).price_usd)[:2] == pytest.approx(known)
    assert nash(priced, replace(four, capacity_gpus=np.zeros(4))).reason == "no offer has a GPU to sell"


MULTIPLES = (0.05, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_at_any_capacity_the_conduct_of_a_market_lies_between_its_bounds_or_says_why_not(seed: int) -> None:
    """The price game of a small market of all classes, a desk and sold-out lots in it, capacities scaled."""
    model = build(few_sellers(), seed)
    model.run(4)
    demand, offers, _ = offers_of(model)
    assert (offers.capacity_gpus == 0.0).any()
    assert offers.fixed.any()
    found = {m: replace(offers, capacity_gpus=m * offers.capacity_gpus) for m in MULTIPLES}
    index = {m: conduct(demand, scaled, demand.price_usd) for m, scaled in found.items()}
    for multiple, one in index.items():
        assert (one.value is None) == bool(one.reason), multiple
        assert one.value is None or 0.0 <= one.value <= 1.0
    assert all(index[m].value is not None for m in MULTIPLES[1:]), index  # half of what there is will do
    assert "more is wanted than there is" in str(index[MULTIPLES[0]].reason)
    for scaled in (found[0.5], found[5.0]):
        for yardstick in (competitive(demand, scaled), monopoly(demand, scaled)):
            assert yardstick.residual_usd <= 1e-5
            assert yardstick.starts >= 2


def test_one_owner_takes_the_best_of_several_prices_at_which_it_could_rest() -> None:
    """Two kinds of tenants far apart: sell to all at a low price or to the few who pay more."""
    a = np.array([12.0, 1.0])
    ones = np.ones((2, 1))
    demand = Demand(a[:, None] * np.array([[1.6], [6.0]]), np.zeros(2), a, ones * [[0.6], [0.4]], ones, np.zeros(1))
    offers = Offers.of([0], [0.2])
    found = monopoly(demand, offers)
    assert found.price_usd is not None
    grid = np.linspace(0.2, 12.0, 4000)
    profit = [float((p - 0.2) * demand(np.array([p]))[0]) for p in grid]
    assert found.price_usd[0] == pytest.approx(grid[int(np.argmax(profit))], abs=0.01)


def test_a_desk_keeps_its_price() -> None:
    demand = logit([2.5, 2.5], [3.0])
    fixed = Offers(np.array([0, 1]), np.array([1.2, 0.0]), np.full(2, np.inf), np.array([False, True]))
    priced = Demand(
        demand.utility - 3.0 * np.array([0.0, 1.99]),
        *(getattr(demand, k) for k in ("outside", "sensitivity", "gpus", "work_per_gpu")),
        np.array([0.0, 1.99]),
    )
    found = monopoly(priced, fixed)
    assert found.price_usd is not None
    assert found.price_usd[1] == 1.99
    assert found.price_usd[0] == pytest.approx(nash(priced, fixed).price_usd[0], abs=1e-6)  # type: ignore[index]


def test_the_game_of_a_market_is_what_its_forecast_says() -> None:
    """With few tenants nothing binds, and the demand of the game is what every seller would be told."""
    model = build(few_sellers({"choice.all_sellers_known": True, "tenants.opening_load": 0.05}), 0)
    model.run(2)
    demand, offers, lots = offers_of(model)
    told = DemandForecast(model, model.tenants)
    skus = len(model.tables.skus)
    price = 1.1 * demand.price_usd
    for row in np.unique(offers.owner[~offers.fixed]):
        mine, trial = offers.owner == row, np.ones(skus)
        trial[lots[mine] % skus] = price[mine]
        moved = np.where(mine, price, demand.price_usd)
        assert told(row, trial)[lots[mine] % skus] == pytest.approx(demand(moved)[mine])
    assert offers.cost_usd == pytest.approx(model.hardware.running_usd[lots % skus])
