"""``neocloud sweep``, ``results`` and ``until`` on the command line; programs of a user's own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.contour import ContourSet

from experiments import cli, sweep
from experiments.api import Results
from experiments.engine import runner
from experiments.show import response
from experiments.until import precise
from tests.experiments import scripted

CAP = "developer_cloud.cap_gpus"
QUICK = ["--seeds", "3", "--weeks", "2", "--workers", "1", "--set", "tenants.rows=60"]


def test_a_sweep_prints_an_arm_a_row_and_counts_its_comparisons(neocloud):
    code, output, complaints = neocloud("sweep", "--grid", f"{CAP}=0,1000,2000", *QUICK, "--out", "here")
    assert (code, complaints) == (0, "")
    assert "3 arms, 9 runs; weeks 1-2" in output
    assert "cap_gpus=2000" in output
    assert "4 comparisons with the first arm: about 0.2 of their 95 % intervals leave out a true zero" in output
    assert pl.read_csv("here/response.csv")[CAP].to_list() == [0.0, 1000.0, 2000.0] * 2


def test_a_dry_run_says_runs_time_and_disk_and_writes_nothing(neocloud):
    code, output, _ = neocloud("sweep", "--grid", f"{CAP}=0,1000,20000", *QUICK, "--dry-run")
    assert code == 0
    assert output.startswith("3 arms, 1 of them impossible: 6 runs, 12 weeks in all\none run of 2 weeks, timed here: ")
    assert " s with 1 workers, " in output
    assert not list(Path.cwd().iterdir())


def test_a_sample_needs_no_scenario_before_its_ranges(neocloud):
    arguments = ["--sample", "lhs:6", "lepton.take_rate", f"{CAP}=0:1000", *QUICK]
    code, output, _ = neocloud("sweep", *arguments)
    assert code == 0
    assert "6 arms, 18 runs" in output


def test_an_impossible_arm_is_code_three_and_the_others_are_there(neocloud):
    code, _, complaints = neocloud("sweep", "--grid", f"{CAP}=0,20000", *QUICK, "--out", "bad")
    assert code == 3
    assert complaints == "3 of 6 runs failed: see status and message in bad/runs.parquet\n"
    assert neocloud("report", "bad")[0] == 3


def test_fail_fast_is_code_three_with_the_command_that_goes_on(neocloud, fake_market):
    fake_market(lambda scenario, seed: 1 / 0)
    code, output, complaints = neocloud("sweep", "--grid", f"{CAP}=0,1", *QUICK, "--fail-fast", "--out", "here")
    assert (code, output) == (3, "")
    assert "arm cap_gpus=0, seed 1: failed: ZeroDivisionError" in complaints
    assert complaints.strip().endswith("--fail-fast --out here --retry-failed")


@pytest.fixture
def swept(neocloud):
    neocloud("sweep", "--grid", f"{CAP}=0,1000", *QUICK, "--out", "here")
    return neocloud


def test_results_say_what_is_there(swept):
    code, output, _ = swept("results", "here")
    assert code == 0
    assert output.startswith("baseline-2025-sweep in here: 6 of 6 runs done (6 ok)\n")
    assert "outcomes: 18 rows: run, metric, vendor" in output
    assert json.loads(swept("results", "here", "--format", "json")[1])["arms"] == ["cap_gpus=0", "cap_gpus=1000"]
    assert swept("results", "here", "--format", "csv")[1].startswith("table,rows,columns\n")


def test_results_of_an_unfinished_sweep_say_how_much_of_it_is_done(neocloud, fake_market):
    good, done = runner.simulate, []

    def interrupted(scenario, seed):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(seed)
        return good(scenario, seed)

    fake_market(interrupted)
    assert neocloud("sweep", "--grid", f"{CAP}=0,1000", *QUICK, "--out", "cut")[0] == 130
    assert neocloud("results", "cut")[1].startswith("baseline-2025-sweep in cut: 4 of 6 runs done (4 ok)\n")
    answer = neocloud("results", "cut", "--sql", "SELECT count(*) AS n FROM runs", "--format", "json")[1]
    assert json.loads(answer) == [{"n": 4}]


def test_sql_asks_the_tables(swept):
    query = (
        "SELECT arm, avg(value) AS price FROM outcomes JOIN runs ON outcomes.run = runs.id "
        "WHERE metric = 'price_mean' AND sku = 'H100' GROUP BY arm ORDER BY arm"
    )
    code, output, _ = swept("results", "here", "--sql", query, "--format", "json")
    assert code == 0
    low, high = json.loads(output)
    assert low["price"] - high["price"] == pytest.approx(0.01)
    assert swept("results", "here", "--sql", query, "--format", "csv")[1].startswith("arm,price\n")


def test_the_seeds_that_a_width_needs_are_fewer_for_a_paired_change(swept):
    wanted = "price_mean[H100]=0.001"
    first, second = json.loads(swept("results", "here", "--seeds-for", wanted, "--format", "json")[1])
    assert first["for the mean"] > 100
    assert second["for the change from cap_gpus=0"] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["results", "her"], "her: no such folder; nearest: here"),
        (["results", "."], "not a folder of results"),
        (["results", "here", "--sql", "SELECT x FROM runs"], "--sql: "),
        (["results", "here", "--sql", "SELECT * FROM run"], "tables: runs, outcomes"),
        (["results", "here", "--sql", "nonsense"], "--sql: "),
        (["results", "here", "--seeds-for", "price"], "allowed: OUTCOME=HALF_WIDTH"),
        (["results", "here", "--seeds-for", "price_mean[H10]=1"], "nearest: price_mean[H100]"),
        (["results", "here", "--seeds-for", "price_mean[H100]=0"], "not positive"),
        (["sweep"], "needs one of grid, sample and table; given: none"),
        (["sweep", "--grid", f"{CAP}=0", "--executor", "slurm"], "--executor"),
        (["sweep", "--grid", f"{CAP}=0", "--scheduler", "tcp://x:1"], "allowed with executor dask only"),
        (["until", "amd_hour=1"], "no such outcome; nearest: amd_hour_share"),
        (["until", "price_mean[H100]=-1"], "allowed: a half width above 0"),
        (["until", "price_mean[H100]=1", "--most", "8"], "allowed: 2 <= least <= most"),
    ],
)
def test_bad_input_is_one_line_and_code_two(swept, arguments, told):
    before = sorted(Path.cwd().rglob("*"))
    code, output, complaints = swept(*arguments)
    assert (code, output) == (2, "")
    assert told in complaints
    assert complaints.count("\n") == 1
    assert sorted(Path.cwd().rglob("*")) == before


# ------------------------------------------------------------------------------------------------ until


def test_seeds_are_added_until_the_interval_is_narrow_and_as_many_fresh_ones_follow(neocloud):
    arguments = ["until", "price_mean[H100]=0.03", "--seeds", "4", "--most", "40", *QUICK[2:], "--out", "u"]
    code, output, _ = neocloud(*arguments)
    assert code == 0
    found = json.loads(Path("u/precision.json").read_text())
    assert found["reached"]
    assert found["deciding"]["n"] == found["fresh"]["n"] > 4
    assert found["deciding"]["high"] - found["deciding"]["low"] <= 0.06
    assert "fresh seeds" in output
    folders = sorted(path.name for path in Path("u").iterdir() if path.is_dir())
    assert folders[0] == "fresh"
    assert folders[1] == "seeds-1-4"
    fresh = pl.read_parquet("u/fresh/runs.parquet")["seed"].to_list()
    assert min(fresh) == found["deciding"]["n"] + 1
    assert neocloud(*arguments)[1] == output


def test_a_paired_difference_stops_at_the_minimum(fake_market, no_figures, in_folder):
    found = precise(
        "price_mean[H100]", 0.001, "baseline-2025", f"baseline-2025+{CAP}=0", minimum=5, weeks=2, workers=1, maximum=9
    )
    assert (found.deciding.n, found.of) == (5, "effect")
    assert found.fresh.mean == pytest.approx(0.01)


# ------------------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize(
    ("grid", "panels"),
    [
        ({CAP: [0, 500, 1000]}, 2 * 2),
        ({CAP: [0, 500, 1000], "lepton.take_rate": [0.0, 0.1]}, 2 * 2 + 2),
        ({CAP: [0, 500], "lepton.take_rate": [0.0, 0.1], "leaseback.share": [0.0, 0.1]}, 2),
    ],
)
def test_the_figure_of_a_sweep_says_unit_seeds_weeks_and_level(grid, panels, fake_market, no_figures, in_folder):
    results = sweep(grid=grid, seeds=2, weeks=2, workers=1)
    assert response.applies(results)
    figure = response.figure(results, response.shown_metrics(results))
    figure.canvas.draw()
    assert len(figure.axes) == panels
    titles = [axis.get_title() for axis in figure.axes]
    assert "price_mean[H100], USD/GPU-h" in titles
    assert "Weeks 1-2; 2 seeds an arm." in figure.get_supxlabel()
    assert "95 % t intervals" in figure.get_supxlabel()


def test_the_report_of_a_sweep_has_its_response_and_a_row_an_arm(fake_market, in_folder):
    results = sweep(grid={CAP: [0, 500, 1000]}, seeds=2, weeks=2, workers=1)
    text = (results.out / "report.md").read_text(encoding="utf-8")
    assert "figures/response.svg" in text or "figures/response.png" in text
    assert "lowest" in text
    assert all(f"cap\\_gpus={cap}" in text or f"cap_gpus={cap}" in text for cap in (0, 500, 1000))


def test_a_grid_of_two_levers_is_a_map_with_contours(fake_market, no_figures, in_folder):
    results = sweep(grid={CAP: [0, 500, 1000], "lepton.take_rate": [0.0, 0.1]}, seeds=2, weeks=2, workers=1)
    figure = response.figure(results, ["price_mean[H100]"])
    (panel,) = [panel for panel in figure.axes if panel.images]
    assert panel.images[0].get_array().shape == (2, 3)
    contours = [drawn for drawn in panel.collections if isinstance(drawn, ContourSet)]
    assert [len(found.levels) > 1 for found in contours] == [True]


def test_an_outcome_too_skewed_for_a_t_interval_is_printed_with_one_that_fits(neocloud, fake_market):
    plain = runner.simulate

    def skewed(scenario, seed):
        tables = plain(scenario, seed)
        price = pl.lit(np.exp(2.0 * np.random.default_rng(seed).normal()))
        return tables | {"market_week": tables["market_week"].with_columns(list_mean_usd_per_gpu_hour=price)}

    arguments = ("run", "--seeds", "30", "--weeks", "2", "--workers", "1", "--out")
    sweeping = ("sweep", "--grid", f"{CAP}=0,1,2", "--own-seeds", *arguments[1:])
    assert "too skewed" not in neocloud(*sweeping, "even")[1]
    fake_market(skewed)
    said = " ".join(neocloud(*sweeping, "skewed")[1].split())
    assert "Warning: price_mean[H100] is too skewed for a t interval in 3 arms, first cap_gpus=0 (bootstrap-t" in said


DESIGN = f"""
question = "Which?"
seeds = 2
arms = [{{ name = "as it is" }}, {{ name = "small", set = {{ "{CAP}" = 5 }} }}]
contrasts = [{{ name = "mine", arm = "small", base = "as it is" }}]
"""
KINDS = {
    "list": ("experiment", "mine.toml"),
    "comparison": ("compare", "baseline-2025", f"baseline-2025+{CAP}=0"),
    "one scenario": ("run", "--seeds", "2"),
    "curve": ("sweep", "--grid", f"{CAP}=0:20:10"),
    "map": ("sweep", "--grid", f"{CAP}=0,10", "--grid", "lepton.take_rate=0,0.1"),
    "words": ("sweep", "--grid", "lepton.mode=off,pressed"),
    "words and numbers": ("sweep", "--grid", "lepton.mode=off,pressed", "--grid", f"{CAP}=0,10,20"),
    "two steps": ("sweep", "--grid", f"{CAP}=0,10"),
    "moved together": ("sweep", "--grid", f"{CAP},lepton.take_rate=0|0,10|0.1,20|0.2"),
    "left alone": ("sweep", "--grid", "data.hardware.MI355X.capex_usd=null,40000,50000"),
    "table": ("sweep", "--table", "points.csv"),
    "Latin hypercube": ("sweep", "--sample", "lhs:4", "lepton.take_rate", f"{CAP}=0:20"),
    "Sobol": ("sweep", "--sample", "sobol:4", "lepton.take_rate", f"{CAP}=0:20"),
    "Morris": ("sweep", "--sample", "morris:2", "lepton.take_rate", f"{CAP}=0:20"),
    "own seeds": ("sweep", "--grid", f"{CAP}=0:20:10", "--own-seeds"),
    "one seed": ("sweep", "--grid", f"{CAP}=0:20:10", "--seeds", "1"),
    "an impossible arm": ("sweep", "--grid", f"{CAP}=20000,0,10,20"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_design_has_a_report_with_answer_runs_and_figure(kind, fake_market, in_folder, capsys):
    Path("mine.toml").write_text(DESIGN, encoding="utf-8")
    Path("points.csv").write_text(f"arm,seeds,{CAP}\nfew,,0\nsome,3,10\nmany,,20\n", encoding="utf-8")
    given = KINDS[kind] if "--seeds" in KINDS[kind] or kind == "list" else (*KINDS[kind], "--seeds", "2")
    code = cli.main([*given, "--weeks", "2", "--workers", "1", "--out", "here"])
    assert code == (3 if kind == "an impossible arm" else 0), capsys.readouterr().err
    text = Path("here/report.md").read_text(encoding="utf-8")
    for heading in ("The answer", "What was run", "Tables", "Figures", "How to do it again"):
        assert f"## {heading}\n" in text
    assert list(Path("here/figures").glob("*.svg"))
    plan = Results.open("here").plan
    assert {arm.name for arm in plan.arms} <= set(pl.read_csv("here/summary.csv")["arm"]) | {"cap_gpus=20000"}


def test_a_screening_says_which_lever_matters_in_table_figure_and_report(fake_market, in_folder, capsys):
    asked = f"sweep --sample morris:3 lepton.take_rate=0:0.2 {CAP}=0:1000 --seeds 2 --weeks 2 --workers 1 --out here"
    assert cli.main(asked.split()) == 0
    output = capsys.readouterr().out
    assert f"price_mean[H100], USD/GPU-h moves most with {CAP} from " in " ".join(output.split())
    found = pl.read_csv("here/screening.csv").filter(metric="price_mean[H100]")
    highest = found.filter(key=CAP)["highest"].item() - found.filter(key=CAP)["lowest"].item()
    assert found.filter(key=CAP)["mean"].item() == pytest.approx(-1e-5 * highest, rel=1e-4)
    assert found["trajectories"].to_list() == [3, 3]
    text = Path("here/report.md").read_text(encoding="utf-8")
    assert "Elementary effects by outcome and lever" in text
    assert "From screening.csv and outcomes.parquet" in text.replace("\\", "")
    figure = response.figure(Results.open("here"), ["price_mean[H100]"])
    assert "2 seeds an arm" in figure.get_supxlabel()
    assert len(figure.axes) == 1


# ------------------------------------------------------------------------------------------------ programs

SIX_LINES = """import multiprocessing
multiprocessing.set_start_method("{method}", force=True)
from experiments import cli, sweep
results = sweep(grid={{"developer_cloud.cap_gpus": [0, 1000, 5000]}}, seeds=2, weeks=2, workers=2,
                set={{"tenants.rows": 60}})
print(results.effects["pairs"].max(), results.failed)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_six_lines_with_a_sweep_at_top_level_run_with_two_workers(method, in_folder):
    Path("mine.py").write_text(SIX_LINES.format(method=method), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "mine.py"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=scripted.environment(),
    )
    assert (done.returncode, done.stdout) == (0, "2 0\n"), done.stderr


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.soak)])
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_cell_runs_with_two_workers(method, in_folder, monkeypatch):
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from nbformat.v4 import new_code_cell, new_notebook

    monkeypatch.setenv("PYTHONPATH", scripted.environment()["PYTHONPATH"])
    notebook = new_notebook(cells=[new_code_cell(SIX_LINES.format(method=method))])
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    printed = [output.text for output in notebook.cells[0].outputs if output.get("name") == "stdout"]
    assert printed == ["2 0\n"]
