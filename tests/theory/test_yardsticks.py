"""The yardstick solver of `experiments.measure.equilibrium` on the markets whose prices are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.measure.equilibrium import Demand, Equilibrium, Offers, competitive, conduct, monopoly, nash
from market.nests import Nests
from tests.theory.table import Case, family


def column(case: Case, key: str) -> list[float]:
    """An input by offer; one number is that of every seller."""
    given = case[key]
    return [float(part) for part in given] if isinstance(given, list) else [float(given)] * int(case["sellers"])


def game_of(case: Case) -> tuple[Demand, Offers]:
    """Alike tenants of weight 1 and the offers of a case."""
    cost, a, inputs = (
        column(case, "marginal_cost_usd_per_gpu_hour"),
        float(case["price_sensitivity_per_usd"]),
        case.inputs,
    )
    n = len(cost)
    # Without anything else to buy the level of value is of no account.
    value = column(case, "value_usd_per_gpu_hour") if "value_usd_per_gpu_hour" in inputs else [0.0] * n
    outside = 0.0 if inputs.get("outside_option", True) else -np.inf
    ones, nests = np.ones((1, n)), None
    if "vendor_of_offer" in inputs:
        nests = Nests(np.array(case["vendor_of_offer"]), float(case["within_vendor_correlation"]))
    demand = Demand(a * np.array([value]), np.array([outside]), np.array([a]), ones, ones, np.zeros(n), "linear", nests)
    owner, capacity = inputs.get("owner_of_offer", range(n)), inputs.get("capacity_share_of_potential_hours")
    return demand, Offers.of(list(owner), cost, capacity)


def answers(found: Equilibrium, owner: Any) -> dict[str, float]:
    """Prices, shares and scarcity rents by offer, by owner, and where all are alike."""
    assert found.price_usd is not None, found.reason
    assert found.gpus is not None
    assert found.scarcity_usd is not None
    assert found.residual_usd <= 1e-5
    told = {"price": found.price_usd[0], "share_each": found.gpus[0], "share_total": found.gpus.sum()}
    for at, (price, share, rent) in enumerate(zip(found.price_usd, found.gpus, found.scarcity_usd, strict=True), 1):
        told |= {f"price_{at}": price, f"share_{at}": share, f"scarcity_rent_{at}": rent}
    told |= {f"share_owner_{one}": found.gpus[np.asarray(owner) == one].sum() for one in set(owner)}
    return {name: float(value) for name, value in told.items()}


@family(
    "logit_bertrand_symmetric",
    "logit_bertrand_asymmetric",
    "logit_multiproduct",
    "nested_logit_two_vendors",
    "logit_capacity_clearing",
)
def test_the_solver_gives_the_known_prices_of_rivals(case: Case) -> None:
    demand, offers = game_of(case)
    case.agree(answers(nash(demand, offers), offers.owner.tolist()), partly=True)


@family("logit_monopoly")
def test_the_solver_gives_the_known_prices_of_one_owner(case: Case) -> None:
    demand, offers = game_of(case)
    found = monopoly(demand, offers)
    told = answers(found, offers.owner.tolist())
    assert found.price_usd is not None
    case.agree(told | {"profit_total": float((found.price_usd - offers.cost_usd) @ np.asarray(found.gpus))})


@family("backstop_logit_unlimited")
def test_the_solver_gives_the_known_prices_beside_a_desk_whose_price_is_fixed(case: Case) -> None:
    rivals, offers = game_of(case)
    a, n = float(case["price_sensitivity_per_usd"]), len(offers.owner)
    desk = a * (float(case["backstop_value_usd_per_gpu_hour"]) - float(case["backstop_price_usd_per_gpu_hour"]))
    ones = np.ones((1, n + 1))
    price = np.append(np.zeros(n), float(case["backstop_price_usd_per_gpu_hour"]))
    demand = replace(
        rivals, utility=np.append(rivals.utility, [[desk]], axis=1), gpus=ones, work_per_gpu=ones, price_usd=price
    )
    among = Offers(np.arange(n + 1), np.append(offers.cost_usd, 0.0), np.full(n + 1, np.inf), np.arange(n + 1) == n)
    found, alone = nash(demand, among), nash(rivals, offers)
    told = answers(found, among.owner.tolist())
    assert found.gpus is not None
    assert alone.price_usd is not None
    case.agree(
        told
        | {
            "backstop_share": float(found.gpus[n]),
            "price_change_against_no_backstop": told["price"] - float(alone.price_usd[0]),
        }
    )


@family("logit_bertrand_asymmetric", "logit_multiproduct", "logit_capacity_clearing")
def test_conduct_of_rivals_lies_between_competition_and_one_owner(case: Case) -> None:
    demand, offers = game_of(case)
    price = nash(demand, offers).price_usd
    assert price is not None
    found = conduct(demand, offers, price)
    if found.value is None:
        assert found.reason == "capacity binds everywhere"
        return
    assert 0.0 <= found.value < 1.0
    for solve, value in ((competitive, 0.0), (monopoly, 1.0)):
        known = solve(demand, offers).price_usd
        assert known is not None
        assert conduct(demand, offers, known).value == pytest.approx(value, abs=1e-6)
