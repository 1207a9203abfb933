"""Contracts that every outcome keeps, on worlds that leave much undefined."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.outcomes import OUTCOME_SCHEMA, OUTCOMES, UNITS, Records, Window, outcomes, windows


def worlds(made):
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.normal(0, 0.05, (60, 5)), axis=0)
    late = np.where(np.arange(60) < 20, np.nan, 2.0)
    nothing = {column: {("a", "H100"): 0.0} for column in ("available_gpus", "sold_gpus", "open_gpus", "revenue_usd")}
    return {
        "one seller": made.fabricate({("a", "H100"): np.full(60, 2.0)}),
        "one week": made.fabricate({("a", "H100"): [2.0, 2.0], ("b", "H100"): [3.0, 3.0]}),
        "many": made.fabricate(
            made.panel(walk) | made.panel(walk - 0.3, "MI300X") | {("late", "B200"): late},
            classes={"seller 000": "hyperscaler", "seller 001": "marketplace", "AMD": "vendor"},
            desk={"cap_gpus": 1_000.0, "sold_gpus": 400.0},
        ),
        "nothing": made.fabricate({("a", "H100"): np.full(60, 2.0)}, lots=nothing),
    }


@pytest.fixture(params=["one seller", "one week", "many", "nothing"])
def measured(request, made):
    tables = worlds(made)[request.param]
    return outcomes(tables, weeks=int(tables["seller_week"]["week"].max()))


def test_values_are_numbers_or_null_with_a_reason(measured):
    assert measured.schema == pl.Schema(OUTCOME_SCHEMA)
    assert measured["value"].is_nan().sum() == 0
    assert measured["value"].is_infinite().sum() == 0
    assert measured["std_error"].is_nan().sum() == 0
    assert (measured["value"].is_null() == measured["reason"].is_not_null()).all()
    assert (measured["reason"].drop_nulls().str.len_chars() > 0).all()


def test_outcomes_without_a_vendor_or_hyperscaler_are_silent_all_others_give_rows_and_none_twice(measured):
    silent = set(OUTCOMES) - set(measured["metric"])
    of_vendors = {name for name in OUTCOMES if name.startswith("vendor_")}
    assert silent <= {"pool_fee", "leaseback_cost", "price_multiple"} | of_vendors
    assert not measured.select(pl.exclude("value", "std_error", "reason")).is_duplicated().any()


def test_every_outcome_has_a_unit_and_a_usual_class_that_it_measures(made):
    tables = worlds(made)["many"]
    table = outcomes(tables, weeks=59)
    for name, outcome in OUTCOMES.items():
        assert UNITS[name]
        assert outcome.provider_class in set(table.filter(pl.col("metric") == name)["provider_class"]), name


def test_order_of_rows_and_names_of_tables_do_not_matter(made):
    tables = worlds(made)["many"]
    shuffled = {name: frame.sample(fraction=1.0, shuffle=True, seed=5) for name, frame in tables.items()}
    assert outcomes(tables, weeks=59).equals(outcomes(shuffled, weeks=59))


def test_windows_are_year_one_the_last_half_year_and_the_run():
    assert windows(156) == [(1, 52), (131, 156), (1, 156)]
    assert windows(52) == [(1, 52), (27, 52)]
    assert windows(10) == [(1, 10)]
    with pytest.raises(ValueError, match="at least one week"):
        windows(0)


def test_trends_leave_the_last_half_year_out(made):
    table = outcomes(worlds(made)["many"], weeks=59)
    assert set(table.filter(pl.col("metric") == "sigma_trend")["window_first"]) == {1}
    assert set(table.filter(pl.col("metric") == "price_mean")["window_first"]) == {1, 34}


def test_own_windows_are_measured_and_checked(made):
    tables = worlds(made)["many"]
    table = outcomes(tables, weeks=59, spans=[Window(5, 9)])
    assert set(table["window_first"]) == {5}
    with pytest.raises(ValueError, match="weeks 1 to 59"):
        outcomes(tables, weeks=59, spans=[Window(0, 9)])


def test_records_that_end_early_or_repeat_a_row_are_refused(made):
    tables = worlds(made)["one seller"]
    with pytest.raises(ValueError, match="ends at week 59, not 80"):
        outcomes(tables, weeks=80)
    twice = tables | {"seller_week": pl.concat([tables["seller_week"]] * 2)}
    with pytest.raises(ValueError, match="two rows"):
        outcomes(twice, weeks=59)


def test_the_largest_neocloud_is_found_by_its_opening_fleet(made):
    prices = {("a", "H100"): [2.0] * 3, ("b", "H100"): [2.0] * 3, ("big", "H100"): [2.0] * 3}
    fleets = {("a", "H100"): 5.0, ("b", "H100"): [7.0, 900.0, 900.0], ("big", "H100"): 800.0}
    tables = made.fabricate(prices, classes={"big": "hyperscaler"}, lots={"installed_gpus": fleets})
    assert Records.of(tables, 2).largest == "b"
