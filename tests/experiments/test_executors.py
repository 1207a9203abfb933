import os
import signal
import sys

import cloudpickle
import pytest

from experiments.engine.executors import InProcess, LocalProcesses, Report, available_cores, executor
from experiments.engine.threads import ONE_THREAD

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.filterwarnings("ignore:A worker stopped while some jobs:UserWarning")


def fine(spec) -> Report:
    return Report(spec.id, "ok", f"{os.getpid()}")


def environment(spec) -> Report:
    return Report(spec.id, "ok", ",".join(os.environ.get(name, "") for name in ONE_THREAD))


def deadly(spec) -> Report:
    if spec.seed == 2 and spec.arm == "with":
        os.kill(os.getpid(), signal.SIGKILL)
    return Report(spec.id, "ok")


def deadly_once(folder):
    def work(spec) -> Report:
        mark = folder / spec.id
        if spec.seed == 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Report(spec.id, "ok")

    return work


@pytest.fixture
def specs(small_plan):
    return small_plan.runs()


def test_both_executors_report_every_run_once(specs):
    for chosen in (InProcess(), LocalProcesses(2)):
        assert sorted(report.id for report in chosen.reports(specs, fine)) == sorted(spec.id for spec in specs)


def test_processes_do_the_work_elsewhere_and_the_other_executor_here(specs):
    assert {report.message for report in InProcess().reports(specs, fine)} == {str(os.getpid())}
    assert str(os.getpid()) not in {report.message for report in LocalProcesses(2).reports(specs, fine)}


def test_a_worker_has_one_thread_for_every_library(specs):
    (report,) = LocalProcesses(2).reports(specs[:1], environment)
    assert report.message == ",".join("1" for _ in ONE_THREAD)


def test_a_run_that_kills_its_worker_twice_is_reported_as_died_and_the_others_finish(specs):
    told = []
    reports = {report.id: report for report in LocalProcesses(2, told.append).reports(specs, deadly)}
    killers = [spec for spec in specs if (spec.arm, spec.seed) == ("with", 2)]
    assert {run for run, report in reports.items() if report.status == "died"} == {killers[0].id}
    assert len(reports) == len(specs)
    assert any("arm with, seed 2" in line for line in told)


def test_a_run_whose_worker_dies_once_is_done_by_the_second_try(specs, tmp_path):
    reports = LocalProcesses(2, lambda line: None).reports(specs, deadly_once(tmp_path))
    assert {report.status for report in reports} == {"ok"}


def test_stopping_early_ends_the_processes(specs):
    chosen = LocalProcesses(2)
    reports = chosen.reports(specs, fine)
    worker = int(next(reports).message)
    reports.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_one_worker_or_one_run_needs_no_process():
    assert isinstance(executor(1, 10), InProcess)
    assert isinstance(executor(4, 1), InProcess)
    assert isinstance(executor(2, 10), LocalProcesses)


def test_by_default_there_is_a_worker_for_each_core():
    chosen = executor(None, 1000)
    assert getattr(chosen, "workers", 1) == available_cores()
