"""Tenants: sizes add up and stay under the cap, shares and laws as declared, luck that more rows do not move."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from market.demand import DemandParameters
from market.randomness import agent_keys
from market.rows import SegmentRow
from market.tables import load_tables
from market.tenants import TenantParameters, Tenants, build_tenants, segment_rows, work_size
from market.units import TERM_NAMES, Term

SEGMENTS = load_tables().segments
OPENING_H100E = 1e6
HYPERSCALERS = ["AWS", "Azure", "GCP", "OCI"]
LAWS_OF_SIZE = ("size_h100e", "wanted_h100e", "recent_h100e", "weight")
SMALLEST_P = 1e-4


def table(rows: int = 2000, *, seed: int = 0, segments: tuple[SegmentRow, ...] = SEGMENTS, **changes: Any) -> Tenants:
    parameters = TenantParameters().model_copy(update={"rows": rows, **changes})
    return build_tenants(
        segments,
        parameters,
        DemandParameters(),
        seed=seed,
        opening_h100e=OPENING_H100E,
        homes=range(4),
        home_keys=agent_keys(HYPERSCALERS),
        suppliers=4,
    )


@pytest.fixture(scope="module")
def tenants() -> Tenants:
    return table(20_000, seed=1)


# --- counts, weights, sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [250, 600, 2000, 6000])
def test_rows_stand_for_all_tenants_of_their_segment(rows):
    drawn = table(rows)
    for index, segment in enumerate(SEGMENTS):
        here = drawn.slice_of(index)
        assert (drawn.segment[here] == index).all()
        assert drawn.weight[here].sum() == pytest.approx(segment.tenant_count)
    assert len(drawn) == sum(segment_rows(SEGMENTS, rows, 50))


def test_no_segment_has_fewer_rows_than_the_minimum():
    assert segment_rows(SEGMENTS, 600, 50) == [200, 180, 60, 100, 60]
    assert segment_rows(SEGMENTS, 60, 50) == [50] * 5


@pytest.mark.parametrize("rows", [250, 2000, 9000])
@pytest.mark.parametrize("seed", [0, 1])
def test_sizes_of_a_segment_add_up_to_its_share_of_the_opening_load(rows, seed):
    drawn = table(rows, seed=seed)
    parameters = TenantParameters()
    load = OPENING_H100E * parameters.opening_load * parameters.opening_demand_factor
    for index, segment in enumerate(SEGMENTS):
        here = drawn.slice_of(index)
        total = drawn.size_h100e[here] @ drawn.weight[here]
        assert total == pytest.approx(segment.demand_share * load, rel=1e-9)


def test_no_tenant_is_larger_than_the_cap():
    for seed in range(5):
        drawn = table(600, seed=seed)
        assert drawn.size_h100e.max() <= 0.015 * OPENING_H100E * (1 + 1e-12)
    assert (drawn.size_h100e >= 0.015 * OPENING_H100E * (1 - 1e-12)).any()  # the cap does something


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.floats(0.1, 30.0), st.floats(0.01, 2.0))
def test_capped_sizes_keep_their_total_and_the_order_of_their_draws(draw, mean_weight, cap_share):
    drawn = np.array(draw)
    weight = np.full(len(draw), mean_weight)
    total, cap = 100.0, cap_share * 100.0
    size = work_size(drawn, weight, total, cap)
    assert size @ weight == pytest.approx(total, rel=1e-9)
    assert size.max() <= max(cap, total / weight.sum()) * (1 + 1e-9)
    assert (np.diff(size[np.argsort(drawn)]) >= -1e-9 * total).all()


def test_uncapped_sizes_are_lognormal_with_the_spread_of_the_segment_cut_at_its_largest_draw():
    drawn = table(20_000, size_cap_share=1.0)
    for index, segment in enumerate(SEGMENTS):
        ln = np.log(drawn.size_h100e[drawn.slice_of(index)])
        z = (ln - np.median(ln)) / segment.size_sd
        assert z.max() <= 2.3 + 0.1
        below = z < 2.0
        law = stats.truncnorm(-np.inf, 2.0)
        assert stats.kstest(z[below], law.cdf).statistic < 2.2 / np.sqrt(below.sum())


# --- laws of traits ------------------------------------------------------------------------------------------------


def test_terms_follow_the_shares_of_the_segment(tenants):
    for index, segment in enumerate(SEGMENTS):
        share = np.array([getattr(segment, f"term_share_{name}") for name in TERM_NAMES])
        terms = tenants.term[tenants.slice_of(index)]
        counts = np.bincount(terms, minlength=len(Term))
        assert (counts[share == 0] == 0).all()
        kept = share > 0
        expected = share[kept] / share.sum() * len(terms)
        assert stats.chisquare(counts[kept], expected).pvalue > SMALLEST_P / len(SEGMENTS)


@pytest.mark.parametrize(
    ("column", "law", "sd"),
    [
        ("sensitivity", "price_sensitivity", 0.25),
        ("reservation_usd", "reservation_usd_per_h100e_hour", 0.5),
        ("lock_in_ln", "lock_in", 0.6),
    ],
)
def test_traits_spread_around_the_segments_level(tenants, column, law, sd):
    level = np.array([getattr(segment, law) for segment in SEGMENTS])[tenants.segment]
    z = np.log(getattr(tenants, column) / level) / sd
    assert stats.kstest(z, "norm").pvalue > SMALLEST_P


def test_traits_common_to_all_segments_have_their_laws(tenants):
    for z in (
        np.log(tenants.switching_ln / 0.10) / 0.5,
        np.log(tenants.quality_weight / 0.8) / 0.35,
        tenants.vendor_taste_ln / 0.25,
        tenants.own_demand_ln / DemandParameters().own_stationary_sd,
    ):
        assert stats.kstest(z, "norm").pvalue > SMALLEST_P
    assert stats.binomtest(int(tenants.amd_ready.sum()), len(tenants), 0.25).pvalue > SMALLEST_P


def test_traits_are_independent_of_each_other(tenants):
    names = ("sensitivity", "reservation_usd", "lock_in_ln", "switching_ln", "quality_weight", "own_demand_ln")
    developers = tenants.slice_of(0)
    columns = [getattr(tenants, name)[developers] for name in names]
    columns += [tenants.size_h100e[developers], tenants.vendor_taste_ln[developers], tenants.term[developers]]
    ranks = np.array([stats.rankdata(column) for column in columns])
    correlation = np.corrcoef(ranks) - np.eye(len(ranks))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(ranks.shape[1])


def test_own_demand_has_mean_one_so_that_wanted_work_is_size_on_average():
    ratio = np.concatenate([(one := table(9000, seed=seed)).wanted_h100e / one.size_h100e for seed in range(6)])
    assert ratio.mean() == pytest.approx(1.0, abs=4.5 * ratio.std() / np.sqrt(len(ratio)))
    assert ratio.std() > 0.2


def test_the_memory_of_long_terms_starts_at_the_work_wanted_now(tenants):
    assert tenants.recent_h100e.shape == (13, len(tenants))
    assert (tenants.recent_h100e == tenants.wanted_h100e).all()


def test_everybody_starts_without_a_seller_or_a_failure(tenants):
    assert (tenants.last_supplier == -1).all()
    assert (tenants.failures == 0).all()


# --- homes ---------------------------------------------------------------------------------------------------------


def test_six_in_ten_have_a_home_each_hyperscaler_alike(tenants):
    has = tenants.home >= 0
    assert stats.binomtest(int(has.sum()), len(tenants), 0.6).pvalue > SMALLEST_P
    assert stats.chisquare(np.bincount(tenants.home[has], minlength=4)).pvalue > SMALLEST_P


def test_a_new_hyperscaler_moves_only_the_tenants_who_go_to_it():
    def homes(names: list[str], rows: list[int]) -> np.ndarray:
        return build_tenants(
            SEGMENTS,
            TenantParameters(),
            DemandParameters(),
            seed=3,
            opening_h100e=OPENING_H100E,
            homes=rows,
            home_keys=agent_keys(names),
        ).home

    before, after = homes(HYPERSCALERS, [4, 1, 2, 3]), homes([*HYPERSCALERS, "Oxide"], [4, 1, 2, 3, 9])
    moved = before != after
    assert (after[moved] == 9).all()
    assert ((before >= 0) == (after >= 0)).all()
    assert moved.sum() / (before >= 0).sum() == pytest.approx(1 / 5, abs=0.06)


def test_without_hyperscalers_nobody_has_a_home():
    drawn = build_tenants(SEGMENTS, TenantParameters(), DemandParameters(), seed=0, opening_h100e=OPENING_H100E)
    assert (drawn.home == -1).all()


# --- luck ----------------------------------------------------------------------------------------------------------


def test_three_times_the_rows_keep_all_traits_of_the_rows_there_were():
    few, many = table(1200, seed=5), table(3600, seed=5)
    columns = [name for name in few.__slots__ if name not in LAWS_OF_SIZE]
    for index in range(len(SEGMENTS)):
        one, three = few.slice_of(index), many.slice_of(index)
        kept = slice(three.start, three.start + one.stop - one.start)
        for name in columns:
            assert np.array_equal(getattr(few, name)[one], getattr(many, name)[kept]), name


def test_more_rows_scale_the_sizes_of_the_rows_there_were_by_one_number():
    """Sizes are scaled to a total, so a row keeps its size draw but not its size."""
    few, many = table(1200, seed=5, size_cap_share=1.0), table(3600, seed=5, size_cap_share=1.0)
    for index in range(len(SEGMENTS)):
        one, three = few.slice_of(index), many.slice_of(index)
        kept = slice(three.start, three.start + one.stop - one.start)
        ratio = many.size_h100e[kept] / few.size_h100e[one]
        assert ratio == pytest.approx(np.full(len(ratio), ratio[0]), rel=1e-12)


def test_a_change_in_one_segment_leaves_the_luck_of_the_others():
    busy = (replace_row(SEGMENTS[0], tenant_count=2000), *SEGMENTS[1:])
    before, after = table(1000, seed=2), table(6000, seed=2, segments=busy)
    one, other = before.slice_of(1), after.slice_of(1)
    kept = slice(other.start, other.start + min(one.stop - one.start, other.stop - other.start))
    first = slice(one.start, one.start + kept.stop - kept.start)
    for name in ("key", "term", "sensitivity", "home", "amd_ready", "own_demand_ln"):
        assert np.array_equal(getattr(before, name)[first], getattr(after, name)[kept])


def replace_row(row: SegmentRow, **changes: Any) -> SegmentRow:
    return row.model_copy(update=changes)


def test_another_seed_or_cohort_is_another_sample():
    one, other = table(600, seed=0), table(600, seed=1)
    assert not np.array_equal(one.sensitivity, other.sensitivity)
    assert np.array_equal(one.key, other.key)
    later = build_tenants(
        SEGMENTS,
        TenantParameters().model_copy(update={"rows": 600}),
        DemandParameters(),
        seed=0,
        opening_h100e=OPENING_H100E,
        cohort=-1,
    )
    assert not np.isin(later.key, one.key).any()


def test_keys_of_all_rows_differ(tenants):
    assert len(np.unique(tenants.key)) == len(tenants)


def test_a_tenant_is_few_bytes():
    drawn = table(2000)
    held = sum(getattr(drawn, name).nbytes for name in drawn.__slots__ if name not in ("recent_h100e", "search_rank"))
    assert held / len(drawn) <= 128


def test_slices_of_segments_cover_all_rows_in_order(tenants):
    bounds = [tenants.slice_of(index) for index in range(len(SEGMENTS))]
    assert bounds[0].start == 0
    assert bounds[-1].stop == len(tenants)
    assert all(a.stop == b.start for a, b in pairwise(bounds))
