"""The Dask executor against a cluster of separate programs on this machine's loopback."""

import os
import signal
import sys
import time
from pathlib import Path

import cloudpickle
import pytest

pytest.importorskip("distributed", reason="dask[distributed] is not installed: pip install '.[cluster]'")

from experiments import sweep
from experiments.engine import cluster, runner
from experiments.engine.cluster import LocalCluster
from experiments.engine.errors import ScenarioError
from tests.experiments import scripted
from tests.experiments.test_robustness import CAP, contents, quick  # noqa: F401

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The client of a cluster leaves sockets and tasks to the end of the process.
pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def scheduler():
    """Address of a scheduler with two workers."""
    standing = LocalCluster(2)
    yield standing.address
    standing.stop()


@pytest.fixture
def on_cluster(scheduler, quick):  # noqa: F811
    return {**quick, "workers": 2, "executor": "dask", "scheduler": scheduler}


def test_a_cluster_makes_the_same_bytes_as_this_process(on_cluster, quick):  # noqa: F811
    here = sweep(out="here", **quick)
    assert contents(sweep(out="there", **on_cluster).out) == contents(here.out)


def test_a_cluster_reports_what_raises_what_never_ends_and_what_kills_its_worker(on_cluster, fake_market):
    good = runner.simulate

    def faulty(scenario, seed):
        cap = scenario.developer_cloud.cap_gpus
        if cap == 1:
            raise ValueError("no seller left")
        if cap == 2:
            while True:
                time.sleep(0.01)
        if cap == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return good(scenario, seed)

    fake_market(faulty)
    told = []
    grid = {CAP: [0, 1, 2, 3, 5]}
    results = sweep(out="bad", notice=told.append, **{**on_cluster, "grid": grid, "seeds": 1, "timeout": 1.0})
    assert results.runs["status"].to_list() == ["ok", "failed", "timeout", "died", "ok"]
    assert told


def test_another_version_of_the_program_is_refused(on_cluster, monkeypatch):
    monkeypatch.setattr(cluster, "sources_digest", lambda: "another")
    with pytest.raises(ScenarioError, match="has another version of the program"):
        sweep(out="a", **on_cluster)


def test_an_address_where_nobody_answers_is_refused_in_one_line(quick, monkeypatch):  # noqa: F811
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.5)
    with pytest.raises(ScenarioError, match=r"scheduler = 'tcp://127.0.0.1:9': no cluster answers there") as caught:
        sweep(out="a", executor="dask", scheduler="tcp://127.0.0.1:9", **quick)
    assert "\n" not in str(caught.value)


def test_without_an_address_a_cluster_is_started_and_none_of_it_is_left(quick, monkeypatch):  # noqa: F811
    started = []

    class Watched(LocalCluster):
        def stop(self) -> None:
            started.extend(process.pid for process in self.processes)
            super().stop()

    monkeypatch.setattr(cluster, "LocalCluster", Watched)
    results = sweep(out="a", **{**quick, "executor": "dask"})
    assert results.failed == 0
    assert len(started) == 2
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


INTERRUPTED = f"""
def deadly(scenario, seed, parent=os.getpid()):
    if seed == 3:
        os.kill(parent, signal.SIGINT)
        time.sleep(600)
    return conftest.fake_simulate(scenario, seed)
runner.simulate = deadly
arguments = "sweep --grid {CAP}=0,100 --seeds 3 --weeks 2 --workers 1 --executor dask --out cut"
sys.exit(cli.main(arguments.split()))
"""


def test_ctrl_c_ends_the_cluster_and_tells_in_one_line_how_to_go_on(tmp_path):
    process = scripted.start(INTERRUPTED, tmp_path)
    output, complaints = process.communicate(timeout=120)  # returns once every process that holds the pipes is gone
    assert (process.returncode, output) == (130, ""), complaints
    assert complaints.strip().count("\n") == 0
    assert "To go on: neocloud sweep --grid" in complaints
    assert list(tmp_path.glob("cut/parts/*/run.json"))
