"""What a market keeps whatever rules its sellers follow: one suite over all registered rules of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents.rules.capacity import CAPACITY
from agents.rules.participation import PARTICIPATION
from agents.rules.pricing import PRICING
from experiments import build as builder
from experiments.scenario import Scenario
from market.world import Population
from tests.contracts.worlds_of_rules import joined_by, ordered_by, priced_by, pricing_weeks
from tests.worlds import assert_same_tables, tables_of

MARKETS: dict[str, tuple[Scenario, int]] = {
    **{f"pricing {rule}": (priced_by(rule), pricing_weeks(rule)) for rule in PRICING},
    **{f"capacity {rule}": (ordered_by(rule), 8) for rule in CAPACITY},
    **{f"participation {rule}": (joined_by(rule), 6) for rule in PARTICIPATION},
}

every_market = pytest.mark.parametrize(("scenario", "weeks"), MARKETS.values(), ids=MARKETS.keys())

ORDERS: dict[str, Callable[[int], Any]] = {
    "reversed": lambda agents: np.arange(agents)[::-1],
    "shuffled": lambda agents: np.random.default_rng(0).permutation(agents),
}


@every_market
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_agents_is_irrelevant(
    scenario: Scenario, weeks: int, order: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order = tables_of(scenario, seed=3, weeks=weeks)
    original = builder._population

    def shuffled(*arguments: Any) -> Population:
        population = original(*arguments)
        places = order(len(population.agents))
        return replace(population, agents=[population.agents[place] for place in places])

    monkeypatch.setattr(builder, "_population", shuffled)
    assert_same_tables(in_order, tables_of(scenario, seed=3, weeks=weeks))


@every_market
def test_the_same_seed_gives_the_same_result(scenario: Scenario, weeks: int) -> None:
    one, other = (tables_of(scenario, seed=4, weeks=weeks) for _ in range(2))
    assert_same_tables(one, other)
