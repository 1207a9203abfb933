"""Leases: columns that stay together, sums by lot, and lives that end when the contract says."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.build import build
from experiments.scenario import Scenario
from market import trade
from market.leases import OPEN_ENDED, Leases, no_leases
from market.model import MarketModel
from market.units import TERM_WEEKS, Term


@pytest.fixture
def three() -> Leases:
    return Leases(
        tenant=np.array([7, 8, 7], np.int32),
        lot=np.array([2, 0, 2], np.int32),
        term=np.array([Term.SPOT, Term.ON_DEMAND, Term.ONE_YEAR], np.uint8),
        gpus=np.array([1.5, 2.0, 4.0]),
        price_usd=np.array([1.0, 2.0, 3.0]),
        first_week=np.array([5, 5, 5], np.int32),
        end_week=np.array([6, OPEN_ENDED, 57], np.int32),
    )


def test_gpus_add_up_by_lot(three):
    assert three.gpus_by_lot(4).tolist() == [2.0, 0.0, 5.5, 0.0]
    assert no_leases().gpus_by_lot(2).tolist() == [0.0, 0.0]


def test_a_mask_keeps_whole_leases_and_joining_appends_them(three):
    kept = three.keep(np.array([True, False, True]))
    assert (len(kept), kept.tenant.tolist(), kept.gpus.tolist()) == (2, [7, 7], [1.5, 4.0])
    both = kept.joined(three.keep(np.array([False, True, False])))
    assert both.price_usd.tolist() == [1.0, 3.0, 2.0]
    assert both.end_week.tolist() == [6, 57, OPEN_ENDED]
    assert len(three) == 3  # the book itself is unchanged


def test_types_of_columns_survive_keeping_and_joining(three):
    for book in (three.keep(np.ones(3, np.bool_)), three.joined(no_leases()), no_leases().joined(three)):
        assert len(book) == 3
        for name in three.__slots__:
            assert getattr(book, name).dtype == getattr(three, name).dtype, name


# --- lives in the market -------------------------------------------------------------------------------------------


@pytest.fixture
def market() -> MarketModel:
    return build(Scenario.load().with_({"tenants.rows": 400}), 2)


def held(model: MarketModel, term: Term) -> Leases:
    return model.leases.keep(model.leases.term == term)


def test_a_lease_is_held_for_exactly_its_term(market):
    market.run(4)
    market.step()
    for term in (Term.FOUR_WEEKS, Term.ONE_YEAR, Term.THREE_YEARS):
        leases = held(market, term)
        new = leases.keep(leases.first_week == 5)
        assert (new.end_week == 5 + TERM_WEEKS[term]).all()
    four = held(market, Term.FOUR_WEEKS)
    signed = (four.first_week == 5).sum()
    assert signed > 0
    for week in (6, 7, 8, 9):
        market.step()
        still = (held(market, Term.FOUR_WEEKS).first_week == 5).sum()
        assert still == (signed if week < 9 else 0)


def test_no_lease_outlives_its_end_and_spot_is_always_new(market):
    for _ in range(6):
        market.step()
        assert (market.leases.end_week > market.week).all()
        assert (market.leases.first_week <= market.week).all()
        assert (held(market, Term.SPOT).first_week == market.week).all()
        assert (held(market, Term.ON_DEMAND).end_week == OPEN_ENDED).all()


def test_every_lease_has_the_term_of_its_tenant_and_some_gpus(market):
    market.run(3)
    assert (market.leases.term == market.tenants.term[market.leases.tenant]).all()
    assert (market.leases.gpus > 0.0).all()
    assert np.isfinite(market.leases.price_usd).all()


def test_fixed_terms_pay_the_price_at_signing_and_on_demand_pays_the_sheet(market):
    market.run(8)
    leases, skus = market.leases, len(market.tables.skus)
    paid = market.prices_paid()
    fixed = leases.term >= Term.FOUR_WEEKS
    assert np.array_equal(paid[fixed], leases.price_usd[fixed])
    on_demand = leases.term == Term.ON_DEMAND
    sheet = market.book.price_usd[leases.lot // skus, leases.lot % skus, Term.ON_DEMAND]
    assert np.array_equal(paid[on_demand], sheet[on_demand])
    assert (paid[on_demand] != leases.price_usd[on_demand]).any()  # sheets have moved


def test_on_demand_holders_review_at_the_hazard_of_their_segment():
    model = build(Scenario.load(), 0)
    fired = total = 0
    for week in range(1, 41):
        for segment in model.segments:
            fired += len(segment.review(model.tenants, model.seed, week).tenants)
            total += len(range(*model.tenants.slice_of(segment.index).indices(len(model.tenants))))
    assert fired / total == pytest.approx(0.12, abs=4.5 * np.sqrt(0.12 * 0.88 / total))


def test_a_review_releases_all_on_demand_leases_of_a_tenant_and_no_other(market):
    market.run(2)
    market.week += 1
    before = market.leases
    reviewing = np.concatenate([s.review(market.tenants, market.seed, market.week).tenants for s in market.segments])
    trade.expire_and_review(market)
    on_demand = before.term == Term.ON_DEMAND
    released = on_demand & np.isin(before.tenant, reviewing)
    ended = (before.end_week <= market.week) | (before.term == Term.SPOT)
    assert released.sum() > 0
    assert np.array_equal(market.leases.tenant, before.tenant[~released & ~ended])


def test_on_demand_holders_far_above_their_want_give_back_the_rest_and_others_keep_all(market):
    tenants = market.tenants
    before = trade.held_work(market)
    tenants.wanted_h100e = np.where(np.arange(len(tenants)) % 2 == 0, before / 1.2, before / 1.1)
    for segment in market.segments:
        segment.review_hazard_per_week = 0.0
    market.leases.end_week = np.maximum(market.leases.end_week, 2)
    market.week = 1
    trade.expire_and_review(market)
    after = trade.held_work(market)
    holds = (tenants.term == Term.ON_DEMAND) & (before > 0.0)
    even = np.arange(len(tenants)) % 2 == 0
    assert after[holds & even] == pytest.approx(tenants.wanted_h100e[holds & even])
    assert np.array_equal(after[holds & ~even], before[holds & ~even])
    fixed = tenants.term >= Term.FOUR_WEEKS
    assert np.array_equal(after[fixed], before[fixed])


def test_tenants_remember_the_seller_of_their_first_lease_of_the_week(market):
    market.run(2)
    trades = trade_of_next_week(market)
    skus = len(market.tables.skus)
    tenants, first = np.unique(trades.tenant, return_index=True)
    assert np.array_equal(market.tenants.last_supplier[tenants], trades.lot[first] // skus)
    amd = trades.tenant[market.hardware.is_amd[trades.lot % skus]]
    assert market.tenants.amd_ready[amd].all()


def trade_of_next_week(model: MarketModel) -> Leases:
    model.step()
    return model.leases.keep(model.leases.first_week == model.week)


def test_weeks_without_the_work_asked_for_add_up_and_end_with_success():
    model = build(Scenario.load().with_({"tenants.rows": 400, "tenants.opening_demand_factor": 1.5}), 2)
    rose = fell = 0
    for _ in range(8):
        before = model.tenants.failures.astype(int)
        model.step()
        tenants, after = model.tenants, model.tenants.failures.astype(int)
        missing = 1.0 - trade.held_work(model) / tenants.wanted_h100e
        short, served = missing > 0.051, missing < 0.049
        assert (after[short] == np.minimum(before[short] + 1, 12)).all()
        assert ((after[served] == 0) | (after[served] == before[served])).all()  # who does not ask does not fail
        rose, fell = rose + int((after > before).sum()), fell + int((after < before).sum())
    assert rose > 50
    assert fell > 10
