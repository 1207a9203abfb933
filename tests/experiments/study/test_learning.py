"""Sellers who learn: by hand, in the limits, on keyed luck, and against the published duopoly."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from math import e
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rules import learning
from agents.rules.learning import (
    best_step,
    chance_to_explore,
    chosen_step,
    learn_from,
    nearest_steps,
    play,
    state_of,
)
from experiments.study.learning import Duopoly, greedy_cycle, learn, price_grid_usd, profit_table
from market.arrays import Floats, Ints

BASELINE = Duopoly()
QUICK = Duopoly(prices=7, decay=1e-4)  # sessions of some 70,000 periods


# ------------------------------------------------------------------------------------------------ by hand


def test_a_state_is_the_own_step_and_the_rivals_step_and_both_sellers_see_their_own_first() -> None:
    assert state_of(0, 0, 15) == 0
    assert state_of(2, 3, 15) == 33
    assert state_of(3, 2, 15) == 47
    assert sorted(state_of(own, rival, 4) for own in range(4) for rival in range(4)) == list(range(16))


def test_the_chance_to_explore_is_certain_at_first_and_one_over_e_after_one_over_its_decay() -> None:
    assert chance_to_explore(0, 4e-6) == 1.0
    assert chance_to_explore(250_000, 4e-6) == pytest.approx(1.0 / e)
    assert chance_to_explore(1000, 0.0) == 1.0


def test_one_lesson_on_paper() -> None:
    """Two prices: state (1, 0), then step 0 against step 1, which earned 0.5: .85 × 4 + .15 (.5 + .95 × 6) = 4.33."""
    worth = np.full((4, 2), 1.0)
    before, after = state_of(1, 0, 2), state_of(0, 1, 2)
    worth[before], worth[after] = (4.0, 5.0), (3.0, 6.0)
    learn_from(worth, before, after, 0.5, 0.15, 0.95)
    np.testing.assert_allclose(worth, [[1.0, 1.0], [3.0, 6.0], [4.33, 5.0], [1.0, 1.0]], rtol=1e-15)


def test_one_draw_decides_whether_to_explore_and_which_step_each_alike() -> None:
    worth = np.array([0.0, 3.0, 1.0, 2.0])
    assert [chosen_step(worth, 0.2, draw) for draw in (0.0, 0.049, 0.051, 0.149, 0.151, 0.199)] == [0, 0, 1, 2, 3, 3]
    assert {chosen_step(worth, 0.2, draw) for draw in (0.2, 0.5, 0.999)} == {1}
    assert chosen_step(worth, 1e-9, float(np.nextafter(1e-9, 0.0))) == 3
    assert chosen_step(worth, 0.0, 0.0) == 1


def test_among_equals_the_lowest_price_is_best() -> None:
    assert best_step(np.array([1.0, 2.0, 2.0])) == 1


def test_a_price_off_the_grid_counts_as_its_nearest_step() -> None:
    grid = np.log([[1.0, 2.0, 4.0]] * 4)
    np.testing.assert_array_equal(nearest_steps(np.log([0.1, 1.9, 3.0, 9.0]), grid), [0, 1, 2, 2])
    assert nearest_steps(np.array([np.nan]), grid[:1]) == 0


def test_a_pair_of_strategies_is_followed_into_what_it_repeats() -> None:
    """Each seller answers its rival's step by that step plus one of three: from (0, 0) to (1, 1), (2, 2), (0, 0)."""
    worth = np.zeros((2, 9, 3))
    for own in range(3):
        for rival in range(3):
            worth[:, state_of(own, rival, 3), (rival + 1) % 3] = 1.0
    np.testing.assert_array_equal(greedy_cycle(worth, np.zeros(2, np.int64)), [[1, 1], [2, 2], [0, 0]])
    worth[:] = [0.0, 0.0, 1.0]
    np.testing.assert_array_equal(greedy_cycle(worth, np.zeros(2, np.int64)), [[2, 2]])


def test_the_grid_of_the_paper_runs_from_a_tenth_below_nash_to_a_tenth_above_monopoly() -> None:
    grid = price_grid_usd(BASELINE)
    assert len(grid) == 15
    np.testing.assert_allclose(grid[[0, -1]], [1.473 - 0.0452, 1.925 + 0.0452], atol=1e-3)
    profit = profit_table(BASELINE)
    np.testing.assert_allclose(profit[:, :, 0], profit[:, :, 1].T)
    shares = np.exp(4.0 * (2.0 - grid[[3, 8]]))
    assert profit[3, 8, 0] == pytest.approx((grid[3] - 1.0) * shares[0] / (1.0 + shares.sum()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prices": 1}, "prices = 1: must be a finite number from 2 to 100"),
        ({"patience": 1.0}, "patience = 1.0: must be a finite number from 0 to 0.9999"),
        ({"rate": -0.1}, "rate = -0.1"),
        ({"decay": float("nan")}, "decay = nan"),
        ({"cost_usd": float("inf")}, "cost_usd = inf"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_range(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Duopoly(**changes)


def test_no_periods_are_no_session() -> None:
    with pytest.raises(ValueError, match="most_periods = 0: must be 1 or more"):
        learn(QUICK, most_periods=0)


# ------------------------------------------------------------------------------------------------ properties

_whole = st.integers(-1000, 1000).map(float)


@given(
    st.lists(_whole, min_size=2, max_size=15),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0, exclude_max=True),
    st.integers(1, 50),
    _whole,
)
def test_the_choice_does_not_depend_on_where_worth_starts_or_in_which_unit_it_is(
    worth: list[float], chance: float, draw: float, unit: int, start: float
) -> None:
    known = np.array(worth)
    assert chosen_step(known, chance, draw) == chosen_step(unit * known + start, chance, draw)


@given(st.lists(_whole, min_size=2, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_the_best_step_moves_with_the_order_of_prices(worth: list[float], luck: Any) -> None:
    places = list(range(len(worth)))
    luck.shuffle(places)
    assert places[best_step(np.array(worth)[places])] == best_step(np.array(worth))


def played(
    profit: Floats, draws: Floats, *, rate: float = 0.15, patience: float = 0.95, decay: float = 0.0, start: float = 0.0
) -> tuple[Floats, Ints]:
    """What two sellers have learnt, all worth being alike at first, and the steps they took."""
    steps = profit.shape[1]
    worth, state = np.full((2, steps * steps, steps), start), np.zeros(2, np.int64)
    path, _ = play(worth, state, profit, draws, 0, 0, len(draws) + 1, rate, patience, decay)
    return worth, path


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.integers(1, 3),
    st.floats(0.0, 1.0),
    st.floats(0.0, 0.99),
    st.floats(0.0, 0.1),
)
@settings(max_examples=50, deadline=None)
def test_no_step_is_thought_worth_more_or_less_than_the_best_and_worst_profit_for_ever(
    seed: int, steps: int, tables: int, rate: float, patience: float, decay: float
) -> None:
    luck = np.random.default_rng(seed)
    profit = luck.normal(size=(tables, steps, steps, 2))
    low, high = profit.min() / (1.0 - patience), profit.max() / (1.0 - patience)
    draws = luck.random((300, 2))
    worth, path = played(profit, draws, rate=rate, patience=patience, decay=decay, start=luck.uniform(low, high))
    slack = 1e-9 * (1.0 + max(abs(low), abs(high)))
    assert worth.min() >= low - slack
    assert worth.max() <= high + slack
    assert path.min() >= 0
    assert path.max() < steps


def test_periods_may_be_played_in_pieces() -> None:
    profit, luck = profit_table(QUICK)[None], np.random.default_rng(1).random((400, 2))
    whole, path = played(profit, luck, decay=0.01)
    worth, state, still, pieces = np.zeros((2, 49, 7)), np.zeros(2, np.int64), 0, []
    for first, last in ((0, 150), (150, 400)):
        piece, still = play(worth, state, profit, luck[first:last], first, still, 1000, 0.15, 0.95, 0.01)
        pieces.append(piece)
    np.testing.assert_array_equal(worth, whole)
    np.testing.assert_array_equal(np.concatenate(pieces), path)


def test_without_a_compiler_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    spec = spec_from_file_location("plain_learning", learning.__file__)
    assert spec is not None
    assert spec.loader is not None
    plain = module_from_spec(spec)
    spec.loader.exec_module(plain)
    assert isinstance(plain.play, FunctionType)
    profit, luck = profit_table(QUICK)[None], np.random.default_rng(4).random((500, 2))
    worth, path = played(profit, luck, decay=0.01)
    again, state = np.zeros_like(worth), np.zeros(2, np.int64)
    steps, _ = plain.play(again, state, profit, luck, 0, 0, 501, 0.15, 0.95, 0.01)
    np.testing.assert_array_equal(steps, path)
    np.testing.assert_allclose(again, worth, rtol=1e-12)


# ------------------------------------------------------------------------------------------------ luck


def test_a_session_is_a_function_of_its_seed() -> None:
    one, again, other = (learn(QUICK, seed, still_periods=10_000) for seed in (3, 3, 4))
    assert (one.gain, one.periods, one.price_usd.tolist()) == (again.gain, again.periods, again.price_usd.tolist())
    assert one.periods != other.periods


def test_other_luck_of_the_rival_leaves_what_a_seller_tries_alone() -> None:
    profit, luck = profit_table(QUICK)[None], np.random.default_rng(2)
    draws = luck.random((2000, 2))
    others = np.column_stack([draws[:, 0], luck.random(2000)])
    (_, path), (_, path_again) = (played(profit, both, decay=1e-3) for both in (draws, others))
    tried = draws[:, 0] < np.exp(-1e-3 * np.arange(2000))
    assert 500 < tried.sum() < 1500
    np.testing.assert_array_equal(path[tried, 0], path_again[tried, 0])
    assert (path[:, 1] != path_again[:, 1]).any()


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("rival", range(7))
def test_without_patience_a_seller_who_tries_everything_learns_the_best_reply_on_the_grid(rival: int) -> None:
    profit = profit_table(QUICK)
    draws = np.random.default_rng(rival).random((4000, 2))
    draws[:, 1] = (rival + 0.5) / 7  # it names this price whatever happens
    worth, path = played(profit[None], draws, patience=0.0)
    assert (path[:, 1] == rival).all()
    for own in range(7):
        state = state_of(own, rival, 7)
        np.testing.assert_allclose(worth[0, state], profit[:, rival, 0], rtol=1e-3)
        assert best_step(worth[0, state]) == profit[:, rival, 0].argmax()


def test_with_patience_and_a_rival_who_never_moves_each_step_is_worth_its_profit_and_the_best_ever_after() -> None:
    profit, rival = profit_table(QUICK), 3
    draws = np.random.default_rng(9).random((40_000, 2))
    draws[:, 1] = (rival + 0.5) / 7
    worth, _ = played(profit[None], draws, patience=0.5)
    now = profit[:, rival, 0]
    for own in range(7):
        np.testing.assert_allclose(worth[0, state_of(own, rival, 7)], now + 0.5 * now.max() / 0.5, rtol=1e-6)


def test_sellers_who_learn_nothing_never_change_their_minds() -> None:
    result = learn(Duopoly(prices=7, rate=0.0), still_periods=500)
    assert result.converged
    assert result.periods == 500


# ------------------------------------------------------------------------------------------------ what they learn


def gains(game: Duopoly, sessions: int, still_periods: int) -> Floats:
    """Profit gains of sessions that all converged."""
    results = [learn(game, seed, still_periods=still_periods) for seed in range(sessions)]
    assert all(result.converged for result in results)
    return np.array([result.gain for result in results])


def test_quick_learners_who_look_ahead_come_nearer_to_monopoly_than_those_who_do_not() -> None:
    patient, myopic = (gains(Duopoly(prices=7, decay=1e-4, patience=delta), 8, 10_000) for delta in (0.95, 0.0))
    assert 0.5 < patient.mean() < 0.95
    assert -0.1 < myopic.mean() < 0.3


@pytest.mark.soak
def test_sellers_of_the_paper_gain_what_the_paper_says() -> None:
    found = gains(BASELINE, 32, 100_000)
    assert 0.79 <= found.mean() <= 0.91
    assert found.min() > 0.3
    assert found.max() < 1.05
