"""Validation: a frozen market fails, the command scores every seed, bad input is refused in one line."""

import csv
import io
import json
from collections import Counter

import pytest

from experiments.cli import main
from experiments.engine.runner import simulate
from experiments.measure.targets import load_targets, score
from experiments.scenario import Scenario
from experiments.validation import Scores, setting_of, validate
from tests.worlds import few_sellers

HARD = {target.id for target in load_targets() if target.hardness == "hard"}


def all_sellers(**changes):
    """All sellers, few tenants, as long as the figures."""
    return Scenario.load().with_({"weeks": 69, "tenants.rows": 250, "tenants.rows_per_segment_minimum": 50, **changes})


def scored(scenario):
    rows = score(simulate(scenario, 1), setting_of(scenario)).iter_rows(named=True)
    return {row["id"]: row for row in rows}


def test_a_placebo_whose_prices_are_frozen_fails_at_least_four_hard_targets():
    rules = {f"pricing.{kind}_rule": "fixed" for kind in ("neocloud", "marketplace", "hyperscaler")}
    frozen = all_sellers(**rules)
    own = [seller.name for seller in frozen.tables().sellers if seller.pricing_rule]
    found = scored(frozen.with_({f"data.sellers.{name}.pricing_rule": "fixed" for name in own}))
    failed = {name for name in HARD if found[name]["inside"] is False}
    assert {"hazard_neocloud", "hazard_hyperscaler", "revision_size", "gap_closed", "premia_share"} <= failed


def test_every_target_that_the_run_covers_is_measured():
    found = scored(all_sellers())
    assert [name for name, row in found.items() if row["inside"] is not None and row["value"] is None] == []
    assert {row["reason"] for row in found.values() if row["inside"] is None} == {
        "needs an opening by 2024-01; this run opens in 2025-06"
    }


@pytest.fixture
def small(tmp_path, no_figures):
    """Arguments of a validation of seven sellers over thirty weeks: long enough for one half-year."""
    path = tmp_path / "small.toml"
    path.write_text(few_sellers().canonical(), encoding="utf-8")
    return ["validate", "--scenario", str(path), "--weeks", "30", "--seeds", "2", "--workers", "1", "--quiet"]


def test_the_command_prints_a_row_per_target_and_the_joint_share(small, tmp_path, capsys):
    assert main([*small, "--out", str(tmp_path / "v"), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in printed["targets"]} == {target.id for target in load_targets()}
    wanted = {"id", "use", "hardness", "band", "mean", "sd", "share_of_seeds_inside", "verdict"}
    assert all(wanted <= set(row) for row in printed["targets"])
    assert printed["share_of_seeds_passing_hard"] in (0.0, 0.5, 1.0)
    counts = [len(seed["hard_outside"]) for seed in printed["seeds"]]
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == 2
    assert printed["share_of_seeds_passing_hard"] == Counter(counts)[0] / 2
    measured = {row["id"] for row in printed["targets"] if row["verdict"] != "not measured"}
    assert {"cv_h100", "developer_cloud_pull"} <= measured
    assert "utilisation_neocloud" not in measured


def test_the_same_folder_is_read_again_and_gives_the_same_scores_in_every_form(small, tmp_path, capsys, monkeypatch):
    command = [*small, "--out", str(tmp_path / "v")]
    assert main([*command, "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("experiments.engine.runner.simulate", lambda *_: pytest.fail("ran again"))
    assert main([*command, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["id"] for row in rows] == [row["id"] for row in first["targets"]]
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in first["targets"]]
    assert main(command) == 0
    screen = capsys.readouterr().out
    assert "Held-out figures" in screen
    assert screen.index("Figures that parameters were moved towards") < screen.index("Held-out figures")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenario", "baseline-2026"], "unknown scenario 'baseline-2026'; nearest: baseline-2025"),
        (["--set", "pricing.noise=1"], "unknown key pricing.noise; nearest: pricing.noise_sd"),
        (["--seeds", "0"], "--seeds"),
        (["--tables", "all"], "--tables"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(arguments, said, in_folder, capsys):
    assert main(["validate", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(in_folder.iterdir())


def test_from_python_a_scenario_is_scored_without_a_file(tmp_path, no_figures):
    found = validate(few_sellers(), weeks=2, seeds=1, workers=1, out=tmp_path / "v")
    assert isinstance(found, Scores)
    assert found.passing() is None
    assert {verdict.verdict for verdict in found.verdicts} == {"not measured"}
