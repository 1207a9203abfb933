"""The command ``books``: of a scenario, of a folder, for anybody, in every form, and what it refuses."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest

from experiments.books import books
from experiments.cli import main
from experiments.engine.errors import ScenarioError

SMALL = "baseline-2025+tenants.rows=100+tenants.rows_per_segment_minimum=5"


@pytest.fixture(scope="module")
def found():
    return books(SMALL, weeks=8, first=3)


def line(table, part, name, who):
    rows = table.filter(part=part, line=name, who=who)
    assert len(rows) == 1
    return rows["usd"][0]


def test_the_balance_sheet_of_a_class_closes(found):
    sheet = found.filter(part="balance sheet", who="neocloud")
    lines = dict(zip(sheet["line"], sheet["usd"], strict=True))
    assets = sum(lines.get(name, 0.0) for name in ("cash", "gpus", "loans", "interest receivable", "equity held"))
    assert assets - lines["debt"] - lines["interest payable"] == pytest.approx(lines["equity"])


def test_rows_and_columns_of_the_flow_matrix_sum_to_zero(found):
    flows = found.filter(part="flows")
    scale = flows["usd"].abs().sum()
    for by in ("line", "who"):
        sums = flows.group_by(by).agg(total=pl.col("usd").sum())
        assert np.abs(sums["total"].to_numpy()).max() <= 1e-9 * scale


def test_statements_of_periods_follow_one_another(found):
    parts = books(SMALL, weeks=8, first=3, every=3, who=["Lambda"], parts=["cash"])
    assert parts["first_week"].unique().sort().to_list() == [3, 6]
    whole = books(SMALL, weeks=8, first=3, who=["Lambda"], parts=["cash"])
    pieces = parts.filter(line="change in cash")["usd"].sum()
    assert pieces == pytest.approx(line(whole, "cash", "change in cash", "Lambda"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"who": ["Lamda"]}, "nobody called 'Lamda'; nearest: Lambda"),
        ({"first": 9}, "weeks 9 to 8; allowed: within 1 to 8"),
        ({"parts": ["incme"]}, "part 'incme'.*nearest: income"),
        ({"arm": "offer"}, "only a folder of results has arms"),
    ],
)
def test_bad_input_is_refused_in_one_line(options, message):
    with pytest.raises(ScenarioError, match=message):
        books(SMALL, weeks=8, **options)


def test_books_of_a_folder_are_those_of_its_run(tmp_path, capsys):
    common = ["--set", "tenants.rows=100", "--set", "tenants.rows_per_segment_minimum=5", "--weeks", "4", "--quiet"]
    assert main(["run", "baseline-2025", *common, "--out", str(tmp_path / "out"), "--format", "csv"]) == 0
    capsys.readouterr()
    assert main(["books", str(tmp_path / "out"), "--part", "paid", "--format", "csv"]) == 0
    stored = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["books", SMALL, "--weeks", "4", "--part", "paid", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [float(row["usd"]) for row in stored] == [row["usd"] for row in again]


def test_a_table_shows_every_statement(capsys):
    assert main(["books", SMALL, "--weeks", "4", "--who", "AMD"]) == 0
    shown = capsys.readouterr().out
    for title in ("Income statement", "Cash flow", "Balance sheet", "Transactions-flow matrix", "Who paid whom"):
        assert title in shown


def test_a_fair_spread_is_printed_in_every_form(capsys):
    common = ["fair-spread", "--paths", "500", "--share", "0.5"]
    assert main([*common, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 0.0 < row["fair_spread_per_year"] < 0.2
    assert main([*common, "--sku", "H10"]) == 2
    assert "nearest" in capsys.readouterr().err
