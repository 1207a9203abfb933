"""Demand: it answers prices, does not drift, long terms look at a mean; learning AMD; what sellers may expect."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.build import build
from experiments.scenario import Scenario
from market import trade
from market.choice import candidate_pairs, expected_demand, outside_utility, systematic_utility
from market.decisions import DeskOffer
from market.demand import move_demand, price_of_work_ln
from market.forecast import DemandForecast, public_sample
from market.model import MarketModel
from market.suppliers import DESK
from market.units import WEEKS_PER_YEAR, Term

SMALLEST_P = 1e-4
CALM = {"demand.regime": False, "demand.own_sd": 0.0, "demand.common_sd": 0.0, "demand.growth_first_per_year": 0.0}


def opened(rows: int = 600, seed: int = 0, **changes: Any) -> MarketModel:
    return build(Scenario.load().with_({"tenants.rows": rows, **changes}), seed)


def pass_weeks(model: MarketModel, weeks: int) -> None:
    """Demand alone moves; nobody trades or reprices."""
    for _ in range(weeks):
        model.week += 1
        move_demand(model)


def committed(model: MarketModel) -> np.ndarray:
    return model.tenants.term >= Term.ONE_YEAR


# --- the law of wanted work ----------------------------------------------------------------------------------------


def test_without_growth_shocks_or_price_moves_everybody_wants_its_size_for_ever():
    model = opened(**CALM)
    assert model.tenants.wanted_h100e == pytest.approx(model.tenants.size_h100e)
    pass_weeks(model, 20)
    assert model.tenants.wanted_h100e == pytest.approx(model.tenants.size_h100e)


def test_growth_compounds_by_the_calendar():
    model = opened(**{**CALM, "demand.growth_first_per_year": 0.3})
    pass_weeks(model, 52)
    short = ~committed(model)
    ratio = model.tenants.wanted_h100e[short] / model.tenants.size_h100e[short]
    assert ratio == pytest.approx(np.full(short.sum(), np.exp(0.3 * 52 / WEEKS_PER_YEAR)))


@pytest.mark.parametrize("change", [1.25, 0.8])
def test_dearer_work_is_wanted_less_by_the_elasticity_cheaper_work_more(change):
    model = opened(**{**CALM, "demand.price_smoothing": 1.0})
    model.book.price_usd *= change
    pass_weeks(model, 1)
    short = ~committed(model)
    ratio = model.tenants.wanted_h100e[short] / model.tenants.size_h100e[short]
    assert ratio == pytest.approx(np.full(short.sum(), change**-0.9))
    assert (ratio < 1).all() == (change > 1)


def test_the_answer_to_a_price_comes_a_tenth_a_week():
    model = opened(**CALM)
    model.book.price_usd *= 1.25
    short = ~committed(model)
    for week in range(1, 15):
        pass_weeks(model, 1)
        ratio = (model.tenants.wanted_h100e / model.tenants.size_h100e)[short]
        assert ratio == pytest.approx(np.full(short.sum(), 1.25 ** (-0.9 * (1 - 0.9**week))))


def test_elasticity_zero_means_no_answer():
    model = opened(**{**CALM, "demand.intensive_elasticity": 0.0})
    model.book.price_usd *= 3.0
    pass_weeks(model, 5)
    assert model.tenants.wanted_h100e == pytest.approx(model.tenants.size_h100e)


def test_only_the_prices_of_a_work_unit_count_not_whose_they_are():
    """A price that moves at one seller moves the index by that seller's part of all GPUs."""
    model = opened()
    before = price_of_work_ln(model)
    model.book.price_usd[3] *= 1.5
    part = model.suppliers.available_gpus[3].sum() / model.suppliers.available_gpus[model.suppliers.third_party].sum()
    assert price_of_work_ln(model) - before == pytest.approx(np.full(5, np.log(1.5) * part))


def test_price_of_work_is_per_unit_of_work_of_each_segment():
    model = opened()
    before = price_of_work_ln(model)
    model.software.throughput = model.software.throughput * np.array([1.0, 2.0, 1.0, 1.0, 4.0])[:, None]
    assert price_of_work_ln(model) - before == pytest.approx(-np.log([1.0, 2.0, 1.0, 1.0, 4.0]))


def test_desks_do_not_enter_the_price_of_work():
    model = opened()
    before = price_of_work_ln(model)
    model.book.price_usd[model.suppliers.provider_class == DESK] = 0.01
    assert np.array_equal(price_of_work_ln(model), before)


# --- no drift ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weeks", [1, 13, 60])
def test_own_shocks_do_not_move_the_mean_of_wanted_work(weeks):
    ratio = []
    for seed in range(3):
        model = opened(
            6000, seed, **{"demand.regime": False, "demand.common_sd": 0.0, "demand.growth_first_per_year": 0.0}
        )
        pass_weeks(model, weeks)
        now = model.tenants.recent_h100e[model.week % 13]
        ratio.append(now / model.tenants.size_h100e)
    all_rows = np.concatenate(ratio)
    assert all_rows.mean() == pytest.approx(1.0, abs=4.5 * all_rows.std() / np.sqrt(len(all_rows)))


@pytest.mark.parametrize("weeks", [0, 40])
def test_own_states_stay_in_their_stationary_law(weeks):
    model = opened(4000)
    pass_weeks(model, weeks)
    sd = 0.08 / np.sqrt(1 - 0.95**2)
    assert model.world.demand.own_stationary_sd == pytest.approx(sd)
    assert stats.kstest(model.tenants.own_demand_ln / sd, "norm").pvalue > SMALLEST_P


def test_the_common_state_is_shared_and_wanders_as_declared():
    model, states = opened(1, **{"tenants.rows_per_segment_minimum": 1}), []
    for seed in range(150):
        model.seed, model.week, model.demand.common_ln = seed, 0, 0.0
        pass_weeks(model, 30)
        states.append(model.demand.common_ln)
    sd = 0.0125 * np.sqrt((1 - 0.97**60) / (1 - 0.97**2))
    assert stats.kstest(np.array(states) / sd, "norm").pvalue > SMALLEST_P


# --- long terms ----------------------------------------------------------------------------------------------------


def test_long_terms_buy_against_the_mean_of_thirteen_weeks_short_ones_against_this_week():
    model = opened(seed=3)
    history = [model.tenants.wanted_h100e.copy()] * 13
    long = committed(model)
    for _ in range(20):
        pass_weeks(model, 1)
        history.append(model.tenants.recent_h100e[model.week % 13].copy())
        assert np.array_equal(model.tenants.wanted_h100e[~long], history[-1][~long])
        assert model.tenants.wanted_h100e[long] == pytest.approx(np.mean(history[-13:], axis=0)[long])


def test_the_mean_steadies_what_long_terms_want():
    model = opened(
        3000, seed=1, **{"demand.regime": False, "demand.growth_first_per_year": 0.0, "demand.common_sd": 0.0}
    )
    long, moves = committed(model), []
    for _ in range(30):
        before = model.tenants.wanted_h100e.copy()
        pass_weeks(model, 1)
        moves.append(np.log(model.tenants.wanted_h100e / before).std(where=long))
    assert np.mean(moves[13:]) < 0.4 * 0.08


@pytest.mark.soak
def test_long_terms_ratchet_less_than_with_weekly_wants():
    """Held over wanted now, long terms, weeks 27-156: a mean of weeks takes most of the excess away."""

    def excess(weeks: int, seed: int) -> float:
        model = opened(2000, seed, **{"demand.commitment_mean_weeks": weeks})
        long, ratio = committed(model), []
        for _ in range(156):
            model.step()
            tenants = model.tenants
            now = tenants.recent_h100e[model.week % weeks] * tenants.weight
            ratio.append((trade.held_work(model) * tenants.weight)[long].sum() / now[long].sum())
        return float(np.mean(ratio[26:])) - 1.0

    weekly, mean = (np.mean([excess(weeks, seed) for seed in range(3)]) for weeks in (1, 13))
    assert 0.0 < mean < 0.5 * weekly


# --- learning AMD --------------------------------------------------------------------------------------------------


def test_unready_tenants_learn_at_the_hazard_and_nobody_forgets():
    model = opened(6000, **{"choice.readiness_hazard": 0.02})
    tries = learned = 0
    for _ in range(12):
        before = model.tenants.amd_ready.copy()
        pass_weeks(model, 1)
        assert model.tenants.amd_ready[before].all()
        tries += int((~before).sum())
        learned += int((model.tenants.amd_ready & ~before).sum())
    assert stats.binomtest(learned, tries, 0.02).pvalue > SMALLEST_P


def test_learning_speeds_up_as_the_software_gap_closes():
    model = opened(6000, **{"choice.readiness_hazard": 0.02, "choice.readiness_gap_weight": 2.0})
    model.software.lock_left[:] = 0.25
    before = ~model.tenants.amd_ready
    pass_weeks(model, 1)
    learned = int((model.tenants.amd_ready & before).sum())
    assert stats.binomtest(learned, int(before.sum()), 0.02 * 2.5).pvalue > SMALLEST_P


def test_the_developer_cloud_teaches_developers_small_inference_and_fine_tuning_alone():
    model = opened(6000, **{"choice.readiness_hazard": 0.0})
    model.desk_offer = DeskOffer(0, 1.99, 1000.0, 20.0, 1.0, 0.05)
    before = ~model.tenants.amd_ready
    pass_weeks(model, 1)
    learned = model.tenants.amd_ready & before
    names = [segment.name for segment in model.tables.segments]
    reached = np.isin(model.tenants.segment, [names.index(n) for n in ("developer", "small_inference", "fine_tuning")])
    assert not learned[~reached].any()
    assert stats.binomtest(int(learned.sum()), int((before & reached).sum()), 0.05).pvalue > SMALLEST_P


def test_an_offer_that_teaches_moves_nobody_elses_luck():
    plain, taught = opened(2000), opened(2000)
    taught.desk_offer = DeskOffer(0, 1.99, 1000.0, 20.0, 1.0, 0.05)
    for model in (plain, taught):
        pass_weeks(model, 3)
    assert (taught.tenants.amd_ready >= plain.tenants.amd_ready).all()
    assert taught.tenants.amd_ready.sum() > plain.tenants.amd_ready.sum()
    assert np.array_equal(plain.tenants.wanted_h100e, taught.tenants.wanted_h100e)


# --- what sellers may expect ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def market() -> MarketModel:
    model = opened(800, 5)
    model.run(3)
    model.week += 1  # sellers decide from last week's close
    return model


@pytest.fixture
def forecast(market: MarketModel) -> DemandForecast:
    return DemandForecast(market, public_sample(market))


def sheet(model: MarketModel, row: int) -> np.ndarray:
    return np.exp(model.suppliers.list_ln[row])


def test_the_public_sample_is_nobody_in_the_market_and_stands_for_all(market):
    sample = public_sample(market)
    assert not np.isin(sample.key, market.tenants.key).any()
    rows = min(market.world.pricing.sample_rows, market.world.tenants.rows)
    assert len(sample) == pytest.approx(rows, abs=5)
    work = np.bincount(sample.segment, sample.size_h100e * sample.weight)
    shares = np.array([segment.demand_share for segment in market.tables.segments])
    assert np.bincount(sample.segment) == pytest.approx(rows * shares, abs=1)  # rows by work, not by tenants
    assert work / work.sum() == pytest.approx(shares)
    assert np.ptp(sample.size_h100e * sample.weight) <= 0.1 * (sample.size_h100e * sample.weight).mean()
    assert sample.weight.sum() == pytest.approx(600, rel=0.01)
    load = 0.82 * 1.01 * market.opening_h100e
    assert sample.size_h100e @ sample.weight == pytest.approx(load)
    assert np.array_equal(sample.wanted_h100e, sample.size_h100e)
    assert np.array_equal(public_sample(market).key, sample.key)


def test_what_tenants_are_really_like_is_not_in_the_forecast(market):
    before = DemandForecast(market, public_sample(market))(1, sheet(market, 1))
    keep = market.tenants.sensitivity.copy(), market.tenants.lock_in_ln.copy()
    market.tenants.sensitivity *= 2.0
    market.tenants.lock_in_ln *= 0.0
    after = DemandForecast(market, public_sample(market))(1, sheet(market, 1))
    market.tenants.sensitivity, market.tenants.lock_in_ln = keep
    assert np.array_equal(before, after)


def test_the_forecast_is_expected_demand_of_the_tenants_given(market):
    """At posted prices and with a real tenant table: the logit sums of `expected_demand`, nothing else."""
    tenants, choice = market.tenants, market.world.choice
    forecast = DemandForecast(market, tenants)
    rows = np.flatnonzero(tenants.term <= Term.ON_DEMAND)
    surroundings = trade.choice_market(market)
    pairs = candidate_pairs(tenants, rows, surroundings, choice)
    lots, skus = market.book.open_gpus.size, len(market.tables.skus)
    utility = np.full((len(rows), lots), -np.inf)
    utility[pairs.position, pairs.lot] = systematic_utility(tenants, pairs, surroundings, choice, market.seed)
    size = (tenants.size_h100e * tenants.weight)[rows] * np.exp(market.world.demand.growth_ln(market.week))
    work = np.tile(market.software.throughput, (1, lots // skus))[tenants.segment[rows]]
    long = market.leases.keep(market.leases.term >= Term.FOUR_WEEKS)
    capacity = np.maximum(market.listed_gpus().ravel() - long.gpus_by_lot(lots), 0.0)
    outside = outside_utility(tenants, rows, choice)
    expected = expected_demand(utility, outside, size[:, None] / work, capacity).reshape(-1, skus)
    for row in (0, 4, 10, 20):
        assert forecast(row, sheet(market, row)) == pytest.approx(expected[row], rel=1e-9, abs=1e-9)


def test_a_seller_expects_less_at_a_higher_price_and_never_more_than_it_has(market, forecast):
    available = market.suppliers.available_gpus
    for row in (4, 5, 9):
        listed = sheet(market, row)
        asked = [forecast(row, listed * factor) for factor in (0.5, 0.8, 1.0, 1.3, 2.0, 6.0)]
        totals = [gpus.sum() for gpus in asked]
        assert all(a >= b - 1e-9 for a, b in pairwise(totals))
        assert totals[-1] < 0.2 * totals[1]
        assert all((gpus <= available[row] + 1e-9).all() for gpus in asked)
        assert all((gpus[available[row] == 0] == 0).all() for gpus in asked)


def test_a_trial_price_leaves_no_trace(market, forecast):
    listed = sheet(market, 4)
    first = forecast(4, listed)
    forecast(4, listed * 0.3)
    forecast(7, sheet(market, 7) * 3.0)
    assert np.array_equal(forecast(4, listed), first)


def test_shocks_of_half_the_scale_are_twice_the_utility():
    half = opened(600, 5, **{"choice.gumbel_scale": 0.5})
    twice = opened(600, 5, **{"choice.size_pull": 1.0, "tenants.taste_scale": 1.4})
    sample = public_sample(twice)
    sample.sensitivity *= 2.0
    twice.leases, twice.book = half.leases, half.book
    row, price = 5, 1.2 * sheet(half, 5)
    expected = DemandForecast(twice, sample)(row, price)
    found = DemandForecast(half, public_sample(half))(row, price)
    assert found == pytest.approx(expected)
