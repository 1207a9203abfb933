"""The page of scores: every figure has its row, and everything that misses has its reason."""

import csv
from pathlib import Path

import pytest

from experiments.measure.targets import load_targets

DATA = Path(__file__).resolve().parents[2] / "docs" / "background" / "data"


def stored(name):
    return list(csv.DictReader((DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


ROWS = stored("validation")
NOTES = {row["id"]: row["note"] for row in stored("validation-notes")}
BANDS = {target.id: target for target in load_targets()}


def test_the_stored_scores_are_of_all_targets_with_their_present_bands():
    assert {row["id"] for row in ROWS} == set(BANDS)
    for row in ROWS:
        target = BANDS[row["id"]]
        assert (float(row["low"]), float(row["high"])) == (target.low, target.high)
        assert (row["hardness"], row["use"]) == (target.hardness, target.use)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_verdict_follows_from_the_stored_numbers(row):
    if row["verdict"] == "not measured":
        assert row["seeds"] == "0"
        assert row["reason"]
        return
    inside = bool(row["mean"]) and BANDS[row["id"]].holds(float(row["mean"]))
    enough = float(row["share_of_seeds_inside"]) >= 0.5
    outside = {"hard": "fail", "soft": "warn"}[row["hardness"]]
    assert row["verdict"] == ("pass" if inside and enough else "warn" if inside else outside)


def test_what_some_seed_misses_has_a_reason_and_nothing_else_does():
    missed = {row["id"] for row in ROWS if row["seeds"] != "0" and float(row["share_of_seeds_inside"]) < 1.0}
    assert set(NOTES) == missed
    assert all(len(note) > 40 for note in NOTES.values())
