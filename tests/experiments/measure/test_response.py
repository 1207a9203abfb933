"""Levers, shapes, responses and main effects of many arms."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.response import against, levers, main_effects, response, shape


def runs_of(arms: dict[str, dict], seeds=(1, 2)) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"id": f"{arm} {seed}", "arm": arm, "seed": seed, "status": "ok", "message": "", **keys}
            for arm, keys in arms.items()
            for seed in seeds
        ]
    )


def grid(**steps):
    names, values = list(steps), [[]]
    for found in steps.values():
        values = [[*point, value] for point in values for value in found]
    return {str(point): dict(zip(names, point, strict=True)) for point in values}


@pytest.mark.parametrize(
    ("arms", "keys", "figure"),
    [
        (grid(a=[1, 2, 3]), ["a"], "curve"),
        (grid(a=[1, 2]), ["a"], ""),
        (grid(b=[1, 2, 3], a=[1, 2]), ["b", "a"], "map"),
        (grid(a=[1, 2], b=[1, 2], c=[1, 2]), ["a", "b", "c"], "tornado"),
        ({"x": {"a": 1, "b": 10}, "y": {"a": 2, "b": 20}, "z": {"a": 3, "b": 30}}, ["a"], "curve"),
        ({"x": {"a": 1, "b": 9}, "y": {"a": 2, "b": 5}, "z": {"a": 3, "b": 7}}, ["a", "b"], ""),
        (grid(word=["p", "q", "r"]), [], ""),
        (grid(a=[1, 2, 3], word=["p", "q"]), ["a"], ""),
        ({"x": {"a": None}, "y": {"a": 2}, "z": {"a": 3}}, [], ""),
        (grid(flag=[True, False], a=[1.0, 2.0]), ["flag", "a"], "map"),
    ],
)
def test_the_levers_and_the_figure_follow_from_how_the_arms_differ(arms, keys, figure):
    assert levers(runs_of(arms)) == keys
    assert shape(runs_of(arms)) == figure


def measured(runs: pl.DataFrame, value) -> pl.DataFrame:
    rows = [(row["arm"], row["seed"], value(row)) for row in runs.iter_rows(named=True)]
    return pl.DataFrame(rows, schema={"arm": pl.String, "seed": pl.Int64, "value": pl.Float64}, orient="row")


def test_a_response_is_sorted_by_the_lever_with_the_interval_of_its_seeds():
    runs = runs_of({"high": {"a": 3}, "low": {"a": 1}, "middle": {"a": 2}}, seeds=(1, 2, 3))
    table = response(measured(runs, lambda row: 10 * row["a"] + row["seed"]), runs, ["a"])
    assert table["a"].to_list() == [1, 2, 3]
    assert table["mean"].to_list() == [12, 22, 32]
    assert table["high"][0] - table["mean"][0] == pytest.approx(4.3027 / np.sqrt(3), rel=1e-4)


def test_changes_are_paired_by_seed():
    runs = runs_of({"x": {"a": 1}, "y": {"a": 2}, "z": {"a": 3}}, seeds=(1, 2, 3))
    found = measured(runs, lambda row: row["a"] ** 2 + 100.0 * row["seed"])
    table = response(against(found, "x"), runs, ["a"])
    assert table.select("mean", "low", "high").rows() == [(0, 0, 0), (3, 3, 3), (8, 8, 8)]


def test_main_effects_of_a_plane_are_its_slopes_times_the_ranges():
    points = np.random.default_rng(1).random((20, 3))
    runs = runs_of({f"p{i}": dict(zip("abc", map(float, point), strict=True)) for i, point in enumerate(points)})
    found = measured(runs, lambda row: 5 + 2 * row["a"] - 7 * row["b"])
    effects = main_effects(found, runs, ["a", "b", "c"])
    assert [effect.key for effect in effects[:2]] == ["b", "a"]
    assert effects[0].change == pytest.approx(-7 * np.ptp(points[:, 1]))
    assert abs(effects[2].change) < 1e-9


def test_too_few_arms_tell_no_levers_apart():
    runs = runs_of({"x": {"a": 1, "b": 9}, "y": {"a": 2, "b": 5}, "z": {"a": 3, "b": 7}})
    assert main_effects(measured(runs, lambda row: row["a"]), runs, ["a", "b"]) == []
