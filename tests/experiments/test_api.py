import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import sem, t

from experiments import Results, Scenario, ScenarioError, compare, experiment, report, run
from experiments.api import default_out
from experiments.design import Design
from experiments.engine import runner
from experiments.engine.errors import StoreError

TABLES = (
    *(f"{name}.parquet" for name in ("runs", "outcomes", "market_week", "desk_week", "trend_week", "flow_total")),
    *("summary.csv", "effects.csv"),
)
FIGURES = tuple(
    f"figures/{name}.{kind}" for name in ("price_paths", "price_fans", "money_flow") for kind in ("png", "svg")
)


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in TABLES}


@pytest.fixture
def quick(fake_market, no_figures, in_folder):
    """Settings of a quick experiment in a folder of its own."""
    return {"seeds": 3, "weeks": 2, "workers": 1}


def test_the_same_command_twice_and_one_and_two_workers_make_the_same_bytes(quick):
    first, again = (experiment(out=name, **quick) for name in ("a", "b"))
    two = experiment(out="c", **{**quick, "workers": 2})
    assert contents(first.out) == contents(again.out) == contents(two.out)


def test_the_same_command_twice_draws_the_same_figures(fake_market, in_folder):
    first, again = (run(weeks=2, workers=1, out=name).out for name in ("a", "b"))
    assert {name: (first / name).read_bytes() for name in FIGURES} == {
        name: (again / name).read_bytes() for name in FIGURES
    }


def test_a_complete_folder_is_read_and_nothing_is_run(quick, fake_market):
    before = contents(experiment(**quick).out)
    fake_market(lambda scenario, seed: pytest.fail("ran again"))
    assert contents(experiment(**quick).out) == before


def test_runs_finished_before_an_interruption_are_not_run_again(quick, fake_market):
    whole = experiment(out="whole", **quick)
    simulate, seeds = runner.simulate, []

    def interrupted(scenario, seed):
        if len(seeds) == 5:
            raise KeyboardInterrupt
        seeds.append(seed)
        return simulate(scenario, seed)

    fake_market(interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiment(out="cut", **quick)
    assert len(list(Path("cut/parts").iterdir())) == 5
    fake_market(lambda scenario, seed: seeds.append(seed) or simulate(scenario, seed))
    again = experiment(out="cut", **quick)
    assert len(seeds) == len(whole.plan.runs())
    assert contents(again.out) == contents(whole.out)


def test_a_damaged_part_is_run_again_and_the_tables_come_out_the_same(quick, fake_market):
    whole = experiment(out="whole", **quick)
    simulate, done = runner.simulate, []

    def interrupted(scenario, seed):
        done.append(seed)
        if len(done) == 4:
            raise KeyboardInterrupt
        return simulate(scenario, seed)

    fake_market(interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiment(out="cut", **quick)
    victim = next(Path("cut/parts").glob("*/outcomes.parquet"))
    victim.write_bytes(victim.read_bytes()[:100])
    fake_market(simulate)
    assert contents(experiment(out="cut", **quick).out) == contents(whole.out)


def test_a_failed_run_is_a_row_with_its_reason_and_the_others_count(quick, fake_market):
    simulate = runner.simulate

    def fails_sometimes(scenario, seed):
        if seed == 2 and scenario.developer_cloud.cap_gpus == 0:
            raise ValueError("no seller\nleft")
        return simulate(scenario, seed)

    fake_market(fails_sometimes)
    results = experiment(**quick)
    bad = results.runs.filter(pl.col("status") != "ok")
    assert bad.select("arm", "seed", "status", "message").rows() == [
        ("none", 2, "failed", "ValueError: no seller left")
    ]
    assert results.failed == 1
    pairs = results.effects.filter(pl.col("contrast") == "quantity effect", pl.col("metric") == "price_mean")["pairs"]
    assert pairs.to_list() == [2, 2]
    assert experiment(**quick).failed == 1


def test_one_run_has_a_summary_without_intervals_and_no_effects(quick):
    results = run(weeks=2, workers=1)
    assert results.summary.filter(pl.col("metric") == "price_mean")["low"].null_count() == 2
    assert results.effects.height == 0


def test_every_interval_is_the_t_interval_of_the_stored_outcomes(quick):
    results = experiment(**{**quick, "seeds": 5})
    values = pl.read_parquet(results.out / "outcomes.parquet")
    runs = pl.read_parquet(results.out / "runs.parquet").select("id", "arm", "seed")
    table = runs.join(values, left_on="id", right_on="run").filter(pl.col("metric") == "price_mean")
    by_arm = {key: group.sort("seed")["value"].to_numpy() for key, group in table.group_by("arm", "sku")}
    summary = pl.read_csv(results.out / "summary.csv").filter(pl.col("metric") == "price_mean")
    for row in summary.iter_rows(named=True):
        known = by_arm[row["arm"], row["sku"]]
        low, high = t.interval(0.95, len(known) - 1, known.mean(), sem(known))
        assert (row["low"], row["high"]) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    effects = pl.read_csv(results.out / "effects.csv").filter(pl.col("metric") == "price_mean")
    assert effects.height == 2 * len(results.plan.contrasts)
    for row in effects.iter_rows(named=True):
        known = by_arm[row["arm"], row["sku"]] - by_arm[row["base"], row["sku"]]
        low, high = known.mean() + sem(known) * t.ppf([0.025, 0.975], len(known) - 1)
        assert (row["low"], row["high"]) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))


def test_an_undefined_outcome_is_null_with_a_reason(quick):
    summary = run(weeks=2, workers=1).summary.filter(pl.col("metric") == "half_life")
    assert summary.select("mean", "reason").rows() == [(None, "prices do not return")]


def test_an_opened_folder_holds_the_same_as_its_experiment(quick):
    results = experiment(set={"developer_cloud.cap_gpus": 300}, **quick)
    opened = Results.open(results.out)
    assert opened.plan.digest() == results.plan.digest()
    assert [screen.metrics for screen in opened.plan.screens] == [screen.metrics for screen in results.plan.screens]
    assert opened.summary.equals(results.summary)
    assert opened.effects.equals(results.effects)
    assert (opened.failed, opened.missing, opened.go_on()) == (0, 0, "")


def test_a_report_can_be_made_whichever_tables_are_kept(fake_market, in_folder):
    results = run(weeks=2, workers=1, tables=["market_week"], out="here")
    assert Path("here/report.html").is_file()
    assert not Path("here/desk_week.parquet").exists()
    assert report(results.out).trend_week.height > 0


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"tables": {}}'])
def test_a_manifest_that_is_none_makes_no_folder_complete(quick, text):
    results = run(weeks=2, workers=1, out="here")
    Path("here/manifest.json").write_text(text)
    assert not results.store.complete()


def test_an_unfinished_folder_opens_with_what_is_done_and_stays_as_it_is(quick, fake_market):
    whole = experiment(out="whole", **quick)
    simulate, seeds = runner.simulate, []

    def interrupted(scenario, seed):
        if len(seeds) == 7:
            raise KeyboardInterrupt
        seeds.append(seed)
        return simulate(scenario, seed)

    fake_market(interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiment(out="cut", command="neocloud experiment --out cut", **quick)
    before = {path: path.read_bytes() for path in Path("cut").rglob("*") if path.is_file()}
    opened = Results.open("cut")
    assert opened.missing == len(whole.plan.runs()) - 7
    assert opened.go_on() == "7 of 15 runs are done; to go on: neocloud experiment --out cut"
    assert set(opened.outcomes["run"]) == set(opened.runs["id"]) <= set(whole.runs["id"])
    assert set(opened.effects["contrast"]) == {
        "price effect",
        "quantity effect",
        "total",
    }  # arms with the anchor off wait
    assert {path: path.read_bytes() for path in Path("cut").rglob("*") if path.is_file()} == before
    fake_market(simulate)
    report("cut")
    assert contents(experiment(out="cut", **quick).out) == contents(whole.out)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: None, "no such folder"),
        (lambda: Path("there").touch(), "it is a file"),
        (lambda: Path("there").mkdir(), "not a folder of results: it has no design.toml"),
    ],
)
def test_a_folder_that_holds_no_results_is_refused_in_one_line(in_folder, make, told):
    make()
    with pytest.raises(ScenarioError, match=told) as caught:
        Results.open("there")
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_misspelt_is_told_its_nearest(quick):
    run(weeks=2, workers=1, out="results")
    with pytest.raises(ScenarioError, match="no such folder; nearest: results"):
        Results.open("result")


def test_a_folder_without_a_finished_run_is_refused(quick, fake_market):
    def interrupted(scenario, seed):
        raise KeyboardInterrupt

    fake_market(interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(weeks=2, workers=1, out="cut", command="neocloud run --out cut")
    with pytest.raises(ScenarioError, match="no run is finished; to go on: neocloud run --out cut"):
        Results.open("cut")


def test_comparing_measures_variant_minus_base_seed_by_seed(quick):
    base = Scenario.load()
    results = compare(base, base.set("developer_cloud.cap_gpus", 0.0), **quick)
    effects = results.effects.filter(pl.col("metric") == "price_mean")
    assert effects["difference"].to_list() == pytest.approx([0.01, 0.01])
    assert effects["arm"].unique().to_list() == ["developer_cloud.cap_gpus=0.0"]


def test_a_scenario_compared_with_itself_differs_by_nothing(quick):
    results = compare("baseline-2025", "baseline-2025", **quick)
    assert results.runs.height == 2 * quick["seeds"]
    assert results.effects["difference"].drop_nulls().unique().to_list() == [0.0]


def test_a_built_in_experiment_has_a_folder_of_its_name_and_a_changed_one_its_own(quick):
    design = Design.load()
    assert default_out(design.plan(), usual=True) == Path("out/developer-cloud")
    changed = experiment(**quick).out
    assert changed.parent == Path("out")
    assert changed.name.startswith("developer-cloud-")


def test_what_is_stored_suffices_to_run_it_again(quick):
    results = experiment(set={"developer_cloud.cap_gpus": 300}, **quick)
    assert Scenario.load(results.out / "scenario.toml").digest() == results.plan.base.digest()


def test_a_full_disk_stops_with_one_line_and_keeps_what_is_finished(quick, monkeypatch):
    write, written = pl.DataFrame.write_parquet, []

    def full(frame, path, **options):
        if len(written) == 12:  # in the third part: five tables each
            raise OSError(28, "No space left on device")
        written.append(path)
        return write(frame, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(StoreError, match="No space left on device"):
            experiment(out="full", **quick)
    assert len(list(Path("full/parts").iterdir())) == 2
    assert experiment(out="full", **quick).failed == 0


INTERRUPTED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import conftest
from experiments.engine import runner
from experiments.measure import outcomes, weekly
from experiments import cli

def deadly(scenario, seed, parent=os.getpid()):
    if seed == 4:
        os.kill(parent, signal.{name})
        signal.pause()
    return conftest.fake_simulate(scenario, seed)

import cloudpickle
cloudpickle.register_pickle_by_value(conftest)
runner.simulate, outcomes.outcomes, weekly.derived = deadly, conftest.fake_outcomes, conftest.fake_derived
sys.exit(cli.main(["run", "--seeds", "6", "--weeks", "2", "--workers", "2", "--out", "cut"]))
"""


@pytest.fixture
def killed(in_folder):
    """Starts a run of six seeds with two workers, one of which sends a signal to their parent at the fourth seed."""

    def start(name: str) -> subprocess.CompletedProcess[str]:
        script = INTERRUPTED.format(tests=str(Path(__file__).parent), name=name)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(  # returns once every process that holds the pipes is gone
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, env=environment
        )

    return start


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_leaves_no_process_and_tells_how_to_go_on(killed, name):
    done = killed(name)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    command = "neocloud run --seeds 6 --weeks 2 --workers 2 --out cut"
    assert done.stderr.strip().splitlines()[-1].endswith(f"To go on: {command}")
    assert list(Path("cut/parts").glob("*/run.json"))


def test_workers_end_with_a_killed_parent_and_the_same_command_goes_on(killed, fake_market):
    assert killed("SIGKILL").returncode == -signal.SIGKILL
    again, whole = (run(seeds=6, weeks=2, workers=1, out=name) for name in ("cut", "whole"))
    assert contents(again.out) == contents(whole.out)


# ------------------------------------------------------------------------------------------------ several variants


def test_several_scenarios_are_each_compared_with_the_first(quick):
    base = Scenario.load()
    caps = [base.with_({"developer_cloud.cap_gpus": cap, "name": f"cap {cap}"}) for cap in (0, 500)]
    results = compare(base, *caps, **quick)
    assert [arm.name for arm in results.plan.arms] == ["baseline-2025", "cap 0", "cap 500"]
    assert [(c.name, c.arm, c.base) for c in results.plan.contrasts] == [
        ("cap 0", "cap 0", "baseline-2025"),
        ("cap 500", "cap 500", "baseline-2025"),
    ]
    one = compare(base, caps[0], **quick)
    keys = ["metric", "sku", "difference", "low", "high"]
    several = results.effects.filter(pl.col("contrast") == "cap 0").select(keys)
    assert several.equals(one.effects.filter(pl.col("contrast") == "effect").select(keys))


def test_scenarios_of_one_name_cannot_be_told_apart(quick):
    base = Scenario.load()
    with pytest.raises(ScenarioError, match=r"two scenarios are called 'mine'; .*mine\+name="):
        compare(base, *(base.with_({"developer_cloud.cap_gpus": cap, "name": "mine"}) for cap in (0, 500)), **quick)
    with pytest.raises(ScenarioError, match="nothing to compare with"):
        compare(base, **quick)
