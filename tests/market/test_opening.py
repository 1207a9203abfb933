"""The opening of June 2025: rooms, residual lives, locked prices, shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

from experiments.build import build
from experiments.scenario import Scenario
from market import opening
from market.leases import Leases
from market.model import MarketModel
from market.opening import firm_gpus_by_partner, opening_leases, pipeline, seller_specs
from market.randomness import Purpose, exponential
from market.suppliers import HYPERSCALER
from market.tables import Tables, load_tables
from market.units import TERM_NAMES, TERM_WEEKS, Term

FIXED = (Term.FOUR_WEEKS, Term.ONE_YEAR, Term.THREE_YEARS)
SMALLEST_P = 1e-4
SEEDS = range(8)


def opened(seed: int = 0, **changes: Any) -> MarketModel:
    return build(Scenario.load().with_({key.replace("__", "."): value for key, value in changes.items()}), seed)


@pytest.fixture(scope="module")
def markets() -> list[MarketModel]:
    return [opened(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def crowded() -> MarketModel:
    """Half as much demand again: long terms do not all find room."""
    return opened(1, tenants__opening_demand_factor=1.7)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


def rooms_by_term(model: MarketModel) -> np.ndarray:
    """GPUs in use by lot and term straight from the fleet table, ``(lots, terms)``."""
    rooms = np.zeros((len(model.suppliers), len(model.tables.skus), len(TERM_NAMES)))
    scale = {row.name: row.contestable_share for row in model.tables.sellers}
    for fleet in model.tables.fleets:
        address = model.suppliers.names.index(fleet.seller), model.tables.sku_index[fleet.sku]
        for term in FIXED:
            split = getattr(fleet, f"term_split_{TERM_NAMES[term]}")
            rooms[(*address, term)] += fleet.gpus * scale[fleet.seller] * fleet.utilisation * split
    return rooms.reshape(-1, len(TERM_NAMES))


def held_work(model: MarketModel) -> np.ndarray:
    leases, tenants = model.leases, model.tenants
    work = leases.gpus * model.software.throughput[tenants.segment[leases.tenant], leases.lot % len(model.tables.skus)]
    return np.bincount(leases.tenant, work, len(tenants)) / tenants.weight


# --- rooms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("factor", [1.01, 1.7])
def test_long_leases_never_exceed_the_rooms_of_the_fleet_table(seed, factor):
    model = opened(seed, tenants__opening_demand_factor=factor)
    rooms = rooms_by_term(model).sum(axis=1)
    fixed = model.leases.keep(model.leases.term >= Term.FOUR_WEEKS)
    held = fixed.gpus_by_lot(len(rooms))
    assert (held <= rooms * (1 + 1e-9) + 1e-9).all()
    assert (rooms <= model.listed_gpus().ravel() * (1 + 1e-12)).all()  # and rooms fit into fleets without firm hours


def test_no_gpu_is_let_twice_at_the_opening(markets, crowded):
    for model in [*markets, crowded]:
        assert (model.sold_gpus() <= model.listed_gpus() * (1 + 1e-12) + 1e-9).all()


def test_a_term_takes_its_own_rooms_first_and_others_when_they_are_full(markets):
    """Three-year tenants come first; they lie in three-year rooms except for those whose home has none left."""
    for model in markets[:3]:
        rooms = rooms_by_term(model)
        three = model.leases.keep(model.leases.term == Term.THREE_YEARS)
        held = three.gpus_by_lot(len(rooms))
        within = np.minimum(held, rooms[:, Term.THREE_YEARS])
        assert within.sum() > 0.9 * min(held.sum(), rooms[:, Term.THREE_YEARS].sum())


def test_longest_terms_are_placed_first_where_room_is_scarce(crowded):
    tenants = crowded.tenants
    got = held_work(crowded) / tenants.wanted_h100e
    weight = tenants.wanted_h100e * tenants.weight
    of_term = [tenants.term == term for term in (Term.THREE_YEARS, Term.ONE_YEAR, Term.FOUR_WEEKS)]
    served = [np.average(np.minimum(got[mask], 1), weights=weight[mask]) for mask in of_term]
    assert served[0] > 0.999
    assert served[0] >= served[1] > served[2]
    assert served[2] < 0.5


def test_tenants_are_placed_longest_term_first_then_those_with_a_home_then_by_lot(monkeypatch):
    model, served = opened(0), []
    place = opening._place

    def spied(market: MarketModel, rooms: Any, tenant: int, draws: Any) -> Any:
        served.append(tenant)
        return place(market, rooms, tenant, draws)

    monkeypatch.setattr(opening, "_place", spied)
    opening_leases(model)
    term, homeless = model.tenants.term[served].astype(int), model.tenants.home[served] < 0
    rank = -10 * term + homeless
    assert (np.diff(rank) >= 0).all()
    assert sorted(served) == np.flatnonzero(model.tenants.term >= Term.FOUR_WEEKS).tolist()
    within = [np.array(served)[rank == one] for one in np.unique(rank)]
    assert all((np.diff(group) < 0).any() for group in within)  # not in the order of the table


def test_home_tenants_are_placed_at_home_as_long_as_there_is_room(markets):
    for model in markets[:4]:
        suppliers, skus = len(model.suppliers), len(model.tables.skus)
        room = rooms_by_term(model).reshape(suppliers, skus, -1).sum(axis=1)
        fixed = model.leases.keep(model.leases.term >= Term.FOUR_WEEKS)
        # Longer terms are placed first and may have spilled into the room of a shorter one.
        left = np.zeros(room.shape)
        for term in (Term.FOUR_WEEKS, Term.ONE_YEAR, Term.THREE_YEARS):
            longer = fixed.keep(fixed.term >= term).gpus_by_lot(suppliers * skus).reshape(suppliers, skus).sum(axis=1)
            left[:, term] = room[:, term] - longer
        home = model.tenants.home[fixed.tenant]
        away = (home >= 0) & (fixed.lot // skus != home)
        need = held_work(model)[fixed.tenant] * model.tenants.weight[fixed.tenant]
        # A rest below the stop threshold is not worth a lease; what else went elsewhere found its home's term full.
        full = left[home, fixed.term] <= np.maximum(0.03 * need, 1e-3)
        assert full[away].all()
        assert (~away[home >= 0]).mean() > 0.3


def test_lots_are_drawn_in_proportion_to_room_and_throughput_amd_a_little_more(markets):
    model = markets[0]
    rooms = opening._Rooms(model)
    start = rooms.room.copy()
    tenants = model.tenants
    tenant = int(np.flatnonzero((tenants.term == Term.ONE_YEAR) & (tenants.home < 0) & (tenants.segment == 1))[0])
    keep = tenants.wanted_h100e[tenant]
    tenants.wanted_h100e[tenant] = 1e-3  # fits into any one lot
    bias = np.where(model.hardware.is_amd[rooms.sku], 1.1, 1.0)
    keys = np.arange(6000, dtype=np.uint64)
    race = exponential(5, Purpose.OPENING_LEASE, 0, keys[:, None], rooms.key[None, :], 1)
    first = []
    for draws in race:
        first.append(opening._place(model, rooms, tenant, draws / bias)[0][1])
        rooms.room[:] = start
    tenants.wanted_h100e[tenant] = keep
    chance = start[:, Term.ONE_YEAR] * model.software.throughput[tenants.segment[tenant], rooms.sku] * bias
    chance /= chance.sum()
    counts = np.bincount(first, minlength=len(chance))
    assert (counts[chance == 0] == 0).all()
    common = chance * len(first) >= 8
    expected = np.append(chance[common], chance[~common].sum()) * len(first)
    assert stats.chisquare(np.append(counts[common], counts[~common].sum()), expected).pvalue > SMALLEST_P


# --- residual lives ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", FIXED)
def test_residual_lives_are_uniform_on_one_to_the_term(markets, term):
    length = TERM_WEEKS[term]
    ends = np.concatenate([model.leases.end_week[model.leases.term == term] for model in markets])
    assert ends.min() >= 1
    assert ends.max() <= length
    cells = min(length, 13)
    counts = np.bincount((ends - 1) * cells // length, minlength=cells)
    assert len(ends) > 100 * cells
    assert stats.chisquare(counts).pvalue > SMALLEST_P / len(FIXED)


def test_residual_lives_pass_a_kolmogorov_smirnov_test(markets):
    z = np.concatenate(
        [
            model.leases.end_week[model.leases.term == term] / TERM_WEEKS[term]
            for model in markets
            for term in (Term.ONE_YEAR, Term.THREE_YEARS)
        ]
    )
    smooth = z - np.random.default_rng(0).random(len(z)) / np.repeat(
        [TERM_WEEKS[t] for _ in markets for t in (Term.ONE_YEAR, Term.THREE_YEARS)],
        [(m.leases.term == t).sum() for m in markets for t in (Term.ONE_YEAR, Term.THREE_YEARS)],
    )
    assert stats.kstest(smooth, "uniform").pvalue > SMALLEST_P


def test_no_week_of_the_first_year_sees_a_mass_expiry(markets):
    for model in markets:
        fixed = model.leases.keep(model.leases.term >= Term.FOUR_WEEKS)
        share = np.bincount(fixed.end_week, fixed.gpus, 157)[1:53] / fixed.gpus.sum()
        assert share.max() < 0.11  # the four weeks of one-month terms, a fifth of all, end first
        assert share[4:].max() < 0.06
        long = fixed.keep(fixed.term >= Term.ONE_YEAR)
        assert np.bincount(long.end_week, long.gpus, 157)[1] / long.gpus.sum() < 0.06


def test_the_leases_of_one_tenant_end_at_different_times(markets):
    model = markets[0]
    fixed = model.leases.keep(model.leases.term >= Term.ONE_YEAR)
    tenant, count = np.unique(fixed.tenant, return_counts=True)
    several = tenant[count >= 3]
    assert len(several) > 5
    assert np.mean([len(np.unique(fixed.end_week[fixed.tenant == one])) > 1 for one in several]) > 0.95


# --- prices --------------------------------------------------------------------------------------------------------


def prices_by_lease(leases: Leases) -> dict[tuple[int, int], float]:
    """Locked price of each tenant at each lot (an opening tenant has one lease there)."""
    pairs = zip(leases.tenant.tolist(), leases.lot.tolist(), strict=True)
    return dict(zip(pairs, leases.price_usd.tolist(), strict=True))


def test_opening_leases_pay_the_term_price_of_week_zero_for_their_whole_life():
    model = opened(4)
    posted = model.book.price_usd.copy()
    fixed = model.leases.keep(model.leases.term >= Term.FOUR_WEEKS)
    supplier, sku = np.divmod(fixed.lot, len(model.tables.skus))
    own, listed = posted[supplier, sku, fixed.term], posted[supplier, sku, Term.ON_DEMAND]
    assert np.array_equal(fixed.price_usd, np.where(np.isnan(own), listed, own))
    assert np.isnan(own).mean() < 0.2  # spilled to a seller whose sheet lacks the term
    model.run(12)
    old = model.leases.keep((model.leases.first_week == 0) & (model.leases.term >= Term.FOUR_WEEKS))
    before = prices_by_lease(fixed)
    assert len(old) > 100
    assert all(before[lease] == price for lease, price in prices_by_lease(old).items())
    assert (model.book.price_usd != posted)[~np.isnan(posted)].mean() > 0.3  # while sheets move


def test_posted_prices_stand_on_the_sheet_and_the_premium_explains_them(markets, tables):
    model = markets[0]
    suppliers = model.suppliers
    found = 0
    for fleet in tables.fleets:
        row, sku = suppliers.names.index(fleet.seller), tables.sku_index[fleet.sku]
        core = (
            np.log(model.hardware.base_list_usd[sku]) + suppliers.premium_ln[row] + suppliers.sku_premium_ln[row, sku]
        )
        assert np.exp(suppliers.list_ln[row, sku]) >= model.hardware.floor_usd[sku] * (1 - 1e-12)
        if fleet.posted_on_demand_usd_per_gpu_hour and fleet.price_basis in ("posted", "posted later", "class level"):
            found += 1
            assert np.exp(suppliers.list_ln[row, sku]) == pytest.approx(fleet.posted_on_demand_usd_per_gpu_hour)
            assert core == pytest.approx(suppliers.list_ln[row, sku])
    assert found > 20


def test_prices_that_nobody_posts_have_a_keyed_premium_and_none_at_hyperscalers(markets):
    one, other = markets[0].suppliers, markets[1].suppliers
    drawn = (one.sku_premium_ln != other.sku_premium_ln) & (one.installed_gpus > 0)
    assert drawn.any()
    assert not drawn[one.provider_class == HYPERSCALER].any()
    draws = np.concatenate([m.suppliers.sku_premium_ln[drawn] for m in markets])
    assert stats.kstest(draws / 0.16, "norm").pvalue > SMALLEST_P


def test_sellers_hold_a_price_for_exactly_the_skus_in_their_fleet(markets):
    suppliers = markets[0].suppliers
    assert np.array_equal(~np.isnan(suppliers.list_ln), (suppliers.installed_gpus > 0) & suppliers.third_party[:, None])
    assert np.array_equal(suppliers.list_ln, suppliers.shadow_ln, equal_nan=True)


# --- shares --------------------------------------------------------------------------------------------------------


def test_amd_is_three_to_four_per_cent_of_the_units_in_use(markets):
    used = []
    for model in markets:
        amd = model.hardware.is_amd[model.leases.lot % len(model.tables.skus)]
        used.append(model.leases.gpus[amd].sum() / model.leases.gpus.sum())
        available = model.suppliers.available_gpus
        assert 0.03 <= available[:, model.hardware.is_amd].sum() / available.sum() <= 0.05
    assert 0.03 <= np.mean(used) <= 0.04
    assert 0.025 <= min(used) <= max(used) <= 0.045  # over seeds .034, sd .0024


def test_the_market_opens_at_about_the_load_it_was_given(markets):
    for model in markets:
        assert model.leases.gpus.sum() / model.listed_gpus().sum() == pytest.approx(0.79, abs=0.06)
        got = held_work(model) @ model.tenants.weight / (model.tenants.wanted_h100e @ model.tenants.weight)
        assert 0.95 < got <= 1.0 + 1e-9


def test_short_terms_are_let_by_one_clearing_and_all_leases_start_in_week_zero(markets):
    for model in markets:
        assert (model.leases.first_week == 0).all()
        short = model.leases.term < Term.FOUR_WEEKS
        assert 0.15 < model.leases.gpus[short].sum() / model.leases.gpus.sum() < 0.45
        assert set(np.unique(model.leases.term)) == set(Term)


def test_tenants_with_opening_leases_know_their_seller_and_their_stack(markets):
    model = markets[0]
    tenants, leases = model.tenants, model.leases
    assert (tenants.last_supplier[leases.tenant] >= 0).all()
    assert tenants.amd_ready[leases.tenant[model.hardware.is_amd[leases.lot % len(model.tables.skus)]]].all()


def test_tightness_opens_at_its_parameter(markets):
    suppliers = markets[0].suppliers
    held = (suppliers.installed_gpus > 0) & suppliers.third_party[:, None]
    assert (suppliers.tightness[held] == 0.82).all()
    assert (suppliers.tightness[~held] == 0).all()


def test_week_zero_is_recorded_and_unbilled(markets):
    tables = markets[0].recorder.tables()
    sellers, books = tables["seller_week"], tables["book_week"]
    assert (sellers["week"] == 0).all()
    assert sellers["sold_gpus"].sum() == pytest.approx(markets[0].leases.gpus.sum())
    assert not books["rent_usd"].any()
    assert not books["running_usd"].any()


def test_without_tenants_of_long_terms_there_are_no_opening_leases():
    model = opened(0)
    model.tenants.term[:] = Term.ON_DEMAND
    assert len(opening_leases(model)) == 0


# --- suppliers from tables -----------------------------------------------------------------------------------------


def test_the_contestable_share_scales_fleets_and_deliveries_but_not_firm_gpus(tables):
    sellers = {row.name: row for row in tables.sellers}
    firm = firm_gpus_by_partner(tables, "MI300X", 10_000.0)
    specs = {spec.name: spec for spec in seller_specs(tables, firm, "MI300X", {}, 0.3)}
    for name, spec in specs.items():
        fleet = sum(row.gpus for row in tables.fleets if row.seller == name)
        share = sellers[name].contestable_share
        assert spec.installed_gpus.sum() == pytest.approx(fleet * share + firm.get(name, 0.0))
        assert spec.firm_gpus.sum() == firm.get(name, 0.0)
    assert 0 < sellers["CoreWeave"].contestable_share < 1
    rows = {name: row for row, name in enumerate(specs)}
    due = pipeline(tables, rows)
    assert sum(order.gpus for order in due) == pytest.approx(
        sum(row.gpus * sellers[row.seller].contestable_share for row in tables.deliveries)
    )
    assert pipeline(tables, {}) == []


def test_firm_gpus_go_to_partners_pro_rata_to_their_fleets_of_the_sku(tables):
    firm = firm_gpus_by_partner(tables, "MI300X", 1000.0)
    assert sum(firm.values()) == pytest.approx(1000.0)
    assert set(firm) == {"Crusoe", "DigitalOcean", "Vultr", "TensorWave"}
    fleets = {row.seller: row.gpus for row in tables.fleets if row.sku == "MI300X"}
    ratio = [firm[name] / fleets[name] for name in firm]
    assert ratio == pytest.approx([ratio[0]] * len(ratio))
    assert firm_gpus_by_partner(tables, "MI300X", 0.0) == {}


def test_firm_gpus_that_no_partner_can_hold_are_an_error_that_names_the_sku(tables):
    with pytest.raises(ValueError, match="no leaseback partner holds MI350X"):
        firm_gpus_by_partner(tables, "MI350X", 10.0)


def test_firm_gpus_are_on_nobodys_sheet(markets):
    model = markets[0]
    firm = model.suppliers.firm_gpus
    assert firm.sum() == pytest.approx(10_000.0)
    assert np.array_equal(model.listed_gpus()[:-1], (model.suppliers.installed_gpus - firm)[:-1])


def test_premia_of_a_class_come_on_top_of_the_premium_within_it(tables):
    plain = seller_specs(tables, {}, "MI300X", {}, 0.3)
    raised = seller_specs(tables, {}, "MI300X", {"hyperscaler": 3.3}, 0.3)
    for one, other in zip(plain, raised, strict=True):
        hyper = one.provider_class == "hyperscaler"
        assert other.premium_ln - one.premium_ln == pytest.approx(np.log(3.3) if hyper else 0.0)
        assert other.quality_ln == (0.3 if hyper else other.premium_ln)


def _terms_sold(tables: Tables) -> Iterator[tuple[str, Term, bool]]:
    for row in tables.sellers:
        for term in FIXED:
            splits = [getattr(f, f"term_split_{TERM_NAMES[term]}") for f in tables.fleets if f.seller == row.name]
            yield row.name, term, sum(splits) > 0


def test_sellers_offer_short_terms_and_those_long_terms_that_they_sell(tables):
    specs = {spec.name: spec for spec in seller_specs(tables, {}, "MI300X", {}, 0.3)}
    assert all(spec.offers_term[: Term.FOUR_WEEKS].all() for spec in specs.values())
    for name, term, sold in _terms_sold(tables):
        assert specs[name].offers_term[term] == sold
