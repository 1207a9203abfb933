import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import cli
from experiments.design import Design, design_names
from experiments.engine import runner

ROOT = Path(__file__).parents[2]
QUICK = ["--seeds", "2", "--weeks", "2", "--workers", "1"]


def test_an_experiment_prints_three_tables_and_where_the_files_are(neocloud):
    code, output, complaints = neocloud("experiment", *QUICK)
    assert (code, complaints) == (0, "")
    for title in ("Rental prices and their spread", "Margins of neoclouds", "AMD's share of the market"):
        assert title in output
    assert "Files in out/developer-cloud-" in output


def test_json_has_the_rows_of_summary_and_effects(neocloud):
    code, output, _ = neocloud("experiment", "developer-cloud", *QUICK, "--format", "json", "--out", "here")
    printed = json.loads(output)
    assert code == 0
    assert (printed["experiment"], printed["out"], printed["runs"]) == ("developer-cloud", "here", 10)
    assert {row["arm"] for row in printed["summary"]} >= {"none", "same-hours", "offer"}
    assert {row["contrast"] for row in printed["effects"]} >= {"price effect", "quantity effect", "total"}
    assert Path("here/summary.csv").exists()


def test_csv_is_the_two_tables_with_an_empty_line_between(neocloud):
    _, output, _ = neocloud("compare", "baseline-2025", "baseline-2025+weeks=3", *QUICK, "--format", "csv")
    summary, effects = output.split("\n\n")
    assert "arm" in next(csv.reader(io.StringIO(summary)))
    assert "difference" in next(csv.reader(io.StringIO(effects)))


def test_a_run_prints_means_and_draws_the_figure(fake_market, in_folder, capsys):
    assert cli.main(["run", "--weeks", "2"]) == 0
    assert "MI300X" in capsys.readouterr().out
    (figure,) = Path("out").glob("*/figures/price_paths.png")
    assert figure.stat().st_size > 0


def test_failed_runs_end_with_code_three_and_a_line_that_says_where_to_look(neocloud, fake_market):
    simulate = runner.simulate

    def fails(scenario, seed):
        return simulate(scenario, seed) if seed == 1 else 1 / 0

    fake_market(fails)
    code, _, complaints = neocloud("run", *QUICK, "--out", "bad")
    assert code == 3
    assert complaints == "1 of 2 runs failed: see status and message in bad/runs.parquet\n"


def test_an_interrupt_ends_with_code_130_and_the_command_that_goes_on(neocloud, fake_market):
    def interrupted(scenario, seed):
        raise KeyboardInterrupt

    fake_market(interrupted)
    code, output, complaints = neocloud("run", *QUICK, "--set", "developer_cloud.cap_gpus=3", "--out", "a b")
    assert (code, output) == (130, "")
    assert complaints.strip().endswith(
        "To go on: neocloud run --seeds 2 --weeks 2 --workers 1 --set developer_cloud.cap_gpus=3 --out 'a b'"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["experiment", "developer-clod"], "nearest: developer-cloud"),
        (["experiment", "lepton-off"], "it is a scenario: neocloud run lepton-off"),
        (["tco", "mi300x"], "nearest: MI300X"),
        (["run", "baseline"], "unknown scenario 'baseline'; nearest: baseline-2025"),
        (["compare", "baseline-2025", "absent.toml"], "absent.toml: No such file"),
        (["experiment", "--set", "developer_cloud.cap_gpu=1"], "nearest: developer_cloud.cap_gpus"),
        (["experiment", "--set", "developer_cloud.cap_gpus=20000"], "developer_cloud.firm_gpus = 10000"),
        (["experiment", "--set", "developer_cloud.cap_gpus=nan"], "developer_cloud.cap_gpus = nan"),
        (["experiment", "--set", "developer_cloud.price_usd_per_gpu_hour=cheap"], "= 'cheap'; allowed: a number"),
        (["experiment", "--set", "data.fleets=absent.csv"], "absent.csv"),
        (["experiment", "--set", "data.hardware.H1000.capex_usd=1"], "H100"),
        (["experiment", "--seeds", "0"], "--seeds"),
        (["experiment", "--weeks", "0"], "--weeks"),
        (["experiment", "--workers", "0"], "--workers"),
        (["experiment", "--out", "/dev/null/x"], "cannot write to /dev/null/x"),
        (["experiment", "--format", "xml"], "--format"),
        (["experiment", "--sets", "x"], "--sets"),
        (["experimnt"], "did you mean 'experiment'?"),
        (["scenario", "lst"], "did you mean 'list'?"),
        (["compare", "baseline-2025"], "VARIANT"),
        (["scenario", "new", "a b"], "NAME = 'a b'; allowed: letters"),
        (["scenario", "new", "lepton-off"], "a built-in scenario has this name"),
        (["scenario", "new", "mine", "--extends", "lepton-of"], "nearest: lepton-off"),
        (["scenario", "new", "mine", "--out", "absent/mine.toml"], "cannot write absent/mine.toml"),
        (["scenario", "check", "baseline-2025+events.e.week=3"], "events.e.kind is missing"),
        (["data", "export", "tables", "lepton-of"], "nearest: lepton-off"),
        (["data", "export", "/dev/null/x"], "cannot write to /dev/null/x"),
        (["run", "--set", "events.e.kind=chip"], "events.e"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two_and_writes_nothing(neocloud, arguments, told):
    code, output, complaints = neocloud(*arguments)
    assert (code, output) == (2, "")
    assert told in complaints
    assert complaints.count("\n") == 1
    assert not list(Path.cwd().iterdir())


def test_a_folder_with_another_experiment_is_refused_and_left_as_it_is(neocloud):
    neocloud("run", *QUICK, "--out", "here")
    before = {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()}
    code, _, complaints = neocloud("experiment", *QUICK, "--out", "here")
    assert code == 2
    assert complaints.count("\n") == 1
    assert "here holds another experiment" in complaints
    assert {path: path.read_bytes() for path in Path("here").rglob("*") if path.is_file()} == before


def test_a_table_with_a_mistake_is_refused_with_file_and_line(neocloud):
    lines = (ROOT / "market" / "data" / "fleets.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("mine.csv").write_text(lines[0] + lines[1].replace("H100", "H1O0", 1).replace("A100", "A1O0", 1))
    code, _, complaints = neocloud("data", "check", "--set", "data.fleets=mine.csv")
    assert code == 2
    assert "mine.csv, line 2" in complaints
    assert complaints.count("\n") == 1


def test_scenarios_are_listed_shown_and_checked(neocloud):
    assert "[developer_cloud]" in neocloud("scenario", "show")[1]
    assert json.loads(neocloud("scenario", "show", "--set", "weeks=3", "--format", "json")[1])["weeks"] == 3
    assert neocloud("scenario", "check", "baseline-2025")[1].startswith("baseline-2025: ok")
    assert json.loads(neocloud("scenario", "schema")[1])["title"] == "Scenario"


def test_scenarios_are_listed_with_what_they_stand_for(neocloud):
    table = neocloud("scenario", "list")[1]
    rows = json.loads(neocloud("scenario", "list", "--format", "json")[1])
    assert {"baseline-2025", "lepton-off"} <= {row["name"] for row in rows}
    for row in rows:
        assert row["name"] in table
        assert row["description"].split()[0] in table
        assert row["source"]


def test_only_what_differs_is_shown_and_is_a_scenario_file(neocloud):
    Path("mine.toml").write_text(neocloud("scenario", "show", "recession", "--set", "weeks=9", "--changed")[1])
    text = Path("mine.toml").read_text()
    assert "[events.recession]" in text
    assert "[pricing]" not in text
    changed = json.loads(neocloud("scenario", "show", "mine.toml", "--changed", "--format", "json")[1])
    assert set(changed) == {
        "weeks",
        *(f"events.recession.{field}" for field in ("kind", "week", "size", "weeks", "segment")),
    }


def _uncommented(text: str) -> str:
    return "\n".join(line[1:] if re.match(r"#[a-z\[]", line) else line for line in text.splitlines())


@pytest.mark.parametrize("base", ["baseline-2025", "lepton-off", "baseline-2024"])
def test_a_new_scenario_checks_as_written_and_with_everything_in_it_switched_on(neocloud, base):
    assert neocloud("scenario", "new", "mine", "--extends", base)[0] == 0
    assert neocloud("scenario", "check", "mine.toml")[1].startswith("mine: ok")
    on = _uncommented(Path("mine.toml").read_text()).replace('fleets = "my_fleets.csv"', "")
    Path("all.toml").write_text(on)
    assert neocloud("scenario", "check", "all.toml")[0] == 0
    shown = json.loads(neocloud("scenario", "show", "all.toml", "--format", "json")[1])
    assert {shown[key] for key in shown if key.endswith(".kind")} == {
        "list-price",
        "chip",
        "demand",
        "tenant-leaves",
        "policy",
    }
    before = json.loads(neocloud("scenario", "show", base, "--format", "json")[1])
    assert {key: shown[key] for key in ("leaseback.share", "lepton.mode")} == {
        key: before[key] for key in ("leaseback.share", "lepton.mode")
    }


def test_a_new_scenario_may_extend_a_file_and_stand_elsewhere(neocloud):
    neocloud("scenario", "new", "one")
    Path("sub").mkdir()
    assert neocloud("scenario", "new", "two", "--extends", "one.toml", "--out", "sub/two.toml")[0] == 0
    assert neocloud("scenario", "check", "sub/two.toml")[0] == 0


def test_a_new_scenario_overwrites_nothing(neocloud):
    Path("mine.toml").write_text("mine")
    code, output, complaints = neocloud("scenario", "new", "mine")
    assert (code, output) == (2, "")
    assert "mine.toml exists" in complaints
    assert Path("mine.toml").read_text() == "mine"


def test_tables_are_exported_and_printed_as_they_come_back(neocloud):
    code, printed, _ = neocloud("data", "export", "tables", "baseline-2024")
    assert code == 0
    Path("mine.toml").write_text('extends = "baseline-2025"\n' + printed)
    there, back = (neocloud("data", "check", scenario)[1] for scenario in ("baseline-2024", "mine.toml"))
    assert there == back
    assert neocloud("data", "export", "tables")[0] == 2


def test_a_shown_scenario_is_a_scenario_file(neocloud):
    Path("mine.toml").write_text(neocloud("scenario", "show", "--set", "developer_cloud.cap_gpus=3")[1])
    assert 'developer_cloud.cap_gpus": 3.0' in neocloud("scenario", "show", "mine.toml", "--format", "json")[1]


def test_experiments_are_listed_with_their_questions(neocloud):
    code, printed, _ = neocloud("experiment", "--list", "--format", "json")
    assert code == 0
    assert {row["name"]: row["question"] for row in json.loads(printed)} == {
        name: Design.load(name).question for name in design_names()
    }
    assert "price-convergence" in neocloud("experiment", "--list")[1]


def test_a_file_that_is_named_without_its_ending_is_pointed_out(neocloud):
    Path("mine.toml").write_text('extends = "baseline-2025"')
    for command in ("run", "experiment"):
        code, _, complaints = neocloud(command, "mine")
        assert code == 2
        assert "mine.toml is a file: give its whole name" in complaints


def test_results_are_found_where_experiments_put_them(neocloud):
    assert neocloud("experiment", *QUICK)[0] == 0
    (folder,) = map(str, Path("out").iterdir())
    for asked in ("developer-cloud", "out"):
        code, _, complaints = neocloud("report", asked)
        assert code == 2
        assert folder in complaints


def test_tables_are_listed_and_checked(neocloud):
    names = [row["name"] for row in json.loads(neocloud("data", "list", "--format", "json")[1])]
    assert {"hardware", "sellers", "fleets", "deliveries", "segments", "parameters"} <= set(names)
    assert neocloud("data", "list", "--format", "csv")[1].startswith("name,")
    assert "fleets" in neocloud("data", "list")[1]
    assert neocloud("data", "check")[1].startswith("tables: ok")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["experiment", "--help"], ["scenario", "new", "--help"], ["data", "export", "--help"]],
)
def test_help_and_version_import_nothing_heavy(arguments, tmp_path):
    script = f"""
import sys
from experiments.cli import main
code = main({arguments!r})
heavy = "mesa numba polars matplotlib numpy scipy pydantic rich networkx loky jinja2".split()
print("loaded:", [name for name in heavy if name in sys.modules])
sys.exit(code)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_the_module_is_the_command(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "experiments", "scenario", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert "baseline-2025" in done.stdout


def test_a_package_of_somebody_else_with_the_name_of_ours_is_named(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", "import experiments"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert f"'agents' was found in {tmp_path}" in done.stderr
