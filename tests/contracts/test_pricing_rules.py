"""What every pricing rule must keep, whatever its idea: one suite over all of ``PRICING``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from agents.rules.pricing import PRICING, term_prices
from experiments import build as builder
from experiments.build import build
from experiments.scenario import Scenario
from market.model import MarketModel, Population
from market.units import Term
from market.view import OwnBooks, PricingLuck
from tests.worlds import assert_same_tables, few_sellers, played, tables_of

RULES = tuple(PRICING)

every_rule = pytest.mark.parametrize("rule", RULES)

WORLDS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "nobody wants GPUs": {"tenants.opening_load": 0.05, "pricing.adjust_per_week": 1.0, "pricing.revision_scale": 20.0},
    "everybody wants GPUs": {"tenants.opening_load": 1.6, "pricing.adjust_per_week": 1.0},
    "large shocks": {"pricing.noise_sd": 0.5, "pricing.revision_scale": 20.0, "pricing.sku_premium_sd": 0.5},
    "running costs as high as prices": {"costs.electricity_usd_per_kwh": 1.2},
    "nothing but the developer cloud's price": {"pricing.anchor_weight": 1.0, "developer_cloud.cap_gpus": 2000.0},
}


def _world(rule: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Seven sellers who all follow one rule."""
    own = {f"pricing.{name}_rule": rule for name in ("neocloud", "marketplace", "hyperscaler")}
    small = {"tenants.rows": 80, "tenants.rows_per_segment_minimum": 10}
    return few_sellers({**small, **own, **(changes or {})})


def _weeks(rule: str) -> int:
    """Weeks to play; sellers who work out their best reply take long over one."""
    return 1 if rule == "best-response" else 8


def _offered(model: MarketModel) -> Any:
    """SKUs that third-party sellers hold and may offer, ``(suppliers, skus)``."""
    s = model.suppliers
    return (s.available_gpus > 0.0) & s.third_party[:, None]


@every_rule
@pytest.mark.parametrize("changes", WORLDS.values(), ids=WORLDS.keys())
def test_prices_are_finite_and_not_under_the_floor(rule: str, changes: Mapping[str, Any]) -> None:
    scenario = _world(rule, changes)
    model = build(scenario, 1)
    for _ in range(_weeks(rule)):
        model.step()
        prices, held = model.book.price_usd, _offered(model)
        terms = model.suppliers.offers_term
        offered = held[:, :, None] & terms[:, None, :]
        third = model.suppliers.third_party
        assert np.isfinite(prices[offered]).all()
        assert np.isnan(prices[third][~offered[third]]).all()
        floor = np.broadcast_to(scenario.pricing.floor_factor * model.running_usd[None, :, None], prices.shape).copy()
        floor[:, :, Term.SPOT] *= scenario.pricing.spot_floor
        below = np.where(offered, floor * (1.0 - 1e-12) - prices, -np.inf)
        seller, sku, term = np.unravel_index(below.argmax(), below.shape)
        assert below.max() <= 0.0, (model.suppliers.names[seller], model.tables.skus[sku].name, Term(term).name)


@every_rule
def test_nobody_sells_more_than_it_has(rule: str) -> None:
    model = build(_world(rule, {"tenants.opening_load": 1.4}), 2)
    for _ in range(_weeks(rule)):
        model.step()
        sold, available = model.sold_gpus(), model.listed_gpus()
        assert (sold <= available + 1e-8 * np.maximum(1.0, available)).all()
        assert (model.book.open_gpus >= 0.0).all()


ORDERS: Mapping[str, Callable[[int], Any]] = {
    "reversed": lambda agents: np.arange(agents)[::-1],
    "shuffled": lambda agents: np.random.default_rng(0).permutation(agents),
}


@every_rule
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_agents_is_irrelevant(
    rule: str, order: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order = tables_of(_world(rule), seed=3, weeks=_weeks(rule))
    original = builder._population

    def shuffled(*arguments: Any) -> Population:
        population = original(*arguments)
        places = order(len(population.agents))
        return replace(population, agents=[population.agents[place] for place in places])

    monkeypatch.setattr(builder, "_population", shuffled)
    assert_same_tables(in_order, tables_of(_world(rule), seed=3, weeks=_weeks(rule)))


@every_rule
def test_the_same_seed_gives_the_same_result(rule: str) -> None:
    one, other = (tables_of(_world(rule), seed=4, weeks=_weeks(rule)) for _ in range(2))
    assert_same_tables(one, other)


def _arrays(value: Any) -> dict[str, Any]:
    """Array fields of a value."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}


def _inputs(model: MarketModel, row: int) -> tuple[OwnBooks, PricingLuck]:
    luck = model.pricing_luck()
    return model.own_books(row), PricingLuck(luck.noise[row].copy(), float(luck.revision[row]))


@every_rule
def test_a_rule_does_not_write_its_inputs(rule: str) -> None:
    model = played(_world(rule), seed=5, weeks=_weeks(rule))
    model.open_week()
    view_before = {name: array.copy() for name, array in _arrays(model.view).items()}
    for row, seller in model.sellers:
        own, luck = _inputs(model, row)
        before = deepcopy((_arrays(own), _arrays(luck)))
        for array in [*_arrays(own).values(), *_arrays(luck).values()]:
            if array.base is None and array.flags.owndata:
                array.setflags(write=False)  # a write would raise
        quote = seller.rule(own, model.view, luck, seller.pricing)
        term_prices(own, quote, seller.provider_class, seller.pricing)
        for name, array in {**_arrays(own), **_arrays(luck)}.items():
            np.testing.assert_array_equal(array, {**before[0], **before[1]}[name], err_msg=name)
    for name, array in view_before.items():
        np.testing.assert_array_equal(getattr(model.view, name), array, err_msg=name)


@every_rule
def test_a_rule_has_no_memory_of_its_own(rule: str) -> None:
    model = played(_world(rule), seed=6, weeks=_weeks(rule))
    model.open_week()
    row, seller = model.sellers[1]
    others = [pair for pair in model.sellers if pair[0] != row]
    first = seller.rule(*_arguments(model, row))
    for other, rival in others:
        rival.rule(*_arguments(model, other))
    again = seller.rule(*_arguments(model, row))
    for name in ("shadow_ln", "list_ln", "tightness"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


def _arguments(model: MarketModel, row: int) -> tuple[Any, ...]:
    own, luck = _inputs(model, row)
    return own, model.view, luck, model.sellers[0][1].pricing


@every_rule
def test_a_quote_is_a_number_for_every_sku_on_hand(rule: str) -> None:
    model = played(_world(rule), seed=7, weeks=_weeks(rule))
    model.open_week()
    for row, seller in model.sellers:
        own, _ = _inputs(model, row)
        quote = seller.rule(*_arguments(model, row))
        for name in ("shadow_ln", "list_ln", "tightness"):
            values = getattr(quote, name)
            assert values.shape == own.holds.shape
            assert np.isfinite(values[own.holds]).all(), name
