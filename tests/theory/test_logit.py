"""Sellers who know demand rest at the prices of the logit textbook; built from the real market, frictions at zero.

Cases: ``cases/*.csv``, one known quantity a row (Anderson, de Palma & Thisse 1992, ch. 7; Nocke & Schutz 2018). Every
seller could serve the whole potential demand, so that no capacity binds.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.rules.pricing import PRICING
from market.model import MarketModel
from tests.worlds import Textbook, hold_prices, list_usd, potential_gpus, rest, textbook

Quantities = dict[str, tuple[float, float]]

TICK_USD = 0.001
STARTS = {"at cost": 1.0, "at twice cost": 2.0}
_CASES = Path(__file__).parent / "cases"


def _cases(family: str) -> dict[str, tuple[dict[str, Any], Quantities]]:
    """Inputs and quantities (value, tolerance) of each case of a family."""
    inputs: dict[str, dict[str, Any]] = {}
    quantities: dict[str, Quantities] = defaultdict(dict)
    with (_CASES / f"{family}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            inputs[row["case_id"]] = json.loads(row["inputs"])
            quantities[row["case_id"]][row["quantity"]] = (float(row["value"]), float(row["tolerance"]))
    return {case: (inputs[case], quantities[case]) for case in inputs}


SYMMETRIC = _cases("logit_bertrand_symmetric")
MONOPOLY = _cases("logit_monopoly")


def _symmetric(case_id: str) -> tuple[Textbook, Quantities]:
    inputs, known = SYMMETRIC[case_id]
    value = inputs.get("value_usd_per_gpu_hour", 0.0)  # without an outside option the value does not matter
    cost = inputs["marginal_cost_usd_per_gpu_hour"]
    case = Textbook(inputs["sellers"], (cost,), (value,), inputs["price_sensitivity_per_usd"], inputs["outside_option"])
    return case, known


def _monopoly(case_id: str) -> tuple[Textbook, Quantities]:
    inputs, known = MONOPOLY[case_id]
    cost, value = inputs["marginal_cost_usd_per_gpu_hour"], inputs["value_usd_per_gpu_hour"]
    return Textbook(1, tuple(cost), tuple(value), inputs["price_sensitivity_per_usd"]), known


def _expected_shares(model: MarketModel, case: Textbook, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of potential demand that the offers may expect at resting prices, ``(sellers, products)``."""
    model.open_week()  # a new week: expectations are formed from the last close
    return np.array([model.view.demand(row, prices[row]) for row in range(case.sellers)]) / potential_gpus(case)


def _near(value: float, known: Quantities, quantity: str) -> None:
    expected, tolerance = known[quantity]
    assert value == pytest.approx(expected, abs=tolerance), quantity


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
@pytest.mark.parametrize("case_id", SYMMETRIC)
def test_equal_sellers_rest_at_the_nash_price_and_its_shares(case_id: str, start: float) -> None:
    case, known = _symmetric(case_id)
    model = textbook(case, [start * cost for cost in case.cost_usd], tick_usd=TICK_USD)
    prices = rest(model, TICK_USD)
    shares = _expected_shares(model, case, prices)
    for price, share in zip(prices.ravel(), shares.ravel(), strict=True):
        _near(price, known, "price")
        _near(share, known, "share_each")
        _near((price - case.cost_usd[0]) * share, known, "profit_each")
    if case.outside:
        _near(1.0 - shares.sum(), known, "outside_share")


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
@pytest.mark.parametrize("case_id", MONOPOLY)
def test_an_owner_of_all_offers_rests_at_the_monopoly_prices(case_id: str, start: float) -> None:
    case, known = _monopoly(case_id)
    model = textbook(case, [start * cost for cost in case.cost_usd], tick_usd=TICK_USD)
    prices = rest(model, TICK_USD)
    shares = _expected_shares(model, case, prices)[0]
    for product, price in enumerate(prices[0], start=1):
        _near(price, known, f"price_{product}")
    _near(shares.sum(), known, "share_total")
    _near(float((prices[0] - case.cost_usd) @ shares), known, "profit_total")


@pytest.mark.parametrize("case_id", SYMMETRIC)
def test_a_cost_shock_passes_through_by_the_stated_amount(case_id: str) -> None:
    case, known = _symmetric(case_id)
    shock, tick = 0.02, 1e-5
    dearer = Textbook(case.sellers, (case.cost_usd[0] + shock,), case.value_usd, case.sensitivity, case.outside)
    start = [known["price"][0]]
    before, after = (rest(textbook(world, start, tick_usd=tick), tick).mean() for world in (case, dearer))
    _near((after - before) / shock, known, "cost_pass_through")


@pytest.mark.parametrize("case_id", ["logit_bertrand_symmetric/duopoly", "logit_bertrand_symmetric/twelve"])
def test_no_seller_gains_by_leaving_the_resting_price(case_id: str) -> None:
    case, _ = _symmetric(case_id)
    model = textbook(case, list(case.cost_usd), tick_usd=TICK_USD)
    prices = rest(model, TICK_USD)
    model.open_week()

    def profit(price: float) -> float:
        gpus = model.view.demand(0, np.array([price]))[0]
        return float((price - case.cost_usd[0]) * gpus / potential_gpus(case))

    at_rest = profit(prices[0, 0])
    deviations = case.cost_usd[0] + np.linspace(0.0, 3.0, 301)
    assert max(profit(price) for price in deviations) - at_rest <= 1e-4


@pytest.mark.parametrize("first", [0, 1])
def test_sellers_who_move_in_turn_rest_where_those_who_move_together_do(first: int) -> None:
    case, known = _symmetric("logit_bertrand_symmetric/duopoly")
    model = textbook(case, list(case.cost_usd), tick_usd=TICK_USD)
    for turn in range(30):
        for row, seller in model.sellers:
            seller.rule = PRICING["best-response" if (row + turn + first) % 2 == 0 else "fixed"]
        model.step()
    for price in list_usd(model).ravel():
        _near(price, known, "price")


@pytest.mark.parametrize("case_id", ["logit_bertrand_symmetric/duopoly", "logit_bertrand_symmetric/twelve"])
def test_hours_sold_at_the_resting_price_agree_with_the_closed_form(case_id: str) -> None:
    case, known = _symmetric(case_id)
    model = textbook(case, list(case.cost_usd), tick_usd=TICK_USD)
    rest(model, TICK_USD)
    hold_prices(model)
    weeks = 80
    sold = np.zeros(case.sellers)
    for _ in range(weeks):
        model.step()
        sold += model.sold_gpus()[:, 0] / weeks
    expected, tolerance = known["share_each"]
    choices = len(model.tenants) * weeks  # each tenant chooses afresh every week
    assert 4.0 * np.sqrt(expected * (1.0 - expected) / choices) < tolerance
    np.testing.assert_allclose(sold / potential_gpus(case), expected, atol=tolerance)


def test_many_sellers_drive_the_markup_to_the_inverse_sensitivity_not_to_zero() -> None:
    case = Textbook(40, (1.2,), (2.5,), 3.0)
    prices = rest(textbook(case, [1.5], tick_usd=TICK_USD), TICK_USD)
    assert prices.mean() == pytest.approx(1.2 + 1.0 / 3.0, abs=0.02)
