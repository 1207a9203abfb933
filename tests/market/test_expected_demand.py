"""What sellers expect against what weeks bring: `expected_demand` and the mean of many weekly clearings of given rows.

The weeks are the market's own: systematic utility, keyed shocks and priorities, ranking, clearing. Where nothing is
rationed the two agree. Where an offer sells out, expected demand is a fluid limit: demand flows at its mean rate, so an
offer is full or it is not. A drawn week brings more or less than the mean, and what is above capacity is lost to the
offer, what is below is not made up for. With D normal, mean m and standard deviation s, and capacity k, the offer sells
``E min(D, k) = m - s L((m - k)/s)``, L(z) = φ(z) + z Φ(z), where the fluid says ``min(m, k)``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from market.arrays import Floats, Ints
from market.choice import (
    Pairs,
    candidate_pairs,
    expected_demand,
    outside_utility,
    rank_offers,
    systematic_utility,
    weekly_shocks,
)
from market.clearing.posted import Queue, clear
from market.randomness import Purpose, agent_keys, uniform
from market.tenants import Tenants
from tests.market.small_markets import PLAIN_CHOICE, choice, market_of, plain_clearing, sellers, tenants_of

PRICES_USD = [1.8, 2.0, 2.3]
WEEKS = 2_000
SKU_KEYS = agent_keys(["H100"])
CHOICE = choice(**PLAIN_CHOICE)
PAGE = Path(__file__).parents[2] / "docs" / "background" / "validation.md"
SIZES = {"alike": 0.0, "as in the market": 1.1}  # sd of ln size; `segments.csv` has 1.0 to 1.2


@cache
def given_rows(count: int, size_sd: float) -> Tenants:
    """Tenants who differ in size, sensitivity and reservation price; sizes are quantiles of their law and sum to 1."""
    rng = np.random.default_rng(5)
    size = np.exp(size_sd * norm.ppf((rng.permutation(count) + 0.5) / count))
    size /= size.sum()
    return tenants_of(
        count,
        size_h100e=size,
        wanted_h100e=size,
        sensitivity=np.exp(rng.normal(1.3, 0.25, count)),
        reservation_usd=np.exp(rng.normal(1.0, 0.5, count)),
    )


@cache
def utilities(count: int, size_sd: float) -> tuple[Pairs, Floats, Floats]:
    """Pairs of tenants and offers, what each is worth to the tenant, and what buying nothing is."""
    who, market, rows = given_rows(count, size_sd), market_of(sellers(PRICES_USD), PRICES_USD), np.arange(count)
    pairs = candidate_pairs(who, rows, market, CHOICE)
    return pairs, systematic_utility(who, pairs, market, CHOICE, 0), outside_utility(who, rows, CHOICE)


def told(count: int, size_sd: float, capacity: Floats, unserved: str = "next") -> Floats:
    """What a seller who knows these tenants is told, ``(offers,)``."""
    _, utility, outside = utilities(count, size_sd)
    gpus = np.repeat(given_rows(count, size_sd).size_h100e[:, None], len(PRICES_USD), axis=1)
    return expected_demand(utility.reshape(count, -1), outside, gpus, capacity, unserved=unserved)  # type: ignore[arg-type]


@cache
def drawn_weeks(count: int, size_sd: float) -> list[tuple[Ints, Ints]]:
    """Order of service and ranking of every week."""
    who, market, rows = given_rows(count, size_sd), market_of(sellers(PRICES_USD), PRICES_USD), np.arange(count)
    pairs, utility, outside = utilities(count, size_sd)
    weeks = []
    for week in range(1, WEEKS + 1):
        shocks = weekly_shocks(who, rows, pairs, market, 0, week, SKU_KEYS)
        order = np.argsort(uniform(0, Purpose.PRIORITY, week, who.key))
        weeks.append((order, rank_offers(pairs, utility, outside, shocks, 1.0, len(PRICES_USD))[order]))
    return weeks


def sold(count: int, size_sd: float, capacity: Floats, unserved: str = "next") -> Floats:
    """GPUs let by week and offer, ``(weeks, offers)``."""
    size, rule = given_rows(count, size_sd).size_h100e, plain_clearing(unserved=unserved)
    found = np.zeros((WEEKS, len(PRICES_USD)))
    for row, (order, ranking) in zip(found, drawn_weeks(count, size_sd), strict=True):
        every = np.ones(ranking.shape)
        taken = clear(Queue(size[order], size[order], ranking, every, every * np.inf), capacity, rule).taken_gpus
        row += np.bincount(np.maximum(ranking, 0).ravel(), taken.ravel(), minlength=len(row))
    return found


def capacity_at(load: float, count: int, size_sd: float) -> Floats:
    """The first offer has room for its mean demand over ``load``, the others for everybody."""
    return np.array([told(count, size_sd, np.full(3, np.inf))[0] / load, np.inf, np.inf])


@pytest.mark.parametrize("size_sd", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("capacity", [np.inf, 1.0], ids=["no limit", "room for all"])
def test_where_nothing_is_rationed_expected_demand_is_the_mean_of_weekly_clearings(
    size_sd: float, capacity: float
) -> None:
    room = np.full(3, capacity)
    weeks = sold(100, size_sd, room)
    error = weeks.std(axis=0, ddof=1) / np.sqrt(WEEKS)
    assert (np.abs(told(100, size_sd, room) - weeks.mean(axis=0)) <= 3.0 * error).all()
    assert (error < 0.015 * weeks.mean(axis=0)).all()  # three of them would show a bias of a twentieth


def bias(load: float, count: int, size_sd: float, unserved: str = "next") -> tuple[float, float, float]:
    """Expected over drawn GPUs less 1: of the offer that is short, of the others together, of all."""
    room = capacity_at(load, count, size_sd)
    expected, mean = told(count, size_sd, room, unserved), sold(count, size_sd, room, unserved).mean(axis=0)
    short, others = expected[0] / mean[0] - 1.0, expected[1:].sum() / mean[1:].sum() - 1.0
    return float(short), float(others), float(expected.sum() / mean.sum() - 1.0)


def loss(load: float, count: int, size_sd: float) -> float:
    """The same of the offer that is short by the unit normal loss of its own demand."""
    demand = sold(count, size_sd, np.full(3, np.inf))[:, 0]
    m, s = told(count, size_sd, np.full(3, np.inf))[0], float(demand.std(ddof=1))
    z = (m - m / load) / s
    return float(min(m, m / load) / (m - s * (norm.pdf(z) + z * norm.cdf(z))) - 1.0)


@pytest.mark.parametrize("load", [0.9, 1.0, 1.1, 1.25, 1.5])
def test_an_offer_near_its_capacity_lets_less_than_expected_by_the_normal_loss_of_its_demand(load: float) -> None:
    for unserved in ("next", "leave"):
        short, others, all_offers = bias(load, 100, 1.1, unserved)
        assert short == pytest.approx(loss(load, 100, 1.1), abs=0.015)
        assert -0.02 < short < 0.09
        if load in (1.0, 1.1):
            assert short > 0.02
            assert others < -0.01 if unserved == "next" else abs(others) < 0.03
        if unserved == "next":
            assert abs(all_offers) < 0.01  # who is turned away goes on: the sum is right


def stated() -> dict[tuple[int, float], list[tuple[float, float, float]]]:
    """The table of the page: load and the two biases, by number of tenants and spread of sizes."""
    head, *rows = re.findall(r"^\| (?:tenants|1,?00\d?) .*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    loads = [float(load) for load in re.findall(r"\d\.\d+", head)]
    found = {}
    for row in rows:
        count, sizes, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        pairs = [tuple(float(part.replace("−", "-")) for part in cell.split(" / ")) for cell in cells]
        found[int(count.replace(",", "")), SIZES[sizes]] = [
            (load, *pair) for load, pair in zip(loads, pairs, strict=True)
        ]
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("count", "size_sd"),
    [(100, 0.0), (100, 1.1), *(pytest.param(1000, sd, marks=pytest.mark.soak) for sd in SIZES.values())],
)
def test_the_bias_is_what_the_page_says(count: int, size_sd: float) -> None:
    for load, short, others in stated()[count, size_sd]:
        found = bias(load, count, size_sd)
        assert 100.0 * np.array(found[:2]) == pytest.approx([short, others], abs=0.06)
