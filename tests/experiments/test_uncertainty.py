"""Outer draws: what is drawn and what is held, and the range that comes out of a market of known answer."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from experiments import Results, Scenario, compare, experiment
from experiments.cli import main
from experiments.engine.errors import ScenarioError
from experiments.engine.plan import OUTER_SEEDS
from experiments.engine.runner import TABLES
from experiments.measure.outer import apart
from experiments.uncertainty import uncertain_keys, with_draws
from market.parameters import parameter_rows

ELASTICITY = parameter_rows()["demand.intensive_elasticity"]


def answers_by_elasticity(scenario, seed):
    """H100 falls by the cap times an uncertain parameter; luck is common to all arms of a seed."""
    weeks = scenario.weeks + 1
    luck = 0.1 * np.random.default_rng(seed).normal()
    price = 3.0 + luck - 1e-5 * scenario.developer_cloud.cap_gpus * scenario.demand.intensive_elasticity
    empty = {name: pl.DataFrame(schema=schema) for name, schema in TABLES.items()}
    rows = {"week": np.arange(weeks), "sku": ["H100"] * weeks, "list_mean_usd_per_gpu_hour": np.full(weeks, price)}
    market = pl.DataFrame({name: rows.get(name) for name in TABLES["market_week"]}, schema=TABLES["market_week"])
    return {**empty, "market_week": market}


@pytest.fixture
def quick(fake_market, no_figures, in_folder):
    fake_market(answers_by_elasticity)
    return {"seeds": 5, "weeks": 2, "workers": 1}


def total(results):
    return results.effects.filter(pl.col("contrast") == "total", pl.col("metric") == "price_mean").row(0, named=True)


def test_the_range_is_that_of_the_parameter_behind_the_effect(quick):
    row = total(experiment(uncertainty=16, **quick))
    low, high = float(ELASTICITY.sweep_low), float(ELASTICITY.sweep_high)
    ends = [-0.01 * (low + share * (high - low)) for share in (0.96, 0.04)]  # a hypercube of sixteen, .95 inside
    assert (row["range_low"], row["range_high"]) == pytest.approx(ends, abs=0.01 * 0.05)
    assert row["draws"] == 16
    assert row["difference"] == pytest.approx(-0.01 * float(ELASTICITY.value))
    assert row["high"] - row["low"] < 1e-9


def test_draws_change_nothing_else_and_are_the_same_every_time(quick):
    plain, first, again = (
        experiment(out=name, **quick, **draws)
        for name, draws in (("a", {}), ("b", {"uncertainty": 2}), ("c", {"uncertainty": 2}))
    )
    assert first.summary.equals(plain.summary)
    without = [name for name in plain.effects.columns if name not in ("range_low", "range_high", "draws")]
    assert first.effects.select(without).equals(plain.effects.select(without))
    assert plain.effects["draws"].null_count() == plain.effects.height
    assert (first.out / "effects.csv").read_bytes() == (again.out / "effects.csv").read_bytes()


def test_a_draw_is_every_compared_arm_with_the_first_seeds_and_one_value_of_each_parameter(quick):
    results = experiment(uncertainty=5, **quick)
    own, drawn = apart(results.runs)
    assert own["arm"].unique().sort().to_list() == drawn["arm"].unique().sort().to_list()
    assert drawn["seed"].unique().sort().to_list() == own["seed"].unique().sort().to_list()[:OUTER_SEEDS]
    by_draw = drawn.group_by("draw").agg(pl.col("demand.intensive_elasticity").unique())
    assert by_draw["demand.intensive_elasticity"].list.len().to_list() == [1] * 5
    values = np.sort(by_draw["demand.intensive_elasticity"].list.first().to_numpy())
    low, high = float(ELASTICITY.sweep_low), float(ELASTICITY.sweep_high)
    assert np.floor((values - low) / (high - low) * 5).tolist() == list(range(5))


def test_what_an_arm_sets_is_held_in_it_and_drawn_in_the_others(quick):
    drawn = apart(experiment(uncertainty=3, **quick).runs)[1]
    off = drawn.filter(pl.col("arm").str.contains("anchor off"))["pricing.anchor_weight"]
    on = drawn.filter(pl.col("arm") == "offer")["pricing.anchor_weight"]
    assert off.unique().to_list() == [0.0]
    assert on.n_unique() == 3


def test_what_the_scenario_states_is_no_uncertainty():
    usual = uncertain_keys(Scenario.load())
    assert {"demand.intensive_elasticity", "pricing.adjust_per_week"} <= set(usual)
    assert all(parameter_rows()[key].kind == "uncertainty" for key in usual)
    stated = Scenario.load().set("demand.intensive_elasticity", 0.5)
    assert set(usual) - set(uncertain_keys(stated)) == {"demand.intensive_elasticity"}


def test_two_scenarios_have_a_range_too(quick):
    base = Scenario.load()
    row = compare(base, base.set("developer_cloud.cap_gpus", 0.0), uncertainty=10, **quick).effects.row(0, named=True)
    assert row["range_low"] < row["difference"] < row["range_high"]


def test_without_a_comparison_there_is_nothing_to_draw_for(small_plan):
    with pytest.raises(ScenarioError, match="nothing is compared"):
        with_draws(replace(small_plan, contrasts=()), 3)
    with pytest.raises(ScenarioError, match="uncertainty = 0"):
        with_draws(small_plan, 0)


def test_the_screen_and_json_show_the_range(quick, capsys):
    arms = ["baseline-2025", "baseline-2025+developer_cloud.cap_gpus=0"]
    command = [
        "compare",
        *arms,
        "--uncertainty",
        "5",
        "--seeds",
        "2",
        "--weeks",
        "2",
        "--workers",
        "1",
        "--out",
        "here",
    ]
    assert main(command) == 0
    assert "over 5 draws" in capsys.readouterr().out
    assert main([*command, "--format", "json"]) == 0
    assert '"range_low": ' in capsys.readouterr().out
    assert main(["run", "--uncertainty", "5"]) == 2


def test_a_folder_with_draws_is_opened_as_it_was_filled(quick):
    results = experiment(uncertainty=2, **quick)
    again = Results.open(results.out)
    assert again.plan.digest() == results.plan.digest()
    assert again.missing == 0
    assert again.effects.equals(results.effects)
