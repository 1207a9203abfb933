"""What every pricing rule must keep, whatever its idea: one suite over all of ``PRICING``."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from agents.rules.pricing import PRICING, term_prices
from experiments.build import build
from market.model import MarketModel
from market.trade import pricing_luck
from market.units import Term
from market.view import OwnBooks, PricingLuck
from tests.contracts.worlds_of_rules import arrays, priced_by, pricing_weeks
from tests.worlds import played

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


def _offered(model: MarketModel) -> Any:
    """SKUs that third-party sellers hold and may offer, ``(suppliers, skus)``."""
    s = model.suppliers
    return (s.available_gpus > 0.0) & s.third_party[:, None]


@every_rule
@pytest.mark.parametrize("changes", WORLDS.values(), ids=WORLDS.keys())
def test_prices_are_finite_and_not_under_the_floor(rule: str, changes: Mapping[str, Any]) -> None:
    scenario = priced_by(rule, changes)
    model = build(scenario, 1)
    for _ in range(pricing_weeks(rule)):
        model.step()
        prices, held = model.book.price_usd, _offered(model)
        terms = model.suppliers.offers_term
        offered = held[:, :, None] & terms[:, None, :]
        third = model.suppliers.third_party
        assert np.isfinite(prices[offered]).all()
        assert np.isnan(prices[third][~offered[third]]).all()
        floor = np.broadcast_to(
            scenario.pricing.floor_factor * model.hardware.running_usd[None, :, None], prices.shape
        ).copy()
        floor[:, :, Term.SPOT] *= scenario.pricing.spot_floor
        below = np.where(offered, floor * (1.0 - 1e-12) - prices, -np.inf)
        seller, sku, term = np.unravel_index(below.argmax(), below.shape)
        assert below.max() <= 0.0, (model.suppliers.names[seller], model.tables.skus[sku].name, Term(term).name)


@every_rule
def test_nobody_sells_more_than_it_has(rule: str) -> None:
    model = build(priced_by(rule, {"tenants.opening_load": 1.4}), 2)
    for _ in range(pricing_weeks(rule)):
        model.step()
        sold, available = model.sold_gpus(), model.listed_gpus()
        assert (sold <= available + 1e-8 * np.maximum(1.0, available)).all()
        assert (model.book.open_gpus >= 0.0).all()


def _inputs(model: MarketModel, row: int) -> tuple[OwnBooks, PricingLuck]:
    return model.own_books(row), pricing_luck(model)[row]


@every_rule
def test_a_rule_does_not_write_its_inputs(rule: str) -> None:
    model = played(priced_by(rule), seed=5, weeks=pricing_weeks(rule))
    model.open_week()
    view_before = {name: array.copy() for name, array in arrays(model.view).items()}
    for row, seller in model.sellers:
        own, luck = _inputs(model, row)
        before = deepcopy((arrays(own), arrays(luck)))
        for array in [*arrays(own).values(), *arrays(luck).values()]:
            if array.base is None and array.flags.owndata:
                array.setflags(write=False)  # a write would raise
        quote = seller.rule(own, model.view, luck, seller.pricing)
        term_prices(own, quote, seller.provider_class, seller.pricing)
        for name, array in {**arrays(own), **arrays(luck)}.items():
            np.testing.assert_array_equal(array, {**before[0], **before[1]}[name], err_msg=name)
    for name, array in view_before.items():
        np.testing.assert_array_equal(getattr(model.view, name), array, err_msg=name)


@every_rule
def test_a_rule_has_no_memory_of_its_own(rule: str) -> None:
    model = played(priced_by(rule), seed=6, weeks=pricing_weeks(rule))
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
    model = played(priced_by(rule), seed=7, weeks=pricing_weeks(rule))
    model.open_week()
    for row, seller in model.sellers:
        own, _ = _inputs(model, row)
        quote = seller.rule(*_arguments(model, row))
        for name in ("shadow_ln", "list_ln", "tightness"):
            values = getattr(quote, name)
            assert values.shape == own.holds.shape
            assert np.isfinite(values[own.holds]).all(), name
