"""Targets: bands that nobody moves, windows of the calendar, scores and verdicts redone by hand."""

import hashlib
import json
from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measure.targets import (
    SCORE_SCHEMA,
    Setting,
    joint_share,
    load_targets,
    score,
    verdicts,
    weeks_needed,
    windows_of,
)

BY_ID = {target.id: target for target in load_targets()}
JUNE_2025 = Setting(opening=date(2025, 6, 2), weeks=69, offer_week=2, base_rate=0.043)
EARLY_2024 = Setting(opening=date(2024, 1, 29), weeks=139, offer_week=None, base_rate=0.053)

BANDS_SHA256 = "968e98fbf849c95e5026b53f04a4bb05cc66a57c1b603f673d771dfa6428b243"
"""Of every column that says what passes. A band changes with the public figure behind it and never with a run: whoever
changes this line says in the commit which figure is new."""


def test_the_bands_are_those_that_were_written_down_before_any_run():
    columns = ("id", "metric", "sku", "provider_class", "start", "window", "value", "low", "high", "hardness", "use")
    rows = sorted([str(getattr(target, name)) for name in columns] for target in load_targets())
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == BANDS_SHA256


def test_every_target_has_a_source_a_mechanism_and_its_figure_in_its_band():
    assert len(BY_ID) == len(load_targets())
    for target in load_targets():
        assert target.low <= target.value <= target.high, target.id
        assert target.source, target.id
        assert target.mechanism, target.id
        assert target.hardness in ("hard", "soft"), target.id
        assert target.use in ("fit", "holdout"), target.id


# ------------------------------------------------------------------------------------------------ time


def weeks(target_id, setting=JUNE_2025):
    return [tuple(window) for window in windows_of(BY_ID[target_id], setting)[0]]


def test_half_years_are_complete_ones_of_the_calendar():
    """Week 5 begins on 7 July 2025, week 30 on 29 December, week 56 on 29 June 2026; summer 2026 is not complete."""
    assert weeks("cv_h100") == [(5, 30), (31, 56)]
    assert weeks("cv_h100", EARLY_2024) == [(75, 100), (101, 126)]


def test_windows_follow_the_words_of_the_table():
    assert weeks("premia_share") == [(1, 69)]
    assert weeks("utilisation_neocloud") == [(1, 52)]
    assert weeks("cv_b200") == [(27, 52)]
    assert weeks("drift_b200") == [(1, 30)]
    assert weeks("developer_cloud_pull") == [(2, 27)]
    assert weeks("sigma_h100", EARLY_2024) == [(1, 139)]
    assert weeks("drift_h100_fall", EARLY_2024) == [(1, 100)]
    assert weeks("drift_h100_rise", EARLY_2024) == [(96, 139)]
    assert weeks("cut_share_squeeze", EARLY_2024) == [(101, 139)]


def test_a_figure_of_june_2025_is_measured_from_june_2025_in_a_run_that_opens_earlier():
    assert weeks("utilisation_neocloud", EARLY_2024) == [(71, 122)]


def test_a_run_that_opens_late_or_ends_early_is_not_scored_and_says_why():
    assert windows_of(BY_ID["beta_h100"], JUNE_2025) == ([], "needs an opening by 2024-01; this run opens in 2025-06")
    short = replace(JUNE_2025, weeks=40)
    assert windows_of(BY_ID["utilisation_neocloud"], short) == ([], "needs 52 weeks; the run has 40")
    assert weeks("cv_h100", short) == [(5, 30)]
    assert windows_of(BY_ID["cv_h100"], replace(short, weeks=20)) == ([], "needs 30 weeks; the run has 20")
    without = replace(JUNE_2025, offer_week=None)
    assert windows_of(BY_ID["developer_cloud_pull"], without)[1] == "the scenario has no offer of the Developer Cloud"


@pytest.mark.parametrize("setting", [JUNE_2025, EARLY_2024])
def test_a_run_as_long_as_needed_covers_every_figure_that_begins_after_its_opening(setting):
    assert setting.weeks == weeks_needed(setting.opening)
    for target in load_targets():
        spans, reason = windows_of(target, replace(setting, offer_week=2))
        assert spans or "needs an opening" in reason, target.id
        assert all(1 <= span.first <= span.last <= setting.weeks for span in spans), target.id


# ------------------------------------------------------------------------------------------------ scores


def scored(made, prices, setting=JUNE_2025, **options):
    tables = made.fabricate(prices, **options)
    return {row["id"]: row for row in score(tables, setting).iter_rows(named=True)}


def test_a_half_years_figure_is_the_mean_of_both_with_their_extremes(made):
    """Spread .1 until December, .3 afterwards: two prices of 1 - s and 1 + s have a coefficient of s × √2."""
    spread = np.where(np.arange(70) <= 30, 0.1, 0.3)
    found = scored(made, {("a", "H100"): 1.0 - spread, ("b", "H100"): 1.0 + spread})["cv_h100"]
    assert found["value"] == pytest.approx(0.2 * 2**0.5)
    assert (found["lowest"], found["highest"]) == pytest.approx((0.1 * 2**0.5, 0.3 * 2**0.5))
    assert found["inside"] is True


def test_what_is_undefined_in_its_time_is_outside_and_what_is_not_covered_is_neither(made):
    found = scored(made, made.panel(np.tile(np.linspace(0.5, 1.5, 6), (70, 1))))
    assert found["revision_size"] | {"id": ""} == {
        **dict.fromkeys(SCORE_SCHEMA), "id": "", "inside": False, "reason": "no list price moved"
    }  # fmt: skip
    assert found["beta_h100"]["inside"] is None


def test_beta_is_compounded_to_a_month(made):
    decay = 0.99
    logs = 1.0 + np.linspace(-0.5, 0.5, 6) * decay ** np.arange(140)[:, None]
    found = scored(made, made.panel(logs), EARLY_2024)["beta_h100"]
    assert found["value"] == pytest.approx(decay ** (8760 / 168 / 12) - 1)
    assert found["inside"] is True


def test_hyperscalers_count_by_dates_and_neoclouds_by_prices(made):
    step = np.where(np.arange(70) < 40, 9.0, 8.0)
    prices = {(seller, sku): step for seller in ("big", "small") for sku in ("H100", "H200")}
    found = scored(made, prices, classes={"big": "hyperscaler"})
    months = 69 * 168 / 8760 * 12
    assert found["hazard_hyperscaler"]["value"] == pytest.approx(1 / months)
    assert found["hazard_neocloud"]["value"] == pytest.approx(2 / (2 * months))


def test_spreads_are_over_the_reference_rate(made):
    tables = made.fabricate({("a", "H100"): np.full(70, 2.0)})
    row = {"week": 9, "seller": "a", "provider_class": "neocloud", "sku": "H100", "loan_usd": 5.0, "annual_rate": 0.07}
    loans = pl.DataFrame([row | {"contracted_share": 0.9}], schema=tables["loan_week"].schema)
    found = {each["id"]: each for each in score(tables | {"loan_week": loans}, JUNE_2025).iter_rows(named=True)}
    assert found["loan_spread_contracted"]["value"] == pytest.approx(0.027)
    assert found["loan_spread_merchant"]["reason"] == "no such loan is drawn"


# ------------------------------------------------------------------------------------------------ verdicts


def table(values):
    """Scores of targets by seed: a number, ``None`` for undefined, ``...`` for not covered."""
    rows = []
    for name, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            known = None if value is ... else value
            inside = None if value is ... else BY_ID[name].holds(value)
            reason = {...: "needs more", None: "nobody"}.get(value)
            rows.append((seed, name, known, known, known, inside, reason))
    return pl.DataFrame(rows, schema={"seed": pl.Int64(), **SCORE_SCHEMA}, orient="row")


def test_verdicts_stand_worst_first_and_say_what_holds_them_down():
    found = table(
        {
            "cv_h100": [0.30, 0.30, 0.30, 0.18],  # .20 to .45: one seed out
            "cv_a100": [0.60, 0.60, 0.60, 0.60],  # soft, to .48
            "premia_share": [0.95, 0.95, 0.95, 0.85],  # to .90: .025 over, of a width of .35
            "amd_discount": [2.0, 2.0, 2.0, 2.0],  # far out
            "cv_h200": [0.30, 0.30, 0.30, 0.30],
            "cv_b200": [0.05, 0.41, 0.41, 0.05],  # .10 to .40: the mean alone is inside
            "beta_h100": [..., ..., ..., ...],
            "revision_size": [None, None, None, None],
        }
    )
    rows = verdicts(found, [BY_ID[name] for name in found["id"].unique(maintain_order=True)])
    assert [(row.target.id, row.verdict, row.held_down_by) for row in rows] == [
        ("revision_size", "fail", "model"),
        ("amd_discount", "fail", "model"),
        ("premia_share", "fail", "model"),
        ("cv_a100", "warn", "model"),
        ("cv_b200", "warn", "model"),
        ("cv_h100", "pass", "seeds"),
        ("cv_h200", "pass", ""),
        ("beta_h100", "not measured", ""),
    ]
    worst = {row.target.id: row for row in rows}
    assert worst["cv_h100"].share_inside == 0.75
    assert worst["cv_h100"].sd == pytest.approx(0.06)
    assert (worst["revision_size"].mean, worst["revision_size"].share_inside) == (None, 0.0)
    assert (worst["beta_h100"].seeds, worst["beta_h100"].reason) == (0, "needs more")


def test_a_seed_passes_together_what_it_passes_one_by_one():
    found = table({"cv_h100": [0.3, 0.3, 0.1, 0.1], "cv_h200": [0.3, 0.1, 0.3, 0.1], "beta_h100": [..., ..., ..., ...]})
    assert joint_share(found, ["cv_h100", "cv_h200", "beta_h100"]) == 0.25
    assert joint_share(found, ["cv_h100"]) == 0.5
    assert joint_share(found, ["beta_h100"]) is None


@given(st.lists(st.floats(-2.0, 3.0), min_size=1, max_size=9))
def test_the_joint_share_is_at_most_the_smallest_share_inside(values):
    found = table({name: values for name in ("cv_h100", "amd_discount", "premia_share")})
    ids = found["id"].unique().to_list()
    shares = [row.share_inside for row in verdicts(found, [BY_ID[name] for name in ids])]
    assert joint_share(found, ids) <= min(shares)
