"""Q-learning over a grid of prices, compiled: what a learning seller remembers, tries and concludes.

A seller keeps a worth for every step of its price grid in every state, the state being last period's own and rival
step. With ``r`` the reward and ``s'`` the state that followed (Watkins 1989; Calvano, Calzolari, Denicolò & Pastorello
2020, "Artificial Intelligence, Algorithmic Pricing, and Collusion", AER 110)::

    worth[s, a] ← (1 - rate) worth[s, a] + rate (r + patience max worth[s', ·])

and it tries a step at random with chance ``exp(-decay t)`` in its period ``t``, otherwise takes the best it knows.

The market's rule ``q-learning`` and the two-seller loop of `experiments.study.learning` both run on these functions.
They stand in one file because a compiled function does not notice that one in another file has changed. Without numba
they run as they stand, slower, to the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from market.arrays import Floats, Ints

try:
    from numba import njit
except ImportError:  # numba has no wheel for every Python

    def njit(**_options: Any) -> Callable[[Any], Any]:  # type: ignore[no-redef]
        """Leave a function as it is."""
        return lambda function: function


__all__ = ["best_step", "chance_to_explore", "chosen_step", "learn_from", "nearest_steps", "play", "state_of"]


def nearest_steps(price_ln: Floats, grid_ln: Floats) -> Ints:
    """Step of the grid nearest to a price, by SKU ``(skus,)``.

    Args:
        price_ln: Prices, ln USD ``(skus,)``; NaN counts as the lowest step.
        grid_ln: Grids, ln USD ``(skus, steps)``.
    """
    return np.asarray(np.argmin(np.abs(grid_ln - np.nan_to_num(price_ln, nan=-np.inf)[:, None]), axis=1))


@njit(cache=True)
def chance_to_explore(period: int, decay: float) -> float:
    """Chance to try a step at random in a period, the first being 0."""
    return math.exp(-decay * period)


@njit(cache=True)
def state_of(own: int, rival: int, steps: int) -> int:
    """Number of the state in which the seller stood at step ``own`` and its rival at step ``rival``."""
    return own * steps + rival


@njit(cache=True)
def best_step(worth: Floats) -> int:
    """Step of the highest worth ``(steps,)``, the lowest price among equals."""
    best = 0
    for step in range(1, len(worth)):
        if worth[step] > worth[best]:
            best = step
    return best


@njit(cache=True)
def chosen_step(worth: Floats, chance: float, draw: float) -> int:
    """Step to take: below ``chance`` the draw names one, each alike; from there on it is the best of ``worth``.

    One uniform draw does both: given that it lies below the chance, its place below it is uniform again.
    """
    if draw < chance:
        return min(int(draw / chance * len(worth)), len(worth) - 1)
    return best_step(worth)


@njit(cache=True)
def learn_from(worth: Floats, state: int, after: int, reward: float, rate: float, patience: float) -> None:
    """Revise ``worth (states, steps)`` in place: the step taken in ``state`` is the own one in the state ``after``."""
    step = after // worth.shape[1]
    ahead = worth[after, best_step(worth[after])]
    worth[state, step] = (1.0 - rate) * worth[state, step] + rate * (reward + patience * ahead)


@njit(cache=True)
def play(
    worth: Floats,
    state: Ints,
    profit: Floats,
    draws: Floats,
    first: int,
    still: int,
    still_enough: int,
    rate: float,
    patience: float,
    decay: float,
) -> tuple[Ints, int]:
    """Two sellers play each other and learn, until neither has changed its mind for long enough or draws run out.

    Args:
        worth: What they have learnt, ``(2, steps², steps)``; revised in place.
        state: Where they stand, ``(2,)``; revised in place.
        profit: Profit of both by own steps, ``(tables, steps of the first, steps of the second, 2)``; period t has
            table t modulo their number.
        draws: A uniform by period and seller, ``(periods, 2)``.
        first: Number of the first of these periods.
        still: Periods that have passed without a change of any best step.
        still_enough: Such periods after which play ends.
        rate: Weight of what a period teaches, 0 to 1.
        patience: Worth of the next period's reward in this one's, below 1.
        decay: Rate at which the chance to explore falls, per period.

    Returns:
        Steps taken, ``(periods played, 2)``, and periods without a change at the end.
    """
    steps = worth.shape[2]
    path = np.empty(draws.shape, np.int64)
    after = np.empty(2, np.int64)
    for period in range(len(draws)):
        chance = chance_to_explore(first + period, decay)
        for seller in range(2):
            path[period, seller] = chosen_step(worth[seller, state[seller]], chance, draws[period, seller])
        one, other = path[period, 0], path[period, 1]
        after[0], after[1] = state_of(one, other, steps), state_of(other, one, steps)
        still += 1
        for seller in range(2):
            known = worth[seller]
            before = best_step(known[state[seller]])
            reward = profit[(first + period) % len(profit), one, other, seller]
            learn_from(known, state[seller], after[seller], reward, rate, patience)
            if best_step(known[state[seller]]) != before:
                still = 0
            state[seller] = after[seller]
        if still >= still_enough:
            return path[: period + 1], still
    return path, still
