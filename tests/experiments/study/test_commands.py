"""The commands that need no run: what they print, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments import cli

ROOT = Path(__file__).parents[3]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def neocloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command line in an empty folder; returns exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        return (code, *capsys.readouterr())

    return call


def rows(output: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(output.split("\n\n")[0])))


@pytest.mark.parametrize(
    "command",
    [
        ["tco"],
        ["tco", "H100"],
        ["break-even", "H100"],
        ["break-even", "H100", "--price", "2.5", "--utilisation", "0.8", "--loan"],
        ["threshold"],
        ["claims"],
    ],
)
def test_every_command_answers_in_all_forms(neocloud: Call, command: list[str]) -> None:
    for form in ("table", "json", "csv"):
        code, output, _ = neocloud(*command, "--format", form)
        assert code == 0
        assert output
        if form == "json":
            assert all(json.loads(output).values()) or command == ["claims"]
    assert not list(Path.cwd().iterdir())


def test_tco_lists_every_gpu_and_one_in_parts(neocloud: Call) -> None:
    every, one = (rows(neocloud("tco", sku, "--format", "csv")[1]) for sku in ("all", "H100"))
    costs = {row["sku"]: float(row["full_cost_usd_per_gpu_hour"]) for row in every}
    parts = {row["part"]: float(row["cost_usd_per_gpu_hour"]) for row in one}
    assert len(costs) == 15
    assert parts["full cost"] == costs["H100"]
    assert parts["capital"] + parts["colocation"] + parts["electricity"] + parts["operations"] == costs["H100"]


def test_the_formula_carries_the_numbers_of_the_scenario(neocloud: Call) -> None:
    Path("mine.toml").write_text(
        'extends = "baseline-2025"\n[costs]\nelectricity_usd_per_kwh = 0.051\n', encoding="utf-8"
    )
    for arguments in (["H100", "mine.toml"], ["H100", "--set", "costs.electricity_usd_per_kwh=0.051"]):
        assert "1.37 × 1.25 × 0.8 × 0.051" in neocloud("tco", *arguments)[1]


def test_break_even_answers_what_is_asked(neocloud: Call) -> None:
    (by_price,) = rows(neocloud("break-even", "H100", "--price", "2.5", "--format", "csv")[1])
    (by_use,) = rows(neocloud("break-even", "H100", "--utilisation", by_price["utilisation"], "--format", "csv")[1])
    assert float(by_use["price_usd_per_gpu_hour"]) == pytest.approx(2.5)
    assert len(rows(neocloud("break-even", "H100", "--format", "csv")[1])) == 6


def test_reasons_stand_where_numbers_do_not(neocloud: Call) -> None:
    _, output, _ = neocloud("break-even", "H100", "--price", "0.4", "--utilisation", "0.5", "--format", "json")
    answer = json.loads(output)
    assert answer["break_even"][0]["utilisation"] is None
    assert answer["break_even"][0]["reason"].startswith("not reachable")
    assert answer["return"][0]["payback_weeks"] is None
    assert answer["return"][0]["payback_reason"].startswith("never")


def test_a_claim_is_judged_under_the_scenario_given(neocloud: Call) -> None:
    _, output, _ = neocloud("claims", "--set", "data.hardware.B200.hbm_gb=288", "--format", "json")
    verdicts = {row["name"]: row["verdict"] for row in json.loads(output)["claims"]}
    assert verdicts["memory"] == "does not hold"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tco", "H1000"], "H1000: no SKU of the hardware table; nearest: H100"),
        (["tco", "H100", "baseline"], "unknown scenario 'baseline'; nearest: baseline-2025"),
        (["tco", "--set", "costs.life_years=0"], "costs.life_years = 0.0; allowed: a number from 0.5 to 15 years"),
        (["tco", "--set", "data.hardware.H100.capex_usd=-1"], "allowed: more than 0"),
        (["break-even"], "SKU"),
        (["break-even", "H100", "--utilisation", "85"], "85: a share 0 to 1; did you mean 0.85?"),
        (["break-even", "H100", "--utilisation", "85%"], "85%: a share 0 to 1; did you mean 0.85?"),
        (["break-even", "H100", "--utilisation", "-0.1"], "-0.1: a share 0 to 1"),
        (["break-even", "H100", "--utilisation", "full"], "full: a share 0 to 1"),
        (
            ["break-even", "H100", "--price", "$2.50"],
            "$2.50: a price in USD per GPU-hour, 0 to 10,000; did you mean 2.5?",
        ),
        (["break-even", "H100", "--price", "inf"], "inf: a price in USD per GPU-hour, 0 to 10,000"),
        (["break-even", "H100", "--price", "2", "--loan"], "--loan and --fall need both --price and --utilisation"),
        (["break-even", "H100", "--price", "2", "--utilisation", "1", "--fall", "20"], "did you mean 0.2?"),
        (["break-even", "H100", "--gpus", "0"], "0: a number of GPUs, 1 to 100 million"),
        (["threshold", "--amd", "H200"], "H200: no AMD SKU of the hardware table"),
        (["threshold", "--nvidia", "H20"], "H20: no Nvidia SKU of the hardware table; nearest: H200"),
        (["threshold", "--price", "nan"], "nan: a price in USD per GPU-hour, 0 to 10,000"),
        (["threshold", "--set", "choice.utility=linear"], "threshold needs 'log'"),
        (["treshold"], "did you mean 'threshold'?"),
        (["claims", "--format", "xml"], "--format"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(neocloud: Call, arguments: list[str], told: str) -> None:
    code, output, complaints = neocloud(*arguments)
    assert (code, output) == (2, "")
    assert told in complaints
    assert complaints.count("\n") == 1


def test_hardware_without_the_unit_of_work_is_refused(neocloud: Call) -> None:
    text = (ROOT / "market" / "data" / "hardware.csv").read_text(encoding="utf-8")
    Path("mine.csv").write_text(text.replace("\nH100,", "\nH101,"), encoding="utf-8")
    fleets = "seller,sku,gpus,vintage,term_split_on_demand,term_split_4w,term_split_52w,term_split_156w,utilisation"
    row = "Lambda,H101,100,2024-03,1,0,0,0,1,2025-06,assumption,assumption"
    Path("fleets.csv").write_text(f"{fleets},as_of,source,confidence\n{row}\n", encoding="utf-8")
    Path("none.csv").write_text("seller,sku,week,gpus,as_of,source,confidence,note\n", encoding="utf-8")
    files = {"hardware": "mine.csv", "fleets": "fleets.csv", "deliveries": "none.csv"}
    replaced = [text for name, file in files.items() for text in ("--set", f"data.{name}={file}")]
    code, output, complaints = neocloud("tco", *replaced)
    assert (code, output) == (2, "")
    assert "table hardware: the unit of work is the H100, which is missing" in complaints
