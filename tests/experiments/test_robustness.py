"""Whatever ends a sweep, the same call again ends it well: killed, out of space, out of time, held by another."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import polars as pl
import pytest

from experiments import cli, compare, sweep
from experiments.api import Results
from experiments.engine import executors, runner
from experiments.engine.deadline import DeadlineError, deadline
from experiments.engine.errors import ScenarioError, StoppedError, StoreError
from experiments.engine.store import Store
from experiments.measure import stats
from tests.experiments import scripted

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.filterwarnings("ignore:A worker stopped while some jobs:UserWarning")

CAP = "developer_cloud.cap_gpus"
TABLES = ("runs", "outcomes", "market_week", "desk_week", "trend_week", "flow_total")


def contents(out: Path) -> dict[str, bytes]:
    found = {name: (out / f"{name}.parquet").read_bytes() for name in TABLES}
    return found | {name: (out / name).read_bytes() for name in ("summary.csv", "effects.csv")}


@pytest.fixture
def quick(fake_market, no_figures, in_folder):
    """A quick sweep: three arms of two seeds."""
    return {"grid": {CAP: [0, 100, 200]}, "seeds": 2, "weeks": 2, "workers": 1}


# ------------------------------------------------------------------------------------------------ killed


def killed_and_continued(folder: Path, runs: int, kills: int) -> None:
    """A sweep killed at random moments and continued each time has the bytes of one that was left alone."""
    caps = ",".join(str(number) for number in range(runs // 10))
    script = f"sweep(grid=['{CAP}={caps}'], seeds=10, weeks=2, workers=1, out=sys.argv[0] and {{out!r}})"
    scripted.finish(script.format(out="whole"), folder)
    moments = sorted(random.Random(runs).sample(range(1, runs), kills))
    for moment in moments:
        process = scripted.start(script.format(out="cut"), folder)
        while process.poll() is None and len(list(folder.glob("cut/parts/[!.]*"))) < moment:
            time.sleep(0.001)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    scripted.finish(script.format(out="cut"), folder)
    assert contents(folder / "cut") == contents(folder / "whole")


def test_a_sweep_killed_at_random_moments_ends_in_the_same_bytes(tmp_path):
    killed_and_continued(tmp_path, runs=40, kills=3)


@pytest.mark.soak
def test_two_hundred_runs_killed_at_ten_random_moments_end_in_the_same_bytes(tmp_path):
    killed_and_continued(tmp_path, runs=200, kills=10)


class CrashError(BaseException):
    """The process ends here."""


@contextmanager
def crash_at(step: int, monkeypatch: pytest.MonkeyPatch):
    """The process ends at its n-th change of the disk: before it, or with half of it done."""
    left = [step]

    def dangerous(change):
        def changed(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                raise CrashError
            return change(*arguments, **options)

        return changed

    with monkeypatch.context() as patch:
        for place, name in (
            (os, "replace"),
            (pl.DataFrame, "write_parquet"),
            (pl.LazyFrame, "sink_parquet"),
            (Path, "write_text"),
            (Path, "mkdir"),
        ):
            patch.setattr(place, name, dangerous(getattr(place, name)))
        yield


def test_a_crash_at_any_change_of_the_disk_is_made_good_by_the_same_call(quick, monkeypatch):
    small = {**quick, "grid": {CAP: [0, 100]}, "seeds": 1}
    whole, crashes = sweep(out="whole", **small), 0
    for tried, step in enumerate(range(1, 1000, 3)):
        if crashes < tried:  # the last time it came through
            break
        out = Path(f"cut{step}")
        with crash_at(step, monkeypatch):
            try:
                sweep(out=out, **small)
            except CrashError:
                crashes += 1
        assert contents(sweep(out=out, **small).out) == contents(whole.out)
        assert not [path for path in out.rglob("*") if path.name.startswith((".tmp", ".lock"))]
    assert crashes > 8


# ------------------------------------------------------------------------------------------------ executors


def test_one_two_and_four_workers_make_the_same_bytes(quick):
    made = [contents(sweep(out=f"{workers}", **{**quick, "workers": workers}).out) for workers in (1, 2, 4)]
    assert made[0] == made[1] == made[2]


# ------------------------------------------------------------------------------------------------ runs gone wrong


def gone_wrong(simulate):
    """Arms that raise, never end, and kill their worker; all others are as they were."""

    def faulty(scenario, seed):
        cap = scenario.developer_cloud.cap_gpus
        if cap == 1:
            raise ValueError("no seller\nleft")
        if cap == 2:
            while True:
                time.sleep(0.01)
        if cap == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(scenario, seed)

    return faulty


def test_four_arms_go_wrong_in_four_ways_and_all_other_rows_are_there(quick, fake_market):
    whole = sweep(**{**quick, "grid": {CAP: [0, 5]}, "out": "whole"})
    fake_market(gone_wrong(runner.simulate))
    told = []
    options = {**quick, "grid": {CAP: [0, 1, 2, 3, 20_000, 5]}, "seeds": 1, "workers": 2, "timeout": 1.0}
    results = sweep(out="bad", notice=told.append, **options)
    assert results.runs["status"].to_list() == ["ok", "failed", "timeout", "died", "invalid", "ok"]
    assert results.runs["message"].to_list()[1:3] == ["ValueError: no seller left", "not done after 1 s"]
    assert results.failed == 4
    assert results.runs[CAP].to_list() == [0, 1, 2, 3, 20_000, 5]
    assert any("cap_gpus=3, seed 1" in line for line in told)
    kept = whole.outcomes.filter(pl.col("run").is_in(whole.runs.filter(seed=1)["id"].to_list()))
    assert results.outcomes.drop("run").equals(kept.drop("run"))


def test_what_failed_is_run_again_only_when_that_is_asked_for(quick, fake_market):
    good, tried = runner.simulate, []

    def fails(scenario, seed):
        tried.append(seed)
        return good(scenario, seed) if seed == 1 else 1 / 0

    fake_market(fails)
    assert sweep(out="a", **quick).failed == 3
    fake_market(lambda scenario, seed: tried.append(seed) or good(scenario, seed))
    assert sweep(out="a", **quick).failed == 3
    assert len(tried) == 6
    again = sweep(out="a", retry_failed=True, **quick)
    assert (again.failed, tried[6:]) == (0, [2, 2, 2])
    fake_market(good)
    assert contents(again.out) == contents(sweep(out="b", **quick).out)


def test_fail_fast_stops_at_the_first_bad_run_and_what_is_done_is_kept(quick, fake_market):
    good = runner.simulate
    fake_market(lambda scenario, seed: good(scenario, seed) if scenario.developer_cloud.cap_gpus != 100 else 1 / 0)
    with pytest.raises(StoppedError, match=r"arm cap_gpus=100, seed 1: failed: ZeroDivisionError.*3 runs not done"):
        sweep(out="a", fail_fast=True, **quick)
    assert len(list(Path("a/parts").iterdir())) == 3
    with pytest.raises(StoppedError):
        sweep(out="a", fail_fast=True, **quick)
    fake_market(good)
    assert sweep(out="a", fail_fast=True, retry_failed=True, **quick).failed == 0


def test_what_cannot_be_sent_to_another_process_is_refused_before_anything_starts(quick, fake_market):
    lock, good = threading.Lock(), runner.simulate
    fake_market(lambda scenario, seed: good(scenario, seed) if lock else None)
    with pytest.raises(ScenarioError, match=r"what is run cannot be sent to another process .*allowed: .*workers = 1"):
        sweep(out="a", **{**quick, "workers": 2})
    assert not list(Path("a/parts").iterdir())
    assert sweep(out="a", **quick).failed == 0


@pytest.mark.soak
def test_a_run_that_holds_its_worker_and_hears_nothing_is_given_up(quick, fake_market, monkeypatch):
    monkeypatch.setattr(executors, "_GRACE_SECONDS", 6.0)
    good = runner.simulate

    def deaf(scenario, seed):
        if scenario.developer_cloud.cap_gpus == 100:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(600)
        return good(scenario, seed)

    fake_market(deaf)
    told = []
    results = sweep(out="a", notice=told.append, **{**quick, "seeds": 1, "workers": 2, "timeout": 0.5})
    assert results.runs["status"].to_list() == ["ok", "timeout", "ok"]
    assert told[-1] == "arm cap_gpus=100, seed 1: its worker did not come back; given up."


def never_ending(seconds: float) -> str:
    try:
        with deadline(seconds):
            while True:
                time.sleep(0.001)
    except DeadlineError:
        return "interrupted"


def test_a_deadline_interrupts_in_the_main_thread_and_in_others_and_leaves_nothing_behind():
    assert never_ending(0.05) == "interrupted"
    said = []
    thread = threading.Thread(target=lambda: said.append(never_ending(0.05)))
    thread.start()
    thread.join()
    assert said == ["interrupted"]
    with deadline(60.0), deadline(None):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


# ------------------------------------------------------------------------------------------------ two starts

HELD = f"""
def slow(scenario, seed):
    print("running", flush=True)
    sys.stdin.readline()
    return conftest.fake_simulate(scenario, seed)
runner.simulate = slow
sweep(grid=["{CAP}=0"], seeds=2, weeks=2, workers=1, out="held", command="neocloud sweep --mine")
"""


@pytest.fixture
def holder(in_folder):
    """A process that holds the folder ``held``, one run of two done and one in hand."""
    process = subprocess.Popen(
        [sys.executable, "-c", scripted.FAKE_MARKET + HELD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=scripted.environment(),
    )
    for answer in ("\n", ""):
        assert process.stdout.readline() == "running\n"
        process.stdin.write(answer)
        process.stdin.flush()
    yield process
    process.kill()
    process.communicate()


def test_a_second_start_is_refused_and_told_who_holds_the_folder(quick, holder):
    same = {**quick, "grid": [f"{CAP}=0"], "out": "held"}
    with pytest.raises(ScenarioError) as caught:
        sweep(**same)
    process = holder
    process.kill()
    process.communicate()
    assert f"held is in use by process {process.pid} on {os.uname().nodename} since 2" in str(caught.value)
    assert "(neocloud sweep --mine)" in str(caught.value)
    told = []
    assert sweep(notice=told.append, **same).failed == 0
    assert f"held: its last owner has ended without tidying up (process {process.pid}" in told[0]


def test_a_folder_in_use_is_read_but_not_written_by_a_report(fake_market, no_figures, holder, capsys):
    before = sorted(Path("held").rglob("*"))
    assert cli.main(["report", "held"]) == 2
    assert f"Error: held is in use by process {holder.pid}" in capsys.readouterr().err
    assert sorted(Path("held").rglob("*")) == before
    assert Results.open("held").runs["seed"].to_list() == [1]
    holder.kill()
    holder.communicate()
    assert cli.main(["report", "held"]) == 3
    complaints = capsys.readouterr().err
    assert "its last owner has ended without tidying up" in complaints
    assert "1 of 2 runs are done" in complaints
    assert Path("held/summary.csv").exists()
    assert not Path("held/.lock").exists()


def test_another_sweep_in_the_same_folder_is_refused_with_the_keys_that_differ(quick):
    sweep(out="a", **quick)
    before = contents(Path("a"))
    with pytest.raises(ScenarioError, match=r"another experiment \(.*lepton\.take_rate: 0\.1 -> 0\.2"):
        sweep(out="a", set={"lepton.take_rate": 0.2}, **quick)
    with pytest.raises(ScenarioError, match=r"cap_gpus=300\.\S+: absent -> "):
        sweep(out="a", **{**quick, "grid": {CAP: [0, 100, 200, 300]}})
    assert contents(Path("a")) == before


# ------------------------------------------------------------------------------------------------ no room, no rights


@contextmanager
def mounted(folder: Path, options: str):
    """A small file system of its own at a folder; skipped where this user may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_on_a_full_file_system_there_is_one_line_and_after_making_room_it_goes_on(quick, tmp_path):
    whole = sweep(out=tmp_path / "whole", **quick)
    with mounted(tmp_path / "disk", "size=1m"):
        filler = tmp_path / "disk" / "filler"
        out = tmp_path / "disk" / "out"
        for free in (4096, 40_960):
            filler.write_bytes(b"x" * ((1 << 20) - 8192 - free))
            with pytest.raises((StoreError, ScenarioError), match="No space left on device") as caught:
                sweep(out=out, **quick)
            assert "\n" not in str(caught.value)
            assert not [part for part in out.glob("parts/*") if not (part / "run.json").exists()]
            filler.unlink()
        assert contents(sweep(out=out, **quick).out) == contents(whole.out)


def test_a_read_only_folder_is_refused_in_one_line(quick, tmp_path):
    with mounted(tmp_path / "disk", "ro"), pytest.raises(ScenarioError, match="Read-only file system") as caught:
        sweep(out=tmp_path / "disk" / "out", **quick)
    assert str(caught.value).startswith("cannot write to")
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ memory

MEMORY = """
import resource
{report}
def peak(runs):
    sweep(grid=["developer_cloud.cap_gpus=0:%d:1" % (runs // 10 - 1)], seeds=10, weeks=2, workers=1, out=str(runs))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
few, many = peak({few}), peak({many})
print(many / few)
"""
WITH_REPORT = "report.write = with_figures"


@pytest.mark.parametrize(
    ("few", "many", "also"), [(20, 200, ""), pytest.param(50, 500, WITH_REPORT, marks=pytest.mark.soak)]
)
def test_ten_times_the_runs_take_hardly_more_memory(few, many, also, tmp_path):
    assert float(scripted.finish(MEMORY.format(few=few, many=many, report=also), tmp_path)) < 1.2


@pytest.mark.parametrize("compared", [False, True], ids=["sweep", "comparison"])
def test_statistics_figures_and_report_hold_no_table_of_all_runs(compared, fake_market, in_folder, monkeypatch):
    """What keeps memory flat: of what grows with the runs, one outcome or one figure is in hand at any time."""
    piece, seeds = 12, 10
    monkeypatch.setattr(stats, "_ROWS_AT_ONCE", piece)
    largest, whole = dict.fromkeys(("frame", "csv"), 0), {"runs"}

    def watched(function, kind):
        def call(*arguments, **options):
            found = function(*arguments, **options)
            frame = found if kind == "frame" else arguments[0]
            largest[kind] = max(largest[kind], frame.height)
            return found

        return call

    monkeypatch.setattr(pl.LazyFrame, "collect", watched(pl.LazyFrame.collect, "frame"))
    monkeypatch.setattr(pl.DataFrame, "write_csv", watched(pl.DataFrame.write_csv, "csv"))
    monkeypatch.setattr(Store, "read", lambda store, name, read=Store.read: whole.add(name) or read(store, name))
    base = {"seeds": seeds, "weeks": 2, "workers": 1}
    if compared:
        results = compare("baseline-2025", f"baseline-2025+{CAP}=0", **base)
    else:
        results = sweep(grid={CAP: range(5)}, **base)
    arms = len(results.plan.arms)
    rows = pl.scan_parquet(results.out / "outcomes.parquet").select(pl.len()).collect().item()
    assert rows == 3 * seeds * arms
    assert whole == {"runs"}
    assert not {"summary", "effects", "outcomes", "trend_week", "flow_total"} & set(vars(results))
    weekly_rows = 3 * 2 * seeds * arms  # of one figure: two prices by week
    assert largest["frame"] <= (weekly_rows if compared else seeds * arms)  # or an outcome of every run
    assert largest["csv"] <= 3 * arms
